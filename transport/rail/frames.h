// What becomes of the frames to one peer when the connection of a rail breaks, is there again, or
// is given up: what the layer above does with the news of its cores.
//
//   core of a rail ──LinkNews──▶ on_news ──▶ links.h: which rails there are
//                                        ──▶ handover.h: what has arrived
//                                        ──▶ frames that the peer lacks go over another rail,
//                                            transfers of rails that broke, too
//   core of a rail ──Failure───▶ outlives: whether the other rails do without it
//
// `Ways` is one peer over all rails of this process, and has
//
//   std::size_t count()                         rails of this process
//   std::optional<std::uint32_t> hold(rail, even_if_ready)   as Core has it, with what has arrived;
//                                               nothing: there is no session that could go on
//   std::optional<std::uint32_t> received_before_end(rail)   as Core has it
//   std::optional<Frames> give_away(rail, received)   the frames that the peer lacks: SendSlot*,
//                                               oldest first; nothing: it is not held any more
//   Frames take_unsent(rail)                    those that wait for one that begins a session
//   void let_go(rail)
//   bool send(over, const HandoverMessage&)     false: it does not go over that rail now
//   Status carry(over, const SendSlot&)         sends a copy of a frame of another rail
//   void discard(rail, SendSlot*)               the slot of a frame that was given away
//   void connect(rail)                          asks for a connection, if there is none
//   void withdraw(rail)                         what may go over another rail does so
//   void on_way_lost(rail, FailReason)          the connection of a further rail broke
//   void on_given_away(rail, frames, lost)      so many; of these no rail took so many
//
// Pure; as Links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/link_news.h"
#include "base/status.h"
#include "base/time.h"
#include "transport/rail/handover.h"
#include "transport/rail/links.h"

namespace weir {

// How often the first rail is asked for again once it was given up.
inline constexpr Duration first_rail_asked_every = seconds(1);

template <typename Ways>
class RailFrames {
 public:
  RailFrames(Links& links, Ways& ways) : links_(links), ways_(ways) {}

  // When a rail breaks, the others may have no connection yet, or have parted.
  void on_news(std::size_t rail, const LinkNews& news) {
    links_.on_news(rail, news, Exchange{*this});
    switch (news.kind) {
      case LinkNews::Kind::down:
        rail > 0 ? ways_.on_way_lost(rail, news.reason) : ask_for_further();
        ask_for_another(rail);
        return go_on_elsewhere();
      case LinkNews::Kind::up: return go_on_elsewhere();
      case LinkNews::Kind::out: ask_for_another(rail); return send_elsewhere(rail);
      default: return;
    }
  }

  // The core of a rail has given the peer up, and all news was served. False if that loses
  // something, or there is no other rail: then the peer is lost.
  bool outlives(std::size_t rail, FailReason reason, bool lost_work, bool in_doubt) {
    const bool other = links_.others_go_on(rail);
    if (rail == 0) return !lost_work && other && is_of_way(reason);
    const bool carried = links_.take_carried(rail);
    const bool was_last = links_.is_lost(0) && !other;
    return !was_last && !in_doubt && !(carried && lost_work);
  }

  // The rail that a frame is tried over first, if frames go over all of them in turn; asks now and
  // then for the connections that are not there.
  std::size_t next_in_turn() {
    const std::uint32_t turn = links_.next_turn();
    if (turn % turns_an_ask == 0) [[unlikely]]
      ask_for_further();
    return turn % ways_.count();
  }

 private:
  static constexpr std::uint32_t turns_an_ask = 64;

  // What the handover wants done.
  struct Exchange {
    RailFrames& frames;

    std::optional<std::uint32_t> hold(std::size_t rail, Handover::Hold how) {
      if (rail >= frames.ways_.count()) return std::nullopt;  // the peer names it
      return frames.ways_.hold(rail, how == Handover::Hold::anyway);
    }
    std::optional<std::uint32_t> received_before_end(std::size_t rail) {
      if (rail >= frames.ways_.count()) return std::nullopt;
      return frames.ways_.received_before_end(rail);
    }
    bool give_away(std::size_t rail, std::uint32_t received) {
      return frames.give_away(rail, received);
    }
    void let_go(std::size_t rail) { frames.ways_.let_go(rail); }
    bool send(std::size_t over, const HandoverMessage& message) {
      return frames.ways_.send(over, message);
    }
  };

  static bool is_of_way(FailReason reason) {
    switch (reason) {
      case FailReason::send_failed:
      case FailReason::stalled:
      case FailReason::port_down:
      case FailReason::vanished:
      case FailReason::connect_timeout:
      case FailReason::connect_unreachable:
      case FailReason::connect_refused:
      case FailReason::connect_spoilt: return true;
      default: return false;
    }
  }

  bool give_away(std::size_t rail, std::uint32_t received) {
    const auto frames = ways_.give_away(rail, received);
    if (!frames) return false;
    const std::size_t lost = carry(rail, *frames, [&](std::size_t over) { return over != rail; });
    links_.set_moved(rail);
    ways_.withdraw(rail);
    ways_.on_given_away(rail, frames->size(), lost);
    return true;
  }

  // The frames of a rail go over others that they may. Returns how many none took. Newer ones may
  // have gone before. ob1 numbers its messages, and their fragments stand that (btl/compat.h).
  template <typename Frames, typename May>
  std::size_t carry(std::size_t rail, const Frames& frames, May&& may) {
    std::size_t lost = 0;
    for (auto* const slot : frames) {
      const Status status = links_.send(ways_.count(), 0, [&](std::size_t over) {
        return may(over) ? ways_.carry(over, *slot) : Status::elsewhere;
      });
      ways_.discard(rail, slot);
      lost += status != Status::ok ? 1 : 0;
    }
    return lost;
  }

  // Transfers of rails that broke go on over those with a connection.
  void go_on_elsewhere() {
    if (links_.up() == 0) return;
    for (std::size_t broken = 0; broken < ways_.count(); ++broken) {
      if (links_.is_down(broken)) ways_.withdraw(broken);
    }
  }

  // An attempt came to nothing. What was never sent need not wait for the next one.
  void send_elsewhere(std::size_t rail) {
    if ((links_.up() & ~(1u << rail)) == 0) return;
    if (rail > 0) ways_.withdraw(rail);
    const auto frames = ways_.take_unsent(rail);
    if (frames.empty()) return;
    // Over the same one, if no other takes them.
    const std::size_t lost = carry(rail, frames, [](std::size_t) { return true; });
    ways_.on_given_away(rail, frames.size(), lost);
  }

  // Without one nobody could say what has arrived.
  void ask_for_another(std::size_t than) {
    if (links_.up() != 0 || !links_.is_down(than)) return;
    for (std::size_t rail = 0; rail < ways_.count(); ++rail) {
      if (rail != than) ways_.connect(rail);
    }
  }

  void ask_for_further() {
    for (std::size_t rail = 1; rail < ways_.count(); ++rail) ways_.connect(rail);
  }

  Links& links_;
  Ways& ways_;
};

}  // namespace weir
