// The memory that the processes of one simulated host share: what flowctl/shm/segment.h is for real
// ones. The pools themselves are the code that ships.
//
// Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <set>

#include "flowctl/pool_member.h"

namespace weir::sim {

class Host {
 public:
  static constexpr std::uint32_t most_processes = 16;
  using Pool = PoolMember::Pool;

  // One process's way to the pools; false if all slots are taken.
  struct Door {
    Pool requests;
    Pool reads;
    explicit Door(Host& host)
        : requests(host.requests_, host.request_slots_, Pool::most_tokens),
          reads(host.reads_, host.read_slots_, Pool::most_tokens) {}
  };
  bool join(Door& door, std::uint32_t process) {
    const auto alive = [this](ProcessId id) { return lives(id); };
    const ProcessId self{process + 1, 1};
    return door.requests.join(self, alive) && door.reads.join(self, alive);
  }

  void kill(std::uint32_t process) { dead_.insert(process + 1); }
  bool lives(ProcessId id) const { return dead_.count(id.pid) == 0; }
  void reap(Door& door) {
    const auto alive = [this](ProcessId id) { return lives(id); };
    door.requests.reap(alive);
    door.reads.reap(alive);
  }

 private:
  PoolHead<SharedWord> requests_{};
  PoolHead<SharedWord> reads_{};
  std::array<PoolSlot<SharedWord>, most_processes> request_slots_{};
  std::array<PoolSlot<SharedWord>, most_processes> read_slots_{};
  std::set<std::uint32_t> dead_;
};

}  // namespace weir::sim
