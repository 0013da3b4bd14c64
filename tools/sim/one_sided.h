// One-sided traffic of a program above the engine: gets, puts and fetch-and-adds at random on
// memory that every process exposes, each checked when it ends.
//
//   pages     everybody may read them; their content is known
//   slots     one for each origin, who alone writes it; what it wrote is there when its put ends
//   counter   everybody adds one; in the end they add up
//
// And what a message announced is fetched: a large message, as far as the transport sees of it.
//
// Single-threaded; runs in events of the fabric.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <vector>

#include "tools/sim/engine.h"
#include "tools/sim/fabric.h"

namespace weir::sim {

struct OneSidedScript {
  std::uint32_t operations = 0;       // planned, to each other process
  bool atomics = true;                // among them
  std::uint32_t at_a_time = 4;        // at most, over all
  std::uint32_t largest = 40 << 10;   // bytes of one
  std::uint32_t announced_bytes = 0;  // what each message announces (application.h); 0: nothing
};

inline constexpr std::size_t line_bytes = 64;

template <typename T>
struct LineAllocator {
  using value_type = T;
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{line_bytes}));
  }
  void deallocate(T* at, std::size_t) { ::operator delete (at, std::align_val_t{line_bytes}); }
  friend bool operator==(const LineAllocator&, const LineAllocator&) = default;
};

// They start at a cache line: where chunks are cut depends on addresses, and a run must not.
using AlignedBytes = std::vector<std::byte, LineAllocator<std::byte>>;

class OneSided {
 public:
  OneSided(Fabric& fabric, Engine& engine, const OneSidedScript& script);

  // All processes of the world, by node; itself included.
  void meet(std::vector<OneSided*> all);

  // A message of `node` announced `announced_bytes`: gets them at the next start_some.
  void fetch(Node node) { ++targets_[node].to_fetch; }
  // Starts what may be started now.
  void start_some(Node to, PeerId peer);
  // Nothing left to start or to wait for at `to`.
  bool is_done(Node to) const {
    const Target& target = targets_[to];
    return target.under_way == 0 && (target.to_do + target.to_fetch == 0 || target.gone);
  }
  // The peer is gone: what ended without success is excused, the rest is not started.
  void give_up(Node to) { targets_[to].gone = true; }

  // False if the operation failed.
  bool on_end(const TransferEnd& end);

  // At the end of a world: nothing came late, and the counters add up.
  void check_end(bool troubled);

 private:
  enum class Kind : std::uint8_t { get, put, add };

  struct Operation {
    Kind kind;
    Node to;
    std::uint64_t offset = 0;
    AlignedBytes memory;
    bool over = false;
    bool failed = false;
  };

  struct Target {
    std::uint32_t to_do = 0;
    std::uint32_t to_fetch = 0;
    std::uint32_t under_way = 0;
    bool slot_busy = false;  // a put is under way
    bool gone = false;
  };

  std::uint64_t page_bytes() const {
    return std::max(script_.operations > 0 ? 2 * script_.largest : 0, script_.announced_bytes);
  }
  std::byte page_byte(std::uint64_t offset) const {
    return static_cast<std::byte>((offset * 131 + offset / 251 + engine_.node() * 17) & 0xff);
  }
  void start(PeerId peer, Kind kind, Node to, std::uint64_t offset, AlignedBytes memory);
  void check(const Operation& operation);

  Fabric& fabric_;
  Engine& engine_;
  OneSidedScript script_;
  Random random_;
  std::vector<OneSided*> all_;
  std::vector<Target> targets_;  // by node
  std::deque<Operation> operations_;
  std::uint32_t under_way_ = 0;
  std::uint64_t added_ = 0;

  AlignedBytes pages_;
  AlignedBytes slots_;
  std::uint64_t counter_ = 0;
  std::uint32_t pages_key_ = 0;
  std::uint32_t slots_key_ = 0;
  std::uint32_t counter_key_ = 0;
};

}  // namespace weir::sim
