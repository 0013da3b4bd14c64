// Which chunk goes next. [RDRP §3.2]: the receiver issues reads in chunks, never more than the
// budget; here for all transfers and all peers together.
//
//   submit ──▶ a peer's queues ──▶ next(chunk) ──post──▶ on_chunk_done / on_chunk_failed
//                                                                  │
//   next_finished ◀── every byte is there, or failed and nothing outstanding
//
// Between peers and within one: flow.h.
//
// Gets and puts take turns, each kind under its own budget: reads within c and a peer's
// max_rd_atomic, writes within bytes. If the next chunk of a kind does not fit, that kind waits; a
// smaller chunk does not pass, or the large one might never fit.
//
// Chains: a get may go to a separate lane whose queue pair has only c reads under way: the adapter
// starts read i+c when read i is there [RDRP §3.3], without software in between. Its chunks are
// handed out at once, as far as that lane's queue has room; the budget is charged c chunks while
// there are any. A get becomes a chain when nobody else reads, if it has more than c chunks and at
// least `chain_bytes`, and if c is what the fabric bears now: this must be known from gets that
// went chunk by chunk. When somebody else comes, the part not handed out yet goes chunk by chunk,
// too. Of several chains, those that have their part of the budget go before those that wait for
// it.
//
// The node: reads are also charged to a budget that all its processes share, if there is one
// (read_window.h), and a gate (below) may decide about every chunk. A chunk that waits for either
// waits for another process, so the caller has to come back and ask: `waits_for_node`.
//
// Cost: constant per chunk, whatever the number of peers. Peers without work are in no list.
// Allocates only for a new maximum of concurrent transfers.
//
// A chunk from `next` counts against the budget until exactly one of these calls:
//   on_chunk_done     it completed
//   on_chunk_failed   it completed with an error, or was flushed
//   lose_chunk        its queue pair is destroyed, and it goes once more
//   drop_peer         its lanes are gone and nothing of it can arrive any more
// cancel_peer gives nothing back: the adapter still has the chunks.
//
// Pure; the caller serialises.
#pragma once

#include <array>
#include <cstdint>

#include "base/list.h"
#include "base/read_times.h"
#include "base/time.h"
#include "rendezvous/chunk_budget.h"
#include "rendezvous/chunk_plan.h"
#include "rendezvous/flow.h"
#include "rendezvous/lost_chunks.h"
#include "rendezvous/read_window.h"
#include "rendezvous/transfer.h"
#include "rendezvous/transfer_peer.h"
#include "rendezvous/transfer_table.h"

namespace weir {

// One work request to post.
struct Chunk {
  TransferId transfer = TransferId::none;
  TransferKind kind = TransferKind::get;
  bool last = false;     // of its transfer
  bool chained = false;  // post it to the lane for chains, which bounds its reads under way
  PeerId peer = PeerId::none;
  std::uint32_t length_bytes = 0;
  std::uint64_t offset = 0;  // in the transfer
  std::uint64_t local_address = 0;
  std::uint64_t remote_address = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
};

// A further condition for chunks. Asked last: if it says yes, the chunk goes.
class ChunkGate {
 public:
  virtual bool admit(std::uint32_t bytes) = 0;

 protected:
  ~ChunkGate() = default;
};

// Reported to the layer above, once per transfer.
struct FinishedTransfer {
  TransferKind kind = TransferKind::get;
  bool failed = false;
  PeerId peer = PeerId::none;
  std::uint64_t token = 0;
  std::uint64_t length_bytes = 0;
};

class Scheduler {
 public:
  struct Config {
    ChunkPlan::Config plan;
    BudgetController::Config reads;
    std::uint64_t write_bytes = 4 << 20;     // bytes of puts outstanding on the port
    std::uint64_t small_bytes = 256 << 10;   // a transfer up to this is small
    std::uint64_t bypass_bytes = 512 << 10;  // of small transfers, for one chunk of a large one
    std::uint64_t chain_bytes = 0;           // least size of a get that goes as a chain; 0: none
    std::uint32_t measure_every = 64;  // one in so many possible chains goes by chunks, to know c
  };

  struct Counts {
    std::uint64_t submitted = 0;
    std::uint64_t done = 0;
    std::uint64_t failed = 0;  // or withdrawn
    std::uint64_t chunks_issued = 0;
    std::uint64_t chunks_done = 0;
    std::uint64_t chunks_lost = 0;    // failed, dropped with their peer, or issued again
    std::uint64_t chunks_late = 0;    // completions of transfers that are over
    std::uint64_t budget_stalls = 0;  // times a chunk did not fit into the port's budget
    std::uint64_t node_stalls = 0;    // times a chunk did not fit into what the node has left
    std::uint64_t peer_stalls = 0;    // times a peer reached its own limit with more to read
    std::uint64_t bypasses = 0;       // chunks of small transfers that passed a large one
    std::uint64_t chains = 0;         // transfers that began as a chain
    std::uint64_t chains_left = 0;    // chains that went on chunk by chunk
  };

  explicit Scheduler(const Config& config);

  // Another read budget from here on. What is under way beyond it stays until it is done; the rest
  // of a chain that exceeds it goes chunk by chunk.
  void limit(const BudgetController::Config& reads);

  // Makes room for `transfers` transfers at a time.
  void reserve(std::uint32_t transfers) { transfers_.reserve(transfers); }

  // From here on the read budget is shared with the node's other processes (nullptr: no longer).
  // Nothing may be outstanding. The pool outlives this.
  void join_node(PoolMember::Pool* reads) { window_.join_node(reads); }

  // Takes every get or put. None of it is issued before its peer is open. The caller owns the
  // peer's record, which is the same for all its transfers and outlives this.
  TransferId submit(TransferPeer& peer, const TransferRequest& request);

  // The usual case of a small operation: takes it and hands out its only chunk, if nobody waits and
  // the budgets have room. False otherwise, and it was not taken: then `submit` it. Must not be
  // called if chunks need a gate.
  bool submit_and_issue(TransferPeer& peer, const TransferRequest& request, Chunk& chunk);

  // The peer's lanes take work: at most `max_reads` reads at a time (max_rd_atomic).
  void open_peer(TransferPeer& peer, std::uint32_t max_reads);
  // The lanes take at most `max_reads` reads from now on; with 0, none for now.
  void limit_reads(TransferPeer& peer, std::uint32_t max_reads);
  // The lanes take no work now (no lane yet, send queue full). What is under way stays.
  void hold_peer(TransferPeer& peer);

  // The peer has a lane for chains, whose queue pair has at most `reads` under way; from now on
  // gets may be assigned to it. Or the lane's queue has room again.
  void open_chain(TransferPeer& peer, std::uint32_t reads);
  // The queue of the lane for chains is full for now.
  void hold_chain(TransferPeer& peer);
  // The lane for chains is gone. `drop_peer` ends what was assigned to it.
  void close_chain(TransferPeer& peer);
  // The lane takes no more chains, but ends those it has: what was not handed out goes by chunks.
  void end_chains(TransferPeer& peer);
  // How many reads a new lane for chains should have under way: c, or the initial window while c is
  // unknown. A power of two, because adapters round max_rd_atomic up to one: for a fixed c the next
  // one below, for a moving c the nearest.
  std::uint32_t chain_reads() const { return window_.chain_reads(); }
  bool knows_c() const { return window_.knows_c(); }
  // Whether a get of that size would be a chain if there were a lane.
  bool wants_chain(const TransferRequest& request) const {
    return chain_bytes_ > 0 && request.opcode == Opcode::read &&
           request.length_bytes >= chain_bytes_;
  }

  // The next chunk to post, if one may go now. It is outstanding from here on.
  bool next(Chunk& chunk, ChunkGate* gate = nullptr) {
    return has_something_to_issue() && look_for_next(chunk, gate);
  }
  // False if `next` finds nothing. Also if what the node gave for a chunk that no longer waits has
  // to go back.
  bool has_something_to_issue() const {
    if (queued_ == 0) return !window_.node().idle();
    for (const Direction& direction : directions_) {
      if (!direction.round.empty()) return true;
    }
    return !window_.node().idle();
  }
  // Transfers have chunks to issue, now or later.
  bool has_unissued() const { return queued_ > 0; }
  // Reads wait, or waited, for what other processes of the node have outstanding.
  bool waits_for_node() const { return window_.node().waiting(); }
  // Reads are outstanding for which other processes of the node may wait.
  bool holds_node_reads() const { return window_.node().out() > 0; }
  // The next look for room in the node's budget may ask all processes.
  void look_at_all_of_node() { window_.look_at_all_of_node(); }
  // Excuses reads of processes that do not move: others no longer wait for them. Call no more often
  // than `excuse_after` while reads wait. Returns the tokens excused.
  std::uint64_t excuse_stuck() { return window_.excuse(); }
  Duration excuse_after() const { return window_.excuse_after(); }
  const ReadTimes& read_times() const { return window_.times(); }
  // A chunk could go, but nothing is under way whose end would make anybody ask for it.
  bool stalled() const {
    bool may_go = false;
    if (waits_for_node()) return false;
    for (const Direction& direction : directions_) {
      if (direction.budget.chunks() > direction.budget.reserved()) return false;
      may_go = may_go || !direction.round.empty();
    }
    return may_go;
  }

  // The request that a chunk belongs to; its transfer must not be over.
  const TransferRequest& request(TransferId id) { return transfers_.find(id)->request; }

  // A chunk is over. `post_to_completion` is 0 if the time is no measure; `now` is never if nobody
  // looked at the clock. False, and nothing changes, if its transfer is over already.
  bool on_chunk_done(Time now, TransferId id, std::uint32_t bytes, Duration post_to_completion,
                     bool chained = false);
  // The same for a chunk that completed with an error: its transfer fails.
  bool on_chunk_failed(TransferId id, std::uint32_t bytes, bool chained = false);

  // All of the peer's transfers fail, and the peer is held. Those with chunks outstanding finish
  // when the last one is over.
  void cancel_peer(TransferPeer& peer);
  // The same, and the outstanding chunks are over: their queue pairs are destroyed.
  void drop_peer(TransferPeer& peer);

  // A chunk is over without having completed, because its queue pair is destroyed. It goes once
  // more with the next `go_again`, before later transfers, if its transfer did not fail. (A get or
  // put may be done twice.)
  void lose_chunk(TransferId id, std::uint64_t offset, std::uint32_t bytes, bool chained);
  void go_again(TransferPeer& peer);
  // All of the peer's queue pairs are destroyed: the peer is held, and what was lost goes again.
  // False if an atomic was lost, which may have been executed: then the peer must be dropped.
  bool lose_lanes(TransferPeer& peer);

  // Both ends have let go of the connections that broke: nothing of them can arrive any more.
  void settle(TransferPeer& peer);
  // Ends the peer's movable transfers that are not under way, nor in doubt: `next_withdrawn` hands
  // them back, to be done over another rail.
  void withdraw(TransferPeer& peer);
  bool next_withdrawn(TransferRequest& request);

  // The next transfer that is over, oldest first.
  bool next_finished(FinishedTransfer& finished);
  bool has_finished() const { return !finished_.empty(); }

  // Everything submitted was handed back.
  bool idle() const { return transfers_.live() == 0; }

  const ChunkPlan& plan() const { return plan_; }
  const ChunkBudget& reads() const { return budget_of(TransferKind::get); }
  // The read budget now.
  std::uint64_t read_window_bytes() const { return window_.bytes(); }
  const ChunkBudget& writes() const { return budget_of(TransferKind::put); }
  const BudgetController& controller() const { return window_.controller(); }
  const Counts& counts() const { return counts_; }

  // Recounts everything; for tests and debug checks.
  bool conserved() const;

 private:
  // All flows of one path.
  struct Direction {
    ChunkBudget budget;
    Round round;
  };

  static unsigned of(TransferKind kind) { return static_cast<unsigned>(kind); }
  static unsigned of(TransferPath path) { return static_cast<unsigned>(path); }
  const ChunkBudget& budget_of(TransferKind kind) const { return directions_[of(kind)].budget; }

  void know(TransferPeer& peer) {
    if (!peer.known_.linked) known_.push(&peer);
  }
  static Flow& flow_of(const Transfer& t) { return t.peer->flows_[of(t.path)]; }
  static bool may_issue(const Flow& flow, TransferPath path);
  [[gnu::noinline]] bool look_for_next(Chunk& chunk, ChunkGate* gate);
  bool take(TransferPath path, Chunk& chunk, ChunkGate* gate);
  [[gnu::hot]] bool has_node_room(std::uint64_t bytes);
  [[gnu::hot]] Transfer& add(TransferPeer& peer, const TransferRequest& request);
  void issue(Flow& flow, Transfer& transfer, std::uint32_t bytes, Chunk& chunk);
  void hand_out(Flow& flow, Transfer& transfer, std::uint32_t bytes, Chunk& chunk);
  void refresh(Flow& flow, TransferPath path);
  void refresh_all(TransferPeer& peer);
  std::uint32_t next_bytes(const Transfer& transfer) const;
  Transfer* take_back(TransferId id, std::uint32_t bytes, bool chained);
  void give_up_chunks(Transfer& transfer);
  void fail(Transfer& transfer);
  void finish(Transfer& transfer);

  // Chains (scheduler_chains.cc).
  bool may_be_chain(const Flow& gets, const Transfer& transfer);
  void begin_chain(Flow& gets, Transfer& transfer);
  Flow& chain_in_turn() const;
  std::uint32_t chain_read_bytes(const TransferPeer& peer) const {
    const ChainLane& lane = peer.chain_;
    return lane.reserved_reads > 0 ? lane.read_bytes : window_.chain_read_bytes();
  }
  bool reserve_for(TransferPeer& peer);
  void settle_reserve(TransferPeer& peer);
  // Moves the rest of the peer's chain to the path for gets, if there is a chain.
  void end_chain(TransferPeer& peer) {
    Flow& chains = peer.flows_[of(TransferPath::chain)];
    if (!chains.empty()) leave_chain(chains.next(bypass_bytes_));
  }
  void leave_chain(Transfer& transfer);

  ChunkPlan plan_;
  std::uint64_t small_bytes_;
  std::uint64_t bypass_bytes_;
  std::uint64_t chain_bytes_;
  std::uint32_t measure_every_;
  ReadWindow window_;
  std::array<Direction, 3> directions_;  // by path
  TransferPath turn_ = TransferPath::get;
  TransferTable transfers_;
  std::uint64_t queued_ = 0;                         // transfers in queues of peers
  List<TransferPeer, &TransferPeer::known_> known_;  // for recounts
  TransferQueue finished_;
  TransferQueue withdrawn_;
  LostChunks lost_;
  Counts counts_;
};

}  // namespace weir
