// The seam: work requests go down, completions come up. Plain values; verbs turns them into
// `ibv_*` calls, the simulator into packets. [IBTA 10.7, 11.4]
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/status.h"

namespace weir {

enum class Opcode : std::uint8_t {
  send,
  receive,
  // A zero-length RDMA write. It touches no memory and needs no receive buffer and no credit of the
  // peer [IBTA 9.4.3]: its completion shows that the peer's adapter and process are there. (It
  // completes as a `send`.)
  probe,
  // An RDMA read: from the peer's memory at `remote_address` into `address`. It needs no receive
  // buffer and no software of the peer. The adapter has at most max_rd_atomic reads of a queue pair
  // under way; another one waits in the send queue, and so does whatever was posted behind it.
  // [IBTA 9.7] (It completes as a `send`.)
  read,
  // An RDMA write: from `address` into the peer's memory. Needs no receive buffer and no software
  // of the peer; may be inlined. Completes when the peer's adapter has the data. (As a `send`.)
  write,
  // Atomics on 8 aligned bytes of the peer's memory; their previous value lands at `address`
  // (length_bytes is 8). fetch_add adds `operand`; compare_swap stores `operand` if the value
  // equals `compare`. They count as reads for max_rd_atomic. [IBTA 9.4.5] (They complete as a
  // `send`.)
  fetch_add,
  compare_swap,
};

// Whether the peer's adapter has to send data back: at most max_rd_atomic such are under way.
constexpr bool fetches(Opcode opcode) {
  return opcode == Opcode::read || opcode == Opcode::fetch_add || opcode == Opcode::compare_swap;
}

constexpr bool is_atomic(Opcode opcode) { return fetches(opcode) && opcode != Opcode::read; }

// Names one work request within its lane: the number of work requests posted on it before.
using WorkId = std::uint64_t;

// One work request for a lane's send queue.
struct WorkRequest {
  WorkId id;
  LaneId lane;
  Opcode opcode;
  bool signalled;
  bool inlined;  // the adapter copies the bytes while posting
  std::uint32_t length_bytes;
  std::uint32_t lkey;
  std::uint64_t address;
  // If the peer's memory is touched: where, and the peer's key to it.
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  // For atomics.
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
  // Asks the receiver's event thread to look at once, whatever the application does.
  bool solicited = false;
};

// One receive buffer to be posted to the shared receive queue.
struct ReceivePost {
  BufferId buffer;
  std::uint32_t length_bytes;
  std::uint32_t lkey;
  std::uint64_t address;
};

// Arms the SRQ limit event: it fires once when fewer than `limit` receives are posted.
struct SrqArm {
  std::uint32_t limit;
};

// One finished work request.
struct Completion {
  Opcode opcode;
  CompletionStatus status;
  std::uint32_t length_bytes;  // of a receive
  LaneId lane;                 // LaneId::none if the queue pair is no longer known
  WorkId id;                   // of a send: its WorkId; of a receive: the BufferId
};

}  // namespace weir
