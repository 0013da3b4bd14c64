// This process as a server of its node's proxy: it sends frames of other processes of the job on
// its own lanes, under its own credits, and tells their tasks the outcome (flowctl/shared/proxy.h).
//
// Task frames for one receiver share a frame while they wait. A frame that no other joins is sent
// from the cell its task put it in. A task hears that its frame was refused only when no adapter
// can send from its cell any more.
//
// Pure except for the Proxy, which is memory of all the job's processes on the node; the caller
// serialises. Only `start` and `lend_slot` allocate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/counters.h"
#include "base/fifo.h"
#include "base/now.h"
#include "base/time.h"
#include "flowctl/shared/proxy.h"
#include "transport/core/config.h"
#include "transport/core/connector.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/sender.h"

namespace weir {

class RelayServer {
 public:
  static constexpr std::size_t most_slots = 16;

  // All arguments outlive this object.
  RelayServer(const CoreConfig& config, Counters& counters, Peers& peers, Sender& sender,
              Connector& connector, Proxy& proxy)
      : config_(config),
        counters_(counters),
        peers_(peers),
        sender_(sender),
        connector_(connector),
        proxy_(proxy) {}

  // The proxy was joined. With `cells_lkey` the adapter may send from the proxy's cells.
  void start(std::optional<std::uint32_t> cells_lkey);
  // A slot with room for a full frame. Kept for good.
  void lend_slot(SendSlot* slot);
  std::size_t idle_slots() const { return slots_.size(); }

  bool serving() const { return proxy_.serving(); }
  // True if this process is a server from here on.
  bool try_serve();
  // If this process is a server, takes what is in the queues and posts what can go. `present` is
  // false while the application computes.
  void serve(const Now& now, bool present, Outbox& out);
  // This process serves no more.
  void leave() {
    if (proxy_.serving() && proxy_.in_hand() == 0) proxy_.give();
  }

  // A relayed frame is posted.
  void on_posted(const SendSlot& slot);
  // The frame has left the lane, or was given up. If it failed, the adapter may still send from the
  // cells until the queue pair is gone: then `on_failed` follows.
  [[gnu::noinline]] void on_over(SendSlot* slot, bool delivered, Outbox& out);
  void on_failed(SendSlot* slot) { report(slot, Proxy::refused); }

 private:
  // What a relayed frame carries, by SendSlot::carrier.
  struct Carrier {
    static constexpr std::uint32_t most = 32;
    std::byte* frame = nullptr;  // the slot's own memory, where the frame is unless it is in a cell
    std::uint32_t lkey = 0;
    std::uint32_t count = 0;
    std::array<std::uint32_t, most> task;
    std::array<std::uint64_t, most> at;
  };

  void relay(const Now& now, const Proxy::Work& work, Outbox& out);
  bool refuses(const Now& now, const Proxy::Work& work, PeerId& to, Outbox& out);
  bool has_room(const SendSlot& slot, const Proxy::Work& work) const;
  void begin_frame(SendSlot& slot, const Proxy::Work& work);
  void copy_home(SendSlot& slot);
  void add_section(SendSlot& slot, const Proxy::Work& work);
  void report(SendSlot* slot, std::uint64_t outcome);
  bool is_in_cell(const SendSlot& slot) const {
    return slot.frame != carriers_[slot.carrier].frame;
  }

  const CoreConfig& config_;
  Counters& counters_;
  Peers& peers_;
  Sender& sender_;
  Connector& connector_;
  Proxy& proxy_;
  std::uint32_t idle_looks_ = 0;
  Fifo<SendSlot> slots_;
  std::vector<Carrier> carriers_;
  std::vector<PeerId> carried_to_;           // in this round
  std::optional<std::uint32_t> cells_lkey_;  // nothing: no frame is sent from a cell
};

}  // namespace weir
