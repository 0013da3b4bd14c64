#include "transport/btl/rail_frames.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "transport/btl/report.h"
#include "transport/rail/frames.h"

namespace weir::btl {

// One peer over all rails (rail/frames.h).
class FramesOverRails::Ways {
 public:
  Ways(FramesOverRails& all, Endpoint& endpoint)
      : all_(all), engines_(all.engines_), endpoint_(endpoint) {}

  std::size_t count() const { return engines_.count(); }
  std::optional<std::uint32_t> hold(std::size_t rail, bool even_if_ready) {
    const PeerId peer = endpoint_.id_on(rail);
    if (peer == PeerId::none) return std::nullopt;
    return engines_[rail].hold(peer, even_if_ready);
  }
  std::optional<std::uint32_t> received_before_end(std::size_t rail) {
    const PeerId peer = endpoint_.id_on(rail);
    return peer != PeerId::none ? engines_[rail].received_before_end(peer) : std::nullopt;
  }
  auto give_away(std::size_t rail, std::uint32_t received) {
    return engines_[rail].give_away(endpoint_.id_on(rail), received);
  }
  auto take_unsent(std::size_t rail) {
    const PeerId peer = endpoint_.id_on(rail);
    return peer != PeerId::none ? engines_[rail].take_unsent(peer) : std::vector<SendSlot*>{};
  }
  void let_go(std::size_t rail) { engines_[rail].let_go(endpoint_.id_on(rail)); }
  bool send(std::size_t over, const HandoverMessage& message) {
    return engines_[over].send_handover(endpoint_.id_on(over), message);
  }
  Status carry(std::size_t over, const SendSlot& frame) {
    const PeerId peer = endpoint_.id_on(over);
    return peer != PeerId::none ? engines_[over].carry(peer, frame) : Status::elsewhere;
  }
  void discard(std::size_t rail, SendSlot* slot) { engines_[rail].discard(slot); }
  void connect(std::size_t rail) {
    const PeerId peer = endpoint_.id_on(rail);
    if (peer != PeerId::none) engines_[rail].connect(peer);
  }
  void withdraw(std::size_t rail) { all_.parts_.withdraw(endpoint_, rail); }
  void on_way_lost(std::size_t rail, FailReason reason) { all_.lose_way(endpoint_, rail, reason); }
  void on_given_away(std::size_t rail, std::size_t frames, std::size_t lost) {
    all_.on_given_away(endpoint_, rail, frames, lost);
  }

 private:
  FramesOverRails& all_;
  RailEngines& engines_;
  Endpoint& endpoint_;
};

FramesOverRails::FramesOverRails(RailEngines& engines, PartsOverRails& parts, Endpoints& endpoints,
                                 RailReports& reports, bool spread)
    : engines_(engines), parts_(parts), endpoints_(endpoints), reports_(reports), spread_(spread) {
  for (std::size_t rail = 0; rail < engines_.count(); ++rail) {
    engines_[rail].watch_links(has_news_, [this] { serve_links(); });
  }
}

// ---- sending ----

std::size_t FramesOverRails::next_in_turn(Endpoint& endpoint) {
  Ways ways(*this, endpoint);
  return RailFrames(endpoint.rails.links, ways).next_in_turn();
}

Status FramesOverRails::send_copy(Endpoint& endpoint, SendSlot* slot, std::uint32_t length_bytes,
                                  std::uint8_t tag) {
  return send(endpoint, tag, [&](Engine& over, PeerId peer) {
    if (&over == &engines_[0]) return over.send(peer, slot, length_bytes, tag, true);
    SendSlot* const copy = over.acquire(length_bytes);
    if (copy == nullptr) return Status::back_pressure;
    std::memcpy(copy->payload(), slot->payload(), length_bytes);
    copy->notify = slot->notify;
    copy->user = slot->user;
    const Status sent = over.send(peer, copy, length_bytes, tag, true);
    if (sent != Status::ok)
      over.discard(copy);
    else
      engines_[0].discard(slot);
    return sent;
  });
}

// ---- news ----

void FramesOverRails::serve_links() {
  std::lock_guard guard(lock_);
  while (has_news_.exchange(false) && !ended_) {
    for (std::size_t rail = 0; rail < engines_.count(); ++rail) {
      engines_[rail].take_links(news_);
      for (const LinkNews& news : news_) on_news(rail, news);
      news_.clear();
    }
  }
}

void FramesOverRails::end() {
  std::lock_guard guard(lock_);
  ended_ = true;
}

void FramesOverRails::on_news(std::size_t rail, const LinkNews& news) {
  Endpoint* const endpoint = endpoint_on(rail, news.peer);
  if (endpoint == nullptr) return;
  Links& links = endpoint->rails.links;
  const bool was_down = links.is_down(0);
  const bool was_lost = links.is_lost(0);
  links.set_first(engines_[0].options().core.self < endpoint->name);
  Ways ways(*this, *endpoint);
  RailFrames(links, ways).on_news(rail, news);
  const bool is_down = links.is_down(0);
  if (is_down && !was_down) down_.fetch_add(1, std::memory_order_relaxed);
  if (was_down && !is_down) down_.fetch_sub(1, std::memory_order_relaxed);
  if (was_lost && !links.is_lost(0) && reports_.tells_return()) {
    reports_.leave(RailReports::Text{engines_.way_text(*endpoint, 0) + " works again.", true});
  }
}

// Made now if the peer came to us first.
Endpoint* FramesOverRails::endpoint_on(std::size_t rail, PeerId peer) {
  auto* endpoint = static_cast<Endpoint*>(engines_[rail].above(peer));
  if (endpoint != nullptr) return endpoint;
  const PeerName name = engines_[rail].name(peer);
  endpoint = endpoints_.find(name);
  if (endpoint == nullptr) {
    const PeerId first = rail == 0 ? peer : engines_[0].find(name);
    if (first == PeerId::none) return nullptr;
    endpoint = endpoints_.add(name, first, nullptr);
  }
  if (rail > 0) endpoint->rails.set_id(rail, peer);
  return endpoint;
}

void FramesOverRails::on_given_away(Endpoint& endpoint, std::size_t rail, std::size_t frames,
                                    std::size_t lost) {
  if (lost > 0) reports_.leave(RailReports::Loss{&endpoint, rail});
  add_to(reports_.counters.rail_frames, frames);
  reports_.leave(RailReports::Text{"messages to " + rank_text(endpoint.name) + " do not go over " +
                                       engines_[rail].port().name() + " for now; " +
                                       std::to_string(frames) +
                                       " frames were given to another rail",
                                   false});
}

void FramesOverRails::lose_way(Endpoint& endpoint, std::size_t rail, FailReason reason) {
  add_to(reports_.counters.rail_losses);
  if (endpoint.leaving.load(std::memory_order_relaxed)) return;
  const Duration pause = parts_.shut(endpoint, rail);
  // If the process is gone, the first rail reports it. Otherwise the peer saw the break, and
  // reports it.
  const bool loud = reason != FailReason::vanished && reports_.tells_loss();
  reports_.leave(RailReports::Text{
      engines_.way_text(endpoint, rail) + " is lost. Messages go over the other rails, for " +
          std::to_string(pause.ns / milliseconds(1).ns) + " ms at least.",
      loud});
}

// ---- peers that are given up ----

bool FramesOverRails::survive(Endpoint& endpoint, std::size_t rail, const Failure& failure) {
  serve_links();
  if (endpoint.leaving.load(std::memory_order_relaxed)) return true;
  Links& links = endpoint.rails.links;
  if (rail == 0 && failure.lost_work && links.up() != 0) explain_loss(endpoint, failure);
  Ways ways(*this, endpoint);
  if (!RailFrames(links, ways)
           .outlives(rail, failure.reason, failure.lost_work, failure.in_doubt)) {
    return false;
  }
  rail == 0 ? give_up_first(endpoint, failure) : give_up_further(endpoint, rail, failure);
  return true;
}

void FramesOverRails::give_up_first(const Endpoint& endpoint, const Failure& failure) {
  const std::string text = engines_.way_text(endpoint, 0) +
                           " is given up: " + to_text(failure.reason) +
                           ". The job goes on over its other rails.";
  reports_.tells_loss() ? complain(text) : note(1, text);
}

void FramesOverRails::give_up_further(Endpoint& endpoint, std::size_t rail,
                                      const Failure& failure) {
  lose_way(endpoint, rail, failure.reason);
  const bool known = failure.completion != CompletionStatus::success;
  note(1, engines_.way_text(endpoint, rail) + " was given up: " + to_text(failure.reason) +
              (known ? std::string(" (") + to_text(failure.completion) + ")" : ""));
}

void FramesOverRails::explain_loss(const Endpoint& endpoint, const Failure& failure) const {
  if (!failure.lost_atomics) return;
  complain("atomic operations use only the adapter of the target's first rail. Those with " +
           rank_text(endpoint.name) + " waited for " + engines_[0].port().name() +
           ", although other rails work.");
}

void FramesOverRails::ask_again() {
  const std::int64_t now = Engine::clock().ns;
  std::int64_t asked = asked_ns_.load(std::memory_order_relaxed);
  if (now - asked < first_rail_asked_every.ns || !asked_ns_.compare_exchange_strong(asked, now))
    return;
  endpoints_.for_each([&](const Endpoint& endpoint) {
    if (endpoint.rails.links.is_lost(0) && !endpoint.leaving.load(std::memory_order_relaxed)) {
      engines_[0].connect(endpoint.id);
    }
  });
}

}  // namespace weir::btl
