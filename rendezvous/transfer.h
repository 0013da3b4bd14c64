// One get or put, from its submission until its end is reported to the layer above.
//
//   waiting ──first chunk──▶ running ──last byte──▶ done
//      │  └──no bytes──────────────────────────────▲
//      └──────────┬─────────────┘
//                 ▼
//               failed      reported when no chunk is outstanding any more, never before: a late
//                           read response must not land in memory that is already used again
//
// Pure values; the scheduler moves them.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>

#include "base/ids.h"
#include "base/list.h"
#include "base/work.h"

namespace weir {

enum class TransferKind : std::uint8_t { get, put };

enum class TransferState : std::uint8_t {
  waiting,  // no chunk was issued yet
  running,  // some chunks were issued
  done,     // every byte is where it belongs
  failed,   // no chunk is issued any more
};

constexpr const char* to_text(TransferState state) {
  constexpr const char* names[] = {"waiting", "running", "done", "failed"};
  return names[static_cast<unsigned>(state)];
}

// How its next chunks go: one by one under the budget of its kind, or, for a get, in a chain that
// the adapter works through by itself.
enum class TransferPath : std::uint8_t { get, put, chain };
inline constexpr std::array all_paths = {TransferPath::get, TransferPath::put, TransferPath::chain};

// The path of transfers that do not go as a chain.
constexpr TransferPath path_by_chunks(TransferKind kind) {
  return kind == TransferKind::get ? TransferPath::get : TransferPath::put;
}

// Whether the picture above has the edge.
constexpr bool allowed(TransferState from, TransferState to) {
  constexpr bool edges[4][4] = {
      //            waiting running done   failed
      /* waiting */ {false, true, true, true},
      /* running */ {false, false, true, true},
      /* done    */ {false, false, false, false},
      /* failed  */ {false, false, false, false},
  };
  return edges[static_cast<unsigned>(from)][static_cast<unsigned>(to)];
}

// What the layer above asks for.
struct TransferRequest {
  TransferKind kind = TransferKind::get;
  PeerId peer = PeerId::none;
  std::uint64_t remote_address = 0;
  std::uint64_t local_address = 0;
  std::uint64_t length_bytes = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  std::uint64_t token = 0;       // for the layer above; never looked at
  Opcode opcode = Opcode::read;  // write for a put; atomics are gets of 8 bytes
  std::uint64_t operand = 0;     // of an atomic
  std::uint64_t compare = 0;
  bool movable = false;  // it may be done over another rail instead
};

class TransferPeer;

// A chunk that was under way on a queue pair that is destroyed, and did not complete.
struct LostChunk {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  LostChunk* next = nullptr;
};

struct Transfer {
  TransferId id = TransferId::none;
  TransferState state = TransferState::waiting;
  TransferPath path = TransferPath::get;
  bool small = false;     // goes before large ones of its peer
  bool measures = false;  // goes chunk by chunk though it could be a chain, to know c
  bool live = false;      // the slot is taken
  bool in_doubt = false;  // what it writes may still arrive from a connection that broke
  TransferPeer* peer = nullptr;
  TransferRequest request;
  std::uint64_t issued_bytes = 0;  // handed out in chunks; also the offset of the next new one
  std::uint64_t done_bytes = 0;    // of these, completed
  std::uint64_t outstanding_bytes = 0;
  std::uint32_t outstanding_chunks = 0;
  std::uint32_t read_tokens = 0;    // tokens of the node, for outstanding chunks outside chains
  std::uint64_t chained_bytes = 0;  // part of outstanding_bytes, on the lane for chains
  std::uint32_t chained_chunks = 0;
  LostChunk* lost = nullptr;  // chunks that go once more, oldest first
  LostChunk* last_lost = nullptr;

  Link<Transfer> queue{};    // in its peer's queue, then among the finished, or the free
  Link<Transfer> of_peer{};  // among all transfers of its peer

  // Whether a chunk that did not complete may still change the peer's memory, because the peer's
  // end of the connection may be alive.
  bool changes_memory() const {
    return request.kind == TransferKind::put || is_atomic(request.opcode);
  }

  bool all_issued() const { return issued_bytes == request.length_bytes && lost == nullptr; }

  // The address to which its first byte is written.
  std::uint64_t written() const {
    return request.kind == TransferKind::get ? request.local_address : request.remote_address;
  }

  void move_to(TransferState to) {
    assert(allowed(state, to));
    state = to;
  }
};

using TransferQueue = List<Transfer, &Transfer::queue>;
using TransfersOfPeer = List<Transfer, &Transfer::of_peer>;

}  // namespace weir
