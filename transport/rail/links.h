// What a process knows of the rails to one peer: which have a connection, which broke and which
// were given up; and over which of them a frame goes.
//
//   (no connection) ──up──▶ up ──down──▶ down ──up──▶ up                    a session goes on
//          ▲                │              │└──over──▶ lost ──up──▶ up      another one begins
//          └─────parted─────┴──────────────┘
//
// Pure. News comes from one thread at a time, in the order in which each rail has it; any thread
// sends.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/link_news.h"
#include "base/status.h"
#include "transport/rail/handover.h"

namespace weir {

class Links {
 public:
  // A bit for each rail.
  using Mask = std::uint8_t;

  // `first`: our name is lower than the peer's.
  void set_first(bool first) { handover_.set_first(first); }

  // `ways`: as in handover.h.
  template <typename Ways>
  void on_news(std::size_t rail, const LinkNews& news, Ways&& ways) {
    using Kind = LinkNews::Kind;
    switch (news.kind) {
      case Kind::message: return handover_.on_message(news.message, rail, ways);
      case Kind::up:
        set(up_, rail, true);
        set(down_, rail, false);
        set(lost_, rail, false);
        set(moved_, rail, false);
        break;
      case Kind::over: set(lost_, rail, true); [[fallthrough]];
      case Kind::down:
        set(up_, rail, false);
        set(down_, rail, true);
        break;
      case Kind::parted:
        set(up_, rail, false);
        set(down_, rail, false);
        break;
      case Kind::out:
      case Kind::waited: break;
    }
    handover_.on_news(rail, news.kind, ways);
  }

  Mask up() const { return up_.load(std::memory_order_acquire); }
  Mask down() const { return down_.load(std::memory_order_acquire); }
  bool is_up(std::size_t rail) const { return (up() >> rail & 1) != 0; }
  // It broke, or was given up, and there is no connection yet.
  bool is_down(std::size_t rail) const { return (down() >> rail & 1) != 0; }
  bool is_lost(std::size_t rail) const {
    return (lost_.load(std::memory_order_relaxed) >> rail & 1) != 0;
  }

  // Its frames went over another one, and it takes none before it has a connection.
  void set_moved(std::size_t rail) { set(moved_, rail, true); }
  // Another rail has a connection, or a session that takes frames and waits for one.
  bool others_go_on(std::size_t rail) const {
    const Mask none =
        lost_.load(std::memory_order_relaxed) | moved_.load(std::memory_order_relaxed);
    return ((up() | (down() & ~none)) & ~(1u << rail)) != 0;
  }

  // Sends a frame over one of `count` rails: `send(rail)`, until one takes it. First over those
  // with a connection, from `turn` on; then over the first rail, which makes one; then over those
  // that broke; then over the others, which make one.
  template <typename Send>
  Status send(std::size_t count, std::size_t turn, Send&& send) {
    const Mask up = this->up();
    const Mask down = this->down();
    const Mask among[] = {up, static_cast<Mask>(~(up | down) & 1), static_cast<Mask>(down & ~up),
                          static_cast<Mask>(~(up | down) & ~1u)};
    for (const Mask tried : among) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t rail = (turn + i) % count;
        if ((tried >> rail & 1) == 0) continue;
        const Status status = send(rail);
        if (status == Status::elsewhere || status == Status::peer_failed) continue;
        if ((carried_.load(std::memory_order_relaxed) >> rail & 1) == 0) set(carried_, rail, true);
        return status;
      }
    }
    return Status::peer_failed;
  }
  // Frames went over that rail since this was asked last.
  bool take_carried(std::size_t rail) {
    const Mask bit = static_cast<Mask>(1u << rail);
    return (carried_.fetch_and(static_cast<Mask>(~bit)) & bit) != 0;
  }
  // Rises with each call: where to begin, if frames go over all rails in turn.
  std::uint32_t next_turn() { return turn_.fetch_add(1, std::memory_order_relaxed); }

 private:
  static void set(std::atomic<Mask>& mask, std::size_t rail, bool value) {
    const Mask bit = static_cast<Mask>(1u << rail);
    value ? mask.fetch_or(bit) : mask.fetch_and(static_cast<Mask>(~bit));
  }

  std::atomic<Mask> up_{0};
  std::atomic<Mask> down_{0};
  std::atomic<Mask> lost_{0};  // given up, and not there again
  std::atomic<Mask> moved_{0};
  std::atomic<Mask> carried_{0};  // frames
  std::atomic<std::uint32_t> turn_{0};
  Handover handover_;
};

}  // namespace weir
