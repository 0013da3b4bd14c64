// The peers as Open MPI sees them.
//
// Thread rule: the table has its own lock. An endpoint stays where it is until the table ends.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "transport/base/ids.h"
#include "transport/btl/compat.h"

// Open MPI only carries pointers to this about; the type is ours, its name is not.
struct mca_btl_base_endpoint_t {
  weir::PeerId id = weir::PeerId::none;
  weir::PeerName name;
  opal_proc_t* proc = nullptr;
  std::atomic<bool> leaving{false};  // its end is wanted: failures are no news
};

namespace weir::btl {

using Endpoint = mca_btl_base_endpoint_t;

inline PeerName to_name(const opal_process_name_t& name) { return {name.jobid, name.vpid}; }
inline opal_process_name_t to_opal(PeerName name) { return {name.job, name.rank}; }

class EndpointTable {
 public:
  // nullptr if there is none.
  Endpoint* find(PeerName name) const;
  Endpoint* find(PeerId id) const;

  // The endpoint of that name: the one that is there, if there is one. Endpoints come from both
  // sides (we add a process, or it was first to talk to us) and are added more than once.
  Endpoint* add(PeerName name, PeerId id, opal_proc_t* proc);

  std::uint32_t size() const;

  template <typename F>
  void for_each(F&& visit) const {
    std::lock_guard guard(lock_);
    for (const auto& [key, endpoint] : by_name_) visit(*endpoint);
  }

 private:
  static std::uint64_t key(PeerName name) { return std::uint64_t{name.job} << 32 | name.rank; }

  mutable std::mutex lock_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Endpoint>> by_name_;
  std::vector<Endpoint*> by_id_;
};

}  // namespace weir::btl
