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
// away, or has arrived. Who gives away knows that the other has held the session since it counted.
// Either may let go before the exchange is over, as it does when the rail that carries the exchange
// breaks: who has not given away yet then sends its frames again when the session is taken up, as
// without any exchange. An answer or a confirmation of an earlier exchange finds another number,
// and is left.
//
// Of two that ask at the same time, the lower name goes on, and the other answers.
//
// Pure; the caller serialises.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "transport/rail/divide.h"

namespace weir {

struct HandoverMessage {
  enum class Kind : std::uint8_t { ask = 1, answer, confirm, cancel };
  Kind kind;
  std::uint8_t rail;           // whose session this is about
  std::uint32_t received = 0;  // frames of that session
  std::uint64_t exchange = 0;  // its number, of who asked
};

inline constexpr std::size_t handover_bytes = 16;

inline std::array<std::byte, handover_bytes> put(const HandoverMessage& message) {
  std::array<std::byte, handover_bytes> bytes{};
  bytes[0] = static_cast<std::byte>(message.kind);
  bytes[1] = static_cast<std::byte>(message.rail);
  std::memcpy(&bytes[4], &message.received, sizeof message.received);
  std::memcpy(&bytes[8], &message.exchange, sizeof message.exchange);
  return bytes;
}

// Nothing if no weir sends that.
inline std::optional<HandoverMessage> get_handover(std::span<const std::byte> bytes) {
  if (bytes.size() != handover_bytes) return std::nullopt;
  const auto kind = static_cast<std::uint8_t>(bytes[0]);
  const auto rail = static_cast<std::uint8_t>(bytes[1]);
  if (kind < 1 || kind > 4 || rail >= most_rails || bytes[2] != std::byte{} ||
      bytes[3] != std::byte{}) {
    return std::nullopt;
  }
  HandoverMessage message{static_cast<HandoverMessage::Kind>(kind), rail};
  std::memcpy(&message.received, &bytes[4], sizeof message.received);
  std::memcpy(&message.exchange, &bytes[8], sizeof message.exchange);
  return message;
}

class Handover {
 public:
  using Kind = HandoverMessage::Kind;

  // What an exchange needs done. `Ways` has
  //   std::optional<std::uint32_t> hold(rail)   how many frames have arrived; nothing: no session
  //   void give_away(rail, received)            the frames that the peer lacks, over other rails
  //   void let_go(rail)
  //   bool send(over, const HandoverMessage&)   false: it does not go over that rail

  // `first`: our name is the lower one.
  void set_first(bool first) { first_ = first; }

  // There is a connection, or there is none any more.
  template <typename Ways>
  void on_up(std::size_t rail, Ways&& ways) {
    if (rails_[rail].stage != Stage::calm) return;  // old news: it broke since, and is held
    rails_[rail] = {.up = true};
    ask_for_all(ways);
  }
  template <typename Ways>
  void on_down(std::size_t rail, Ways&& ways) {
    rails_[rail].up = false;
    rails_[rail].broke = true;
    for (std::size_t other = 0; other < most_rails; ++other) {
      if (rails_[other].stage != Stage::calm && rails_[other].over == rail) abandon(other, ways);
    }
    ask_for_all(ways);
  }
  // The session is over, and with it what was held.
  template <typename Ways>
  void on_end(std::size_t rail, Ways&& ways) {
    on_down(rail, ways);
    rails_[rail] = {};
  }

  // From the peer, over the rail `over`.
  template <typename Ways>
  void on_message(const HandoverMessage& message, std::size_t over, Ways&& ways) {
    const std::size_t rail = message.rail;
    Rail& of = rails_[rail];
    const bool is_ours = of.stage == Stage::asked && of.exchange == message.exchange;
    switch (message.kind) {
      case Kind::ask: return answer(message, over, ways);
      case Kind::answer:
        if (!is_ours || !ways.send(over, {Kind::confirm, message.rail, of.received, of.exchange})) {
          if (is_ours) abandon(rail, ways);
          ways.send(over, {Kind::cancel, message.rail, 0, message.exchange});
          return;
        }
        return finish(rail, message.received, ways);
      case Kind::confirm:
        if (of.stage == Stage::answered && of.exchange == message.exchange) {
          finish(rail, message.received, ways);
        }
        return;
      case Kind::cancel:
        if (is_ours || (of.stage == Stage::answered && of.exchange == message.exchange)) {
          abandon(rail, ways);
        }
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
    const std::optional<std::uint32_t> received = ways.hold(rail);
    if (!received) return;
    begin(rail, Stage::asked, over, *received, ++exchanges_);
    if (!ways.send(over, {Kind::ask, static_cast<std::uint8_t>(rail), *received, exchanges_})) {
      abandon(rail, ways);
    }
  }

  template <typename Ways>
  void answer(const HandoverMessage& message, std::size_t over, Ways& ways) {
    const std::size_t rail = message.rail;
    if (rails_[rail].stage == Stage::asked && first_) return;
    const std::optional<std::uint32_t> received =
        rail != over ? ways.hold(rail) : std::optional<std::uint32_t>{};
    if (!received) {
      ways.send(over, {Kind::cancel, message.rail, 0, message.exchange});
      return;
    }
    begin(rail, Stage::answered, over, *received, message.exchange);
    if (!ways.send(over, {Kind::answer, message.rail, *received, message.exchange})) {
      abandon(rail, ways);
    }
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
    rails_[rail].stage = Stage::calm;
    rails_[rail].moved = true;
    ways.give_away(rail, received);
    ways.let_go(rail);
  }

  template <typename Ways>
  void abandon(std::size_t rail, Ways& ways) {
    rails_[rail].stage = Stage::calm;
    ways.let_go(rail);
  }

  bool first_ = false;
  std::uint64_t exchanges_ = 0;
  std::array<Rail, most_rails> rails_{};
};

}  // namespace weir
