// The engines of all rails of a process, the first one's included, and the memory that they know.
//
// Thread rule: any thread, but not under an engine's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/btl/endpoint.h"
#include "transport/btl/operation.h"
#include "transport/engine/engine.h"
#include "transport/verbs/registration_cache.h"

namespace weir::btl {

class RailEngines {
 public:
  // The cards of all rails, for the modex.
  static std::vector<std::byte> cards(const Engine& first,
                                      const std::vector<std::unique_ptr<Engine>>& further);
  // The options of the first rail's engine if there are others, and the options of the others.
  static Engine::Options options_of_first(const Engine::Options& options);
  static Engine::Options options(const Engine::Options& first);

  // `further`: at least one, and fewer than most_rails. `first` outlives this.
  RailEngines(Engine& first, std::vector<std::unique_ptr<Engine>> further);

  std::size_t count() const { return count_; }
  Engine& operator[](std::size_t rail) const { return *engines_[rail]; }
  // `visit(rail, engine)`
  template <typename F>
  void for_each_further(F&& visit) {
    for (std::size_t rail = 1; rail < count_; ++rail) visit(rail, *engines_[rail]);
  }

  // Makes the queues of the further rails. A rail where that fails is left out, with a warning.
  // `registration_bytes`: how much memory each may register.
  void start(std::size_t registration_bytes);
  void end();
  // No transfer is to go over that further rail.
  void leave_out(std::size_t rail) {
    sides_[rail - 1].works.store(false, std::memory_order_relaxed);
  }

  // The peer has these cards, that of its first rail among them.
  void add(Endpoint& endpoint, std::span<const std::byte> cards);
  // Whether transfers with the peer may go over that further rail now. Asks for the connection if
  // there is none.
  bool connect(std::size_t rail, const Endpoint& endpoint);
  // "the way to rank 3 over mlx5_0"
  std::string way_text(const Endpoint& endpoint, std::size_t rail) const;

  // ---- memory ----

  // Registers the memory of `handle` on each rail that works. `window`: it is not for messages.
  void register_memory(Handle& handle, const void* base, std::size_t size, Access access,
                       bool window);
  void deregister(Handle& handle);
  std::uint64_t registrations_in_use() const;
  void end_registrations();
  // The place for bytes that nobody wants. nullptr: the rail was left out.
  SendSlot* sink(std::size_t rail) const { return sinks_[rail]; }

  // ---- trains ----

  // Whether the engines of all rails want trains.
  bool want_trains() const {
    for (std::size_t rail = 0; rail < count_; ++rail) {
      if (!engines_[rail]->wants_trains()) return false;
    }
    return true;
  }
  // Tells the peer whether it may send us trains over the further rails from now on.
  void let_train(const Endpoint& endpoint, bool may) {
    for_each_further([&](std::size_t rail, Engine& engine) {
      const PeerId peer = endpoint.rails.id(rail);
      if (peer != PeerId::none) engine.let_train(peer, may);
    });
  }

 private:
  // A further rail.
  struct Side {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<verbs::RegistrationCache> registrations;
    std::atomic<bool> works{false};
  };

  const std::size_t count_;
  std::array<Side, most_rails - 1> sides_;
  std::array<Engine*, most_rails> engines_{};
  std::array<SendSlot*, most_rails> sinks_{};
};

}  // namespace weir::btl
