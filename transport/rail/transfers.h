// Which rails a get or a put goes over, in which parts, and what is next when the step of a part is
// over or its rail has lost it.
//
//   begin ──▶ parts ──each over its rail──▶ end_of_step ──▶ the next step, or over another rail
//                                                      ──▶ the last part: the whole is over
//
// Pure; the caller serialises, except what is static. Allocates as Divisions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "rendezvous/transfer.h"
#include "transport/rail/divide.h"
#include "transport/rail/divisions.h"
#include "transport/rail/links.h"
#include "transport/rail/way.h"

namespace weir {

class RailTransfers {
 public:
  // A message is divided from this size on, into parts no smaller than `least_part`. A smaller one
  // goes over the rail that finishes it first, and less than a part over the first rail that
  // works.
  static constexpr std::uint64_t least_message = 256 << 10;
  static constexpr std::uint64_t least_part = 64 << 10;

  // Rails, a bit for each.
  using Mask = Links::Mask;
  static constexpr Mask bit_of(std::size_t rail) { return static_cast<Mask>(1u << rail); }

  // The ways to one peer, by rail; the first one's is always open.
  using Ways = std::array<Way, most_rails>;
  // Which rails may be used, and what their ports are said to carry.
  using Usable = std::array<bool, most_rails>;
  using Speeds = std::array<double, most_rails>;

  // `others`: further rails that it may go over. A small one keeps to the first rail, so that it
  // comes after the others there.
  static bool keeps_to_first(const TransferRequest& request, Mask others, const Links& links) {
    return others == 0 || (!links.is_down(0) && request.length_bytes < least_part);
  }
  // When the first rail is broken, others are used even if they broke a moment ago.
  static bool is_open(Time now, std::size_t rail, const Ways& ways, const Links& links) {
    return rail == 0 ? !links.is_down(0) : ways[rail].is_open(now) || links.is_down(0);
  }
  // Another thread may have heard that the rail is broken, and withdrawn its transfers, just
  // before something more was given to it: then that is to be withdrawn, too.
  static bool came_too_late(std::size_t rail, Mask others, const Links& links) {
    if (!links.is_down(rail)) [[likely]]
      return false;
    return (links.up() & (others | bit_of(0)) & ~bit_of(rail)) != 0;
  }

  // Submit the last one first: what is to be read ahead goes before the first rail's own part.
  // `fenced`: rails whose parts have steps.
  Divisions::Parts begin(Time now, const TransferRequest& request, const Usable& may,
                         const Ways& ways, const Speeds& speeds, const RailKeys& keys,
                         std::uint8_t fenced) {
    RailLoads loads;
    for (std::size_t rail = 0; rail < most_rails; ++rail) {
      const std::uint32_t share = rail == 0 ? Way::whole : ways[rail].share();
      loads[rail].rate = may[rail] ? rate_of(rail, speeds) * share / Way::whole : 0;
    }
    const std::uint64_t least =
        request.length_bytes < least_message ? request.length_bytes : least_part;
    return divisions_.begin(now, request, loads, least, keys, {fenced, may[0]});
  }

  struct Next {
    enum class Kind : std::uint8_t {
      step,   // submit the part: its next step
      again,  // submit the part: over another rail
      going,  // other parts are under way
      over,   // the whole
    };
    Kind kind;
    std::uint64_t token = 0;  // of the whole, when it is over
    bool ok = false;
    std::optional<Duration> was_lost{};  // the way carries something again, after so long
  };

  // The step of the part is over, with its bytes or without. Without `wanted` nobody waits for the
  // part.
  Next end_of_step(Time now, Divisions::Part& part, bool ok, bool wanted, const Links& links,
                   Ways& ways) {
    Next next{};
    const std::size_t rail = part.over();
    if (rail > 0 && ok) {
      if (ways[rail].is_lost()) next.was_lost = now - ways[rail].lost_at();
      ways[rail].carry();
    }
    if (ok && wanted && Divisions::go_on(part)) {
      next.kind = Next::Kind::step;
      return next;
    }
    const std::optional<std::size_t> other =
        wanted ? std::optional(other_rail(links, part)) : std::nullopt;
    const Divisions::Outcome outcome = divisions_.end(now, part, ok, other, !links.is_down(0));
    next.token = outcome.token;
    next.ok = outcome.ok;
    switch (outcome.next) {
      case Divisions::Next::going: next.kind = Next::Kind::going; break;
      case Divisions::Next::again: next.kind = Next::Kind::again; break;
      case Divisions::Next::over: next.kind = Next::Kind::over; break;
    }
    return next;
  }

  std::size_t parts_out() const { return divisions_.parts_out(); }

 private:
  // One that was never measured is as fast as those that were, as far as the ports' speeds tell.
  double rate_of(std::size_t rail, const Speeds& speeds) const {
    const double own = divisions_.meter(rail).rate();
    if (own > 0) return own;
    const auto speed = [&](std::size_t of) { return std::max(1.0, speeds[of]); };
    for (std::size_t other = 0; other < most_rails; ++other) {
      const double measured = divisions_.meter(other).rate();
      if (measured > 0) return measured * speed(rail) / speed(other);
    }
    return speed(rail) * 1e6 / 8;
  }

  // Back to the first rail if that works, and from there to the next one that does. With none, the
  // first one gets it when it is back.
  static std::size_t other_rail(const Links& links, const Divisions::Part& part) {
    const std::size_t lost = part.over();
    if (!links.is_down(0) && lost > 0) return 0;
    for (std::size_t rail = 1; rail < most_rails; ++rail) {
      if (rail != lost && links.is_up(rail) && part.may_use(rail)) return rail;
    }
    return 0;
  }

  Divisions divisions_;
};

}  // namespace weir
