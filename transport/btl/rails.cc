#include "transport/btl/rails.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "transport/btl/module.h"
#include "transport/btl/params.h"
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
    const bool sent = engine.send(id_on(endpoint_, over), slot, handover_bytes, handover_tag,
                                  true) == Status::ok;
    if (!sent) engine.discard(slot);
    return sent;
  }

 private:
  Rails& rails_;
  Endpoint& endpoint_;
};

// What comes from a further rail: the ends of parts, frames, and what became of the rail.
class Rails::Upcalls {
 public:
  Upcalls(Rails& rails, std::size_t side, bool tell) : rails_(rails), side_(side), tell_(tell) {}

  void on_message(const Delivery& message) {
    if (!tell_) return;
    const PeerName from = rails_.engine(side_ + 1).name(message.peer);
    if (message.tag == handover_tag) {
      return rails_.on_handover(side_ + 1, message.peer, {message.payload, message.length_bytes});
    }
    take_message(rails_.module_, static_cast<Endpoint*>(message.above), from, message);
  }
  void on_retired(SendSlot* slot, bool delivered) {
    finish_send(rails_.module_, rails_.engine(side_ + 1), slot, delivered, tell_);
  }
  void on_link(const LinkChange& change) {
    if (tell_) rails_.on_link(side_ + 1, change);
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
  std::array<bool, most_rails> usable{(endpoint.down.load(std::memory_order_relaxed) & 1) == 0};
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
  const bool alone = small && (endpoint.down.load(std::memory_order_relaxed) & 1) == 0;
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
    RdmaCounters::add(module_.rdma_counters.rail_parts);
    RdmaCounters::add(module_.rdma_counters.rail_bytes, request.length_bytes);
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
      if (way.is_lost() && losses_told_ <= most_losses_told) {
        recovered = way_text(endpoint, rail - 1) + " carries messages again, after " +
                    std::to_string((now - way.lost_at()).ns / milliseconds(1).ns) + " ms.";
      }
      way.carry();
    }
    // With no rail that works, the first one gets it when it is back.
    const std::uint8_t up = endpoint.up.load(std::memory_order_relaxed);
    const bool first_works = (endpoint.down.load(std::memory_order_relaxed) & 1) == 0;
    for (std::size_t i = count_; i > 0 && !(first_works && rail > 0); --i) {
      if (i != rail && (up >> i & 1) != 0 && part.may_use(i)) next = i;
    }
    outcome = divisions_.end(now, part, ok, tell ? std::optional(next) : std::nullopt);
  }
  if (!recovered.empty() && tell) complain(recovered);
  switch (outcome.next) {
    case Divisions::Next::going: return;
    case Divisions::Next::again:
      RdmaCounters::add(module_.rdma_counters.rail_parts_again);
      return submit(part, next, endpoint);
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
  if (endpoint == nullptr) return;
  const std::uint8_t bit = static_cast<std::uint8_t>(2u << side);
  {
    std::lock_guard guard(handover_lock_);
    note_link(*endpoint, side + 1, false);
    endpoint->lost.fetch_or(bit);
    endpoint->handover.on_end(side + 1, Ways(*this, *endpoint));
  }
  if (endpoint->leaving.load(std::memory_order_relaxed)) return;
  const bool carried =
      (endpoint->carried.fetch_and(static_cast<std::uint8_t>(~bit)) & bit) != 0;
  const bool first_lost = (endpoint->lost.load(std::memory_order_relaxed) & 1) != 0;
  const bool was_last = first_lost && endpoint->up.load(std::memory_order_relaxed) == 0;
  if (was_last || (carried && failure.lost_work)) {
    return lose_peer(module_, endpoint, endpoint->name, sides_[side].engine->port().name(), failure);
  }
  lose_way(side, *endpoint, failure.reason);
  const bool known = failure.completion != CompletionStatus::success;
  note(1, way_text(*endpoint, side) + " was given up: " + to_text(failure.reason) +
              (known ? std::string(" (") + to_text(failure.completion) + ")" : ""));
}

void Rails::lose_way(std::size_t side, Endpoint& endpoint, FailReason reason) {
  RdmaCounters::add(module_.rdma_counters.rail_losses);
  if (endpoint.leaving.load(std::memory_order_relaxed)) return;
  Duration pause{};
  bool told = false;
  {
    std::lock_guard guard(lock_);
    pause = endpoint.sides[side].way.lose(Engine::clock());
    // Of a process that is gone, the first rail tells, or it has seen the way break, and tells.
    told = reason != FailReason::vanished && ++losses_told_ <= most_losses_told;
  }
  const std::string text = way_text(endpoint, side) + " is lost. Messages go over the other rails, for " +
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
  const std::string text = "the way to " + rank_text(endpoint.name) + " over " +
                           module_.engine->port().name() + " is given up: " +
                           to_text(failure.reason) + ". The job goes on over its other rails.";
  ++losses_told_ <= most_losses_told ? complain(text) : note(1, text);
  return true;
}

// ---- frames ----

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
  endpoint->handover.set_first(module_.engine->options().core.self < endpoint->name);
  bool is_back = false;
  {
    std::lock_guard guard(handover_lock_);
    is_back = change.up && rail == 0 && (endpoint->lost.load(std::memory_order_relaxed) & 1) != 0;
    note_link(*endpoint, rail, change.up);
    if (change.up) {
      endpoint->handover.on_up(rail, Ways(*this, *endpoint));
    } else {
      endpoint->handover.on_down(rail, Ways(*this, *endpoint));
    }
  }
  if (is_back && losses_told_ <= most_losses_told) {
    complain("the way to " + rank_text(endpoint->name) + " over " +
             module_.engine->port().name() + " is there again.");
  }
  if (!change.up && rail > 0) lose_way(rail - 1, *endpoint, change.reason);
  if (!change.up && rail == 0) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (endpoint->sides[i].id != PeerId::none) sides_[i].engine->connect(endpoint->sides[i].id);
    }
  }
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
      const Failure failure{id_on(endpoint, rail), FailReason::no_resources,
                            CompletionStatus::success, {}, {}};
      lose_peer(module_, &endpoint, endpoint.name, engine(rail).port().name(), failure);
    }
    engine(rail).discard(slot);
  }
  RdmaCounters::add(module_.rdma_counters.rail_frames, frames.size());
  note(1, "messages to " + rank_text(endpoint.name) + " do not go over " +
              engine(rail).port().name() + " for now; " + std::to_string(frames.size()) +
              " frames were given to another rail");
}

Status Rails::send_copy(Endpoint& endpoint, SendSlot* slot, std::uint32_t length_bytes,
                        std::uint8_t tag) {
  const Status status = send(endpoint, [&](Engine& over, PeerId peer) {
    if (&over == module_.engine.get()) return over.send(peer, slot, length_bytes, tag, true);
    SendSlot* const copy = over.acquire(length_bytes);
    if (copy == nullptr) return Status::back_pressure;
    std::memcpy(copy->payload(), slot->payload(), length_bytes);
    copy->notify = slot->notify;
    copy->user = slot->user;
    const Status sent = over.send(peer, copy, length_bytes, tag, true);
    if (sent != Status::ok) over.discard(copy);
    else module_.engine->discard(slot);
    return sent;
  });
  return status;
}

std::string Rails::way_text(const Endpoint& endpoint, std::size_t side) const {
  return "the way to " + rank_text(endpoint.name) + " over " +
         sides_[side].engine->port().name();
}

// The first rail may work again.
void Rails::ask_again() {
  const Time now = Engine::clock();
  if (now - asked_ < asks_every) return;
  asked_ = now;
  module_.endpoints.for_each([&](const Endpoint& endpoint) {
    const bool lost = (endpoint.lost.load(std::memory_order_relaxed) & 1) != 0;
    if (lost && !endpoint.leaving.load(std::memory_order_relaxed)) {
      module_.engine->connect(endpoint.id);
    }
  });
}

int Rails::look() {
  int count = 0;
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
  for (std::size_t i = 0; i < count_; ++i) {
    sides_[i].engine->shutdown(Upcalls(*this, i, false));
    while (sides_[i].engine->progress(Upcalls(*this, i, false)) > 0) {
    }
  }
}

}  // namespace weir::btl
