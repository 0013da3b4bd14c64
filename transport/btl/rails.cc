#include "transport/btl/rails.h"

#include <algorithm>
#include <exception>
#include <string>

#include "transport/btl/module.h"
#include "transport/btl/params.h"
#include "transport/btl/report.h"

namespace weir::btl {

// What comes from a further rail: the ends of parts, and what became of the rail.
class Rails::Upcalls {
 public:
  Upcalls(Rails& rails, std::size_t side, bool tell) : rails_(rails), side_(side), tell_(tell) {}

  void on_message(const Delivery&) {}
  void on_retired(SendSlot*, bool) {}
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

// A connection that breaks is no matter there: what it had is done again over the first rail, and
// the next one is asked for later.
Engine::Options Rails::options(const Engine::Options& first) {
  Engine::Options options = first;
  options.core.resumes = false;
  options.core.forgives = true;
  // Two attempts; then it is asked for anew, after a pause, for as long as there are messages.
  options.core.connect_timeout = std::min(options.core.connect_timeout, seconds(6));
  options.core.proxy = false;
  options.proxy = {};
  options.node.processes = 0;  // the first rail warns
  return options;
}

Rails::Rails(Module& module, std::vector<std::unique_ptr<Engine>> engines)
    : module_(module), count_(engines.size()) {
  for (std::size_t i = 0; i < count_; ++i) sides_[i].engine = std::move(engines[i]);
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
      side.registrations =
          verbs::RegistrationCache::create(side.engine->device(), options, why);
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
    if (!side.engine->add_peer(endpoint.name, cards.subspan((i + 1) * wire::card_bytes,
                                                            wire::card_bytes),
                               id, why)) {
      note(1, way_text(endpoint, i) + " does not exist: " + why);
      continue;
    }
    side.engine->set_above(id, &endpoint);
    std::lock_guard guard(lock_);
    endpoint.sides[i].id = id;
  }
}

// ---- memory ----

void Rails::register_memory(Handle& handle, const void* base, std::size_t size, Access access) {
  if (size < least_message) return;
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
bool Rails::may_use(std::size_t side, Endpoint& endpoint, const Handle& local,
                    const Exported& remote) {
  return endpoint.sides[side].id != PeerId::none && local.sides[side] != nullptr &&
         remote.side_rkeys[side] != 0 && sides_[side].works.load(std::memory_order_relaxed) &&
         sides_[side].engine->connect(endpoint.sides[side].id);
}

std::array<bool, most_rails> Rails::usable(Time now, Endpoint& endpoint, const Handle& local,
                                           const Exported& remote) {
  std::array<bool, most_rails> usable{true};
  for (std::size_t i = 0; i < count_; ++i) {
    std::unique_lock guard(lock_);
    const bool is_open = endpoint.sides[i].way.is_open(now);
    guard.unlock();
    usable[i + 1] = is_open && may_use(i, endpoint, local, remote);
  }
  return usable;
}

bool Rails::carry(Endpoint& endpoint, const Handle* local, const Exported& remote,
                  const TransferRequest& request) {
  if (request.opcode != Opcode::read || request.length_bytes < least_message || local == nullptr ||
      remote.side_rkeys == decltype(remote.side_rkeys){}) {
    return false;
  }
  const Time now = Engine::clock();
  const std::array<bool, most_rails> may = usable(now, endpoint, *local, remote);
  Divisions::Parts parts{};
  try {
    std::lock_guard guard(lock_);
    RailLoads loads;
    for (std::size_t rail = 0; rail <= count_; ++rail) {
      const std::uint32_t share = rail == 0 ? Way::whole : endpoint.sides[rail - 1].way.share();
      loads[rail].rate = may[rail] ? rate_of(rail) * share / Way::whole : 0;
    }
    parts = divisions_.begin(now, request, loads, least_part);
  } catch (const std::exception&) {
    return false;
  }
  for (std::size_t rail = 0; rail <= count_; ++rail) {
    if (parts[rail] == nullptr) continue;
    TransferRequest part = parts[rail]->request();
    if (rail > 0) {
      part.peer = endpoint.sides[rail - 1].id;
      part.lkey = local->sides[rail - 1]->lkey;
      part.rkey = remote.side_rkeys[rail - 1];
      RdmaCounters::add(module_.rdma_counters.rail_parts);
      RdmaCounters::add(module_.rdma_counters.rail_bytes, part.length_bytes);
    }
    submit(*parts[rail], rail, endpoint, part);
  }
  return true;
}

// Without memory for the operation, the part is lost at once.
void Rails::submit(Divisions::Part& part, std::size_t rail, Endpoint& endpoint,
                   TransferRequest request) {
  const Operation operation{.endpoint = &endpoint, .part = &part};
  if (rail > 0) side_parts_.fetch_add(1, std::memory_order_relaxed);
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
  TransferRequest again;
  Divisions::Outcome outcome;
  {
    std::lock_guard guard(lock_);
    const std::size_t rail = part.rail();
    if (rail > 0) side_parts_.fetch_sub(1, std::memory_order_relaxed);
    if (rail > 0 && ok) {
      Way& way = endpoint.sides[rail - 1].way;
      if (way.is_lost() && losses_told_ <= most_losses_told) {
        recovered = way_text(endpoint, rail - 1) + " carries messages again, after " +
                    std::to_string((now - way.lost_at()).ns / milliseconds(1).ns) + " ms.";
      }
      way.carry();
    }
    outcome = divisions_.end(now, part, ok, tell);
    if (outcome.next == Divisions::Next::again) again = part.request();
  }
  if (!recovered.empty() && tell) complain(recovered);
  switch (outcome.next) {
    case Divisions::Next::going: return;
    case Divisions::Next::again:
      RdmaCounters::add(module_.rdma_counters.rail_parts_again);
      return submit(part, 0, endpoint, again);
    case Divisions::Next::over:
      return finish_operation(module_, {outcome.token, outcome.ok}, tell);
  }
}

std::size_t Rails::parts_out() {
  std::lock_guard guard(lock_);
  return divisions_.parts_out();
}

// ---- what becomes of them ----

void Rails::on_failure(std::size_t side, const Failure& failure) {
  auto* const endpoint = static_cast<Endpoint*>(sides_[side].engine->above(failure.peer));
  RdmaCounters::add(module_.rdma_counters.rail_losses);
  if (endpoint == nullptr || endpoint->leaving.load(std::memory_order_relaxed)) return;
  Duration pause{};
  bool told = false;
  {
    std::lock_guard guard(lock_);
    pause = endpoint->sides[side].way.lose(Engine::clock());
    // Of a process that is gone, the first rail tells, or it has seen the way break, and tells.
    told = failure.reason != FailReason::vanished && ++losses_told_ <= most_losses_told;
  }
  const bool known = failure.completion != CompletionStatus::success;
  const std::string text = way_text(*endpoint, side) + " is lost: " + to_text(failure.reason) +
                           (known ? std::string(" (") + to_text(failure.completion) + ")" : "") +
                           ". Large messages go over " + module_.engine->port().name() +
                           " alone, for " + std::to_string(pause.ns / milliseconds(1).ns) +
                           " ms at least.";
  told ? complain(text) : note(1, text);
}

std::string Rails::way_text(const Endpoint& endpoint, std::size_t side) const {
  return "the way to " + rank_text(endpoint.name) + " over " +
         sides_[side].engine->port().name();
}

int Rails::look() {
  int count = 0;
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
  for (std::size_t i = 0; i < count_; ++i) {
    sides_[i].engine->shutdown(Upcalls(*this, i, false));
    while (sides_[i].engine->progress(Upcalls(*this, i, false)) > 0) {
    }
  }
}

}  // namespace weir::btl
