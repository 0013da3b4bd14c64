// The RDMA port that a process uses, opened.
//
// Thread rule: a Device is made once and then only read.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/verbs/ports.h"

namespace weir::verbs {

using ProtectionDomain = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
struct ThreadDomainEnds {
  void operator()(ibv_td* domain) const { ibv_dealloc_td(domain); }
};
using ThreadDomain = std::unique_ptr<ibv_td, ThreadDomainEnds>;

// "0xffff, 0x8001": the port's partition keys.
std::string pkeys_text(ibv_context* context, std::uint8_t port);

class Device {
 public:
  // Opens `port`. On failure nothing, and the reason in `why`.
  static std::optional<Device> open(const PortChoice& port, std::string& why);

  const PortChoice& port() const { return port_; }
  const ibv_device_attr& limits() const { return limits_; }
  // How many reads and atomics of one queue pair may be outstanding: started by us, or answered for
  // the peer. Never 0, because adapters hang with 0.
  std::uint8_t most_fetches_started() const { return most_fetches(limits_.max_qp_init_rd_atom); }
  std::uint8_t most_fetches_answered() const { return most_fetches(limits_.max_qp_rd_atom); }
  // qedr sends SRQ_ERR when an SRQ has no receive left. (kernel, hw/qedr/main.c: SRQ_EMPTY)
  bool calls_empty_srq_an_error() const { return limits_.vendor_id == 0x1077; }
  // The index of this partition in the port's table; an entry with full membership comes first. If
  // the table does not have it: nothing, and the reason in `why`.
  std::optional<std::uint16_t> pkey_index(std::uint16_t pkey, std::string& why) const;
  // The first place in the port's table where it is a full member of a partition; two limited ones
  // do not talk [IBTA 10.9.3], nor does one to itself. 0 if it is none.
  std::uint16_t full_member_index() const;
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  // For queues and queue pairs. The engine's lock lets one thread at a time use them, so where the
  // provider has thread domains it takes no locks of its own. [ibv_alloc_td(3)]
  ibv_pd* queue_pd() const { return has_thread_domain() ? parent_.get() : pd_.get(); }
  bool has_thread_domain() const { return parent_ != nullptr; }

 private:
  static std::uint8_t most_fetches(int limit) {
    return static_cast<std::uint8_t>(std::clamp(limit, 1, 16));
  }

  PortChoice port_;
  ibv_device_attr limits_{};
  Context context_;
  ProtectionDomain pd_;
  ThreadDomain thread_;
  ProtectionDomain parent_;  // `pd_` within `thread_`; null if the provider has none
};

}  // namespace weir::verbs
