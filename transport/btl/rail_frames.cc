// What becomes of frames when the connection of a rail breaks, or is there again.
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "transport/btl/module.h"
#include "transport/btl/rails.h"
#include "transport/btl/report.h"

namespace weir::btl {

// What an exchange about frames needs done with one peer.
class Rails::Ways {
 public:
  Ways(Rails& rails, Endpoint& endpoint) : rails_(rails), endpoint_(endpoint) {}

  std::optional<std::uint32_t> hold(std::size_t rail) {
    if (rail > rails_.count_) return std::nullopt;
    const PeerId peer = id_on(endpoint_, rail);
    return peer == PeerId::none ? std::nullopt : rails_.engine(rail).hold(peer);
  }
  void give_away(std::size_t rail, std::uint32_t received) {
    rails_.give_away(endpoint_, rail, received);
  }
  void let_go(std::size_t rail) { rails_.engine(rail).let_go(id_on(endpoint_, rail)); }
  bool send(std::size_t over, const HandoverMessage& message) {
    const auto bytes = put(message);
    Engine& engine = rails_.engine(over);
    SendSlot* const slot = engine.acquire(handover_bytes);
    if (slot == nullptr) return false;
    std::memcpy(slot->payload(), bytes.data(), bytes.size());
    const bool sent =
        engine.send(id_on(endpoint_, over), slot, handover_bytes, handover_tag, true) == Status::ok;
    if (!sent) engine.discard(slot);
    return sent;
  }

 private:
  Rails& rails_;
  Endpoint& endpoint_;
};
// ---- what breaks ----

void Rails::on_failure(std::size_t side, const Failure& failure) {
  auto* const endpoint = static_cast<Endpoint*>(sides_[side].engine->above(failure.peer));
  if (endpoint == nullptr) return;
  const std::uint8_t bit = static_cast<std::uint8_t>(2u << side);
  {
    std::lock_guard guard(handover_lock_);
    note_link(*endpoint, side + 1, false);
    endpoint->lost.fetch_or(bit);
    endpoint->handover.on_end(side + 1, Ways(*this, *endpoint));
  }
  if (endpoint->leaving.load(std::memory_order_relaxed)) return;
  const bool carried = (endpoint->carried.fetch_and(static_cast<std::uint8_t>(~bit)) & bit) != 0;
  const bool first_lost = (endpoint->lost.load(std::memory_order_relaxed) & 1) != 0;
  const bool was_last = first_lost && endpoint->up.load(std::memory_order_relaxed) == 0;
  if (was_last || (carried && failure.lost_work)) {
    return lose_peer(module_, endpoint, endpoint->name, sides_[side].engine->port().name(),
                     failure);
  }
  lose_way(side, *endpoint, failure.reason);
  const bool known = failure.completion != CompletionStatus::success;
  note(1, way_text(*endpoint, side + 1) + " was given up: " + to_text(failure.reason) +
              (known ? std::string(" (") + to_text(failure.completion) + ")" : ""));
}

void Rails::lose_way(std::size_t side, Endpoint& endpoint, FailReason reason) {
  add_to(module_.rdma_counters.rail_losses);
  if (endpoint.leaving.load(std::memory_order_relaxed)) return;
  Duration pause{};
  bool told = false;
  {
    std::lock_guard guard(lock_);
    pause = endpoint.sides[side].way.lose(Engine::clock());
    // Of a process that is gone, the first rail tells, or it has seen the way break, and tells.
    told = reason != FailReason::vanished && tells_loss();
  }
  const std::string text = way_text(endpoint, side + 1) +
                           " is lost. Messages go over the other rails, for " +
                           std::to_string(pause.ns / milliseconds(1).ns) + " ms at least.";
  told ? complain(text) : note(1, text);
}

bool Rails::survives(Endpoint& endpoint, const Failure& failure) {
  const auto is_of_way = [](FailReason reason) {
    return reason == FailReason::send_failed || reason == FailReason::stalled ||
           reason == FailReason::connect_timeout || reason == FailReason::connect_unreachable ||
           reason == FailReason::connect_refused;
  };
  std::lock_guard guard(handover_lock_);
  note_link(endpoint, 0, false);
  endpoint.lost.fetch_or(1);
  endpoint.handover.on_end(0, Ways(*this, endpoint));
  const bool other = endpoint.up.load(std::memory_order_relaxed) != 0;
  if (failure.lost_work || !other || !is_of_way(failure.reason)) return false;
  const std::string text = way_text(endpoint, 0) + " is given up: " + to_text(failure.reason) +
                           ". The job goes on over its other rails.";
  tells_loss() ? complain(text) : note(1, text);
  return true;
}

// ---- going over another rail ----

Endpoint* Rails::endpoint_on(std::size_t rail, PeerId peer) const {
  auto* const endpoint = static_cast<Endpoint*>(engine(rail).above(peer));
  return endpoint != nullptr ? endpoint : module_.endpoints.find(engine(rail).name(peer));
}

void Rails::note_link(Endpoint& endpoint, std::size_t rail, bool up) {
  const auto bit = static_cast<std::uint8_t>(1u << rail);
  const bool was_down = (endpoint.down.load(std::memory_order_relaxed) & 1) != 0;
  if (up) {
    endpoint.up.fetch_or(bit);
    endpoint.lost.fetch_and(static_cast<std::uint8_t>(~bit));
    endpoint.down.fetch_and(static_cast<std::uint8_t>(~bit));
  } else {
    endpoint.up.fetch_and(static_cast<std::uint8_t>(~bit));
    endpoint.down.fetch_or(bit);
  }
  const bool is_down = (endpoint.down.load(std::memory_order_relaxed) & 1) != 0;
  if (is_down && !was_down) endpoints_down_.fetch_add(1, std::memory_order_relaxed);
  if (was_down && !is_down) endpoints_down_.fetch_sub(1, std::memory_order_relaxed);
}

// When the first rail breaks, the others may have no connection yet.
void Rails::on_link(std::size_t rail, const LinkChange& change) {
  Endpoint* const endpoint = endpoint_on(rail, change.peer);
  if (endpoint == nullptr) return;
  bool is_back = false;
  {
    std::lock_guard guard(handover_lock_);
    endpoint->handover.set_first(module_.engine->options().core.self < endpoint->name);
    is_back = change.up && rail == 0 && (endpoint->lost.load(std::memory_order_relaxed) & 1) != 0;
    note_link(*endpoint, rail, change.up);
    if (change.up) {
      endpoint->handover.on_up(rail, Ways(*this, *endpoint));
    } else {
      endpoint->handover.on_down(rail, Ways(*this, *endpoint));
    }
  }
  if (is_back && may_tell()) {
    complain(way_text(*endpoint, 0) + " is there again.");
  }
  if (!change.up && rail > 0) lose_way(rail - 1, *endpoint, change.reason);
  if (!change.up && rail == 0) ask_for_sides(*endpoint);
  // Gets go on elsewhere.
  const std::uint8_t down = endpoint->down.load(std::memory_order_relaxed);
  if (endpoint->up.load(std::memory_order_relaxed) == 0) return;
  for (std::size_t broken = 0; broken <= count_; ++broken) {
    if ((down >> broken & 1) != 0) engine(broken).withdraw(id_on(*endpoint, broken));
  }
}

void Rails::on_handover(std::size_t rail, PeerId peer, std::span<const std::byte> bytes) {
  Endpoint* const endpoint = endpoint_on(rail, peer);
  const std::optional<HandoverMessage> message = get_handover(bytes);
  if (endpoint == nullptr || !message || message->rail > count_) {
    return complain("a message about rails that no weir sends came from " +
                    rank_text(engine(rail).name(peer)) + ".");
  }
  std::lock_guard guard(handover_lock_);
  endpoint->handover.on_message(*message, rail, Ways(*this, *endpoint));
}

// Order does not matter: ob1 numbers its messages.
void Rails::give_away(Endpoint& endpoint, std::size_t rail, std::uint32_t received) {
  const std::vector<SendSlot*> frames = engine(rail).give_away(id_on(endpoint, rail), received);
  for (SendSlot* const slot : frames) {
    const Status status = send(endpoint, [&](Engine& over, PeerId peer) {
      return &over == &engine(rail) ? Status::elsewhere : over.carry(peer, *slot);
    });
    if (status != Status::ok) {
      const Failure failure{
          id_on(endpoint, rail), FailReason::no_resources, CompletionStatus::success, {}, {}};
      lose_peer(module_, &endpoint, endpoint.name, engine(rail).port().name(), failure);
    }
    engine(rail).discard(slot);
  }
  add_to(module_.rdma_counters.rail_frames, frames.size());
  note(1, "messages to " + rank_text(endpoint.name) + " do not go over " +
              engine(rail).port().name() + " for now; " + std::to_string(frames.size()) +
              " frames were given to another rail");
}

void Rails::ask_for_sides(const Endpoint& endpoint) {
  for (std::size_t i = 0; i < count_; ++i) {
    const PeerId peer = endpoint.sides[i].id;
    if (peer != PeerId::none) sides_[i].engine->connect(peer);
  }
}

std::size_t Rails::next_in_turn(Endpoint& endpoint) {
  const std::uint32_t turn = endpoint.turn.fetch_add(1, std::memory_order_relaxed);
  if (turn % turns_an_ask == 0) [[unlikely]]
    ask_for_sides(endpoint);
  return turn % (count_ + 1);
}

Status Rails::send_copy(Endpoint& endpoint, SendSlot* slot, std::uint32_t length_bytes,
                        std::uint8_t tag) {
  return send(endpoint, [&](Engine& over, PeerId peer) {
    if (&over == module_.engine.get()) return over.send(peer, slot, length_bytes, tag, true);
    SendSlot* const copy = over.acquire(length_bytes);
    if (copy == nullptr) return Status::back_pressure;
    std::memcpy(copy->payload(), slot->payload(), length_bytes);
    copy->notify = slot->notify;
    copy->user = slot->user;
    const Status sent = over.send(peer, copy, length_bytes, tag, true);
    if (sent != Status::ok)
      over.discard(copy);
    else
      module_.engine->discard(slot);
    return sent;
  });
}

std::string Rails::way_text(const Endpoint& endpoint, std::size_t rail) const {
  return "the way to " + rank_text(endpoint.name) + " over " + engine(rail).port().name();
}

// The first rail may work again.
void Rails::ask_again() {
  const std::int64_t now = Engine::clock().ns;
  std::int64_t asked = asked_ns_.load(std::memory_order_relaxed);
  if (now - asked < asks_every.ns || !asked_ns_.compare_exchange_strong(asked, now)) return;
  module_.endpoints.for_each([&](const Endpoint& endpoint) {
    const bool lost = (endpoint.lost.load(std::memory_order_relaxed) & 1) != 0;
    if (lost && !endpoint.leaving.load(std::memory_order_relaxed)) {
      module_.engine->connect(endpoint.id);
    }
  });
}

}  // namespace weir::btl
