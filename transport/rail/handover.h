// How the frames of a rail that broke come to go over another one: who asks, who answers, and when
// a rail's session may be taken up again. One object for each peer; the peer has its mirror.
//
//   we                                        the peer
//   hold the session of the rail
//                    ──ask, how many we have received──▶   holds it, too
//                    ◀──answer, how many it has received──
//   give away what the answer lacks
//                    ──confirm, how many we have received──▶   gives away what that lacks
//   let go                                    lets go
//
// While both hold it nothing arrives over the rail, so the counts are final: each frame is given
// away, or has arrived. The side that gives away knows that the other has held the session since it
// counted. Either may let go before the exchange is over: when the rail that carries the exchange
// breaks, or when the other has not answered for as long as an attempt at a connection takes, or
// longer, if that was in vain. A side that has not given away yet then sends its frames again when
// the session is taken up, as without any exchange, and asks anew when an attempt at that has
// failed. So each wait ends, and attempts and exchanges take turns until one succeeds. A message of
// an exchange that is over finds another number, and is left; so messages may be lost.
//
// Of two that ask at the same time, the lower name goes on, and the other answers. A session may be
// over for the one and not for the other (PROTOCOL.md §4.1): then nothing arrives there any more,
// and that and the count is the answer, which needs no confirmation.
//
// Pure; the caller serialises.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/link_news.h"

namespace weir {

class Handover {
 public:
  using Kind = HandoverMessage::Kind;

  // What an exchange needs done. `Ways` has
  //   std::optional<std::uint32_t> hold(rail, Hold)   how many frames have arrived; nothing: there
  //                                             is no session that could go on
  //   std::optional<std::uint32_t> received_before_end(rail)   how many had arrived of a session
  //                                             that is over; nothing: there is no such session
  //   bool give_away(rail, received)            the frames that the peer lacks, over other rails;
  //                                             false: the session is not held any more
  //   void let_go(rail)
  //   bool send(over, const HandoverMessage&)   false: it does not go over that rail now

  // The news that the connection broke may be old, so only the peer's question ends one that is
  // there.
  enum class Hold : bool { if_broken, anyway };

  // `first`: our name is the lower one.
  void set_first(bool first) { first_ = first; }

  // What became of the connection of a rail, except messages.
  template <typename Ways>
  void on_news(std::size_t rail, LinkNews::Kind news, Ways&& ways) {
    Rail& of = rails_[rail];
    switch (news) {
      case LinkNews::Kind::up:
        if (of.stage != Stage::calm) return;  // old news: it broke since, and is held
        of = {.up = true};
        return ask_for_all(ways);
      case LinkNews::Kind::down:
        of.broke = true;
        leave(rail, ways);
        return ask_for_all(ways);
      case LinkNews::Kind::out: return ask_for_all(ways);
      case LinkNews::Kind::waited: return give_up(rail, ways);
      case LinkNews::Kind::parted:
      case LinkNews::Kind::over:
        leave(rail, ways);
        if (of.stage != Stage::calm) give_up(rail, ways);
        of = {};
        return ask_for_all(ways);
      case LinkNews::Kind::message: return;
    }
  }

  // From the peer, over the rail `over`.
  template <typename Ways>
  void on_message(const HandoverMessage& message, std::size_t over, Ways&& ways) {
    const std::size_t rail = message.rail;
    Rail& of = rails_[rail];
    const bool is_current = of.exchange == message.exchange;
    const bool is_ours = of.stage == Stage::asked && is_current;
    const bool is_theirs = of.stage == Stage::answered && is_current;
    switch (message.kind) {
      case Kind::ask: return answer(message, over, ways);
      case Kind::answer:
        if (is_ours && ways.send(over, of.message(Kind::confirm, rail))) {
          return finish(rail, message.received, ways);
        }
        ways.send(over, {Kind::cancel, message.rail, 0, message.exchange});
        if (is_ours) let_go(rail, ways);
        return;
      case Kind::confirm:
        if (is_theirs) finish(rail, message.received, ways);
        return;
      case Kind::over:
        if (is_ours) finish(rail, message.received, ways);
        return;
      case Kind::cancel:
        if (is_ours || is_theirs) let_go(rail, ways);
        return;
    }
  }

 private:
  enum class Stage : std::uint8_t { calm, asked, answered };
  struct Rail {
    bool up = false;
    bool broke = false;  // since the session began
    bool moved = false;
    Stage stage = Stage::calm;  // otherwise its session is held
    std::size_t over = 0;       // the rail of the exchange
    std::uint32_t received = 0;
    std::uint64_t exchange = 0;

    HandoverMessage message(Kind kind, std::size_t rail) const {
      return {kind, static_cast<std::uint8_t>(rail), received, exchange};
    }
  };

  template <typename Ways>
  void ask_for_all(Ways& ways) {
    for (std::size_t rail = 0; rail < most_rails; ++rail) {
      const Rail& of = rails_[rail];
      if (of.broke && !of.up && !of.moved && of.stage == Stage::calm) ask(rail, ways);
    }
  }

  template <typename Ways>
  void ask(std::size_t rail, Ways& ways) {
    std::size_t over = 0;
    while (over < most_rails && (over == rail || !rails_[over].up)) ++over;
    if (over == most_rails) return;
    const std::optional<std::uint32_t> received = ways.hold(rail, Hold::if_broken);
    if (!received) return;
    begin(rail, Stage::asked, over, *received, ++exchanges_);
    if (!ways.send(over, rails_[rail].message(Kind::ask, rail))) let_go(rail, ways);
  }

  template <typename Ways>
  void answer(const HandoverMessage& message, std::size_t over, Ways& ways) {
    const std::size_t rail = message.rail;
    if (rails_[rail].stage == Stage::asked && first_) return;
    const std::optional<std::uint32_t> received =
        rail != over ? ways.hold(rail, Hold::anyway) : std::optional<std::uint32_t>{};
    if (!received) {
      const std::optional<std::uint32_t> before = ways.received_before_end(rail);
      const Kind kind = before ? Kind::over : Kind::cancel;
      ways.send(over, {kind, message.rail, before.value_or(0), message.exchange});
      return;
    }
    begin(rail, Stage::answered, over, *received, message.exchange);
    if (!ways.send(over, rails_[rail].message(Kind::answer, rail))) let_go(rail, ways);
  }

  void begin(std::size_t rail, Stage stage, std::size_t over, std::uint32_t received,
             std::uint64_t exchange) {
    Rail& of = rails_[rail];
    of.stage = stage;
    of.over = over;
    of.received = received;
    of.exchange = exchange;
  }

  template <typename Ways>
  void finish(std::size_t rail, std::uint32_t received, Ways& ways) {
    rails_[rail].moved = ways.give_away(rail, received);
    let_go(rail, ways);
  }

  // The connection of the rail is gone, and what it carried of exchanges.
  template <typename Ways>
  void leave(std::size_t rail, Ways& ways) {
    rails_[rail].up = false;
    for (std::size_t other = 0; other < most_rails; ++other) {
      if (rails_[other].stage != Stage::calm && rails_[other].over == rail) let_go(other, ways);
    }
  }

  // Nothing came of the exchange.
  template <typename Ways>
  void give_up(std::size_t rail, Ways& ways) {
    const Rail& of = rails_[rail];
    if (of.stage == Stage::calm) return;
    ways.send(of.over, of.message(Kind::cancel, rail));
    let_go(rail, ways);
  }

  template <typename Ways>
  void let_go(std::size_t rail, Ways& ways) {
    rails_[rail].stage = Stage::calm;
    ways.let_go(rail);
  }

  bool first_ = false;
  std::uint64_t exchanges_ = 0;
  std::array<Rail, most_rails> rails_{};
};

}  // namespace weir
