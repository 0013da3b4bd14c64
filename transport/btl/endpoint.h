// The peers as Open MPI sees them. Each endpoint is found through the engine's table of peers,
// which keeps it as the record of the layer above.
//
// Thread rule: the endpoints have their own lock. An endpoint never moves until all of them end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/ids.h"
#include "transport/btl/compat.h"
#include "transport/btl/rail_peer.h"
#include "transport/engine/engine.h"

// Open MPI only passes pointers to this around; the type is ours, its name is not.
struct mca_btl_base_endpoint_t {
  weir::PeerId id = weir::PeerId::none;
  weir::PeerName name;
  opal_proc_t* proc = nullptr;
  std::atomic<bool> leaving{false};  // it is being closed: failures are no longer news

  weir::btl::RailPeer rails;

  // Only Trains changes these.
  std::atomic<std::int64_t> early_bytes{0};  // of its trains that no receive has matched yet
  bool refrains = false;                     // it may send no trains
  std::atomic<int> announced{0};  // messages to it in place of trains that it has not read yet
  bool reads_stream = false;      // there are many such messages

  weir::PeerId id_on(std::size_t rail) const { return rail == 0 ? id : rails.id(rail); }
};

namespace weir::btl {

using Endpoint = mca_btl_base_endpoint_t;

inline PeerName to_name(const opal_process_name_t& name) { return {name.jobid, name.vpid}; }
inline opal_process_name_t to_opal(PeerName name) { return {name.job, name.rank}; }

class Endpoints {
 public:
  // The engine outlives this.
  explicit Endpoints(Engine& engine) : engine_(engine) {}

  // nullptr if there is none.
  Endpoint* find(PeerId id) const { return static_cast<Endpoint*>(engine_.above(id)); }
  Endpoint* find(PeerName name) const {
    const PeerId id = engine_.find(name);
    return id == PeerId::none ? nullptr : find(id);
  }

  // Returns the endpoint of that peer, and makes it if there is none. Endpoints come from both
  // sides (we add a process, or it was first to talk to us) and are added more than once. `proc` is
  // nullptr where Open MPI has not named the process yet.
  Endpoint* add(PeerName name, PeerId id, opal_proc_t* proc);

  std::uint32_t size() const;

  template <typename F>
  void for_each(F&& visit) const {
    std::lock_guard guard(lock_);
    for (const Endpoint& endpoint : all_) visit(endpoint);
  }

 private:
  Engine& engine_;
  mutable std::mutex lock_;
  std::deque<Endpoint> all_;
};

}  // namespace weir::btl
