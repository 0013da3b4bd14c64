// Frames of this process that go through its node's proxy: a server, another process of the job
// on this node, sends them on its own lane (flowctl/shared/proxy.h).
//
// A frame's way is decided when it is posted. It goes on the own lane if this process is the
// server, or can become it at once; else it is copied into shared memory, and its slot is kept
// until the server reports its arrival. Order is kept because frames for a peer are never on both
// ways: they are given to a server when the own lane is empty, and posted when all given ones are
// over.
//
// When a server sends a frame back, is dead, or stands still, nobody knows what arrived. Then this
// process takes back the frames it gave, for that peer or for all: it repeats on its own lanes, in
// order, those not known to have arrived. Later frames go the same way until no server has a given
// frame in hand. Given frames are numbered for each receiver, which drops those that it has had.
//
// Pure except for the Proxy, which is memory of all the job's processes on the node; the caller
// serialises. Allocates nothing.
#pragma once

#include <array>
#include <cstdint>

#include "base/counters.h"
#include "base/now.h"
#include "base/time.h"
#include "flowctl/shared/proxy.h"
#include "transport/core/config.h"
#include "transport/core/lanes.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/relay_server.h"
#include "transport/core/request_gate.h"
#include "transport/core/sender.h"

namespace weir {

class RelayTask {
 public:
  // All arguments outlive this object.
  RelayTask(const CoreConfig& config, Counters& counters, Peers& peers, const Lanes& lanes,
            Sender& sender, RelayServer& server, Proxy& proxy)
      : config_(config),
        counters_(counters),
        peers_(peers),
        lanes_(lanes),
        sender_(sender),
        server_(server),
        proxy_(proxy) {}

  // The proxy was joined. An earlier owner of its slot may have left frames there.
  void start() { jammed_ = proxy_.outstanding(); }

  // As in RequestGate. May make this process the server.
  RequestGate::Way way(const Now& now, Peer& peer, SendSlot& frame);

  // Handles the outcomes of given frames, and servers that do not move.
  void look(const Now& now, Outbox& out);
  // The process is dead: nobody sends the frames that it had in hand.
  void on_process_dead(ProcessId id) {
    if (proxy_.server_of_oldest() == id) dead_server_ = id;
  }
  // The peer was given up, or left: its given frames are not waited for.
  void drop(Peer& peer, Outbox& out);

  // Frames given and not over.
  std::uint32_t given() const { return given_count_; }
  // No frames are given until those already given are over.
  bool jammed() const { return jammed_; }

 private:
  // A given frame, by its number in the proxy.
  struct Given {
    SendSlot* slot = nullptr;  // to repeat from; nullptr: already repeated, or given up
    PeerId peer = PeerId::none;
  };

  bool may_relay(const Now& now, const Peer& peer) const;
  void look_at_outcomes(const Now& now, Outbox& out);
  void go_on_without_server(const Now& now, Outbox& out);
  void take_back(const Now& now, PeerId only, Outbox& out);

  const CoreConfig& config_;
  Counters& counters_;
  Peers& peers_;
  const Lanes& lanes_;
  Sender& sender_;
  RelayServer& server_;
  Proxy& proxy_;
  std::array<Given, proxy_depth> given_;
  std::uint32_t given_count_ = 0;
  bool jammed_ = false;
  ProcessId dead_server_;  // had some of the given frames
  Time moved_{};           // when a frame was last over, or the first was given
};

}  // namespace weir
