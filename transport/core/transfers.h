// Large messages and one-sided operations: gets, puts and atomics. rendezvous/scheduler decides
// which chunk goes next, under one budget for all peers; here chunks become work requests on the
// peer's lanes, and their completions go back to the scheduler.
//
// A chunk never waits in a send queue where it could hold up frames: a peer has at most
// max_rd_atomic reads under way, and its chunks wait here while its queue has room for control
// frames only. Chains wait in the queue of the peer's lane for fetches, which carries no frames.
//
// With several `paths`, a peer with large gets has further lanes, and reads that are worth the
// while go over them (rail/spread.h). While there are any, there are no chains. Atomics keep to one
// lane.
//
// Pure; the caller serialises. The first transfer with a peer allocates, and so does a new maximum
// of concurrent transfers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/counters.h"
#include "base/now.h"
#include "base/time.h"
#include "rendezvous/scheduler.h"
#include "transport/core/config.h"
#include "transport/core/connector.h"
#include "transport/core/fetch_lanes.h"
#include "transport/core/lanes.h"
#include "transport/core/outbox.h"
#include "transport/core/peer.h"
#include "transport/core/request_gate.h"
#include "transport/core/sender.h"

namespace weir {

class Transfers final : private FetchLanes::Listener {
 public:
  // All arguments outlive this object.
  Transfers(const CoreConfig& config, Counters& counters, Peers& peers, Lanes& lanes,
            Sender& sender, Connector& connector)
      : config_(config),
        counters_(counters),
        peers_(peers),
        lanes_(lanes),
        connector_(connector),
        fetch_lanes_(config, peers, lanes, sender, *this),
        scheduler_(config.transfers) {}

  // From here on every chunk needs the gate's permission.
  void set_gate(RequestGate* gate) { gate_ = gate; }
  // The read budget is shared with the node's other processes from here on; nullptr: no longer.
  void join_node(PoolMember::Pool* reads) { scheduler_.join_node(reads); }
  FetchLanes& fetch_lanes() { return fetch_lanes_; }
  // Another read budget from here on.
  void limit(const Now& now, const BudgetController::Config& reads, Outbox& out) {
    scheduler_.limit(reads);
    note_reads();
    issue(now, out);
  }

  // Takes every transfer. If the peer is given up, the transfer is over at once; without a
  // connection, it waits for one.
  [[gnu::hot, gnu::noinline]] void submit(const Now& now, const TransferRequest& request,
                                          Outbox& out);
  // The peer has work for its queues, or they have room again.
  [[gnu::hot, gnu::noinline]] void go_on(const Now& now, Peer& peer, Outbox& out);
  // Something came that chunks of any peer may wait for: posts what the budget allows.
  void issue(const Now& now, Outbox& out) {
    if (scheduler_.has_something_to_issue()) issue_chunks(now, out);
    take_finished(out);
  }
  // Frames have filled the queue of the peer's lane.
  void on_queue_full(Peer& peer) {
    if (!idle()) scheduler_.hold_peer(peer.transfers);
  }
  // A chunk is complete.
  void on_chunk(const Now& now, const RdmaInFlight& chunk) {
    if (chunk.lane_number > 0) [[unlikely]]
      spread_of(chunk).end(now, chunk.lane_number - 1u, chunk.bytes);
    const Time done = chunk.timed ? now.time() : Time::never();
    const Duration took = chunk.timed ? done - chunk.posted : Duration{};
    scheduler_.on_chunk_done(done, chunk.transfer, chunk.bytes, took, chunk.chained);
    note_reads();
  }
  // The transfer of a chunk in flight.
  const TransferRequest& request_of(const RdmaInFlight& chunk) {
    return scheduler_.request(chunk.transfer);
  }
  // The peer's transfers fail. Its lanes are gone, or will be before the failures are reported.
  void drop(const Now& now, Peer& peer, Outbox& out);

  // A chunk of a lane that is destroyed did not complete.
  void on_chunk_lost(const Now& now, const RdmaInFlight& chunk);
  // The chunks of a lane are lost, but the peer's connection lasts: they go over other lanes.
  void go_again(const Now& now, Peer& peer, Outbox& out);
  // The peer's lanes broke, and are gone. Their lost chunks go again once there are other lanes.
  // False if one of them must not go again.
  bool repeat_lost(const Now& now, Peer& peer, Outbox& out);
  // Work on a lane failed, or its queue pair did. True if that concerns this lane alone: it is a
  // further one and is left, and the connection goes on.
  [[gnu::cold, gnu::noinline]] bool leaves(const Now& now, Peer& peer, LaneId id,
                                           CompletionStatus status, Outbox& out);
  // Leaves further lanes that are slow. Call at `next_look`.
  void on_timer(const Now& now, Outbox& out);
  Time next_look() const { return spreading_.empty() ? Time::never() : next_look_; }

  // Nothing of the peer's earlier connections can arrive any more, at either end.
  void settle(Peer& peer) {
    if (!idle()) scheduler_.settle(peer.transfers);
  }
  // As in core.h.
  template <typename Take>
  void withdraw(const Now& now, Peer& peer, Outbox& out, Take&& take) {
    scheduler_.withdraw(peer.transfers);
    for (TransferRequest request; scheduler_.next_withdrawn(request);) take(request);
    issue(now, out);  // its part of the budget is free for others
  }

  // The peer's lanes take nothing until `go_on`.
  void pause(Peer& peer) {
    scheduler_.hold_peer(peer.transfers);
    scheduler_.hold_chain(peer.transfers);
  }

  // Nothing is under way, and nothing waits.
  bool idle() const { return scheduler_.idle(); }
  bool has(const Peer& peer) const { return peer.transfers.has_transfers(); }
  // Notes in `failure` which transfers are lost with the peer.
  static void describe(const Peer& peer, Failure& failure) {
    failure.lost_atomics = peer.transfers.has_atomics();
    failure.in_doubt = peer.transfers.is_in_doubt();
  }
  // Reads wait, or waited, for what other processes of the node have outstanding.
  bool wait_for_node() const { return scheduler_.waits_for_node(); }
  // Reads of the node's shared budget are outstanding.
  bool hold_node_reads() const { return scheduler_.holds_node_reads(); }
  // The next look for room in the node's read budget may ask all processes.
  void look_at_all_of_node() { scheduler_.look_at_all_of_node(); }
  // Excuses reads of processes that do not move: others no longer wait for them. Call no more often
  // than `excuse_after` while reads wait. Returns the tokens excused.
  std::uint64_t excuse_stuck() { return scheduler_.excuse_stuck(); }
  Duration excuse_after() const { return scheduler_.excuse_after(); }

  std::uint64_t under_way() const {
    const Scheduler::Counts& counts = scheduler_.counts();
    return counts.submitted - counts.done - counts.failed;
  }
  std::uint64_t chunks_under_way() const {
    return std::uint64_t{scheduler_.reads().chunks()} + scheduler_.writes().chunks();
  }
  // Whether budgets add up.
  bool conserved() const { return scheduler_.conserved(); }
  const ReadTimes& read_times() const { return scheduler_.read_times(); }
  // Chunks may go, but no event is due that would post them.
  bool stalled() const { return scheduler_.stalled(); }

 private:
  // Shorter reads are not timed: a clock costs as much as one, and they say little about how many
  // bytes fit into the fabric.
  static constexpr std::uint32_t least_timed_bytes = 3072;
  static constexpr Duration look_interval = milliseconds(25);

  class Gate;

  // FetchLanes::Listener
  std::uint32_t most_reads() const override;
  void on_fetch_lane(const Now& now, Peer& peer, Outbox& out) override;
  void on_fetch_lane_ends(Peer& peer) override { scheduler_.close_chain(peer.transfers); }
  void on_further_lane(const Now& now, Peer& peer, Outbox& out) override;

  bool keeps_fetches_apart(const Peer& peer) const {
    return config_.fetches_apart && peer.name != config_.self;  // a lane to itself loses nothing
  }
  // Nobody asks how long a write takes, or a read of a chain, which waits for those before it. A
  // probe ends only with chunks that are timed.
  bool is_timed(const Chunk& chunk) const {
    return chunk.kind == TransferKind::get && !chunk.chained &&
           (chunk.length_bytes >= least_timed_bytes ||
            scheduler_.controller().phase() == BudgetController::Phase::probe);
  }
  [[gnu::hot]] LaneId lane_for_fetches(const Peer& peer) const;
  [[gnu::hot]] LaneId lane_for(Peer& peer, bool chained, Opcode opcode, std::uint64_t bytes);
  // ---- further lanes, of a peer that has some ----
  std::uint32_t room_of(const FetchLane& end) const;
  bool near_is_full(const Peer& peer) const;
  bool wants_spread(const TransferRequest& request) const {
    return request.opcode == Opcode::read && request.length_bytes >= config_.spread_bytes;
  }
  // Smaller reads, which are not timed, do not go over further lanes.
  std::uint64_t least_spread() const {
    return std::min<std::uint64_t>(config_.spread_bytes, least_timed_bytes);
  }
  bool chains(const Peer& peer) const;
  [[gnu::noinline]] void note_spread(const Now& now, Peer& peer, std::uint8_t number,
                                     std::uint64_t bytes);
  Spread::Lanes usable_further(const Peer& peer) const;
  Spread::Lanes open_further(const Peer& peer) const;
  Spread& spread_of(const RdmaInFlight& chunk) {
    return peers_[scheduler_.request(chunk.transfer).peer].further->spread;
  }
  bool post_at_once(const Now& now, Peer& peer, const TransferRequest& request, Outbox& out);
  [[gnu::noinline]] void issue_chunks(const Now& now, Outbox& out);
  [[gnu::hot]] void post(const Now& now, Peer& peer, const TransferRequest& request,
                         const Chunk& chunk, LaneId id, std::uint16_t tokens, Outbox& out);
  std::uint32_t fetches_open(const Peer& peer) const;
  std::uint32_t near_fetches(const Peer& peer) const;
  void count(const TransferRequest& request);
  [[gnu::hot]] void take_finished(Outbox& out);
  void note_reads();

  const CoreConfig& config_;
  Counters& counters_;
  Peers& peers_;
  Lanes& lanes_;
  Connector& connector_;
  FetchLanes fetch_lanes_;
  Scheduler scheduler_;
  RequestGate* gate_ = nullptr;
  List<Peer, &Peer::spreads> spreading_;  // chunks are, or were, under way on further lanes
  Time next_look_{};
};

}  // namespace weir
