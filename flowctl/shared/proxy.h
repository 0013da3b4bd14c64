// One process's use of its node's proxy [TOK §5.2], as a task and as a server.
//
// As a task, it copies a frame for another process into a cell of memory that the node's processes
// of the job share, and puts a descriptor of it into its queue (task_queue.h). As a server, while
// it has its group's token (server_token.h), it takes requests from the queues of the group, its
// own first, and later reports the outcome of each.
//
// A server may send a frame from its cell (Work::frame). So a cell is reused only once the server
// has reported the frame's outcome, whoever else has sent the frame meanwhile. If the server died
// before, the cell is never reused: nobody knows what its adapter was told to send.
//
// A server gives the token up only when nothing it took is under way any more. So at any time at
// most one living process has frames of a task in hand, and later frames cannot overtake them.
//
// Pure; the caller serialises. Bytes in the shared memory are checked wherever they select an
// address: they belong to this user, but a faulty process may have written them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/ids.h"
#include "flowctl/shared/server_token.h"
#include "flowctl/shared/shared_word.h"
#include "flowctl/shared/task_queue.h"
#include "flowctl/shared/token_pool.h"

namespace weir {

inline constexpr std::uint32_t proxy_depth = 32;  // requests of a task, and cells
// In a cell before the frame's messages: room for the headers of whoever sends from there.
inline constexpr std::uint32_t proxy_headroom = 16;

struct ProxyQueue {
  QueueHead<SharedWord> head;
  Descriptor<SharedWord> ring[proxy_depth];
};

// The memory of a proxy, as one process sees it.
struct ProxyGround {
  std::span<SharedWord> tokens;           // one for each server
  std::span<PoolSlot<SharedWord>> slots;  // their leases say which process is which task
  std::span<ProxyQueue> queues;           // by slot
  std::byte* cells = nullptr;             // proxy_depth for each task, in order
  std::uint32_t cell_bytes = 0;           // a multiple of 8
  std::uint32_t tasks = 0;                // slots with cells
};

class Proxy {
 public:
  // Outcomes.
  static constexpr std::uint64_t sent = 1;     // the frame arrived
  static constexpr std::uint64_t refused = 2;  // it may not have arrived: its task has to send it

  // What a task wants sent, as a server sees it.
  struct Work {
    std::uint32_t task = 0;  // these two identify the request
    std::uint64_t at = 0;
    PeerName to;
    std::uint64_t key = 0;             // of the receiver, as the task knows it
    std::uint32_t rank = 0;            // of the task
    bool is_void = false;              // the task has handled it itself
    std::byte* frame = nullptr;        // the task's cell: room for the server, then `bytes`
    const std::byte* bytes = nullptr;  // valid until the outcome is reported
    std::uint32_t length_bytes = 0;    // as the task says: to be checked
  };

  // This process becomes task `slot` of `ground`, which outlives this.
  void join(const ProxyGround& ground, std::uint32_t slot, ProcessId self) {
    ground_ = ground;
    slot_ = slot;
    const auto servers = static_cast<std::uint32_t>(ground.tokens.size());
    order_ = ServiceOrder(slot, ground.tasks, servers);
    token_ = ServerToken<SharedWord>(ground.tokens[server_group(slot, servers)], self);
    const auto own = queue(slot);
    for (std::uint64_t at = own.retired(); at != own.submitted(); ++at) {
      occupy(at, own.word(at, cell_word));  // an earlier owner's request
    }
    joined_ = true;
  }
  bool joined() const { return joined_; }

  // ---- the task ----

  // Queues a request, which gets next_number(); false if there is no room. Copies `bytes`.
  bool submit(PeerName to, std::uint64_t key, std::uint32_t rank, const std::byte* bytes,
              std::uint32_t length_bytes) {
    auto own = queue(slot_);
    const std::uint64_t at = own.submitted();
    if (at - own.retired() >= proxy_depth || free_cells_ == 0 ||
        length_bytes > ground_.cell_bytes - proxy_headroom) {
      return false;
    }
    const auto cell = static_cast<std::uint32_t>(std::countr_zero(free_cells_));
    std::memcpy(cell_at(slot_, cell) + proxy_headroom, bytes, length_bytes);
    occupy(at, cell);
    return own.submit({std::uint64_t{to.job} << 32 | to.rank, key,
                       std::uint64_t{rank} << 32 | length_bytes, 0, cell});
  }

  std::uint64_t oldest_number() const { return queue(slot_).retired(); }
  std::uint64_t next_number() const { return queue(slot_).submitted(); }
  bool outstanding() const { return oldest_number() != next_number(); }
  template <typename Alive>
  Retirement oldest(std::uint64_t& outcome, Alive&& alive) const {
    return queue(slot_).oldest(outcome, alive);
  }
  // Drops the oldest request with its outcome; 0: it has none, and never will.
  void drop_oldest(std::uint64_t outcome) {
    auto own = queue(slot_);
    if (outcome != 0) free_cells_ |= 1u << cell_of_[own.retired() % proxy_depth];
    own.drop_oldest();
  }
  // Cells that no server uses, a bit for each.
  std::uint32_t free_cells() const { return free_cells_; }
  bool arrived(std::uint64_t at) const { return queue(slot_).outcome(at) == sent; }

  // The task handles a request itself: a server that takes it has nothing to do.
  void make_void(std::uint64_t at) { queue(slot_).amend(at, void_word, 1); }
  // Everything that was retired is handled.
  void clear_doubt() { queue(slot_).clear_doubt(); }

  // Requests of this task wait for a server.
  bool waits() const { return queue(slot_).waits(); }

  // ---- the server ----

  bool serving() const { return token_.held(); }
  bool try_serve() { return token_.try_take(); }
  std::uint32_t in_hand() const { return in_hand_; }
  void begin_round() { order_.begin(); }

  // The next queue of the round; false at its end.
  bool next_queue(std::uint32_t& task) { return order_.next(task); }

  // Takes the next request of that queue, if there is one and it may go.
  bool take(std::uint32_t task, Work& work) {
    auto from = queue(task);
    if (!from.waits() || !from.settled(token_.lease())) return false;
    Request request;
    if (!from.take(token_.lease(), request, work.at)) return false;
    ++in_hand_;
    work.task = task;
    work.to = {static_cast<std::uint32_t>(request[0] >> 32),
               static_cast<std::uint32_t>(request[0])};
    work.key = request[1];
    work.rank = static_cast<std::uint32_t>(request[2] >> 32);
    work.length_bytes = static_cast<std::uint32_t>(request[2]);
    work.is_void = request[void_word] != 0;
    work.frame = cell_at(task, static_cast<std::uint32_t>(request[cell_word] % proxy_depth));
    work.bytes = work.frame + proxy_headroom;
    return true;
  }

  void complete(std::uint32_t task, std::uint64_t at, std::uint64_t outcome) {
    --in_hand_;
    if (outcome != sent) queue(task).raise_doubt();  // before the outcome: later requests must wait
    queue(task).complete(at, outcome);
  }

  // Nothing may be in hand.
  void give() { token_.give(); }

  // ---- processes that are waited for ----

  // The server that has or had the oldest request of this task in hand; none if no server has begun
  // it, or it is over.
  ProcessId server_of_oldest() const { return queue(slot_).server_of_oldest(); }
  // The other process that has the token of the group; none if the token is free.
  ProcessId other_server() const { return token_.other_owner(); }
  // The process is dead: frees the token if the process has it.
  bool reap(ProcessId dead) {
    return token_.reap([dead](ProcessId id) { return id != dead; });
  }

 private:
  static constexpr std::uint32_t void_word = 3;
  static constexpr std::uint32_t cell_word = 4;
  static_assert(proxy_depth == 32);  // a bit for each

  TaskQueue<SharedWord> queue(std::uint32_t task) const {
    return {ground_.queues[task].head, ground_.queues[task].ring, ground_.slots[task].lease};
  }
  std::byte* cell_at(std::uint32_t task, std::uint32_t cell) const {
    return ground_.cells +
           std::size_t{ground_.cell_bytes} * (std::size_t{task} * proxy_depth + cell);
  }
  void occupy(std::uint64_t at, std::uint64_t cell) {
    cell_of_[at % proxy_depth] = static_cast<std::uint8_t>(cell % proxy_depth);
    free_cells_ &= ~(1u << cell % proxy_depth);
  }

  static inline SharedWord nowhere{};

  bool joined_ = false;
  ProxyGround ground_;
  std::uint32_t slot_ = 0;
  std::uint32_t free_cells_ = UINT32_MAX;
  std::array<std::uint8_t, proxy_depth> cell_of_{};  // by request
  std::uint32_t in_hand_ = 0;
  ServiceOrder order_{0, 1, 1};
  ServerToken<SharedWord> token_{nowhere, {}};
};

}  // namespace weir
