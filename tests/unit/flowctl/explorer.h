// Runs small worlds of processes on shared words through every order of their accesses, with kills
// between any two of them. The algorithms are the production ones, with a word of ours.
//
// A process is a list of operations; an operation is run again from its start for every step, with
// what its accesses returned so far, and cut off before its next new access. So a state is the
// shared memory, each process's private part at the start of its operation, and those returns; a
// state seen before is not gone into again.
//
// Accesses are sequentially consistent, or, with `Order::buffered`, each process's stores wait in a
// buffer of its own and reach the others later, in their order. That is x86-TSO (Sewell et al.,
// "x86-TSO: a rigorous and usable programmer's model", CACM 2010), and it allows all that releases
// and acquires leave open (shared_word.h) on processors where a store reaches all others at once:
// x86, and ARM from version 8 on. On POWER a store may reach one process before another; chains of
// exchanges, of which the algorithms are made, are in order there, too (token_pool.h).
#pragma once

#include <algorithm>
#include <csetjmp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weir {

enum class Order : std::uint8_t { sequential, buffered };

// The stores of a process that others do not see yet, oldest first. One more than fit makes the
// oldest seen.
struct StoreBuffer {
  static constexpr std::uint64_t most = 3;
  struct Store {
    std::uint64_t at;  // bytes from the start of the shared memory
    std::uint64_t value;
  };

  void write_oldest(std::byte* memory) {
    std::memcpy(memory + stores[0].at, &stores[0].value, sizeof stores[0].value);
    std::copy(stores + 1, stores + most, stores);
    stores[most - 1] = {};
    --count;
  }
  void write_all(std::byte* memory) {
    while (count > 0) write_oldest(memory);
  }

  std::uint64_t count;
  Store stores[most];
};

// What the running operation's accesses go through.
class Replay {
 public:
  static constexpr std::size_t most = 64;

  struct Log {
    std::uint64_t values[most];
    std::uint32_t count;
  };

  // The next access: its logged value, or the new step's, or the end of this run.
  template <typename Step>
  static std::uint64_t access(Step&& step) {
    if (log == nullptr) return step();  // outside of an operation
    if (at < log->count) return log->values[at++];
    if (stepped) std::longjmp(cut, 1);
    stepped = true;
    const std::uint64_t value = step();
    if (log->count == most) std::abort();
    log->values[log->count++] = value;
    ++at;
    return value;
  }

  // Of the process that makes a step; nullptr: its stores are seen at once.
  static inline StoreBuffer* buffer = nullptr;
  static inline std::byte* memory = nullptr;

  static inline Log* log = nullptr;
  static inline std::uint32_t at = 0;
  static inline bool stepped = false;
  static inline std::jmp_buf cut;
};

class ExploredWord {
 public:
  std::uint64_t load() const {
    return Replay::access([this] { return seen(); });
  }
  void store(std::uint64_t value) {
    Replay::access([this, value] {
      StoreBuffer* const buffer = Replay::buffer;
      if (buffer == nullptr) return value_ = value;
      if (buffer->count == StoreBuffer::most) buffer->write_oldest(Replay::memory);
      buffer->stores[buffer->count++] = {place(), value};
      return value;
    });
  }
  bool compare_exchange(std::uint64_t& expected, std::uint64_t wanted) {
    const std::uint64_t was = Replay::access([this, expected, wanted] {
      if (Replay::buffer != nullptr) Replay::buffer->write_all(Replay::memory);
      const std::uint64_t before = value_;
      if (before == expected) value_ = wanted;
      return before;
    });
    const bool done = was == expected;
    expected = was;
    return done;
  }

  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t place() const {
    return static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(this) - Replay::memory);
  }
  // The process's own last store to this word, or what all see.
  std::uint64_t seen() const {
    if (Replay::buffer == nullptr) return value_;
    for (std::uint64_t i = Replay::buffer->count; i > 0; --i) {
      if (Replay::buffer->stores[i - 1].at == place()) return Replay::buffer->stores[i - 1].value;
    }
    return value_;
  }

  std::uint64_t value_;
};

// World: trivially copyable; has
//   static constexpr std::uint32_t processes;
//   Memory memory;             what they share, with stores that not all see yet; while one of
//                              them runs, `shared` is what all see
//   Private own[processes];
//   bool alive[processes];
//   bool done(p)               its list is at its end
//   bool run(p, Private&)      one operation of it; true if it is over
//   void observe(before, p)    p made one step: the test's own books
//   const char* broken()       what is wrong with this state, or nullptr
//   const char* broken_at_end()  when all that live are done
template <typename World>
class Explorer {
 public:
  static_assert(std::is_trivially_copyable_v<World>);

  struct Result {
    std::uint64_t states = 0;
    std::uint64_t steps = 0;
    std::uint64_t ends = 0;
    std::string problem;  // empty: none
  };

  // `kills`: so many processes, at any of their accesses.
  Result run(const World& start, std::uint32_t kills, Order order = Order::sequential) {
    order_ = order;
    State first;
    std::memset(static_cast<void*>(&first), 0, sizeof first);
    first.world = start;
    first.seen = start.memory;
    first.kills = kills;
    visit(first);
    while (!stack_.empty() && result_.problem.empty()) {
      const Entry entry = std::move(stack_.back());
      stack_.pop_back();
      expand(entry);
    }
    if (result_.problem.empty()) check_progress();
    return result_;
  }

 private:
  using Memory = decltype(World::memory);

  struct State {
    World world;
    Memory seen;  // by all
    StoreBuffer buffers[World::processes];
    Replay::Log logs[World::processes];
    std::uint32_t kills;
  };
  struct Entry {
    World world;
    Memory seen;
    StoreBuffer buffers[World::processes];
    std::uint32_t kills;
    std::uint32_t counts[World::processes];
    std::vector<std::uint64_t> values;
    std::uint32_t id;
  };

  void expand(const Entry& entry) {
    State state;
    state.world = entry.world;
    state.seen = entry.seen;
    std::copy(entry.buffers, entry.buffers + World::processes, state.buffers);
    state.kills = entry.kills;
    const std::uint64_t* from = entry.values.data();
    for (std::uint32_t p = 0; p < World::processes; ++p) {
      state.logs[p].count = entry.counts[p];
      std::copy(from, from + entry.counts[p], state.logs[p].values);
      from += entry.counts[p];
    }
    bool any = false;
    for (std::uint32_t p = 0; p < World::processes; ++p) {
      if (state.buffers[p].count > 0) {
        any = true;
        next_ = state;
        next_.buffers[p].write_oldest(reinterpret_cast<std::byte*>(&next_.seen));
        edge(entry.id, visit(next_));
      }
      if (!state.world.alive[p] || state.world.done(p)) continue;
      any = true;
      if (!step(state, p, entry.id)) return;
      // The kernel says that a process is dead when all see what it wrote.
      if (state.kills > 0 && state.buffers[p].count == 0) {
        next_ = state;
        next_.world.alive[p] = false;
        next_.logs[p].count = 0;
        next_.kills -= 1;
        edge(entry.id, visit(next_));
      }
    }
    if (any) return;
    ends_.push_back(entry.id);
    result_.ends += 1;
    next_ = state;
    if (const char* problem = next_.world.broken_at_end()) result_.problem = problem;
  }

  // One access of p and what it computes from it.
  bool step(const State& state, std::uint32_t p, std::uint32_t id) {
    next_ = state;
    World::shared = state.seen;
    Replay::memory = reinterpret_cast<std::byte*>(&World::shared);
    Replay::buffer = order_ == Order::buffered ? &next_.buffers[p] : nullptr;
    own_ = state.world.own[p];
    Replay::log = &next_.logs[p];
    Replay::at = 0;
    Replay::stepped = false;
    over_ = false;
    if (setjmp(Replay::cut) == 0) over_ = next_.world.run(p, own_);
    Replay::log = nullptr;
    Replay::buffer = nullptr;
    result_.steps += 1;
    next_.seen = next_.world.memory = World::shared;
    for (StoreBuffer buffer : next_.buffers) {
      buffer.write_all(reinterpret_cast<std::byte*>(&next_.world.memory));
    }
    if (over_) {
      next_.world.own[p] = own_;
      next_.logs[p].count = 0;
    }
    next_.world.observe(state.world, p);
    if (const char* problem = next_.world.broken()) {
      result_.problem = problem;
      return false;
    }
    edge(id, visit(next_));
    return true;
  }

  std::uint32_t visit(const State& state) {
    std::uint64_t a = 1, b = 2;
    const auto mix = [&](const void* data, std::size_t bytes) {
      const auto* at = static_cast<const unsigned char*>(data);
      for (std::size_t i = 0; i < bytes; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at + i, std::min<std::size_t>(8, bytes - i));
        a = (a ^ word) * 0x9fb21c651e98df25ull;
        a ^= a >> 32;
        b = (b + word) * 0xd6e8feb86659fd93ull;
        b ^= b >> 29;
      }
    };
    mix(&state.world, sizeof state.world);
    if (order_ == Order::buffered) {  // else all see what is stored
      mix(&state.seen, sizeof state.seen);
      mix(state.buffers, sizeof state.buffers);
    }
    mix(&state.kills, sizeof state.kills);
    for (const Replay::Log& log : state.logs) {
      mix(&log.count, sizeof log.count);
      mix(log.values, log.count * sizeof log.values[0]);
    }
    const auto [at, fresh] = seen_.try_emplace({a, b}, static_cast<std::uint32_t>(seen_.size()));
    if (fresh) {
      Entry entry{state.world, state.seen, {}, state.kills, {}, {}, at->second};
      std::copy(state.buffers, state.buffers + World::processes, entry.buffers);
      for (std::uint32_t p = 0; p < World::processes; ++p) {
        const Replay::Log& log = state.logs[p];
        entry.counts[p] = log.count;
        entry.values.insert(entry.values.end(), log.values, log.values + log.count);
      }
      stack_.push_back(std::move(entry));
      result_.states += 1;
    }
    return at->second;
  }

  void edge(std::uint32_t from, std::uint32_t to) {
    if (from != to) edges_.emplace_back(to, from);
  }

  // From every state an end can be reached: nobody waits for ever.
  void check_progress() {
    const auto count = static_cast<std::uint32_t>(seen_.size());
    std::vector<std::uint32_t> first(count + 1, 0), before(edges_.size());
    for (const auto& [to, from] : edges_) first[to + 1] += 1;
    for (std::uint32_t i = 0; i < count; ++i) first[i + 1] += first[i];
    std::vector<std::uint32_t> fill(first.begin(), first.end() - 1);
    for (const auto& [to, from] : edges_) before[fill[to]++] = from;
    std::vector<bool> good(count, false);
    std::vector<std::uint32_t> todo = ends_;
    for (const std::uint32_t id : todo) good[id] = true;
    std::uint32_t reached = static_cast<std::uint32_t>(todo.size());
    while (!todo.empty()) {
      const std::uint32_t id = todo.back();
      todo.pop_back();
      for (std::uint32_t i = first[id]; i < first[id + 1]; ++i) {
        if (good[before[i]]) continue;
        good[before[i]] = true;
        ++reached;
        todo.push_back(before[i]);
      }
    }
    if (reached != count) {
      result_.problem = std::to_string(count - reached) + " states from which no end is reached";
    }
  }

  struct Key {
    std::uint64_t a, b;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const { return key.a; }
  };

  std::unordered_map<Key, std::uint32_t, Hash> seen_;
  std::vector<Entry> stack_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;  // to, from
  std::vector<std::uint32_t> ends_;
  Result result_;
  // Not locals: they live across a longjmp.
  State next_;
  Order order_ = Order::sequential;
  typename World::Private own_;
  bool over_ = false;
};

}  // namespace weir
