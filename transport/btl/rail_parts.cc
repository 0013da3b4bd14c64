#include "transport/btl/rail_parts.h"

#include <exception>
#include <string>

#include "transport/btl/report.h"

namespace weir::btl {

// ---- which rails ----

// The keys for the operation on each rail. It does not go over a rail without keys.
RailKeys PartsOverRails::keys_of(const Operation& operation, Opcode opcode) const {
  const SideExport sides{operation.side_rkeys, operation.side_traits};
  const Handle* const local = operation.local_handle;
  RailKeys keys{};
  for (std::size_t rail = 1; rail < engines_.count(); ++rail) {
    const std::uint32_t rkey = sides.rkey(opcode, rail);
    if (rkey == 0) continue;
    if (local != nullptr && local->sides[rail - 1] != nullptr) {
      keys[rail] = {local->sides[rail - 1]->lkey, rkey};
    } else if (local == nullptr && operation.scratch != nullptr && engines_.sink(rail) != nullptr) {
      keys[rail] = {engines_.sink(rail)->lkey, rkey};
    }
  }
  return keys;
}

void PartsOverRails::transfer(Endpoint& endpoint, Operation& operation, const SideExport& sides,
                              TransferRequest request) {
  operation.side_rkeys = sides.rkeys;
  operation.side_traits = sides.traits;
  RailTransfers::Mask others = 0;
  RailKeys keys{};
  if (sides.any() && request.length_bytes > 0) {
    keys = keys_of(operation, request.opcode);
    for (std::size_t rail = 1; rail < engines_.count(); ++rail) {
      if (keys[rail].rkey != 0) others |= RailTransfers::bit_of(rail);
    }
  }
  if (RailTransfers::keeps_to_first(request, others, endpoint.rails.links)) {
    request.movable = others != 0;
    engines_[0].transfer(request);
    return look_back(endpoint, 0, others);
  }
  divide(endpoint, operation, request, keys);
}

RailTransfers::Usable PartsOverRails::usable(Time now, Endpoint& endpoint, const RailKeys& keys) {
  const RailPeer& peer = endpoint.rails;
  RailTransfers::Usable usable{};
  {
    std::lock_guard guard(lock_);
    for (std::size_t rail = 0; rail < engines_.count(); ++rail) {
      usable[rail] = RailTransfers::is_open(now, rail, peer.ways, peer.links);
    }
  }
  for (std::size_t rail = 1; rail < engines_.count(); ++rail) {
    usable[rail] = usable[rail] && keys[rail].rkey != 0 && engines_.connect(rail, endpoint);
  }
  return usable;
}

RailTransfers::Speeds PartsOverRails::speeds() const {
  RailTransfers::Speeds speeds{};
  for (std::size_t rail = 0; rail < engines_.count(); ++rail) {
    speeds[rail] = static_cast<double>(engines_[rail].port().speed_mbps);
  }
  return speeds;
}

// ---- parts ----

void PartsOverRails::divide(Endpoint& endpoint, const Operation& operation,
                            const TransferRequest& request, const RailKeys& keys) {
  const Time now = Engine::clock();
  const RailTransfers::Usable may = usable(now, endpoint, keys);
  const SideExport sides{operation.side_rkeys, operation.side_traits};
  Divisions::Parts parts{};
  try {
    std::lock_guard guard(lock_);
    parts =
        transfers_.begin(now, request, may, endpoint.rails.ways, speeds(), keys, sides.fenced());
  } catch (const std::exception&) {
    return engines_[0].transfer(request);
  }
  // The first rail's part goes last, behind reads that have to come before it.
  for (std::size_t rail = engines_.count(); rail-- > 0;) {
    if (parts[rail] != nullptr) submit(*parts[rail], endpoint);
  }
}

// Without memory for the operation, the part is lost at once.
void PartsOverRails::submit(Divisions::Part& part, Endpoint& endpoint) {
  const Operation operation{.endpoint = &endpoint, .part = &part};
  const std::size_t rail = part.over();
  RailTransfers::Mask others = 0;
  for (std::size_t other = 1; other < engines_.count(); ++other) {
    if (part.may_use(other)) others |= RailTransfers::bit_of(other);
  }
  TransferRequest request = request_of(part, endpoint);
  if (rail > 0) further_.fetch_add(1, std::memory_order_relaxed);
  if (rail > 0 && part.step() == Divisions::Step::bytes) {
    add_to(reports_.counters.rail_parts);
    add_to(reports_.counters.rail_bytes, request.length_bytes);
  }
  try {
    request.token = operations_.begin(operation);
  } catch (const std::exception& problem) {
    complain(std::string("cannot start a part of a transfer: ") + problem.what() + ".");
    return lose(operation, rail > 0);
  }
  engines_[rail].transfer(request);
  look_back(endpoint, rail, others);
}

// The token of the result is still that of the whole.
TransferRequest PartsOverRails::request_of(const Divisions::Part& part,
                                           const Endpoint& endpoint) const {
  const std::size_t rail = part.over();
  TransferRequest request = part.request();
  request.peer = endpoint.id_on(rail);
  const Operation* const whole = operations_.find(request.token);
  const bool is_unwanted = whole != nullptr && whole->scratch != nullptr && rail > 0;
  if (part.step() != Divisions::Step::bytes || is_unwanted) {
    SendSlot* const sink = engines_.sink(rail);
    request.local_address = reinterpret_cast<std::uint64_t>(sink->payload());
    request.lkey = sink->lkey;
  }
  return request;
}

std::optional<TransferEnd> PartsOverRails::finish(const Operation& done, bool ok, bool tell) {
  using Kind = RailTransfers::Next::Kind;
  const RailTransfers::Next next = end_step(done, ok, tell);
  switch (next.kind) {
    case Kind::going: return std::nullopt;
    case Kind::again: add_to(reports_.counters.rail_parts_again); [[fallthrough]];
    case Kind::step: submit(*done.part, *done.endpoint); return std::nullopt;
    case Kind::over: break;
  }
  return TransferEnd{next.token, next.ok};
}

RailTransfers::Next PartsOverRails::end_step(const Operation& done, bool ok, bool tell) {
  RailPeer& peer = done.endpoint->rails;
  const std::size_t rail = done.part->over();
  const Time now = Engine::clock();
  RailTransfers::Next next{};
  {
    std::lock_guard guard(lock_);
    if (rail > 0) further_.fetch_sub(1, std::memory_order_relaxed);
    next = transfers_.end_of_step(now, *done.part, ok, tell, peer.links, peer.ways);
  }
  if (next.was_lost && tell && reports_.tells_return()) {
    complain(engines_.way_text(*done.endpoint, rail) + " carries messages again, after " +
             std::to_string(next.was_lost->ns / milliseconds(1).ns) + " ms.");
  }
  return next;
}

// ---- what a rail has lost ----

// Ends a part as lost. The end of the whole is left to the application's next call, because nothing
// can be handed up here.
void PartsOverRails::lose(const Operation& part, bool tell) {
  if (const auto whole = finish(part, false, tell)) reports_.leave(*whole);
}

// Withdraws a transfer that came too late for its rail. `others`: rails that it may use instead.
void PartsOverRails::look_back(Endpoint& endpoint, std::size_t rail, RailTransfers::Mask others) {
  if (RailTransfers::came_too_late(rail, others, endpoint.rails.links)) withdraw(endpoint, rail);
}

// Transfers in doubt are withdrawn only once both ends have given up the connection.
void PartsOverRails::withdraw(Endpoint& endpoint, std::size_t rail) {
  for (const TransferRequest& request : engines_[rail].withdraw(endpoint.id_on(rail))) {
    const Operation* const operation = operations_.find(request.token);
    if (operation == nullptr) continue;
    if (operation->part == nullptr) {
      add_to(reports_.counters.rail_parts_again);
      divide(endpoint, *operation, request, keys_of(*operation, request.opcode));
      continue;
    }
    Operation& lost = *operations_.end(request.token);
    lose(lost, true);
    operations_.release(lost);
  }
}

Duration PartsOverRails::shut(Endpoint& endpoint, std::size_t rail) {
  std::lock_guard guard(lock_);
  return endpoint.rails.ways[rail].lose(Engine::clock());
}

std::size_t PartsOverRails::out() {
  std::lock_guard guard(lock_);
  return transfers_.parts_out();
}

}  // namespace weir::btl
