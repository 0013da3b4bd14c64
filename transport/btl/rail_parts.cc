// Gets, puts and atomics among rails: which ones they go over, in which parts, and where the parts
// go that a rail has lost.
#include <algorithm>
#include <exception>
#include <optional>
#include <string>

#include "transport/btl/module.h"
#include "transport/btl/rails.h"
#include "transport/btl/report.h"

namespace weir::btl {
namespace {

constexpr std::uint8_t bit_of(std::size_t rail) { return static_cast<std::uint8_t>(1u << rail); }

}  // namespace

// ---- memory ----

void Rails::register_memory(Handle& handle, const void* base, std::size_t size, Access access,
                            bool window) {
  SideExport sides;
  sides.traits = window ? SideExport::window : std::uint8_t{0};
  for (std::size_t i = 0; i < count_; ++i) {
    Side& side = sides_[i];
    if (!side.works.load(std::memory_order_acquire)) continue;
    Access rights = access;
    if (side.engine->port().device != engine(0).port().device) {
      sides.traits |= SideExport::apart(i + 1);
      rights = rights & (Access::local_write | Access::remote_read | Access::remote_write);
    }
    // For the read behind a put.
    if (includes(rights, Access::remote_write)) rights = rights | Access::remote_read;
    handle.sides[i] = side.registrations->get(base, size, rights);
    // A key of 0 means none.
    if (handle.sides[i] != nullptr) sides.rkeys[i] = handle.sides[i]->rkey;
  }
  handle.exported.set_sides(sides);
}

void Rails::deregister(Handle& handle) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (handle.sides[i] != nullptr) sides_[i].registrations->put(handle.sides[i]);
    handle.sides[i] = nullptr;
  }
}

// ---- which rails ----

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

// Without a key for a rail, the operation does not go there.
RailKeys Rails::keys_of(const Operation& operation, Opcode opcode) const {
  const SideExport sides{operation.side_rkeys, operation.side_traits};
  RailKeys keys{};
  for (std::size_t i = 0; i < count_; ++i) {
    const std::uint32_t rkey = sides.rkey(opcode, i + 1);
    const Handle* const local = operation.local_handle;
    if (rkey == 0) continue;
    if (local != nullptr && local->sides[i] != nullptr) {
      keys[i + 1] = {local->sides[i]->lkey, rkey};
    } else if (local == nullptr && operation.scratch != nullptr) {
      keys[i + 1] = {sinks_[i + 1]->lkey, rkey};
    }
  }
  return keys;
}

// A small one keeps to the first rail, so that it comes after the others there.
void Rails::transfer(Endpoint& endpoint, Operation& operation, const SideExport& sides,
                     TransferRequest request) {
  operation.side_rkeys = sides.rkeys;
  operation.side_traits = sides.traits;
  std::uint8_t others = 0;
  RailKeys keys{};
  if (sides.any() && request.length_bytes > 0) {
    keys = keys_of(operation, request.opcode);
    for (std::size_t i = 1; i <= count_; ++i) {
      if (keys[i].rkey != 0) others |= bit_of(i);
    }
  }
  const bool first_works = !endpoint.links.is_down(0);
  if (others == 0 || (first_works && request.length_bytes < least_part)) {
    request.movable = others != 0;
    engine(0).transfer(request);
    return look_back(endpoint, 0, others);
  }
  divide(endpoint, operation, request, keys);
}

// When the first rail is broken, others are used even if they broke a moment ago.
std::array<bool, most_rails> Rails::usable(Time now, Endpoint& endpoint, const RailKeys& keys) {
  std::array<bool, most_rails> usable{!endpoint.links.is_down(0)};
  for (std::size_t i = 0; i < count_; ++i) {
    std::unique_lock guard(lock_);
    const bool is_open = endpoint.sides[i].way.is_open(now) || !usable[0];
    guard.unlock();
    usable[i + 1] = is_open && may_use(i, endpoint, keys);
  }
  return usable;
}

// ---- parts ----

void Rails::divide(Endpoint& endpoint, const Operation& operation, const TransferRequest& request,
                   const RailKeys& keys) {
  const Time now = Engine::clock();
  const std::array<bool, most_rails> may = usable(now, endpoint, keys);
  const std::uint64_t least =
      request.length_bytes < least_message ? request.length_bytes : least_part;
  const SideExport sides{operation.side_rkeys, operation.side_traits};
  Divisions::Parts parts{};
  try {
    std::lock_guard guard(lock_);
    RailLoads loads;
    for (std::size_t rail = 0; rail <= count_; ++rail) {
      const std::uint32_t share = rail == 0 ? Way::whole : endpoint.sides[rail - 1].way.share();
      loads[rail].rate = may[rail] ? rate_of(rail) * share / Way::whole : 0;
    }
    parts = divisions_.begin(now, request, loads, least, keys, {sides.fenced(), may[0]});
  } catch (const std::exception&) {
    return engine(0).transfer(request);
  }
  // What is to be read ahead goes before the first rail's own part.
  for (std::size_t rail = count_ + 1; rail-- > 0;) {
    if (parts[rail] != nullptr) submit(*parts[rail], endpoint);
  }
}

// Without memory for the operation, the part is lost at once.
void Rails::submit(Divisions::Part& part, Endpoint& endpoint) {
  const Operation operation{.endpoint = &endpoint, .part = &part};
  const std::size_t rail = part.over();
  const bool is_bytes = part.step() == Divisions::Step::bytes;
  std::uint8_t others = 0;
  for (std::size_t i = 1; i <= count_; ++i) {
    if (part.may_use(i)) others |= bit_of(i);
  }
  TransferRequest request = part.request();
  request.peer = id_on(endpoint, rail);
  const Operation* const whole = module_.operations.find(request.token);
  const bool is_unwanted = whole != nullptr && whole->scratch != nullptr && rail > 0;
  if (!is_bytes || is_unwanted) {
    request.local_address = reinterpret_cast<std::uint64_t>(sinks_[rail]->payload());
    request.lkey = sinks_[rail]->lkey;
  }
  if (rail > 0) side_parts_.fetch_add(1, std::memory_order_relaxed);
  if (rail > 0 && is_bytes) {
    add_to(module_.rdma_counters.rail_parts);
    add_to(module_.rdma_counters.rail_bytes, request.length_bytes);
  }
  try {
    request.token = module_.operations.begin(operation);
  } catch (const std::exception& problem) {
    complain(std::string("cannot do a part of a transfer: ") + problem.what() + ".");
    return finish(operation, false, rail > 0, false);
  }
  engine(rail).transfer(request);
  look_back(endpoint, rail, others);
}

// Another thread may have heard that the rail is broken, and withdrawn what was there, just before
// something more was given to it. `others`: rails that it may go over instead, a bit for each.
void Rails::look_back(Endpoint& endpoint, std::size_t rail, std::uint8_t others) {
  if (!endpoint.links.is_down(rail)) [[likely]]
    return;
  const auto elsewhere = static_cast<std::uint8_t>((others | 1u) & ~bit_of(rail));
  if ((endpoint.links.up() & elsewhere) != 0) withdraw(endpoint, rail);
}

// Back to the first rail if that works, and from there to the next one that does. With none, the
// first one gets it when it is back.
std::size_t Rails::other_rail(const Endpoint& endpoint, const Divisions::Part& part) const {
  const std::size_t lost = part.over();
  const bool first_works = !endpoint.links.is_down(0);
  if (first_works && lost > 0) return 0;
  for (std::size_t rail = 1; rail <= count_; ++rail) {
    if (rail != lost && endpoint.links.is_up(rail) && part.may_use(rail)) return rail;
  }
  return 0;
}

void Rails::finish(const Operation& done, bool ok, bool tell, bool upcalls) {
  Divisions::Part& part = *done.part;
  Endpoint& endpoint = *done.endpoint;
  const Time now = Engine::clock();
  const std::size_t rail = part.over();
  std::string recovered;
  bool goes_on = false;
  Divisions::Outcome outcome{};
  {
    std::lock_guard guard(lock_);
    if (rail > 0) side_parts_.fetch_sub(1, std::memory_order_relaxed);
    if (rail > 0 && ok) {
      Way& way = endpoint.sides[rail - 1].way;
      if (way.is_lost() && may_tell()) {
        recovered = way_text(endpoint, rail) + " carries messages again, after " +
                    std::to_string((now - way.lost_at()).ns / milliseconds(1).ns) + " ms.";
      }
      way.carry();
    }
    goes_on = ok && tell && Divisions::go_on(part);
    if (!goes_on) {
      const bool first_works = !endpoint.links.is_down(0);
      const std::optional<std::size_t> next =
          tell ? std::optional(other_rail(endpoint, part)) : std::nullopt;
      outcome = divisions_.end(now, part, ok, next, first_works);
    }
  }
  if (!recovered.empty() && tell) complain(recovered);
  if (goes_on) return submit(part, endpoint);
  switch (outcome.next) {
    case Divisions::Next::going: return;
    case Divisions::Next::again:
      add_to(module_.rdma_counters.rail_parts_again);
      return submit(part, endpoint);
    case Divisions::Next::over: break;
  }
  const TransferEnd end{outcome.token, outcome.ok};
  if (upcalls) return finish_operation(module_, end, tell);
  later([this, end] { finish_operation(module_, end, true); });
}

// What is in doubt is not among these before both ends have let the connection go.
void Rails::withdraw(Endpoint& endpoint, std::size_t rail) {
  for (const TransferRequest& request : engine(rail).withdraw(id_on(endpoint, rail))) {
    const Operation* const operation = module_.operations.find(request.token);
    if (operation == nullptr) continue;
    if (operation->part == nullptr) {
      add_to(module_.rdma_counters.rail_parts_again);
      divide(endpoint, *operation, request, keys_of(*operation, request.opcode));
      continue;
    }
    Operation& lost = *module_.operations.end(request.token);
    finish(lost, false, true, false);
    module_.operations.release(lost);
  }
}

std::size_t Rails::parts_out() {
  std::lock_guard guard(lock_);
  return divisions_.parts_out();
}

void Rails::explain_loss(const Endpoint& endpoint, const Failure& failure) {
  if (!failure.lost_atomics) return;
  complain(
      "atomic operations go through one adapter of the target only, that of its first rail: "
      "those with " +
      rank_text(endpoint.name) + " waited for " + engine(0).port().name() +
      ", although other rails work.");
}

}  // namespace weir::btl
