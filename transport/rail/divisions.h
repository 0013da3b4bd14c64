// Large transfers that are divided among rails, from the request until every byte is there.
//
//   begin ──▶ parts, each to be done over its rail
//   go_on(part) ──▶ its next step, if it has one
//   end(part) ──▶ going: others are under way
//             ──▶ again: its rail lost it, and it is to be done over another one
//             ──▶ over: the last part
//
// A part may be done again because nothing of it can arrive any more: a get ends without its bytes
// only when its queue pair is destroyed, a put only when the target's is, too.
//
// A window's memory may have been written over its first rail a moment ago, by anybody, and what is
// written over another one is announced over the first. Between two adapters nothing is ordered,
// but each puts a read behind what it has written itself. So a part over another adapter of the
// target goes in steps:
//
//   ahead    a read of one byte over the first rail: what was put over it is there
//   bytes
//   behind   of a put: a read of one byte over the same rail: the bytes are there
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

#include "base/time.h"
#include "rendezvous/transfer.h"
#include "transport/rail/divide.h"
#include "transport/rail/meter.h"

namespace weir {

// The keys of a transfer's memory on each rail; of the first one, the request has them. An rkey of
// 0 means that the rail cannot be used.
struct RailKey {
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
};
using RailKeys = std::array<RailKey, most_rails>;

// Which parts have steps besides their bytes.
struct RailReads {
  std::uint8_t fenced = 0;   // rails whose parts do, a bit for each
  bool first_works = false;  // otherwise the first rail cannot be asked, and its puts are old
};

class Divisions {
 public:
  enum class Step : std::uint8_t { ahead, bytes, behind };

 private:
  struct Whole {
    TransferRequest request;  // for the first rail
    RailKeys keys;
    std::uint8_t fenced = 0;
    std::uint32_t left = 0;  // parts that are not over
    bool ok = true;
  };

 public:
  class Part {
   public:
    // The rail of its bytes.
    std::size_t rail() const { return rail_; }
    Step step() const { return step_; }
    // The rail of its step.
    std::size_t over() const { return step_ == Step::ahead ? 0 : rail_; }
    bool may_use(std::size_t rail) const { return rail == 0 || whole_->keys[rail].rkey != 0; }
    bool is_put() const { return whole_->request.kind == TransferKind::put; }

    // Its step, with the keys of the rail; the peer is that of the first rail. Where the byte of
    // `ahead` and `behind` lands is the caller's to say.
    TransferRequest request() const {
      TransferRequest part = whole_->request;
      part.movable = true;
      if (over() > 0) {
        part.lkey = whole_->keys[rail_].lkey;
        part.rkey = whole_->keys[rail_].rkey;
      }
      part.local_address += offset_;
      part.remote_address += offset_;
      part.length_bytes = length_bytes_;
      if (step_ == Step::bytes) return part;
      part.kind = TransferKind::get;
      part.opcode = Opcode::read;
      part.remote_address += length_bytes_ - 1;
      part.length_bytes = 1;
      part.local_address = part.lkey = 0;
      return part;
    }

   private:
    friend class Divisions;
    Whole* whole_ = nullptr;
    std::size_t rail_ = 0;
    Step step_ = Step::bytes;
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
              const RailKeys& keys = {}, const RailReads& reads = {}) {
    for (std::size_t rail = 0; rail < most_rails; ++rail) {
      loads[rail].waiting_bytes = meters_[rail].waiting_bytes();
    }
    const RailParts bytes = divide(loads, request.length_bytes, least_bytes);
    while (free_parts_.size() < most_rails) free_parts_.push_back(&all_parts_.emplace_back());
    if (free_wholes_.empty()) free_wholes_.push_back(&all_wholes_.emplace_back());
    Whole* const whole = free_wholes_.back();
    free_wholes_.pop_back();
    *whole = {request, keys, reads.fenced, 0, true};
    Parts parts{};
    std::uint64_t offset = 0;
    for (std::size_t rail = 0; rail < most_rails; ++rail) {
      if (bytes[rail] == 0) continue;
      Part* const part = free_parts_.back();
      free_parts_.pop_back();
      part->whole_ = whole;
      part->offset_ = offset;
      part->length_bytes_ = bytes[rail];
      start(now, *part, rail, reads.first_works);
      offset += bytes[rail];
      ++whole->left;
      parts[rail] = part;
    }
    return parts;
  }

  // The part's step is done. True: the next one is to be done. False: `end` it. (All steps count
  // for the rail's rate: it should finish all at the same time as the others.)
  static bool go_on(Part& part) {
    switch (part.step_) {
      case Step::ahead: part.step_ = Step::bytes; return true;
      case Step::behind: return false;
      case Step::bytes: break;
    }
    if (!part.is_put() || !is_fenced(part)) return false;
    part.step_ = Step::behind;
    return true;
  }

  // The part is over, with its bytes or without. After `again` it is under way over the rail
  // `other`, and otherwise no part any more. Without `other`, nobody waits for it.
  Outcome end(Time now, Part& part, bool ok, std::optional<std::size_t> other,
              bool first_works = true) {
    meters_[part.rail_].end(now, part.length_bytes_, ok);
    Whole* const whole = part.whole_;
    if (!ok && other) {
      start(now, part, *other, first_works);
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
  static bool is_fenced(const Part& part) { return (part.whole_->fenced >> part.rail_ & 1) != 0; }

  void start(Time now, Part& part, std::size_t rail, bool first_works) {
    part.rail_ = rail;
    part.step_ = is_fenced(part) && first_works && rail > 0 ? Step::ahead : Step::bytes;
    meters_[rail].begin(now, part.length_bytes_);
  }

  std::array<RailMeter, most_rails> meters_;
  std::deque<Part> all_parts_;
  std::deque<Whole> all_wholes_;
  std::vector<Part*> free_parts_;
  std::vector<Whole*> free_wholes_;
};

}  // namespace weir
