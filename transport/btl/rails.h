// The further rails of a process: an engine of its own on each of its other ports. They carry parts
// of large messages and nothing else, so that order and visibility stay the first rail's business:
// all frames, puts, atomics and windows use that one. A part is a get, which may be done again
// anywhere once its queue pair is destroyed.
//
//   a large get ──divide──▶ parts ──▶ engines ──▶ all are there: the get is over
//                             ▲          │ lost: the rail is left alone for a while
//                             └── first ◀┘
//
// Rail k of a process goes to rail k of the peer. It is used once its connection is ready, which the
// first large message asks for; so nothing waits for a way that may not be there.
//
// Thread rule: any thread, but not under an engine's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "transport/btl/compat.h"
#include "transport/btl/endpoint.h"
#include "transport/btl/operation.h"
#include "transport/config/settings.h"
#include "transport/engine/engine.h"
#include "transport/rail/divide.h"
#include "transport/rail/divisions.h"
#include "transport/verbs/registration_cache.h"

namespace weir::btl {

struct Module;

class Rails {
 public:
  // A message is divided from this size on, into parts no smaller than `least_part`.
  static constexpr std::uint64_t least_message = 256 << 10;
  static constexpr std::uint64_t least_part = 64 << 10;

  // The cards of all rails, for the modex.
  static std::vector<std::byte> cards(const Engine& first,
                                      const std::vector<std::unique_ptr<Engine>>& further);
  // The settings of a further rail's engine.
  static Engine::Options options(const Engine::Options& first);

  // `engines` are not empty, and fewer than most_rails.
  Rails(Module& module, std::vector<std::unique_ptr<Engine>> engines);

  // Makes their queues. One where that fails is left out, with a warning.
  void start();
  // The peer has these cards, its first rail's included.
  void add(Endpoint& endpoint, std::span<const std::byte> cards);

  // Registers the memory of `handle` on each rail that works, if it is for large messages.
  void register_memory(Handle& handle, const void* base, std::size_t size, Access access);
  void deregister(Handle& handle);

  // Takes a large get, of which nobody has anything yet; its operation has begun. False if it is to
  // go over the first rail alone.
  bool carry(Endpoint& endpoint, const Handle* local, const Exported& remote,
             const TransferRequest& request);
  // A part is over.
  void finish(const Operation& done, bool ok, bool tell);

  // Looks once at what there is, while parts are under way, and else seldom: it costs each small
  // message a poll a rail. Returns how much there was.
  int progress() {
    if (side_parts_.load(std::memory_order_relaxed) == 0) {
      const std::uint32_t calls = idle_calls_.load(std::memory_order_relaxed) + 1;
      idle_calls_.store(calls, std::memory_order_relaxed);
      if (calls % idle_calls_a_look != 0) return 0;
    }
    return look();
  }
  // Leaves these peers.
  void close(std::span<Endpoint* const> leaving);
  void shut_down();

  std::size_t parts_out();
  std::uint64_t registrations_in_use() const;
  void end_registrations();

 private:
  struct Side {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<verbs::RegistrationCache> registrations;
    std::atomic<bool> works{false};
  };
  class Upcalls;

  bool may_use(std::size_t side, Endpoint& endpoint, const Handle& local, const Exported& remote);
  std::array<bool, most_rails> usable(Time now, Endpoint& endpoint, const Handle& local,
                                      const Exported& remote);
  double rate_of(std::size_t rail) const;
  Engine& engine(std::size_t rail) const;
  void submit(Divisions::Part& part, std::size_t rail, Endpoint& endpoint,
              TransferRequest request);
  void on_failure(std::size_t side, const Failure& failure);
  std::string way_text(const Endpoint& endpoint, std::size_t side) const;

  int look();

  static constexpr int most_losses_told = 8;
  static constexpr std::uint32_t idle_calls_a_look = 64;

  Module& module_;
  std::array<Side, most_rails - 1> sides_;
  const std::size_t count_;
  std::atomic<std::uint32_t> side_parts_{0};  // under way on further rails
  std::atomic<std::uint32_t> idle_calls_{0};

  std::mutex lock_;  // of what follows, and of the endpoints' ways
  Divisions divisions_;
  int losses_told_ = 0;
};

}  // namespace weir::btl
