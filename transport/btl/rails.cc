#include "transport/btl/rails.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>

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
    side.works.store(good && bytes > 0, std::memory_order_release);
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
    std::lock_guard guard(lock_);
    endpoint.sides[i].id = id;
  }
}

// ---- memory ----

void Rails::register_memory(Handle& handle, const void* base, std::size_t size, Access access) {
  for (std::size_t i = 0; i < count_; ++i) {
    Side& side = sides_[i];
    if (!side.works.load(std::memory_order_acquire)) continue;
    handle.sides[i] = side.registrations->get(base, size, access);
    // A key of 0 means none.
    if (handle.sides[i] != nullptr) handle.exported.side_rkeys[i] = handle.sides[i]->rkey;
  }
}

void Rails::deregister(Handle& handle) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (handle.sides[i] != nullptr) sides_[i].registrations->put(handle.sides[i]);
    handle.sides[i] = nullptr;
  }
}

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

// ---- parts ----

Engine& Rails::engine(std::size_t rail) const {
  return rail == 0 ? *module_.engine : *sides_[rail - 1].engine;
}

// One that was never measured is as fast as those that were, as far as the ports' speeds tell.
double Rails::rate_of(std::size_t rail) const {
  const double own = divisions_.meter(rail).rate();
  if (own > 0) return own;
  const auto speed = [&](std::size_t of) {
    return std::max(1.0, static_cast<double>(engine(of).port().speed_mbps));
  };
  for (std::size_t other = 0; other <= count_; ++other) {
    const double measured = divisions_.meter(other).rate();
    if (measured > 0) return measured * speed(rail) / speed(other);
  }
  return speed(rail) * 1e6 / 8;
}

// Asks for the connection if there is none.
bool Rails::may_use(std::size_t side, Endpoint& endpoint, const RailKeys& keys) {
  return endpoint.sides[side].id != PeerId::none && keys[side + 1].rkey != 0 &&
         sides_[side].works.load(std::memory_order_relaxed) &&
         sides_[side].engine->connect(endpoint.sides[side].id);
}

std::array<bool, most_rails> Rails::usable(Time now, Endpoint& endpoint, const RailKeys& keys) {
  std::array<bool, most_rails> usable{!endpoint.links.is_down(0)};
  for (std::size_t i = 0; i < count_; ++i) {
    std::unique_lock guard(lock_);
    const bool is_open = endpoint.sides[i].way.is_open(now);
    guard.unlock();
    usable[i + 1] = is_open && may_use(i, endpoint, keys);
  }
  return usable;
}

bool Rails::carry(Endpoint& endpoint, const Handle* local, const Exported& remote,
                  const TransferRequest& request) {
  if (request.opcode != Opcode::read || local == nullptr ||
      remote.side_rkeys == decltype(remote.side_rkeys){}) {
    return false;
  }
  RailKeys keys{};
  for (std::size_t i = 0; i < count_; ++i) {
    if (local->sides[i] != nullptr) keys[i + 1] = {local->sides[i]->lkey, remote.side_rkeys[i]};
  }
  const Time now = Engine::clock();
  const bool small = request.length_bytes < least_message;
  const bool alone = request.length_bytes < least_part && !endpoint.links.is_down(0);
  const std::array<bool, most_rails> may =
      alone ? std::array<bool, most_rails>{true} : usable(now, endpoint, keys);
  Divisions::Parts parts{};
  try {
    std::lock_guard guard(lock_);
    RailLoads loads;
    for (std::size_t rail = 0; rail <= count_; ++rail) {
      const std::uint32_t share = rail == 0 ? Way::whole : endpoint.sides[rail - 1].way.share();
      loads[rail].rate = may[rail] ? rate_of(rail) * share / Way::whole : 0;
    }
    parts = divisions_.begin(now, request, loads, small ? request.length_bytes : least_part, keys);
  } catch (const std::exception&) {
    return false;
  }
  for (std::size_t rail = 0; rail <= count_; ++rail) {
    if (parts[rail] != nullptr) submit(*parts[rail], rail, endpoint);
  }
  return true;
}

// Without memory for the operation, the part is lost at once.
void Rails::submit(Divisions::Part& part, std::size_t rail, Endpoint& endpoint) {
  const Operation operation{.endpoint = &endpoint, .part = &part};
  TransferRequest request = part.request();
  request.peer = id_on(endpoint, rail);
  if (rail > 0) {
    side_parts_.fetch_add(1, std::memory_order_relaxed);
    add_to(module_.rdma_counters.rail_parts);
    add_to(module_.rdma_counters.rail_bytes, request.length_bytes);
  }
  try {
    request.token = module_.operations.begin(operation);
  } catch (const std::exception& problem) {
    complain(std::string("cannot get a part of a message: ") + problem.what() + ".");
    return finish(operation, false, rail > 0);
  }
  engine(rail).transfer(request);
}

void Rails::finish(const Operation& done, bool ok, bool tell) {
  Divisions::Part& part = *done.part;
  Endpoint& endpoint = *done.endpoint;
  const Time now = Engine::clock();
  std::string recovered;
  std::size_t next = 0;
  Divisions::Outcome outcome;
  {
    std::lock_guard guard(lock_);
    const std::size_t rail = part.rail();
    if (rail > 0) side_parts_.fetch_sub(1, std::memory_order_relaxed);
    if (rail > 0 && ok) {
      Way& way = endpoint.sides[rail - 1].way;
      if (way.is_lost() && may_tell()) {
        recovered = way_text(endpoint, rail) + " carries messages again, after " +
                    std::to_string((now - way.lost_at()).ns / milliseconds(1).ns) + " ms.";
      }
      way.carry();
    }
    // With no rail that works, the first one gets it when it is back.
    const bool first_works = !endpoint.links.is_down(0);
    for (std::size_t i = count_; i > 0 && !(first_works && rail > 0); --i) {
      if (i != rail && endpoint.links.is_up(i) && part.may_use(i)) next = i;
    }
    outcome = divisions_.end(now, part, ok, tell ? std::optional(next) : std::nullopt);
  }
  if (!recovered.empty() && tell) complain(recovered);
  switch (outcome.next) {
    case Divisions::Next::going: return;
    case Divisions::Next::again:
      add_to(module_.rdma_counters.rail_parts_again);
      return submit(part, next, endpoint);
    case Divisions::Next::over: return finish_operation(module_, {outcome.token, outcome.ok}, tell);
  }
}

std::size_t Rails::parts_out() {
  std::lock_guard guard(lock_);
  return divisions_.parts_out();
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

void Rails::close(std::span<Endpoint* const> leaving) {
  for (std::size_t i = 0; i < count_; ++i) {
    std::vector<PeerId> peers;
    for (const Endpoint* const endpoint : leaving) {
      if (endpoint->sides[i].id != PeerId::none) peers.push_back(endpoint->sides[i].id);
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
}

}  // namespace weir::btl
