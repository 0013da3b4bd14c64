#include "transport/btl/rails.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "transport/btl/module.h"
#include "transport/btl/params.h"
#include "transport/btl/report.h"

namespace weir::btl {

// What comes from a further rail: the ends of parts, frames, and what became of the rail.
class Rails::Upcalls {
 public:
  Upcalls(Rails& rails, std::size_t side, bool tell) : rails_(rails), side_(side), tell_(tell) {}

  void on_message(const Delivery& message) {
    if (!tell_) return;
    const PeerName from = rails_.engine(side_ + 1).name(message.peer);
    take_message(rails_.module_, static_cast<Endpoint*>(message.above), from, message);
  }
  void on_retired(SendSlot* slot, bool delivered) {
    finish_send(rails_.module_, rails_.engine(side_ + 1), slot, delivered, tell_);
  }
  void on_transfer(const TransferEnd& end) { finish_operation(rails_.module_, end, tell_); }
  void on_failure(const Failure& failure) {
    if (tell_) rails_.on_failure(side_, failure);
  }
  void on_refusal(const Refusal& refusal) {
    if (tell_) report_refusal(refusal);
  }
  void on_warning(const std::string& what) {
    if (tell_) complain(what);
  }
  void on_breakdown(const std::string& what) {
    rails_.sides_[side_].works.store(false, std::memory_order_relaxed);
    if (tell_) complain(what + ". The job goes on over its other rails.");
  }

 private:
  Rails& rails_;
  const std::size_t side_;
  const bool tell_;
};

std::vector<std::byte> Rails::cards(const Engine& first,
                                    const std::vector<std::unique_ptr<Engine>>& further) {
  const auto own = first.card();
  std::vector<std::byte> all(own.begin(), own.end());
  for (const auto& engine : further) {
    const auto card = engine->card();
    all.insert(all.end(), card.begin(), card.end());
  }
  return all;
}

// Servers of the node's proxy may hold frames of ours: they could not be given away.
Engine::Options Rails::options_of_first(const Engine::Options& options) {
  Engine::Options fitted = options;
  fitted.core.among_rails = options.core.resumes && !options.core.proxy;
  return fitted;
}

Engine::Options Rails::options(const Engine::Options& first) {
  Engine::Options options = first;
  options.core.among_rails = true;
  // Two attempts; then it is asked for anew, after a pause, for as long as there are messages.
  options.core.connect_timeout = std::min(options.core.connect_timeout, seconds(6));
  options.core.proxy = false;
  options.proxy = {};
  options.node.processes = 0;  // the first rail warns
  return options;
}

Rails::Rails(Module& module, std::vector<std::unique_ptr<Engine>> engines)
    : module_(module), count_(engines.size()), spread_(module.settings.frames == "spread") {
  for (std::size_t i = 0; i < count_; ++i) sides_[i].engine = std::move(engines[i]);
  for (std::size_t rail = 0; rail <= count_; ++rail) {
    engine(rail).watch_links(has_news_, [this] { serve_links(); });
  }
}

void Rails::start() {
  sinks_[0] = engine(0).acquire(sizeof(std::uint64_t));
  for (std::size_t i = 0; i < count_; ++i) {
    Side& side = sides_[i];
    std::string why;
    bool good = side.engine->start(why);
    const std::size_t bytes = registration_bytes(module_.settings);
    if (good && bytes > 0) {
      verbs::RegistrationCache::Options options;
      options.max_bytes = bytes;
      options.hooks = verbs::RegistrationCache::Hooks::forwarded;
      side.registrations = verbs::RegistrationCache::create(side.engine->device(), options, why);
      good = side.registrations != nullptr;
    }
    if (good) good = (sinks_[i + 1] = side.engine->acquire(sizeof(std::uint64_t))) != nullptr;
    side.works.store(good && bytes > 0 && sinks_[0] != nullptr, std::memory_order_release);
    if (!good) {
      complain("does without the rail " + side.engine->port().name() + ": " + why + ".");
    }
  }
}

void Rails::add(Endpoint& endpoint, std::span<const std::byte> cards) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (cards.size() < (i + 2) * wire::card_bytes) return;
    Side& side = sides_[i];
    PeerId id = PeerId::none;
    std::string why;
    if (!side.engine->add_peer(
            endpoint.name, cards.subspan((i + 1) * wire::card_bytes, wire::card_bytes), id, why)) {
      note(1, way_text(endpoint, i + 1) + " does not exist: " + why);
      continue;
    }
    side.engine->set_above(id, &endpoint);
    endpoint.rails.set_id(i + 1, id);
  }
}

// ---- memory ----

std::uint64_t Rails::registrations_in_use() const {
  std::uint64_t count = 0;
  for (const Side& side : sides_) {
    count += side.registrations != nullptr ? side.registrations->in_use() : 0;
  }
  return count;
}

void Rails::end_registrations() {
  for (Side& side : sides_) side.registrations.reset();
}

Engine& Rails::engine(std::size_t rail) const {
  return rail == 0 ? *module_.engine : *sides_[rail - 1].engine;
}

// ---- progress and end ----

int Rails::look() {
  int count = 0;
  if (has_news_.load(std::memory_order_relaxed)) serve_links();
  if (has_later_.load(std::memory_order_relaxed)) do_later();
  if (endpoints_down_.load(std::memory_order_relaxed) > 0) [[unlikely]]
    ask_again();
  for (std::size_t i = 0; i < count_; ++i) {
    count += sides_[i].engine->progress(Upcalls(*this, i, true));
  }
  return count;
}

int Rails::stand_in(std::uint64_t visits, const std::function<bool(int)>& goes_on) {
  int total = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    total += sides_[i].engine->stand_in(Upcalls(*this, i, true), visits,
                                        [&](int count) { return goes_on(total + count); });
  }
  return total;
}

int Rails::stand_in_further() {
  int total = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    total += sides_[i].engine->stand_in_further(Upcalls(*this, i, true));
  }
  return total;
}

void Rails::close(std::span<Endpoint* const> leaving) {
  for (std::size_t i = 0; i < count_; ++i) {
    std::vector<PeerId> peers;
    for (const Endpoint* const endpoint : leaving) {
      if (endpoint->rails.id(i + 1) != PeerId::none) peers.push_back(endpoint->rails.id(i + 1));
    }
    sides_[i].engine->close(peers, Upcalls(*this, i, true));
  }
}

void Rails::shut_down() {
  {
    std::lock_guard guard(links_lock_);
    ended_ = true;
  }
  for (std::size_t i = 0; i < count_; ++i) {
    sides_[i].engine->shutdown(Upcalls(*this, i, false));
    while (sides_[i].engine->progress(Upcalls(*this, i, false)) > 0) {
    }
  }
  for (std::size_t rail = 0; rail <= count_; ++rail) {
    if (sinks_[rail] != nullptr) engine(rail).discard(std::exchange(sinks_[rail], nullptr));
  }
}

}  // namespace weir::btl
