// Takes messages, finished sends and failures from the engine.

#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "transport/btl/module.h"
#include "transport/btl/report.h"

namespace weir::btl {
namespace {

bool has_receiver(std::uint8_t tag) {
  return tag < MCA_BTL_TAG_MAX && mca_btl_base_active_message_trigger[tag].cbfunc != nullptr;
}

// It waits until a thread of the application calls.
bool is_left(const Module& module, std::uint8_t tag) {
  return is_for_application(tag) && module.overlap != nullptr && module.overlap->is_here();
}

// A message is lost. Ends the job, because its receiver would wait for ever.
void give_up_message(Module& module, PeerId from, const std::string& why) {
  if (std::exchange(module.lost_message_told, true)) return;
  complain("a message from " + rank_text(module.engine->name(from)) + " is lost: " + why +
           " Check that all processes run the same Open MPI with the same MCA parameters "
           "(pml, osc).");
  static char text[] = "weir lost a message; see its message above";
  if (!module.end_job(nullptr, text)) std::abort();
}

[[gnu::cold, gnu::noinline]] void give_up_short(Module& module, PeerId from, std::uint8_t tag,
                                                std::uint32_t length) {
  give_up_message(module, from,
                  "it has " + std::to_string(length) + " bytes and tag " + std::to_string(tag) +
                      ", but Open MPI's messages with this tag are longer.");
}

// `endpoint`: nullptr if the peer came to us before Open MPI named it.
[[gnu::always_inline]] inline void hand_up(Module& module, PeerId from, Endpoint* endpoint,
                                           std::uint8_t tag, const std::byte* payload,
                                           std::uint32_t length) {
  if constexpr (upcall_names_endpoint) {
    if (endpoint == nullptr) [[unlikely]]
      endpoint = module.endpoint_of(from);
  }
  if (module.deaths.took_back(endpoint)) [[unlikely]]
    return;
  if (!deliver(module, endpoint, tag, payload, length)) [[unlikely]]
    give_up_short(module, from, tag, length);
}

// Completes a send that ob1 waits for; the slot goes back first, because the callback may want one.
Descriptor& finish(Module& module, Engine& engine, SendSlot* slot) {
  Descriptor& descriptor = *static_cast<Descriptor*>(slot->user);
  module.owed_bytes.fetch_sub(slot->capacity_bytes, std::memory_order_relaxed);
  engine.discard(slot);
  descriptor.slot = nullptr;
  return descriptor;
}

void keep_early(Module& module, const Delivery& message) {
  const PeerId from = message.peer;
  if (module.early_messages.push(from, message.tag, message.payload, message.length_bytes)) return;
  give_up_message(module, from,
                  "nothing in this process takes messages with tag " + std::to_string(message.tag) +
                      ", and " + std::to_string(EarlyMessages::most_bytes >> 20) +
                      " MiB of such messages wait already.");
}

}  // namespace

void take_whole(Module& module, const Delivery& message) {
  if (has_receiver(message.tag) && !is_left(module, message.tag)) [[likely]] {
    hand_up(module, message.peer, static_cast<Endpoint*>(message.above), message.tag,
            message.payload, message.length_bytes);
  } else {
    keep_early(module, message);
  }
}

namespace {

[[gnu::noinline]] void take_car(Module& module, const Delivery& message) {
  auto* endpoint = static_cast<Endpoint*>(message.above);
  if (endpoint == nullptr) endpoint = module.endpoint_of(message.peer);
  if (endpoint != nullptr && module.trains.on_car(message.peer, *endpoint, message)) return;
  give_up_message(module, message.peer, "its parts do not fit together.");
}

void finish_send(Module& module, Engine& engine, SendSlot* slot, bool delivered, bool tell) {
  Descriptor& descriptor = finish(module, engine, slot);
  if (!tell) return module.release(descriptor);
  module.complete(descriptor, delivered ? static_cast<int>(OPAL_SUCCESS) : undelivered);
}

// A message over a further rail, where the peer has another number.
void take_from_further(Module& module, Endpoint* endpoint, PeerName from, const Delivery& message) {
  if (endpoint == nullptr) endpoint = module.endpoints.find(from);
  if (endpoint == nullptr) {
    opal_proc_t* const proc = opal_proc_for_name(to_opal(from));
    if (proc != nullptr) endpoint = module.add(proc);
  }
  if (endpoint == nullptr) {
    complain("a message from " + rank_text(from) +
             " is lost: Open MPI does not know that process.");
    static char text[] = "weir lost a message; see its message above";
    if (!module.end_job(nullptr, text)) std::abort();
    return;
  }
  Delivery known = message;
  known.peer = endpoint->id;
  known.above = endpoint;
  message.tag == wire::car_tag ? take_car(module, known) : take_whole(module, known);
}

// Ends the job because of that peer.
void lose_peer(Module& module, Endpoint* endpoint, PeerName name, const std::string& port,
               const Failure& failure) {
  opal_proc_t* proc = endpoint != nullptr ? endpoint->proc : nullptr;
  if (proc == nullptr) proc = opal_proc_for_name(to_opal(name));
  const Operation* const operation = failure.request.peer != PeerId::none
                                         ? module.operations.find(failure.request.token)
                                         : nullptr;
  if (endpoint != nullptr) module.trains.forget(*endpoint);
  report_failure(name, proc, port, failure, operation != nullptr ? operation->memory : Export{},
                 module.deaths.survivable());
  static char text[] = "weir lost a peer; see its message above";
  module.end_job(proc, text);
}

class Upcalls {
 public:
  explicit Upcalls(Module& module) : module_(module) {}

  void on_message(const Delivery& message) {
    if (message.tag == wire::car_tag) [[unlikely]]
      return take_car(module_, message);
    take_whole(module_, message);
  }

  void on_retired(SendSlot* slot, bool delivered) {
    finish_send(module_, *module_.engine, slot, delivered, true);
  }

  void on_refusal(const Refusal& refusal) { report_refusal(refusal); }
  void on_warning(const std::string& what) { complain(what); }

  // Open MPI ends the job. Where that survives deaths, this process dies alone: it reaches nobody.
  void on_breakdown(const std::string& what) {
    complain(what + ".");
    if (module_.deaths.survivable()) std::abort();
    static char text[] = "weir's adapter failed; see its message above";
    module_.end_job(nullptr, text);
  }

  // To serve the node's other processes, we have to know the peers they talk to.
  void on_wanted(PeerName name) {
    opal_proc_t* const proc = opal_proc_for_name(to_opal(name));
    if (proc != nullptr) module_.add(proc);
  }

  void on_transfer(const TransferEnd& end) { finish_operation(module_, end, true); }

  // The engine reports each peer once.
  void on_failure(const Failure& failure) {
    Endpoint* const endpoint = module_.endpoints.find(failure.peer);
    const PeerName name = module_.engine->name(failure.peer);
    if (endpoint != nullptr && endpoint->leaving.load(std::memory_order_relaxed)) {
      note(5, rank_text(name) + " was left, or is dead: " + to_text(failure.reason));
      return;
    }
    if (failure.reason == FailReason::adapter_broken) {
      return note(5, rank_text(name) + " can no longer be reached");
    }
    if (endpoint != nullptr && module_.rails != nullptr &&
        module_.rails->frames.survive(*endpoint, 0, failure)) {
      return;
    }
    lose_peer(module_, endpoint, name, module_.engine->port().name(), failure);
  }

 private:
  Module& module_;
};

// Used after the PML is gone: its callbacks can no longer be called.
class LastUpcalls {
 public:
  explicit LastUpcalls(Module& module) : module_(module) {}

  void on_message(const Delivery&) {}
  void on_retired(SendSlot* slot, bool) {
    finish_send(module_, *module_.engine, slot, false, false);
  }
  void on_transfer(const TransferEnd& end) { finish_operation(module_, end, false); }
  void on_failure(const Failure&) {}
  void on_refusal(const Refusal&) {}
  void on_warning(const std::string&) {}
  void on_breakdown(const std::string&) {}

 private:
  Module& module_;
};

// From a further rail: the ends of parts, frames, and news of the rail. `tell`: Open MPI still
// takes callbacks.
class FurtherUpcalls {
 public:
  FurtherUpcalls(Module& module, std::size_t rail, bool tell)
      : module_(module), engine_(module.rails->engines[rail]), rail_(rail), tell_(tell) {}

  void on_message(const Delivery& message) {
    if (!tell_) return;
    const PeerName from = engine_.name(message.peer);
    take_from_further(module_, static_cast<Endpoint*>(message.above), from, message);
  }
  void on_retired(SendSlot* slot, bool delivered) {
    finish_send(module_, engine_, slot, delivered, tell_);
  }
  void on_transfer(const TransferEnd& end) { finish_operation(module_, end, tell_); }
  void on_failure(const Failure& failure) {
    if (!tell_) return;
    auto* const endpoint = static_cast<Endpoint*>(engine_.above(failure.peer));
    if (endpoint == nullptr || module_.rails->frames.survive(*endpoint, rail_, failure)) return;
    lose_peer(module_, endpoint, endpoint->name, engine_.port().name(), failure);
  }
  void on_refusal(const Refusal& refusal) {
    if (tell_) report_refusal(refusal);
  }
  void on_warning(const std::string& what) {
    if (tell_) complain(what);
  }
  void on_breakdown(const std::string& what) {
    module_.rails->engines.leave_out(rail_);
    if (tell_) complain(what + ". The job goes on over its other rails.");
  }

 private:
  Module& module_;
  Engine& engine_;
  const std::size_t rail_;
  const bool tell_;
};

// Takes the reports that event threads left.
struct Left {
  Module& module;

  void operator()(const RailReports::Text& text) const {
    text.loud ? complain(text.says) : note(1, text.says);
  }
  void operator()(const TransferEnd& end) const { finish_operation(module, end, true); }
  void operator()(const RailReports::Loss& loss) const {
    const Failure failure{loss.endpoint->id_on(loss.rail),
                          FailReason::no_resources,
                          CompletionStatus::success,
                          {},
                          {}};
    lose_peer(module, loss.endpoint, loss.endpoint->name,
              module.rails->engines[loss.rail].port().name(), failure);
  }
};

// Makes progress once on the further rails.
[[gnu::noinline]] int look_at_further(Module& module) {
  Rails& rails = *module.rails;
  if (rails.frames.has_news()) rails.frames.serve_links();
  if (rails.reports.any_left()) {
    for (const RailReports::Report& report : rails.reports.take_left()) {
      std::visit(Left{module}, report);
    }
  }
  if (rails.frames.any_down()) [[unlikely]]
    rails.frames.ask_again();
  int count = 0;
  rails.engines.for_each_further([&](std::size_t rail, Engine& engine) {
    count += engine.progress(FurtherUpcalls(module, rail, true));
  });
  return count;
}

void close_further(Module& module, std::span<Endpoint* const> leaving) {
  module.rails->engines.for_each_further([&](std::size_t rail, Engine& engine) {
    std::vector<PeerId> peers;
    for (const Endpoint* const endpoint : leaving) {
      const PeerId peer = endpoint->rails.id(rail);
      if (peer != PeerId::none) peers.push_back(peer);
    }
    engine.close(peers, FurtherUpcalls(module, rail, true));
  });
}

void shut_down_further(Module& module) {
  module.rails->frames.end();
  module.rails->engines.for_each_further([&](std::size_t rail, Engine& engine) {
    engine.shutdown(FurtherUpcalls(module, rail, false));
    while (engine.progress(FurtherUpcalls(module, rail, false)) > 0) {
    }
  });
  module.rails->engines.end();
}

// Hands up messages that came before their receiver, if it is there now.
int hand_up_early(Module& module) {
  int count = 0;
  for (EarlyMessages::Message& message : module.early_messages.take()) {
    const auto length = static_cast<std::uint32_t>(message.payload.size());
    if (has_receiver(message.tag)) {
      hand_up(module, message.from, nullptr, message.tag, message.payload.data(), length);
      ++count;
    } else {
      module.early_messages.push(message.from, message.tag, message.payload.data(), length);
    }
  }
  return count;
}

// Sends the messages that wait for registered memory, if there is some now.
int send_waiting(Module& module) {
  int count = 0;
  WaitingSends::Send send;
  const WaitingSends::Turn turn(module.waiting_sends);
  if (!turn) return 0;
  while (module.waiting_sends.pop(send)) {
    SendSlot* const slot = module.engine->acquire(send.length_bytes);
    if (slot == nullptr) {
      module.waiting_sends.push_front(std::move(send));
      break;
    }
    ++count;
    std::memcpy(slot->payload(), send.bytes.get(), send.length_bytes);
    if (send.descriptor != nullptr) {
      // It was counted by its length; from here on its slot counts.
      module.owed_bytes.fetch_add(std::int64_t{slot->capacity_bytes} - send.length_bytes,
                                  std::memory_order_relaxed);
      send.descriptor->slot = slot;
    }
    slot->notify = send.descriptor != nullptr;
    slot->user = send.descriptor;
    const Status status =
        module.engine->send(send.endpoint->id, slot, send.length_bytes, send.tag, true);
    if (status == Status::ok) continue;
    if (status == Status::elsewhere &&
        module.rails->frames.send_copy(*send.endpoint, slot, send.length_bytes, send.tag) ==
            Status::ok) {
      continue;
    }
    if (send.descriptor != nullptr) {
      module.complete(finish(module, *module.engine, slot), undelivered);
    } else {
      module.engine->discard(slot);
    }
  }
  return count;
}

// Processes died. What there was with them ends here, before Open MPI hears of it.
[[gnu::cold, gnu::noinline]] int serve_deaths(Module& module) {
  const std::vector<Deaths::Death> deaths = module.deaths.take();
  int count = module.engine->progress(Upcalls(module));
  if (module.rails != nullptr) count += look_at_further(module);
  for (const Deaths::Death& death : deaths) {
    for (Endpoint* const peer : death.peers) module.trains.forget(*peer);
    death.news.pass_on();
  }
  return count;
}

}  // namespace

int progress(Module& module) {
  if (module.overlap != nullptr) [[unlikely]] {
    if (module.overlap->is_here()) {
      if (!module.overlap->is_in_upcall()) return module.overlap->hand_up();
      int count = module.engine->stand_in_further(Upcalls(module));
      if (module.rails != nullptr) {
        module.rails->engines.for_each_further([&](std::size_t rail, Engine& engine) {
          count += engine.stand_in_further(FurtherUpcalls(module, rail, true));
        });
      }
      return count;
    }
    module.overlap->end_with_mpi();
  }
  int count = 0;
  if (module.early_messages.any()) [[unlikely]]
    count += hand_up_early(module);  // first: later ones of the same peer may have come
  count += module.engine->progress(Upcalls(module));
  if (module.has_company) {
    if (module.overlap != nullptr) module.overlap->after_visit();
    if (module.rails != nullptr && module.rails->is_due()) count += look_at_further(module);
  }
  if (module.waiting_sends.any()) [[unlikely]]
    count += send_waiting(module);
  if (deaths_may_be_survivable && module.deaths.any()) [[unlikely]]
    count += serve_deaths(module);
  module.trains.set_limit();
  return count;
}

// Hands up nothing while early messages wait: they go first, in the application's turn. Then their
// receiver registers, and those go up that are the application's (is_for_application).
int stand_in_for_application(Module& module, std::uint64_t visits, int most) noexcept {
  const auto goes_on = [&](int count) {
    return count < most && module.overlap->may_go_on() && !module.early_messages.any();
  };
  if (module.early_messages.any()) return 0;
  try {
    int count = module.engine->stand_in(Upcalls(module), visits, goes_on);
    if (module.rails != nullptr) {
      module.rails->engines.for_each_further([&](std::size_t rail, Engine& engine) {
        count += engine.stand_in(FurtherUpcalls(module, rail, true), visits,
                                 [&](int more) { return goes_on(count + more); });
      });
    }
    return count + (module.waiting_sends.any() ? send_waiting(module) : 0);
  } catch (const std::exception& problem) {
    give_up(module, problem);
    return 0;
  }
}

void give_up(Module& module, const std::exception& problem) {
  complain(std::string("cannot hand arrived messages to Open MPI: ") + problem.what() + ".");
  static char text[] = "weir failed in this process; see its message above";
  if (!module.end_job(nullptr, text)) std::abort();
}

void Module::close(std::span<Endpoint* const> leaving) {
  if (overlap != nullptr) overlap->end_with_mpi();
  std::vector<PeerId> peers;
  for (Endpoint* const endpoint : leaving) {
    endpoint->leaving.store(true, std::memory_order_relaxed);
    peers.push_back(endpoint->id);
  }
  for (int left = 1000; waiting_sends.any() && left > 0; --left) progress(*this);
  if (rails != nullptr) close_further(*this, leaving);
  const std::size_t stuck = engine->close(peers, Upcalls(*this));
  if (stuck > 0) {
    note(1, "left " + std::to_string(stuck) + " of " + std::to_string(peers.size()) +
                " peers after 10s, although sends to them were under way");
  }
}

void shut_down(Module& module) {
  if (module.overlap != nullptr) module.overlap->end();
  if (module.rails != nullptr) shut_down_further(module);
  if (!module.engine->shutdown(LastUpcalls(module))) {
    note(1, "ended after 10s, although sends were under way");
  }
  while (module.engine->progress(LastUpcalls(module)) > 0) {
  }
}

}  // namespace weir::btl
