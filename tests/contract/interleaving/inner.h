// What tells two states of an end apart, private rooms included: the explorer leaves out states
// that it has seen. What is left out here (counters, memory, the addresses of things) makes no
// difference to what happens next, or only to how soon.
//
// The private members are looked at by way of explicit instantiation, which may name them [C++20
// temp.spec.general]: so no room needs a friend for a test.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "transport/core/core.h"
#include "transport/rail/links.h"

namespace weir::interleaving {

// A hash that grows with what is told.
class Digest {
 public:
  template <typename... T>
  void add(T... values) {
    (mix(static_cast<std::uint64_t>(values)), ...);
  }
  std::uint64_t value() const { return hash_; }

 private:
  void mix(std::uint64_t value) {
    hash_ ^= value + 0x9e3779b97f4a7c15 + (hash_ << 6) + (hash_ >> 2);
    hash_ *= 0xff51afd7ed558ccd;
    hash_ ^= hash_ >> 33;
  }

  std::uint64_t hash_ = 0x243f6a8885a308d3;
};

// Numbers of attempts rise, and nothing but their order matters.
class Attempts {
 public:
  void note(std::uint64_t number) { numbers_.push_back(number); }
  void settle() {
    std::sort(numbers_.begin(), numbers_.end());
    numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
  }
  std::size_t rank(std::uint64_t number) const {
    return static_cast<std::size_t>(std::lower_bound(numbers_.begin(), numbers_.end(), number) -
                                    numbers_.begin());
  }

 private:
  std::vector<std::uint64_t> numbers_;
};

// Points in time are told coarsely, and as seen from now.
inline std::uint64_t coarse(Time time, Time now, Duration unit) {
  if (time == Time::never()) return 1000;
  const std::int64_t units = (time - now).ns / (unit.ns / 2);
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(units, -16, 16) + 100);
}

// Rules of the connector's table that any core has taken so far.
std::array<bool, connection_table::count>& rules_taken();
void note_rules(const Core& core);
std::uint64_t attempt_of(const Core& core, PeerId peer);
std::uint64_t attempt_seen_by(const Core& core, PeerId peer);
// `ours` and `theirs`: attempts of this end and of the peer.
void describe(const Core& core, PeerId peer, Time now, const Attempts& ours, const Attempts& theirs,
              Digest& digest);
void describe(const Links& links, Digest& digest);

}  // namespace weir::interleaving
