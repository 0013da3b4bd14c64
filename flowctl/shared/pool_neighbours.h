// What a process knows of the others that share a pool with it, without asking all of them each
// time. Two things, both from the words that each keeps in its slot:
//
//   recently  what each had drawn and returned when it was last seen. A few are seen anew at a
//   time,
//             in turn, so a look costs the same beside one process and beside hundreds. The sum of
//             what they returned is never too high, for these words only grow. Who would have to
//             wait by this sum sees all, now and then.
//   marks     the same words at the last `excuse`. A process that has not moved from one
//             mark to the next is stuck, and its tokens are excused until it moves. Only
//             `excuse` writes marks: whoever moved since the last but one counts, however
//             often anybody looks.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "flowctl/shared/token_pool.h"

namespace weir {

template <typename Word, std::uint32_t most, std::uint32_t seen_at_a_time = 4>
class PoolNeighbours {
 public:
  using Pool = TokenPool<Word>;
  using Holder = typename Pool::Holder;

  void join(const Pool& pool) {
    std::construct_at(this);  // in place: another one would be 10 KiB of stack
    see_all(pool);
  }

  void see_some(const Pool& pool) {
    const std::uint32_t count = watched(pool);
    for (std::uint32_t i = std::min(count, seen_at_a_time + 1); i > 0; --i) {
      next_ = next_ + 1 < count ? next_ + 1 : 0;
      if (next_ != pool.slot()) see(pool, next_);
    }
  }
  void see_all(const Pool& pool) {
    const std::uint32_t count = watched(pool);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i != pool.slot()) see(pool, i);
    }
  }

  // As last seen. What all have returned is modulo the pool's counters.
  std::uint64_t returned() const { return returned_; }
  std::uint64_t asked() const { return asked_; }

  // Marks all anew. Those that are as they were at the last mark are stuck.
  void excuse(const Pool& pool) {
    stuck_ = 0;
    const std::uint32_t count = watched(pool);
    for (std::uint32_t i = 0; i < count; ++i) {
      const Holder now = pool.holder(i);
      Mark& mark = marks_[i];
      mark.stuck = i != pool.slot() && mark.is(now);
      mark.drawn = now.drawn;
      mark.returned = now.returned;
      stuck_ += mark.stuck ? 1 : 0;
    }
  }
  // Tokens of those that are stuck and have not moved since: `tokens_of(Holder)`. Both words of a
  // mark only grow, so a move stays visible.
  template <typename TokensOf>
  std::uint64_t excused(const Pool& pool, TokensOf&& tokens_of) const {
    if (stuck_ == 0) return 0;
    std::uint64_t tokens = 0;
    const std::uint32_t count = watched(pool);
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!marks_[i].stuck) continue;
      const Holder now = pool.holder(i);
      if (marks_[i].is(now)) tokens += tokens_of(now);
    }
    return tokens;
  }

 private:
  struct Mark {
    std::uint64_t drawn = 0;
    std::uint64_t returned = 0;
    bool stuck = false;

    bool is(const Holder& now) const { return drawn == now.drawn && returned == now.returned; }
  };
  using Seen = typename Pool::Share;

  static std::uint32_t watched(const Pool& pool) { return std::min(pool.holders(), most); }

  void see(const Pool& pool, std::uint32_t i) {
    Seen& seen = seen_[i];
    const Seen now = pool.share(i);
    returned_ += now.returned - seen.returned;
    asked_ += now.asked - seen.asked;
    seen = now;
  }

  std::array<Seen, most> seen_{};
  std::uint64_t returned_ = 0;  // sums
  std::uint64_t asked_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t stuck_ = 0;  // so many marks are
  std::array<Mark, most> marks_{};
};

}  // namespace weir
