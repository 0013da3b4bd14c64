// The further rails of a process: an engine of its own on each of its other ports. They carry large
// messages, large gets and puts of windows, and parts of these; and when the first rail fails,
// everything but atomics, which stay with one adapter of the target. A get may be done again
// anywhere once its queue pair is destroyed, a put once the target's is destroyed, too. A frame
// goes over another rail once both ends know that it has not arrived (rail/handover.h). ob1 numbers
// its messages, so frames need no order among rails; parts of windows are put in order by reads
// (rail/divisions.h).
//
//   a large get ──divide──▶ parts ──▶ engines ──▶ all are there: the get is over
//                             ▲          │ lost: the rail is left alone for a while
//                             └── other ◀┘
//
// Rail k of a process goes to rail k of the peer. It is used once its connection is ready, which
// the first large message asks for; so nothing waits for a way that may not be there.
//
// Thread rule: any thread, but not under an engine's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "transport/btl/compat.h"
#include "transport/btl/endpoint.h"
#include "transport/btl/operation.h"
#include "transport/config/settings.h"
#include "transport/engine/engine.h"
#include "transport/rail/divisions.h"
#include "transport/rail/frames.h"
#include "transport/rail/transfers.h"
#include "transport/verbs/registration_cache.h"

namespace weir::btl {

struct Module;

class Rails {
 public:
  // The cards of all rails, for the modex.
  static std::vector<std::byte> cards(const Engine& first,
                                      const std::vector<std::unique_ptr<Engine>>& further);
  // The settings of the first rail's engine if there are others, and of theirs.
  static Engine::Options options_of_first(const Engine::Options& options);
  static Engine::Options options(const Engine::Options& first);

  // `engines` are not empty, and fewer than most_rails.
  Rails(Module& module, std::vector<std::unique_ptr<Engine>> engines);

  // Makes their queues. One where that fails is left out, with a warning.
  void start();
  // The peer has these cards, its first rail's included.
  void add(Endpoint& endpoint, std::span<const std::byte> cards);

  // Registers the memory of `handle` on each rail that works. `window`: it is not for messages.
  void register_memory(Handle& handle, const void* base, std::size_t size, Access access,
                       bool window);
  void deregister(Handle& handle);

  // Takes every get, put or atomic; `operation` has begun. `sides` are of its memory.
  void transfer(Endpoint& endpoint, Operation& operation, const SideExport& sides,
                TransferRequest request);
  // The step of a part is over. Without `upcalls` the end of the whole waits for the application.
  void finish(const Operation& done, bool ok, bool tell, bool upcalls = true);

  // ---- frames, over all rails, or when the first one's connection to the peer is broken ----

  // Frames go over all rails in turn (`frames: spread`).
  bool spread() const { return spread_; }
  // `send(engine, peer)` sends over one rail; goes on until one takes it.
  template <typename Send>
  Status send(Endpoint& endpoint, Send&& send) {
    return endpoint.rails.links.send(
        count_ + 1, spread_ ? next_in_turn(endpoint) : 0, [&](std::size_t rail) {
          const PeerId peer = endpoint.id_on(rail);
          return peer != PeerId::none ? send(engine(rail), peer) : Status::elsewhere;
        });
  }
  // Sends a message that is in a slot of the first rail's, which goes back there.
  Status send_copy(Endpoint& endpoint, SendSlot* slot, std::uint32_t length_bytes,
                   std::uint8_t tag);
  // As Engine has it, of all rails.
  bool want_trains() const {
    for (std::size_t rail = 0; rail <= count_; ++rail) {
      if (!engine(rail).wants_trains()) return false;
    }
    return true;
  }
  // From now on the peer may send us trains over the further rails, or may not.
  void let_train(const Endpoint& endpoint, bool may) {
    for (std::size_t i = 0; i < count_; ++i) {
      const PeerId peer = endpoint.rails.id(i + 1);
      if (peer != PeerId::none) sides_[i].engine->let_train(peer, may);
    }
  }
  // Sees to what became of connections, and to what peers ask of them: carries frames of a rail that
  // broke over another one. Event threads call it, so it does not wait for an application that
  // computes.
  void serve_links();
  // The first rail has given the peer up. False if that loses something, or there is no other way.
  bool survives(Endpoint& endpoint, const Failure& failure);

  // Looks once at what has come, while there may be something, and else seldom: it costs each small
  // message a poll a rail. Returns how much there was.
  int progress() {
    if (!spread_ && side_parts_.load(std::memory_order_relaxed) == 0 &&
        endpoints_down_.load(std::memory_order_relaxed) == 0 &&
        !has_news_.load(std::memory_order_relaxed) && !has_later_.load(std::memory_order_relaxed)) {
      const std::uint32_t calls = idle_calls_.load(std::memory_order_relaxed) + 1;
      idle_calls_.store(calls, std::memory_order_relaxed);
      if (calls % idle_calls_a_look != 0) return 0;
    }
    return look();
  }
  // The same for who stands in for the application, as Engine has them.
  int stand_in(std::uint64_t visits, const std::function<bool(int)>& goes_on);
  int stand_in_further();
  template <typename F>
  void for_each_engine(F&& visit) {
    for (std::size_t i = 0; i < count_; ++i) visit(*sides_[i].engine);
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
  class Ways;

  RailKeys keys_of(const Operation& operation, Opcode opcode) const;
  void divide(Endpoint& endpoint, const Operation& operation, const TransferRequest& request,
              const RailKeys& keys);
  void submit(Divisions::Part& part, Endpoint& endpoint);
  // What may go over another rail than this one does so.
  void withdraw(Endpoint& endpoint, std::size_t rail);
  void look_back(Endpoint& endpoint, std::size_t rail, std::uint8_t others);
  bool may_use(std::size_t side, Endpoint& endpoint, const RailKeys& keys);
  RailTransfers::Usable usable(Time now, Endpoint& endpoint, const RailKeys& keys);
  RailTransfers::Speeds speeds() const;
  Engine& engine(std::size_t rail) const;
  std::size_t next_in_turn(Endpoint& endpoint);
  Endpoint* endpoint_on(std::size_t rail, PeerId peer);
  void on_news(std::size_t rail, const LinkNews& news);
  void explain_loss(const Endpoint& endpoint, const Failure& failure);
  void on_failure(std::size_t side, const Failure& failure);
  void lose_way(std::size_t rail, Endpoint& endpoint, FailReason reason);
  void on_given_away(Endpoint& endpoint, std::size_t rail, std::size_t frames, std::size_t lost);
  std::string way_text(const Endpoint& endpoint, std::size_t rail) const;

  int look();
  void ask_again();
  // What only the application may do, with its next call: say something, or end the job.
  void later(std::function<void()> what);
  void do_later();

  // Whether one more loss is told, and whether the end of one is.
  bool tells_loss() { return losses_told_.fetch_add(1) < most_losses_told; }
  bool may_tell() const { return losses_told_.load() <= most_losses_told; }

  static constexpr int most_losses_told = 8;
  static constexpr std::uint32_t idle_calls_a_look = 64;

  Module& module_;
  std::array<Side, most_rails - 1> sides_;
  const std::size_t count_;
  const bool spread_;
  // Of each rail: where bytes land that nobody wants.
  std::array<SendSlot*, most_rails> sinks_{};
  std::atomic<std::uint32_t> side_parts_{0};  // under way on further rails
  std::atomic<std::uint32_t> idle_calls_{0};
  std::atomic<std::uint32_t> endpoints_down_{0};  // whose first rail broke
  std::atomic<std::int64_t> asked_ns_{0};         // when the first rail was last asked for again
  std::atomic<int> losses_told_{0};

  std::mutex links_lock_;  // of what follows, and of the endpoints' links when there is news
  std::atomic<bool> has_news_{false};  // some engine has some
  std::vector<LinkNews> news_;         // being served
  bool ended_ = false;
  std::mutex later_lock_;
  std::vector<std::function<void()>> later_;
  std::atomic<bool> has_later_{false};

  std::mutex lock_;  // of what follows, and of the endpoints' ways
  RailTransfers transfers_;
};

}  // namespace weir::btl
