// What the contract suite needs of a backend: two processes that can reach each other, each moved
// by calls only. A backend on real engines keeps two of them in one process and measures its
// deadlines on the wall; the simulator lets virtual time pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/counters.h"
#include "base/status.h"
#include "base/time.h"

namespace weir::contract {

struct Options {
  std::uint32_t buffer_bytes = 4096;
  std::uint32_t window_initial = 8;
  std::uint32_t window_max = 64;
  std::uint32_t pending_frames = 32;  // then back-pressure
  Duration shrink_after = seconds(2);
};

struct Received {
  std::uint8_t tag;
  std::vector<std::byte> payload;
};

// One process. What `progress` hands up is collected here.
class Side {
 public:
  virtual ~Side() = default;

  // Sends a copy of `payload` to the other side. With `waited`, its slot is counted in
  // `delivered` or `undelivered` once it came back.
  virtual Status send(std::span<const std::byte> payload, std::uint8_t tag, bool waited) = 0;
  virtual void progress() = 0;
  // Leaves: what is pending goes out, then a goodbye. False if that took too long.
  virtual bool close() = 0;

  virtual const Counters& counters() const = 0;
  virtual std::uint32_t max_payload_bytes() const = 0;

  std::vector<Received> received;
  std::vector<FailReason> failures;
  std::uint32_t delivered = 0;
  std::uint32_t undelivered = 0;
};

class Pair {
 public:
  virtual ~Pair() = default;

  virtual Side& left() = 0;
  virtual Side& right() = 0;

  // A while goes by in which nobody progresses (but threads and adapters work).
  virtual void pass(Duration time) = 0;
  virtual Time now() const = 0;

  // The right process ends without a goodbye. False if the backend cannot do that.
  virtual bool kill_right() = 0;
};

}  // namespace weir::contract
