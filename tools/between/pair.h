// A queue pair to one of another host, connected as the transport connects: over weir's own queues
// and connections. What goes over it, its owner decides.
//
// Every wait has a deadline. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/config/settings.h"
#include "transport/verbs/connections.h"
#include "transport/verbs/device.h"
#include "transport/verbs/queues.h"

namespace weir::tools::between {

class Pair {
 public:
  static constexpr LaneId lane{0};

  // `receives`: how many may be posted; post them before `connect` or `accept`. `mtu_bytes`: the
  // largest packet, 0: as configured. `device` outlives this.
  static std::unique_ptr<Pair> listen(const verbs::Device& device, const config::Settings& settings,
                                      std::uint32_t receives, std::uint32_t mtu_bytes,
                                      std::string& why);

  std::vector<std::byte> card() const;
  // Both wait until the queue pair can send, or for some seconds. False, and the reason in `why`.
  bool connect(std::span<const std::byte> card, std::string& why);
  bool accept(std::string& why);
  std::uint32_t path_mtu() const;

  verbs::Queues& queues() { return *queues_; }
  const verbs::Queues& queues() const { return *queues_; }

 private:
  explicit Pair(const verbs::Device& device) : device_(device) {}

  const verbs::Device& device_;
  std::unique_ptr<verbs::Connections> connections_;
  std::unique_ptr<verbs::Queues> queues_;
};

}  // namespace weir::tools::between
