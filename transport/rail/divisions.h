// Large gets that are divided among rails, from the request until every byte is there.
//
//   begin ──▶ parts, each to be got over its rail
//   end(part) ──▶ going: others are under way
//             ──▶ again: its rail lost it, and it is to be got over another one
//             ──▶ over: the last part
//
// A get may be done again because nothing of it can arrive any more: a part ends without its bytes
// only when its queue pair is destroyed.
//
// Pure; the caller serialises. Allocates for a new maximum of parts under way.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "rendezvous/transfer.h"
#include "transport/base/time.h"
#include "transport/rail/divide.h"
#include "transport/rail/meter.h"

namespace weir {

// The keys of a get's memory on each rail; of the first one, the request has them. An rkey of 0
// means that the rail cannot be used.
struct RailKey {
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
};
using RailKeys = std::array<RailKey, most_rails>;

class Divisions {
  struct Whole {
    TransferRequest request;  // for the first rail
    RailKeys keys;
    std::uint32_t left = 0;  // parts that are not over
    bool ok = true;
  };

 public:
  class Part {
   public:
    std::size_t rail() const { return rail_; }
    bool may_use(std::size_t rail) const { return rail == 0 || whole_->keys[rail].rkey != 0; }
    // The bytes, with the keys of its rail; the peer is that of the first rail.
    TransferRequest request() const {
      TransferRequest part = whole_->request;
      part.movable = true;
      if (rail_ > 0) {
        part.lkey = whole_->keys[rail_].lkey;
        part.rkey = whole_->keys[rail_].rkey;
      }
      part.local_address += offset_;
      part.remote_address += offset_;
      part.length_bytes = length_bytes_;
      return part;
    }

   private:
    friend class Divisions;
    Whole* whole_ = nullptr;
    std::size_t rail_ = 0;
    std::uint64_t offset_ = 0;
    std::uint64_t length_bytes_ = 0;
  };
  using Parts = std::array<Part*, most_rails>;  // nullptr: the rail gets none

  enum class Next : std::uint8_t { going, again, over };
  struct Outcome {
    Next next;
    std::uint64_t token = 0;  // of the whole, when it is over
    bool ok = false;
  };

  // The rates are those of the rails that may be used, or 0; what waits is filled in here. If
  // memory runs out, nothing has begun. (std::bad_alloc)
  Parts begin(Time now, const TransferRequest& request, RailLoads loads, std::uint64_t least_bytes,
              const RailKeys& keys = {}) {
    for (std::size_t rail = 0; rail < most_rails; ++rail) {
      loads[rail].waiting_bytes = meters_[rail].waiting_bytes();
    }
    const RailParts bytes = divide(loads, request.length_bytes, least_bytes);
    while (free_parts_.size() < most_rails) free_parts_.push_back(&all_parts_.emplace_back());
    if (free_wholes_.empty()) free_wholes_.push_back(&all_wholes_.emplace_back());
    Whole* const whole = free_wholes_.back();
    free_wholes_.pop_back();
    *whole = {request, keys, 0, true};
    Parts parts{};
    std::uint64_t offset = 0;
    for (std::size_t rail = 0; rail < most_rails; ++rail) {
      if (bytes[rail] == 0) continue;
      Part* const part = free_parts_.back();
      free_parts_.pop_back();
      part->whole_ = whole;
      part->rail_ = rail;
      part->offset_ = offset;
      part->length_bytes_ = bytes[rail];
      meters_[rail].begin(now, bytes[rail]);
      offset += bytes[rail];
      ++whole->left;
      parts[rail] = part;
    }
    return parts;
  }

  // The part is over, with its bytes or without. After `again` it is under way over the rail
  // `other`, and otherwise no part any more. Without `other`, nobody waits for it.
  Outcome end(Time now, Part& part, bool ok, std::optional<std::size_t> other) {
    meters_[part.rail_].end(now, part.length_bytes_, ok);
    Whole* const whole = part.whole_;
    if (!ok && other) {
      part.rail_ = *other;
      meters_[*other].begin(now, part.length_bytes_);
      return {Next::again};
    }
    whole->ok = whole->ok && ok;
    free_parts_.push_back(&part);
    if (--whole->left > 0) return {Next::going};
    free_wholes_.push_back(whole);
    return {Next::over, whole->request.token, whole->ok};
  }

  const RailMeter& meter(std::size_t rail) const { return meters_[rail]; }
  std::size_t parts_out() const { return all_parts_.size() - free_parts_.size(); }

 private:
  std::array<RailMeter, most_rails> meters_;
  std::deque<Part> all_parts_;
  std::deque<Whole> all_wholes_;
  std::vector<Part*> free_parts_;
  std::vector<Whole*> free_wholes_;
};

}  // namespace weir
