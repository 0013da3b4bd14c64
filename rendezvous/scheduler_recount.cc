// Whether everything adds up.
#include <array>
#include <cstddef>

#include "rendezvous/scheduler.h"

namespace weir {

using Path = TransferPath;

bool Scheduler::conserved() const {
  std::array<std::uint64_t, all_paths.size()> chunks{};
  std::array<std::uint64_t, all_paths.size()> bytes{};
  std::array<std::size_t, all_paths.size()> active{};
  std::uint64_t all_queued = 0;
  std::uint64_t reserved_chunks = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t node_tokens = 0;
  std::size_t live = finished_.size() + withdrawn_.size();
  for (const TransferPeer* p = known_.front(); p != nullptr; p = known_.next(p)) {
    const TransferPeer& peer = *p;
    std::array<std::uint64_t, all_paths.size()> peer_chunks{};
    std::array<std::uint64_t, all_paths.size()> peer_bytes{};
    std::array<std::size_t, all_paths.size()> queued{};
    std::uint32_t atomics = 0;
    reserved_chunks += peer.chain_.reserved_reads;
    reserved_bytes += peer.chain_.reserved_bytes;
    node_tokens += peer.chain_.reserved_tokens;
    live += peer.transfers_.size();
    for (const Transfer* t = peer.transfers_.front(); t != nullptr; t = TransfersOfPeer::next(t)) {
      const unsigned scheduled = of(path_by_chunks(t->request.kind));
      peer_chunks[scheduled] += t->outstanding_chunks - t->chained_chunks;
      peer_bytes[scheduled] += t->outstanding_bytes - t->chained_bytes;
      peer_chunks[of(Path::chain)] += t->chained_chunks;
      peer_bytes[of(Path::chain)] += t->chained_bytes;
      node_tokens += t->read_tokens;
      if (t->queue.linked) ++queued[of(t->path)];
      atomics += is_atomic(t->request.opcode) ? 1 : 0;
      if (t->issued_bytes > t->request.length_bytes) return false;
      if (t->queue.linked == (t->state == TransferState::failed || t->all_issued())) return false;
      std::uint64_t lost_bytes = 0;
      for (const LostChunk* c = t->lost; c != nullptr; c = c->next) lost_bytes += c->bytes;
      if (t->state != TransferState::failed &&
          t->issued_bytes != t->done_bytes + t->outstanding_bytes + lost_bytes) {
        return false;
      }
    }
    if (atomics != peer.atomics_) return false;
    for (Path path : all_paths) {
      const Flow& flow = peer.flows_[of(path)];
      if (flow.use.chunks != peer_chunks[of(path)]) return false;
      if (flow.use.bytes != peer_bytes[of(path)]) return false;
      if (flow.size() != queued[of(path)]) return false;
      if (Round::has(flow) != may_issue(flow, path)) return false;
      all_queued += queued[of(path)];
      active[of(path)] += Round::has(flow) ? 1 : 0;
      chunks[of(path)] += peer_chunks[of(path)];
      bytes[of(path)] += peer_bytes[of(path)];
    }
    const bool chain_under_way = queued[of(Path::chain)] + peer_chunks[of(Path::chain)] > 0;
    if (peer.chain_.reserved_reads > 0 && !chain_under_way) return false;
  }
  for (Path path : all_paths) {
    const Direction& direction = directions_[of(path)];
    const bool reads = path == Path::get;
    if (direction.budget.chunks() != chunks[of(path)] + (reads ? reserved_chunks : 0)) return false;
    if (direction.budget.bytes() != bytes[of(path)] + (reads ? reserved_bytes : 0)) return false;
    if (direction.round.size() != active[of(path)]) return false;
  }
  return node_tokens == window_.node().out() && live == transfers_.live() &&
         all_queued == queued_ &&
         counts_.chunks_issued ==
             counts_.chunks_done + counts_.chunks_lost + chunks[0] + chunks[1] + chunks[2];
}

}  // namespace weir
