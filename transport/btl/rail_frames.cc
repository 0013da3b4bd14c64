// What becomes of frames when the connection of a rail breaks, or is there again.
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/btl/module.h"
#include "transport/btl/rails.h"
#include "transport/btl/report.h"

namespace weir::btl {

// One peer over all rails (rail/frames.h).
class Rails::Ways {
 public:
  Ways(Rails& rails, Endpoint& endpoint) : rails_(rails), endpoint_(endpoint) {}

  std::size_t count() const { return rails_.count_ + 1; }
  std::optional<std::uint32_t> hold(std::size_t rail, bool even_if_ready) {
    const PeerId peer = endpoint_.id_on(rail);
    if (peer == PeerId::none) return std::nullopt;
    return rails_.engine(rail).hold(peer, even_if_ready);
  }
  std::optional<std::uint32_t> received_before_end(std::size_t rail) {
    const PeerId peer = endpoint_.id_on(rail);
    return peer != PeerId::none ? rails_.engine(rail).received_before_end(peer) : std::nullopt;
  }
  auto give_away(std::size_t rail, std::uint32_t received) {
    return rails_.engine(rail).give_away(endpoint_.id_on(rail), received);
  }
  auto take_unsent(std::size_t rail) {
    const PeerId peer = endpoint_.id_on(rail);
    return peer != PeerId::none ? rails_.engine(rail).take_unsent(peer) : std::vector<SendSlot*>{};
  }
  void let_go(std::size_t rail) { rails_.engine(rail).let_go(endpoint_.id_on(rail)); }
  bool send(std::size_t over, const HandoverMessage& message) {
    return rails_.engine(over).send_handover(endpoint_.id_on(over), message);
  }
  Status carry(std::size_t over, const SendSlot& frame) {
    const PeerId peer = endpoint_.id_on(over);
    return peer != PeerId::none ? rails_.engine(over).carry(peer, frame) : Status::elsewhere;
  }
  void discard(std::size_t rail, SendSlot* slot) { rails_.engine(rail).discard(slot); }
  void connect(std::size_t rail) {
    const PeerId peer = endpoint_.id_on(rail);
    if (peer != PeerId::none) rails_.engine(rail).connect(peer);
  }
  void withdraw(std::size_t rail) { rails_.withdraw(endpoint_, rail); }
  void on_way_lost(std::size_t rail, FailReason reason) {
    rails_.lose_way(rail, endpoint_, reason);
  }
  void on_given_away(std::size_t rail, std::size_t frames, std::size_t lost) {
    rails_.on_given_away(endpoint_, rail, frames, lost);
  }

 private:
  Rails& rails_;
  Endpoint& endpoint_;
};

// ---- what breaks ----

void Rails::on_failure(std::size_t side, const Failure& failure) {
  auto* const endpoint = static_cast<Endpoint*>(sides_[side].engine->above(failure.peer));
  if (endpoint == nullptr) return;
  serve_links();
  if (endpoint->leaving.load(std::memory_order_relaxed)) return;
  Ways ways(*this, *endpoint);
  if (!RailFrames(endpoint->rails.links, ways)
           .outlives(side + 1, failure.reason, failure.lost_work, failure.in_doubt)) {
    return lose_peer(module_, endpoint, endpoint->name, sides_[side].engine->port().name(),
                     failure);
  }
  lose_way(side + 1, *endpoint, failure.reason);
  const bool known = failure.completion != CompletionStatus::success;
  note(1, way_text(*endpoint, side + 1) + " was given up: " + to_text(failure.reason) +
              (known ? std::string(" (") + to_text(failure.completion) + ")" : ""));
}

void Rails::lose_way(std::size_t rail, Endpoint& endpoint, FailReason reason) {
  add_to(module_.rdma_counters.rail_losses);
  if (endpoint.leaving.load(std::memory_order_relaxed)) return;
  Duration pause{};
  {
    std::lock_guard guard(lock_);
    pause = endpoint.rails.ways[rail].lose(Engine::clock());
  }
  // Of a process that is gone, the first rail tells, or it has seen the way break, and tells.
  const bool told = reason != FailReason::vanished && tells_loss();
  const std::string text = way_text(endpoint, rail) +
                           " is lost. Messages go over the other rails, for " +
                           std::to_string(pause.ns / milliseconds(1).ns) + " ms at least.";
  later([text, told] { told ? complain(text) : note(1, text); });
}

bool Rails::survives(Endpoint& endpoint, const Failure& failure) {
  serve_links();
  if (failure.lost_work && endpoint.rails.links.up() != 0) explain_loss(endpoint, failure);
  Ways ways(*this, endpoint);
  if (!RailFrames(endpoint.rails.links, ways)
           .outlives(0, failure.reason, failure.lost_work, failure.in_doubt)) {
    return false;
  }
  const std::string text = way_text(endpoint, 0) + " is given up: " + to_text(failure.reason) +
                           ". The job goes on over its other rails.";
  tells_loss() ? complain(text) : note(1, text);
  return true;
}

// ---- going over another rail ----

// Made now if the peer came to us first.
Endpoint* Rails::endpoint_on(std::size_t rail, PeerId peer) {
  auto* endpoint = static_cast<Endpoint*>(engine(rail).above(peer));
  if (endpoint != nullptr) return endpoint;
  const PeerName name = engine(rail).name(peer);
  endpoint = module_.endpoints.find(name);
  if (endpoint == nullptr) {
    const PeerId first = rail == 0 ? peer : module_.engine->find(name);
    if (first == PeerId::none) return nullptr;
    endpoint = module_.endpoints.add(name, first, nullptr);
  }
  if (rail > 0) endpoint->rails.set_id(rail, peer);
  return endpoint;
}

void Rails::serve_links() {
  std::lock_guard guard(links_lock_);
  while (has_news_.exchange(false) && !ended_) {
    for (std::size_t rail = 0; rail <= count_; ++rail) {
      engine(rail).take_links(news_);
      for (const LinkNews& news : news_) on_news(rail, news);
      news_.clear();
    }
  }
}

void Rails::on_news(std::size_t rail, const LinkNews& news) {
  Endpoint* const endpoint = endpoint_on(rail, news.peer);
  if (endpoint == nullptr) return;
  Links& links = endpoint->rails.links;
  const bool was_down = links.is_down(0);
  const bool was_lost = links.is_lost(0);
  links.set_first(module_.engine->options().core.self < endpoint->name);
  Ways ways(*this, *endpoint);
  RailFrames(links, ways).on_news(rail, news);
  const bool is_down = links.is_down(0);
  if (is_down && !was_down) endpoints_down_.fetch_add(1, std::memory_order_relaxed);
  if (was_down && !is_down) endpoints_down_.fetch_sub(1, std::memory_order_relaxed);
  if (was_lost && !links.is_lost(0) && may_tell()) {
    later([text = way_text(*endpoint, 0) + " is there again."] { complain(text); });
  }
}

void Rails::on_given_away(Endpoint& endpoint, std::size_t rail, std::size_t frames,
                          std::size_t lost) {
  if (lost > 0) {
    later([this, &endpoint, rail] {
      const Failure failure{
          endpoint.id_on(rail), FailReason::no_resources, CompletionStatus::success, {}, {}};
      lose_peer(module_, &endpoint, endpoint.name, engine(rail).port().name(), failure);
    });
  }
  add_to(module_.rdma_counters.rail_frames, frames);
  later([text = "messages to " + rank_text(endpoint.name) + " do not go over " +
                engine(rail).port().name() + " for now; " + std::to_string(frames) +
                " frames were given to another rail"] { note(1, text); });
}

std::size_t Rails::next_in_turn(Endpoint& endpoint) {
  Ways ways(*this, endpoint);
  return RailFrames(endpoint.rails.links, ways).next_in_turn();
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

// ---- what the application does ----

void Rails::later(std::function<void()> what) {
  std::lock_guard guard(later_lock_);
  later_.push_back(std::move(what));
  has_later_.store(true, std::memory_order_release);
}

void Rails::do_later() {
  std::vector<std::function<void()>> due;
  {
    std::lock_guard guard(later_lock_);
    has_later_.store(false, std::memory_order_relaxed);
    due.swap(later_);
  }
  for (const auto& what : due) what();
}

// The first rail may work again.
void Rails::ask_again() {
  const std::int64_t now = Engine::clock().ns;
  std::int64_t asked = asked_ns_.load(std::memory_order_relaxed);
  if (now - asked < first_rail_asked_every.ns || !asked_ns_.compare_exchange_strong(asked, now))
    return;
  module_.endpoints.for_each([&](const Endpoint& endpoint) {
    if (endpoint.rails.links.is_lost(0) && !endpoint.leaving.load(std::memory_order_relaxed)) {
      module_.engine->connect(endpoint.id);
    }
  });
}

}  // namespace weir::btl
