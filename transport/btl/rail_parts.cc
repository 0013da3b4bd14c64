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

// Asks for the connection if there is none.
bool Rails::may_use(std::size_t side, Endpoint& endpoint, const RailKeys& keys) {
  return endpoint.rails.id(side + 1) != PeerId::none && keys[side + 1].rkey != 0 &&
         sides_[side].works.load(std::memory_order_relaxed) &&
         sides_[side].engine->connect(endpoint.rails.id(side + 1));
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

void Rails::transfer(Endpoint& endpoint, Operation& operation, const SideExport& sides,
                     TransferRequest request) {
  operation.side_rkeys = sides.rkeys;
  operation.side_traits = sides.traits;
  std::uint8_t others = 0;
  RailKeys keys{};
  if (sides.any() && request.length_bytes > 0) {
    keys = keys_of(operation, request.opcode);
    for (std::size_t i = 1; i <= count_; ++i) {
      if (keys[i].rkey != 0) others |= RailTransfers::bit_of(i);
    }
  }
  if (RailTransfers::keeps_to_first(request, others, endpoint.rails.links)) {
    request.movable = others != 0;
    engine(0).transfer(request);
    return look_back(endpoint, 0, others);
  }
  divide(endpoint, operation, request, keys);
}

RailTransfers::Usable Rails::usable(Time now, Endpoint& endpoint, const RailKeys& keys) {
  RailTransfers::Usable usable{
      RailTransfers::is_open(now, 0, endpoint.rails.ways, endpoint.rails.links)};
  for (std::size_t i = 0; i < count_; ++i) {
    std::unique_lock guard(lock_);
    const bool is_open =
        RailTransfers::is_open(now, i + 1, endpoint.rails.ways, endpoint.rails.links);
    guard.unlock();
    usable[i + 1] = is_open && may_use(i, endpoint, keys);
  }
  return usable;
}

RailTransfers::Speeds Rails::speeds() const {
  RailTransfers::Speeds speeds{};
  for (std::size_t rail = 0; rail <= count_; ++rail) {
    speeds[rail] = static_cast<double>(engine(rail).port().speed_mbps);
  }
  return speeds;
}

// ---- parts ----

void Rails::divide(Endpoint& endpoint, const Operation& operation, const TransferRequest& request,
                   const RailKeys& keys) {
  const Time now = Engine::clock();
  const RailTransfers::Usable may = usable(now, endpoint, keys);
  const SideExport sides{operation.side_rkeys, operation.side_traits};
  Divisions::Parts parts{};
  try {
    std::lock_guard guard(lock_);
    parts =
        transfers_.begin(now, request, may, endpoint.rails.ways, speeds(), keys, sides.fenced());
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
    if (part.may_use(i)) others |= RailTransfers::bit_of(i);
  }
  TransferRequest request = part.request();
  request.peer = endpoint.id_on(rail);
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

// `others`: rails that it may go over instead, a bit for each.
void Rails::look_back(Endpoint& endpoint, std::size_t rail, std::uint8_t others) {
  if (RailTransfers::came_too_late(rail, others, endpoint.rails.links)) withdraw(endpoint, rail);
}

void Rails::finish(const Operation& done, bool ok, bool tell, bool upcalls) {
  using Kind = RailTransfers::Next::Kind;
  Divisions::Part& part = *done.part;
  Endpoint& endpoint = *done.endpoint;
  const Time now = Engine::clock();
  const std::size_t rail = part.over();
  RailTransfers::Next next{};
  {
    std::lock_guard guard(lock_);
    if (rail > 0) side_parts_.fetch_sub(1, std::memory_order_relaxed);
    next = transfers_.end_of_step(now, part, ok, tell, endpoint.rails.links, endpoint.rails.ways);
  }
  if (next.was_lost && tell && may_tell()) {
    complain(way_text(endpoint, rail) + " carries messages again, after " +
             std::to_string(next.was_lost->ns / milliseconds(1).ns) + " ms.");
  }
  switch (next.kind) {
    case Kind::going: return;
    case Kind::again: add_to(module_.rdma_counters.rail_parts_again); [[fallthrough]];
    case Kind::step: return submit(part, endpoint);
    case Kind::over: break;
  }
  const TransferEnd end{next.token, next.ok};
  if (upcalls) return finish_operation(module_, end, tell);
  later([this, end] { finish_operation(module_, end, true); });
}

// What is in doubt is not among these before both ends have let the connection go.
void Rails::withdraw(Endpoint& endpoint, std::size_t rail) {
  for (const TransferRequest& request : engine(rail).withdraw(endpoint.id_on(rail))) {
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
  return transfers_.parts_out();
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
