// The memory that the processes of one simulated host share: what flowctl/shm/segment.h is for real
// ones. The pools themselves are the code that ships.
//
// Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "flowctl/shared/pool_member.h"
#include "flowctl/shared/proxy.h"

namespace weir::sim {

class Host {
 public:
  static constexpr std::uint32_t most_processes = 32;
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
    const ProcessId self = id_of(process);
    return door.requests.join(self, alive) && door.reads.join(self, alive);
  }

  // The proxy's part, with so many servers and cells of so many bytes.
  void build_proxy(std::uint32_t servers, std::uint32_t cell_bytes) {
    if (proxy_ == nullptr) proxy_ = std::make_unique<ProxyMemory>(servers, cell_bytes);
  }
  ProxyGround proxy_ground() {
    return {proxy_->tokens,      request_slots_,     proxy_->queues,
            proxy_->cells.get(), proxy_->cell_bytes, most_processes};
  }
  ProcessId id_of(std::uint32_t process) const { return {process + 1, 1}; }

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
  struct ProxyMemory {
    std::vector<SharedWord> tokens;
    std::vector<ProxyQueue> queues;
    std::unique_ptr<std::byte[]> cells;  // most of it is never touched
    std::uint32_t cell_bytes;
    ProxyMemory(std::uint32_t servers, std::uint32_t bytes)
        : tokens(servers),
          queues(most_processes),
          cells(std::make_unique_for_overwrite<std::byte[]>(std::size_t{most_processes} *
                                                            proxy_depth * bytes)),
          cell_bytes(bytes) {}
  };
  std::unique_ptr<ProxyMemory> proxy_;
  std::set<std::uint32_t> dead_;
};

}  // namespace weir::sim
