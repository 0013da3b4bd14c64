// The sending side of a process: frames for each peer, posted oldest first as credits, queue and
// gate allow; and control frames.
//
//   send ──▶ pending ──credit, room, gate──▶ lane ──completion──▶ retired
//
// The first frames to a peer in a round (between two calls of progress) go at once. Later ones wait
// for the next round, and messages much smaller than a frame join the youngest that waits (a
// bundle): a flood then costs one work request for many messages. They may wait for long: the
// application may have what it wants, and compute before it makes progress again. So a round with
// few messages has none that wait; only after one with many, few go at once.
//
// Each frame of messages and each lane end costs an eager credit of the peer, each other control
// frame a control credit, except the one goodbye. The last control credit is for giving credits.
//
// Pure; the caller serialises. Allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counters.h"
#include "base/now.h"
#include "base/status.h"
#include "base/time.h"
#include "transport/core/config.h"
#include "transport/core/lanes.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/receiver.h"
#include "transport/core/request_gate.h"

namespace weir {

class Sender {
 public:
  class Listener {
   public:
    // The queue of the peer's lane for frames has room for control frames only.
    virtual void on_queue_full(Peer& peer) = 0;

   protected:
    ~Listener() = default;
  };

  // All arguments outlive this object.
  Sender(const CoreConfig& config, Counters& counters, Peers& peers, Lanes& lanes,
         Receiver& receiver, Listener& listener)
      : config_(config),
        counters_(counters),
        peers_(peers),
        lanes_(lanes),
        receiver_(receiver),
        listener_(listener),
        // With a proxy, a relay adds a section header to a frame.
        frame_bytes_max_(config.buffer_bytes - static_cast<std::uint32_t>(
                                                   config.proxy ? wire::section_header_bytes : 0)) {
  }

  // From here on every frame needs the gate's permission.
  void set_gate(RequestGate* gate) { gate_ = gate; }

  // A slot (of at least frame_header_bytes) for control frames. Kept for good.
  void lend_control_slot(SendSlot* slot) {
    control_slots_.push(slot);
    ++control_slots_lent_;
  }
  std::size_t idle_control_slots() const { return control_slots_.size(); }
  bool lacks_control_slots() const {
    return control_slots_lent_ < lanes_.size() * control_slots_per_lane;
  }
  // A control frame is over.
  void take_back(SendSlot* slot) { control_slots_.push(slot); }

  // ---- messages ----

  // Takes the one message of `length_bytes` at slot->payload(). Without a connection, the message
  // waits for one. If the status is not `ok`, the caller keeps the slot.
  Status send(const Now& now, Peer& peer, SendSlot* slot, std::uint32_t length_bytes,
              std::uint8_t tag, bool must_take, Outbox& out);

  // Cars that may wait, for all peers. With fewer, a part of a 24 KiB burst both ways goes by
  // reads, and the burst takes 1.6 times as long. With 128, a process whose application is absent
  // keeps a fifth more memory.
  static constexpr std::uint32_t most_cars_waiting = 64;
  // Whether the caller is to begin trains. One peer that takes none stops them for all peers,
  // because no peer alone can be left out (btl/trains.h).
  bool wants_trains() const { return cars_waiting_ < most_cars_waiting && unwilling_ == 0; }
  // Whether a train that was begun may go: not with a proxy, nor behind many frames for the peer.
  // Its cars go as credits come, and small messages wait behind them.
  [[gnu::noinline]] Status admit_train(Peer& peer);
  // Takes a car of an admitted train; its message is at slot->payload(). Send all cars of a train
  // before anything else to the peer.
  [[gnu::noinline]] void send_car(const Now& now, Peer& peer, SendSlot* slot,
                                  std::uint32_t length_bytes, bool is_last, Outbox& out);
  // The peer says whether it takes trains.
  void set_takes_trains(Peer& peer, bool takes) {
    if (peer.outgoing.takes_trains_ == takes) return;
    peer.outgoing.takes_trains_ = takes;
    unwilling_ += takes ? -1u : 1u;
  }
  // Tells the peer whether it may send us trains. New connections begin with yes.
  void let_train(Peer& peer, bool may, Outbox& out);

  // Takes a frame of messages that another rail could not deliver; else as `send`.
  Status send_frame(const Now& now, Peer& peer, SendSlot* slot, Outbox& out);

  // Room for a small message in a waiting frame, or nullptr. The caller writes the payload there at
  // once.
  std::byte* append(Peer& peer, std::uint32_t length_bytes, std::uint8_t tag);

  // Whether a small message sent now would wait in its frame.
  bool would_hold(const Peer& peer) const;

  // Queues a complete frame before or behind all others.
  void push_front(Peer& peer, SendSlot* slot);
  void push(Peer& peer, SendSlot* slot);

  // Something came that pending frames of the peer may have waited for: posts what can go. A bundle
  // that waits for the next round stays open.
  void go_on(const Now& now, Peer& peer, Outbox& out) {
    if (peer.outgoing.has_pending()) post_pending(now, peer, peer.held.linked, out);
  }
  // The same, and also posts open bundles: nothing more will join them.
  void go_on_with_all(const Now& now, Peer& peer, Outbox& out) {
    if (peer.outgoing.has_pending()) post_pending(now, peer, false, out);
  }

  // Drops all pending frames of the peer: calls `give_up(slot)` for each, oldest first.
  template <typename GiveUp>
  void drop_pending(Peer& peer, GiveUp&& give_up) {
    while (SendSlot* slot = pop(peer)) give_up(slot);
  }

  // The lane broke with this frame under way. Call it for older frames first.
  void keep_in_doubt(Peer& peer, SendSlot* slot) { peer.outgoing.doubt_.push(slot); }
  // The peer has received the first `received` frames in doubt, at most all. Calls `over(slot,
  // delivered)` for these, and for control frames among the others. The other frames of messages
  // become pending again, ahead of all that are pending.
  template <typename Over>
  void settle_doubt(Peer& peer, std::size_t received, Over&& over) {
    Outgoing& to = peer.outgoing;
    if (to.doubt_.empty()) return;
    for (; received > 0; --received) over(to.doubt_.pop(), true);
    Fifo<SendSlot> again;
    while (SendSlot* const slot = to.doubt_.pop()) {
      if (slot->messages == 0) {
        over(slot, false);
        continue;
      }
      again.push(slot);
      note_pending(*slot, 1);
      ++counters_.frames_resent;
    }
    while (SendSlot* const slot = to.pending_.pop()) again.push(slot);
    to.pending_ = again;
  }

  std::uint32_t max_payload_bytes() const {
    return frame_bytes_max_ - static_cast<std::uint32_t>(wire::first_payload_offset);
  }

  // ---- rounds ----

  // Begins a new round: its first frames go at once.
  void begin_round() { ++round_; }
  std::uint64_t round() const { return round_; }
  // Begins a round, and posts the bundles that waited for it.
  void post_held(const Now& now, Outbox& out);
  bool has_held() const { return !held_.empty(); }
  // Pending frames of all peers.
  std::uint64_t pending_frames() const { return pending_frames_; }

  // ---- what the peer gives ----

  // A new connection begins, without credits.
  void begin(Peer& peer);
  // The credits that the peer's greeting grants.
  void grant(Peer& peer, std::uint32_t credits, std::uint32_t control_credits);
  // Whether the peer wants to be woken.
  void set_wakes(Peer& peer, wire::Wakes wakes) { peer.outgoing.wakes_ = wakes; }
  // A control frame came, and its credit has to go back. False if the peer had none.
  [[gnu::noinline]] bool owe_control_credit(Peer& peer) {
    ++peer.outgoing.control_owed_;
    note_owed(peer);
    return peer.outgoing.control_owed_ <= config_.credits.control_reserve;
  }
  // Books the credits in the header of a frame.
  enum class Booked : std::uint8_t { good, too_many_credits, too_many_control_credits };
  Booked book(Peer& peer, const wire::FrameHeader& header);
  // The peer asks for its eager credits back, except `keep`. They go if nothing waits for them.
  [[gnu::noinline]] void return_credits(Peer& peer, std::uint32_t keep, Outbox& out);

  // ---- control frames ----

  // False if it has to be tried again: there is no slot, or no room.
  bool send_goodbye(Peer& peer, Outbox& out) {
    return send_control(peer, wire::FrameKind::goodbye, 0, out);
  }
  // Asks the peer whether the idle connection may end. We hold an eager credit, which is not spent
  // before the answer; its buffer takes the question. False if there is no credit, slot or room.
  bool send_part(Peer& peer, Outbox& out) {
    return peer.outgoing.credits_ > 0 && send_control(peer, wire::FrameKind::part, 0, out);
  }
  // Answers that it may not. False if it has to be tried again.
  bool send_stay(Peer& peer, Outbox& out) {
    return send_control(peer, wire::FrameKind::stay, 0, out);
  }
  // Tells the peer of the frames of another rail. False if it cannot be sent now.
  bool send_handover(Peer& peer, const HandoverMessage& message, Outbox& out) {
    return send_control(peer, wire::FrameKind::handover, 0, out, &message);
  }
  // Tells the peer once there is a credit for it. Only the latest lane end is sent.
  void owe_lane_end(Peer& peer, const wire::LaneEnd& end, Outbox& out);
  void forget_lane_end(Peer& peer) { peer.outgoing.owes_lane_end_ = false; }
  void tell_lane_end(Peer& peer, Outbox& out) {
    if (peer.outgoing.owes_lane_end_) [[unlikely]]
      send_lane_end(peer, out);
  }
  // Keeps in mind a peer that may be due for a control frame.
  void note_owed(Peer& peer);
  // The peer got its first credits, or spent one: it may hold more than its least.
  void note_lent(Peer& peer) {
    if (!peer.lent.linked) lent_.push(&peer);
    note_owed(peer);
  }
  // Sends credit frames to peers that are low on credits and got nothing back since, and lane ends
  // that had to wait; these carry credits, too. Where there are no credits, peers are asked for
  // what they hold beyond their share.
  void send_owed(Outbox& out);
  // The shares grew: offers credits to peers that lack them, to some at once, and with each
  // `send_owed` to some more. (A peer that has none waits in that line already.)
  void offer_shares(Outbox& out);
  // The shares shrank: asks peers for the credits they hold beyond theirs. A peer with frames
  // waiting keeps them, and a peer that computes answers later. Only memory depends on the answer.
  void recall_excess(Outbox& out);
  // Posts a zero-length write on the lane. False if there is no room.
  bool send_probe(LaneId id, Outbox& out);

 private:
  // A peer's control credits, a goodbye, and one to spare.
  static constexpr std::size_t control_slots_per_lane = 4;

  [[gnu::noinline]] void post_pending(const Now& now, Peer& peer, bool keep_open_bundle,
                                      Outbox& out);
  [[gnu::noinline]] void send_lane_end(Peer& peer, Outbox& out);
  void tell_may_train(Peer& peer, Outbox& out);
  bool owes_all_control(const Outgoing& to) const;
  void offer_some();
  void recall_lent(Outbox& out);
  void recall(Peer& peer, Outbox& out);
  bool may_go_at_once(Peer& peer);
  std::uint32_t most_at_once(const Outgoing& to) const;
  // A frame is pending now (+1), or not any more (-1).
  void note_pending(const SendSlot& slot, int by) {
    pending_frames_ += static_cast<std::uint64_t>(by);
    if (slot.is_car) cars_waiting_ += static_cast<std::uint32_t>(by);
  }
  // The oldest frame, which is pending no more, or nullptr.
  SendSlot* pop(Peer& peer) {
    SendSlot* const slot = peer.outgoing.pending_.pop();
    if (slot != nullptr) note_pending(*slot, -1);
    return slot;
  }
  void post_messages(Peer& peer, Lane& lane, SendSlot* slot, bool ends_chain, Outbox& out);
  void post_frame(Peer& peer, Lane& lane, SendSlot* slot, wire::FrameKind kind,
                  std::uint32_t credits, bool ends_chain, Outbox& out);
  void close_chain(Lane& lane, Outbox& out);
  bool send_control(Peer& peer, wire::FrameKind kind, std::uint32_t credits, Outbox& out,
                    const HandoverMessage* handover = nullptr);
  bool is_open_for_append(const SendSlot& slot, std::uint32_t length_bytes) const;
  void begin_frame(SendSlot& slot, std::uint32_t length_bytes, std::uint8_t tag);
  std::byte* add_message(SendSlot& slot, std::uint32_t length_bytes, std::uint8_t tag);
  void hold(Peer& peer);

  const CoreConfig& config_;
  Counters& counters_;
  Peers& peers_;
  Lanes& lanes_;
  Receiver& receiver_;
  Listener& listener_;
  const std::uint32_t frame_bytes_max_;
  RequestGate* gate_ = nullptr;
  List<Peer, &Peer::held> held_;  // youngest first
  List<Peer, &Peer::owed> owed_;
  List<Peer, &Peer::lent> lent_;
  static constexpr std::uint32_t offers_at_once = 64;
  std::uint32_t offers_left_ = 0;  // peers that may be due for more since the shares grew
  std::uint32_t offer_turn_ = 0;   // the next of them
  std::uint64_t recall_turn_ = 0;  // the receiver's turn when recalls last began with `lent_`
  std::size_t recall_left_ = 0;    // peers in it still to look at
  std::uint64_t round_ = 0;
  std::uint64_t pending_frames_ = 0;  // of all peers
  std::uint32_t cars_waiting_ = 0;    // of these
  std::uint32_t unwilling_ = 0;       // peers that take no trains
  Fifo<SendSlot> control_slots_;
  std::size_t control_slots_lent_ = 0;
};

}  // namespace weir
