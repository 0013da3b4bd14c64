// One process's use of a token pool of its node: the ticket that waits, if there is one, and the
// tokens in hand for the next request.
//
//   ensure ──▶ ticket waits ──▶ in hand ──commit──▶ out ──give──▶ the pool's
//                                  └──────decline────────────────▶
//
// While a ticket waits, another request may become the next one (the peer failed, a smaller one
// comes first). The tokens in hand then serve that request, and go back if they are too few.
//
// A process that is stopped, or seldom looks at its completions, keeps tokens for work that its
// adapter finished long ago, and does not claim its ticket in line. Nobody may wait for ever for a
// process that lives: so tokens of processes that neither took nor gave any between two looks
// (`excuse`) do not count, until these move again. The limit is exceeded by what the others still
// have under way, if anything.
//
// Tokens in hand are a promise to the others: they are used or given back soon, and never wait for
// anything that itself waits for such tokens.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>

#include "flowctl/shared/pool_neighbours.h"
#include "flowctl/shared/shared_word.h"
#include "flowctl/shared/token_pool.h"

namespace weir {

template <typename Word, std::uint32_t most_holders>
class PoolMemberOn {
 public:
  using Pool = TokenPool<Word>;
  static constexpr std::uint32_t most_tokens = Pool::most_tokens;

  // A pool that this process has a slot in; it outlives this. nullptr: there is none any more.
  void join(Pool* pool) {
    pool_ = pool;
    in_hand_ = out_ = 0;
    if (pool_ != nullptr) neighbours_.join(*pool_);
  }
  bool joined() const { return pool_ != nullptr; }

  // Whether that many tokens are in hand now. If not, a ticket waits: ask again later, for the
  // request that is next then. More than `limit` counts as `limit`.
  bool ensure(std::uint32_t tokens, std::uint32_t limit) {
    tokens = std::clamp(tokens, 1u, std::clamp(limit, 1u, pool_->tokens()));
    if (!look(limit)) return false;
    if (in_hand_ < tokens) {
      put_back(in_hand_);
      look_at_all();
      if (!pool_->try_take(tokens, ticket_, limit, sum(), excused())) return false;
      in_hand_ = ticket_.tokens;
    }
    put_back(in_hand_ - tokens);
    return true;
  }

  // The request takes the tokens in hand along. Returns how many.
  std::uint16_t commit() {
    out_ += in_hand_;
    return static_cast<std::uint16_t>(std::exchange(in_hand_, 0));
  }

  // The request is complete.
  void give(std::uint32_t tokens) {
    assert(tokens <= out_);
    out_ -= tokens;
    pool_->give(tokens);
  }

  // No request needs the tokens asked for. Repeat the call while a ticket waits: its tokens can be
  // given back only once they are taken.
  void decline(std::uint32_t limit) {
    if (look(limit)) put_back(in_hand_);
  }

  // True if the waiting ticket is granted by now, or none waits. Otherwise ask again later: each
  // call sees what a few others have given back, in turn.
  bool look(std::uint32_t limit) {
    if (!pool_->waiting()) return true;
    if (!pool_->recheck(ticket_, limit, sum(), excused())) return false;
    in_hand_ = ticket_.tokens;
    return true;
  }

  // The next look for a ticket may ask all others. Beside many that is slow, and slows them down:
  // call from time to time while a ticket waits.
  void look_at_all() { sees_all_ = true; }

  // Call from time to time while a ticket waits: a process that has not moved since the last call
  // is stuck. Returns the tokens that do not count from here on.
  std::uint64_t excuse() {
    neighbours_.excuse(*pool_);
    return excused()();
  }

  bool waiting() const { return pool_ != nullptr && pool_->waiting(); }
  std::uint32_t out() const { return out_; }
  std::uint32_t in_hand() const { return in_hand_; }
  // Tokens that processes of the node hold or wait for.
  std::uint64_t asked() const { return pool_->asked(); }
  // Of these, those of other processes. A few of them are seen anew, so this costs the same beside
  // hundreds as beside one, and may be a little old.
  std::uint64_t asked_by_others() {
    neighbours_.see_some(*pool_);
    return neighbours_.asked();
  }
  Pool* pool() const { return pool_; }

 private:
  auto sum() {
    return [this](bool all, std::uint64_t) {
      if (!all) neighbours_.see_some(*pool_);
      if (all && std::exchange(sees_all_, false)) neighbours_.see_all(*pool_);
      return pool_->available(neighbours_.returned());
    };
  }
  auto excused() const {
    return [this] {
      return neighbours_.excused(*pool_, [this](const typename Pool::Holder& holder) {
        // Processes that asked after this one never held it up.
        return waiting() ? holder.out_before(ticket_) : holder.out;
      });
    };
  }

  void put_back(std::uint32_t tokens) {
    if (tokens == 0) return;
    pool_->give(tokens);
    in_hand_ -= tokens;
  }

  Pool* pool_ = nullptr;
  typename Pool::Ticket ticket_;
  std::uint32_t in_hand_ = 0;
  std::uint32_t out_ = 0;
  bool sees_all_ = false;  // the next look may
  PoolNeighbours<Word, most_holders> neighbours_;
};

using PoolMember = PoolMemberOn<SharedWord, 256>;

}  // namespace weir
