// Names and small numbers that stand for things. An id of one kind never converts to another.
#pragma once

#include <compare>
#include <cstdint>

namespace weir {

// A process as the MPI runtime names it (ORTE/PMIx: job id and rank within the job).
struct PeerName {
  std::uint32_t job = 0;
  std::uint32_t rank = 0;

  friend constexpr auto operator<=>(PeerName, PeerName) = default;
};

// Index of a peer in the core's table; never changes while this process lives.
enum class PeerId : std::uint32_t { none = 0xffffffff };

// Index of a lane: one RC queue pair between two processes.
enum class LaneId : std::uint32_t { none = 0xffffffff };

// Index of a receive buffer in the pool.
enum class BufferId : std::uint32_t { none = 0xffffffff };

// The engine's number for one incoming connection request; 0 is none.
enum class RequestId : std::uint64_t { none = 0 };

// A get or put under way: slot and generation, so that the id of a finished transfer never means
// the next one in its slot.
enum class TransferId : std::uint64_t { none = ~std::uint64_t{0} };

constexpr std::uint32_t index(PeerId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint32_t index(LaneId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint32_t index(BufferId id) { return static_cast<std::uint32_t>(id); }

}  // namespace weir
