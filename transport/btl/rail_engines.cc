#include "transport/btl/rail_engines.h"

#include <algorithm>
#include <utility>

#include "transport/btl/memory_hooks.h"
#include "transport/btl/report.h"

namespace weir::btl {

std::vector<std::byte> RailEngines::cards(const Engine& first,
                                          const std::vector<std::unique_ptr<Engine>>& further) {
  const auto own = first.card();
  std::vector<std::byte> all(own.begin(), own.end());
  for (const auto& engine : further) {
    const auto card = engine->card();
    all.insert(all.end(), card.begin(), card.end());
  }
  return all;
}

// Not with a proxy: frames of ours that a server of the node holds could not be given away.
Engine::Options RailEngines::options_of_first(const Engine::Options& options) {
  Engine::Options fitted = options;
  fitted.core.among_rails = options.core.resumes && !options.core.proxy;
  return fitted;
}

Engine::Options RailEngines::options(const Engine::Options& first) {
  Engine::Options options = first;
  options.core.among_rails = true;
  // Enough for two attempts. After a pause, the next message asks for the connection anew.
  options.core.connect_timeout = std::min(options.core.connect_timeout, seconds(6));
  options.core.proxy = false;
  options.proxy = {};
  options.node.processes = 0;  // the first rail warns
  return options;
}

RailEngines::RailEngines(Engine& first, std::vector<std::unique_ptr<Engine>> further)
    : count_(further.size() + 1) {
  engines_[0] = &first;
  for (std::size_t rail = 1; rail < count_; ++rail) {
    sides_[rail - 1].engine = std::move(further[rail - 1]);
    engines_[rail] = sides_[rail - 1].engine.get();
  }
}

void RailEngines::start(std::size_t registration_bytes) {
  sinks_[0] = engines_[0]->acquire(sizeof(std::uint64_t));
  for_each_further([&](std::size_t rail, Engine& engine) {
    Side& side = sides_[rail - 1];
    std::string why;
    bool good = engine.start(why);
    if (good && registration_bytes > 0) {
      verbs::RegistrationCache::Options options;
      options.max_bytes = registration_bytes;
      options.sharers = processes_on_node() * most_rails;
      std::string why_none_kept;  // which the first rail tells
      side.registrations = make_registrations(engine.device(), options, why_none_kept);
    }
    if (good) good = (sinks_[rail] = engine.acquire(sizeof(std::uint64_t))) != nullptr;
    side.works.store(good && registration_bytes > 0 && sinks_[0] != nullptr,
                     std::memory_order_release);
    if (!good) complain("does not use the rail " + engine.port().name() + ": " + why + ".");
  });
}

void RailEngines::end() {
  for (std::size_t rail = 0; rail < count_; ++rail) {
    if (sinks_[rail] != nullptr) engines_[rail]->discard(std::exchange(sinks_[rail], nullptr));
  }
}

// ---- peers ----

void RailEngines::add(Endpoint& endpoint, std::span<const std::byte> cards) {
  for_each_further([&](std::size_t rail, Engine& engine) {
    if (cards.size() < (rail + 1) * wire::card_bytes) return;
    PeerId id = PeerId::none;
    std::string why;
    if (!engine.add_peer(endpoint.name, cards.subspan(rail * wire::card_bytes, wire::card_bytes),
                         id, why)) {
      return note(1, way_text(endpoint, rail) + " does not exist: " + why);
    }
    engine.set_above(id, &endpoint);
    endpoint.rails.set_id(rail, id);
  });
}

bool RailEngines::connect(std::size_t rail, const Endpoint& endpoint) {
  const PeerId peer = endpoint.rails.id(rail);
  return peer != PeerId::none && sides_[rail - 1].works.load(std::memory_order_relaxed) &&
         engines_[rail]->connect(peer);
}

std::string RailEngines::way_text(const Endpoint& endpoint, std::size_t rail) const {
  return "the way to " + rank_text(endpoint.name) + " over " + engines_[rail]->port().name();
}

// ---- memory ----

void RailEngines::register_memory(Handle& handle, const void* base, std::size_t size, Access access,
                                  bool window) {
  SideExport sides;
  sides.traits = window ? SideExport::window : std::uint8_t{0};
  for_each_further([&](std::size_t rail, const Engine& engine) {
    Side& side = sides_[rail - 1];
    if (!side.works.load(std::memory_order_acquire)) return;
    Access rights = access;
    if (engine.port().device != engines_[0]->port().device) {
      sides.traits |= SideExport::apart(rail);
      rights = rights & (Access::local_write | Access::remote_read | Access::remote_write);
    }
    // For the read behind a put.
    if (includes(rights, Access::remote_write)) rights = rights | Access::remote_read;
    verbs::Registration* const registration = side.registrations->get(base, size, rights);
    handle.sides[rail - 1] = registration;
    // A key of 0 means none.
    if (registration != nullptr) sides.rkeys[rail - 1] = registration->rkey;
  });
  handle.exported.set_sides(sides);
}

void RailEngines::deregister(Handle& handle) {
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    if (handle.sides[i] != nullptr) sides_[i].registrations->put(handle.sides[i]);
    handle.sides[i] = nullptr;
  }
}

std::uint64_t RailEngines::registrations_in_use() const {
  std::uint64_t count = 0;
  for (const Side& side : sides_) {
    count += side.registrations != nullptr ? side.registrations->in_use() : 0;
  }
  return count;
}

void RailEngines::end_registrations() {
  for (Side& side : sides_) side.registrations.reset();
}

}  // namespace weir::btl
