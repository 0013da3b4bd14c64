// The way to one peer over a further rail: whether it may be used, and for how much.
//
//   open ──lost──▶ shut ──pause──▶ open, with a small share that doubles with each part that comes
//
// The pause doubles with each loss, and begins anew when there was none for ten minutes.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weir {

class Way {
 public:
  static constexpr Duration first_pause = milliseconds(500);
  static constexpr Duration longest_pause = seconds(60);
  static constexpr Duration forgets_after = seconds(600);
  static constexpr std::uint32_t whole = 1000;  // of a share

  bool is_open(Time now) const { return now >= shut_until_; }
  // Of what the rail could take, in thousandths.
  std::uint32_t share() const { return share_; }
  // Nothing has come over it since it was lost.
  bool is_lost() const { return lost_at_ != Time{} && share_ == least; }
  Time lost_at() const { return lost_at_; }

  // Returns for how long it is shut.
  Duration lose(Time now) {
    if (lost_at_ == Time{} || now - last_ >= forgets_after) losses_ = 0;
    const Duration pause{std::min(longest_pause.ns, first_pause.ns << losses_)};
    losses_ = std::min(losses_ + 1, 10u);
    if (!is_lost()) lost_at_ = now;
    last_ = now;
    shut_until_ = now + pause;
    share_ = least;
    return pause;
  }

  // A part has come over it.
  void carry() { share_ = std::min(whole, 2 * share_); }

 private:
  static constexpr std::uint32_t least = whole / 10;

  Time shut_until_{};
  Time lost_at_{};  // the first loss since it last carried something
  Time last_{};     // the last loss
  std::uint32_t losses_ = 0;
  std::uint32_t share_ = whole;
};

}  // namespace weir
