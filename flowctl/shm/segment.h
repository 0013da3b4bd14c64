// The memory that the processes of a node share for one port: a header that says what it is, the
// token pool, the pool of the read budget, the server tokens, and for each process a request queue
// and a board; behind all that, if asked for, cells for the frames of the proxy. One file in
// /dev/shm, for one user (0600), without pointers.
//
// It appears under its name when it is complete (it is made nameless and then linked), so nobody
// sees half of one, and a process killed while it makes one leaves nothing. The last one to leave
// removes it. If all were killed, the next process with the same key goes on with it, for what the
// dead held is reaped; `remove_stale_segments` removes those nobody asks for again.
//
// Removing is exclusive by the `gate`, a lease: closed first, then looked whether anybody lives
// here, then unlinked. Who joins looks at the gate after it has its slot. One of the two sees the
// other: both do it by an exchange of the gate.
//
// Builds of weir with another layout have other files, and leave some behind as well. Of these only
// the header's beginning is known, and that whoever is in one has a shared lock on it (flock, which
// ends with the process): who gets it alone may unlink it. So who has its lock looks whether the
// file is still there by name.
//
// Needs /proc, for leases. One thread at a time; system calls in every function.
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
  std::uint64_t magic;  // these two are the same in all versions, and the lock is from 4 on
  std::uint32_t version;
  std::uint32_t layout_bytes;
  std::uint64_t checksum;  // of what follows, the gate not counted
  std::uint64_t pid_namespace;
  std::uint32_t tokens;
  std::uint32_t servers;
  std::uint32_t cell_bytes;  // of the proxy
  std::uint32_t tasks;       // that have cells
  char key[160];             // zero-terminated
  SharedWord gate;
};

// Whole pages, so that the cells behind it are, and can be registered by themselves.
struct alignas(4096) NodeState {
  static constexpr std::uint32_t most_processes = 256;
  static constexpr std::uint32_t most_servers = 64;
  SegmentHeader header;
  PoolHead<SharedWord> pool;
  PoolSlot<SharedWord> slots[most_processes];
  PoolHead<SharedWord> reads;  // of all that are allowed anywhere; each process has its limit
  PoolSlot<SharedWord> read_slots[most_processes];
  Board boards[most_processes];  // by slot of the token pool
  alignas(64) SharedWord servers[most_servers];
  ProxyQueue queues[most_processes];
};

struct SegmentOptions {
  std::string device;  // e.g. mlx5_0
  std::uint32_t port = 1;
  std::string sharers;  // empty: all jobs of this user; else those that say the same
  std::uint32_t tokens = TokenPool<SharedWord>::most_tokens;  // 1 … most_tokens
  std::uint32_t servers = 0;                                  // server tokens, 0 … most_servers
  std::uint32_t cell_bytes = 0;  // for a frame of the proxy; a multiple of 8; 0: no cells
  std::uint32_t tasks = 0;       // that have cells, proxy_depth each: 0 … most_processes
  std::string directory = "/dev/shm";
};

class Segment {
 public:
  // The segment of the key, made if there is none, with a slot of this process in its pools. Null
  // with a `reason` for people if that cannot be: no /dev/shm or no room in it, somebody else's or
  // a damaged file, other constants while it is in use, all slots taken. Then each process limits
  // itself.
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
  // The proxy, for a process whose slot has cells.
  bool has_cells() const { return pool_.slot() < state_->header.tasks; }
  std::uint32_t slot() const { return pool_.slot(); }
  ProxyGround proxy();
  std::span<std::byte> cells();
  NodeState& state() { return *state_; }
  ProcessId self() const { return self_; }
  const std::string& path() const { return path_; }

 private:
  Segment(NodeState* state, int file, std::string path, ProcessId self);

  NodeState* state_;
  int file_;  // for its lock
  std::string path_;
  ProcessId self_;
  TokenPool<SharedWord> pool_;
  TokenPool<SharedWord> reads_;
};

// Of the file, as its header says.
std::size_t segment_bytes(const SegmentHeader& header);

// The header is that of a segment, of this version of weir, and undamaged.
bool is_whole(const SegmentHeader& header);

// Removes this user's segments in which no process lives, those of other builds of weir too.
// Returns how many.
std::uint32_t remove_stale_segments(const std::string& directory = "/dev/shm");

}  // namespace weir
