// The memory that the processes of a node share for one port: a header that identifies it, the
// token pool, the pool of the read budget, the server tokens, and for each process a request queue
// and a board; behind them, if asked for, cells for the frames of the proxy. One file in /dev/shm,
// for one user (0600), without pointers.
//
// It appears under its name only when complete, except for cells (it is made nameless and then
// linked), so nobody sees half of one, and a process killed while it makes one leaves nothing. The
// last process to leave removes it. If all were killed, the next process with the same key goes on
// with it, because the dead are reaped; `remove_stale_segments` removes segments that no process
// asks for again.
//
// The `gate`, a lease, makes removal exclusive: first close it, then look whether anybody lives
// here, then unlink. A joining process looks at the gate after it has its slot. One of the two sees
// the other: both look by an exchange of the gate.
//
// Builds of weir with another layout use other files, and leave some behind as well. Known about
// these are only the beginning of the header, and that every process in one holds a shared lock on
// it (flock, which ends with the process): a process that gets the lock exclusively may unlink it.
// So a process that has the lock checks whether the file still exists by name.
//
// Needs /proc, for leases. One thread at a time; every function makes system calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "flowctl/shared/lease.h"
#include "flowctl/shared/proxy.h"
#include "flowctl/shared/shared_word.h"
#include "flowctl/shared/task_queue.h"
#include "flowctl/shared/token_pool.h"
#include "flowctl/shm/board.h"

namespace weir {

struct SegmentHeader {
  std::uint64_t magic;  // these two are the same in all versions; locks exist from version 4 on
  std::uint32_t version;
  std::uint32_t layout_bytes;
  std::uint64_t checksum;  // of what follows, without the gate
  std::uint64_t namespaces;
  std::uint32_t tokens;
  std::uint32_t servers;
  std::uint32_t cell_bytes;  // of the proxy
  std::uint32_t tasks;       // tasks that have cells
  char key[160];             // zero-terminated
  SharedWord gate;
};

struct NodeState {
  static constexpr std::uint32_t most_processes = 256;
  static constexpr std::uint32_t most_servers = 64;
  SegmentHeader header;
  PoolHead<SharedWord> pool;
  PoolSlot<SharedWord> slots[most_processes];
  PoolHead<SharedWord> reads;  // of all reads allowed anywhere; each process has its limit
  PoolSlot<SharedWord> read_slots[most_processes];
  Board boards[most_processes];  // by slot of the token pool
  alignas(64) SharedWord servers[most_servers];
  ProxyQueue queues[most_processes];
};

// The cells start on a page, so that they can be registered separately. The largest pages are those
// of ARM and POWER; a constant, so that the layout is the same everywhere.
inline constexpr std::size_t largest_page_bytes = 64 << 10;
inline constexpr std::size_t cells_at =
    (sizeof(NodeState) + largest_page_bytes - 1) / largest_page_bytes * largest_page_bytes;

// A board shows lists of counters and caps: builds with other lists, even if as long, have another
// layout.
std::uint64_t layout_hash();

struct SegmentOptions {
  // The sharers of a segment that is only for boards: its pools stay empty.
  static constexpr const char* nothing_shared = "nothing shared";

  std::string device;  // e.g. mlx5_0
  std::uint32_t port = 1;
  std::string sharers;  // empty: all jobs of this user; else those with the same text
  std::uint32_t tokens = TokenPool<SharedWord>::most_tokens;  // 1 … most_tokens
  std::uint32_t servers = 0;                                  // server tokens, 0 … most_servers
  std::uint32_t cell_bytes = 0;  // for a frame of the proxy; a multiple of 8; 0: no cells
  std::uint32_t tasks = 0;       // tasks with cells, proxy_depth each: 0 … most_processes
  std::string directory = "/dev/shm";
};

class Segment {
 public:
  // The segment of the key, made if there is none, with a slot of this process in its pools. If
  // that fails, null with a `reason` for people: no /dev/shm or no room in it, a file that is
  // damaged or another user's, other constants while it is in use, all slots taken. Then each
  // process limits itself.
  static std::unique_ptr<Segment> open(const SegmentOptions& options, std::string& reason);

  // Leaves the pools. The last one removes the segment.
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  TokenPool<SharedWord>& pool() { return pool_; }
  TokenPool<SharedWord>& reads() { return reads_; }
  Board& board() { return state_->boards[pool_.slot()]; }
  // Takes back what dead processes held. Reads a file of /proc for each slot.
  void reap();
  // For a process whose slot has cells: the proxy.
  bool has_cells() const { return pool_.slot() < state_->header.tasks; }
  std::uint32_t slot() const { return pool_.slot(); }
  std::uint64_t lease() const { return state_->slots[slot()].lease.load(); }
  ProxyGround proxy();
  std::span<std::byte> cells();
  NodeState& state() { return *state_; }
  ProcessId self() const { return self_; }
  const std::string& path() const { return path_; }

 private:
  Segment(NodeState* state, int file, std::string path, ProcessId self);
  std::size_t task_bytes() const;  // of the cells of a task
  // Its process does it, so the memory is near to it. Returns an errno.
  int allocate_cells();

  NodeState* state_;
  int file_;  // for its lock
  std::string path_;
  ProcessId self_;
  TokenPool<SharedWord> pool_;
  TokenPool<SharedWord> reads_;
};

// Size of the file, as its header says.
std::size_t segment_bytes(const SegmentHeader& header);

// Whether the header is that of an undamaged segment of this version of weir.
bool is_whole(const SegmentHeader& header);

// Removes this user's segments in which no process lives, including those of other builds of weir.
// Returns how many.
std::uint32_t remove_stale_segments(const std::string& directory = "/dev/shm");

}  // namespace weir
