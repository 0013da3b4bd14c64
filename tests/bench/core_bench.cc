// core_bench: what the protocol core costs, without verbs, kernel or MPI: two cores in one thread,
// joined by a "wire" that copies each frame into the oldest posted buffer.
//
//   core_bench [--benchmark_filter=…]
//
// items_per_second counts messages, so 1 / that is the cost of a message on both sides together,
// the copy included. work_requests and allocations are per message; allocations must be 0.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <vector>

#include "transport/core/core.h"

namespace {
std::uint64_t allocation_count = 0;
}

[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocation_count;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace weir {
namespace {

constexpr Time now{};
constexpr std::size_t queue_slots = 4096;  // more than buffers or slots in flight

// A queue that never allocates.
template <typename T>
class Queue {
 public:
  bool empty() const { return head_ == tail_; }
  void push(const T& item) { items_[tail_++ % queue_slots] = item; }
  T pop() { return items_[head_++ % queue_slots]; }

 private:
  std::vector<T> items_ = std::vector<T>(queue_slots);
  std::size_t head_ = 0, tail_ = 0;
};

// What an engine is to a core, at the least.
struct Side {
  explicit Side(const Core::Config& config) : core(config) {
    for (int i = 0; i < 512; ++i) spare.push(new_slot());
    core.start(out);
    carry_out();
  }

  SendSlot* new_slot() {
    const std::uint32_t bytes = core.config().buffer_bytes;
    memory.push_back(std::make_unique<std::byte[]>(bytes));
    SendSlot& slot = slots.emplace_back();
    slot.frame = memory.back().get();
    slot.capacity_bytes = bytes;
    return &slot;
  }

  void join(Side& side, PeerName name) {
    other = &side;
    peer = core.add_peer(name);
  }

  // Until nobody wants anything any more. Messages are released as they come.
  void carry_out() {
    while (!out.empty()) {
      if (out.slab_buffers > 0) give_slab();
      for (const ReceivePost& receive : out.receives) posted.push(receive);
      out.receives.clear();
      out.arm = false;
      for (const WorkRequest& work : out.work) wire.push(work);
      work_requests += out.work.size();
      out.work.clear();
      const auto connects = out.connects;
      out.connects.clear();
      for (const ConnectAction& action : connects) connect(action);
      for (const Delivery& delivery : out.deliveries) {
        benchmark::DoNotOptimize(delivery.payload);
        ++delivered;
        if (delivery.last) core.release(delivery.buffer);
      }
      out.deliveries.clear();
      for (const Retired& retired : out.retired) spare.push(retired.slot);
      out.retired.clear();
    }
  }

  void give_slab() {
    const std::uint32_t count = out.slab_buffers;
    out.slab_buffers = 0;
    const std::size_t bytes = std::size_t{count} * core.config().buffer_bytes;
    memory.push_back(std::make_unique<std::byte[]>(bytes));
    core.on_slab(reinterpret_cast<std::uint64_t>(memory.back().get()), 1, count, out);
  }

  void connect(const ConnectAction& action) {
    if (action.kind == ConnectAction::Kind::drop) return core.on_dropped(now, action.lane, out);
    while (core.lacks_control_slots()) core.lend_control_slot(new_slot());
    lane = action.lane;
    if (action.kind == ConnectAction::Kind::connect) {
      other->core.on_request(now, RequestId{1}, action.hello, other->out);
      other->carry_out();
    } else if (action.kind == ConnectAction::Kind::accept) {
      other->core.on_answer(now, other->lane, action.hello, other->out);
      core.on_established(now, lane, out);
      other->carry_out();
    }
  }

  // Everything on the wire arrives and is acknowledged; then both make progress.
  void arrive() {
    while (!wire.empty()) {
      const WorkRequest work = wire.pop();
      if (other->posted.empty()) std::abort();  // credits are there to prevent it
      const ReceivePost receive = other->posted.pop();
      std::memcpy(reinterpret_cast<void*>(receive.address),
                  reinterpret_cast<const void*>(work.address), work.length_bytes);
      other->core.on_completion(now,
                                {Opcode::receive, CompletionStatus::success, work.length_bytes,
                                 other->lane, index(receive.buffer)},
                                other->out);
      other->carry_out();
      if (!work.signalled) continue;
      core.on_completion(now, {Opcode::send, CompletionStatus::success, 0, lane, work.id}, out);
      carry_out();
    }
  }

  void progress() {
    core.begin_round();
    if (core.wants_pump()) core.pump(now, out);
    core.give_back_credits(out);
    carry_out();
    arrive();
  }

  void send(std::uint32_t length_bytes) {
    if (std::byte* at = length_bytes <= 512 ? core.append(peer, length_bytes, 1) : nullptr) {
      std::memset(at, 1, length_bytes);
      return;
    }
    if (spare.empty()) std::abort();
    SendSlot* slot = spare.pop();
    std::memset(slot->payload(), 1, length_bytes);
    if (core.send(now, peer, slot, length_bytes, 1, true, out) != Status::ok) std::abort();
    carry_out();
  }

  std::deque<SendSlot> slots;
  std::vector<std::unique_ptr<std::byte[]>> memory;
  Queue<SendSlot*> spare;
  Queue<ReceivePost> posted;
  Queue<WorkRequest> wire;
  Outbox out;
  Core core;
  Side* other = nullptr;
  PeerId peer = PeerId::none;
  LaneId lane = LaneId::none;
  std::uint64_t work_requests = 0, delivered = 0;
};

Core::Config config_of(std::uint32_t rank) {
  Core::Config config;
  config.self = {1, rank};
  return config;
}

struct Pair {
  Side a{config_of(0)}, b{config_of(1)};

  Pair() {
    a.join(b, {1, 1});
    b.join(a, {1, 0});
    for (int i = 0; i < 2000; ++i) exchange(a, 8, 64);  // connects; the windows find their size
  }

  static void exchange(Side& from, std::uint32_t length_bytes, int burst) {
    for (int i = 0; i < burst; ++i) from.send(length_bytes);
    from.arrive();
    from.progress();
    from.other->progress();
  }
};

void report(benchmark::State& state, Pair& pair, std::uint64_t messages,
            std::uint64_t work_requests, std::uint64_t allocations) {
  const auto count = static_cast<double>(messages);
  state.SetItemsProcessed(static_cast<std::int64_t>(messages));
  state.counters["work_requests"] = static_cast<double>(work_requests) / count;
  state.counters["allocations"] = static_cast<double>(allocations) / count;
  if (pair.a.core.counters().peer_failures > 0) state.SkipWithError("a peer was given up");
}

// A burst of messages of one size, one way, then progress on both sides.
void burst(benchmark::State& state) {
  Pair pair;
  const auto bytes = static_cast<std::uint32_t>(state.range(0));
  const auto size = static_cast<int>(state.range(1));
  const std::uint64_t work_before = pair.a.work_requests + pair.b.work_requests;
  const std::uint64_t delivered_before = pair.b.delivered;
  const std::uint64_t allocations_before = allocation_count;
  for (auto _ : state) Pair::exchange(pair.a, bytes, size);
  const std::uint64_t allocations = allocation_count - allocations_before;
  report(state, pair, pair.b.delivered - delivered_before,
         pair.a.work_requests + pair.b.work_requests - work_before, allocations);
}
BENCHMARK(burst)
    ->ArgNames({"bytes", "burst"})
    ->Args({8, 1})
    ->Args({8, 4})
    ->Args({8, 64})
    ->Args({1024, 1})
    ->Args({4096, 1});

// There and back.
void ping_pong(benchmark::State& state) {
  Pair pair;
  const std::uint64_t work_before = pair.a.work_requests + pair.b.work_requests;
  const std::uint64_t delivered_before = pair.a.delivered + pair.b.delivered;
  const std::uint64_t allocations_before = allocation_count;
  for (auto _ : state) {
    Pair::exchange(pair.a, 8, 1);
    Pair::exchange(pair.b, 8, 1);
  }
  const std::uint64_t allocations = allocation_count - allocations_before;
  report(state, pair, pair.a.delivered + pair.b.delivered - delivered_before,
         pair.a.work_requests + pair.b.work_requests - work_before, allocations);
}
BENCHMARK(ping_pong);

}  // namespace
}  // namespace weir

BENCHMARK_MAIN();
