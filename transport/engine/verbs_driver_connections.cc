// How connections are made and ended: the core says which, connection management what became of
// them.

#include <sys/random.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "transport/engine/verbs_driver.h"
#include "transport/verbs/refusals.h"

namespace weir {
namespace {

// A queue pair that ends has completed what it had under way in microseconds. An adapter that was
// late so many times is not waited for any more.
constexpr Duration flush_patience = milliseconds(20);
constexpr std::uint64_t most_late_flushes = 50;

// Refusing a stranger is a system call.
constexpr int connection_events_at_once = 16;

// As errno says.
std::string no_more_connections(const verbs::Device& device) {
  return device.port().name() + " makes no further connections (" + verbs::reason() + ")";
}

}  // namespace

void VerbsDriver::carry_out(const ConnectAction& action) {
  switch (action.kind) {
    case ConnectAction::Kind::connect:
    case ConnectAction::Kind::accept:
    case ConnectAction::Kind::loop: return make_pair(action);
    case ConnectAction::Kind::lane_end: return make_lane_end(action);
    case ConnectAction::Kind::drop: return drop(action.lane);
    case ConnectAction::Kind::reject: return refuse(action);
  }
}

// Makes the queue pair of a lane, and has it connected.
void VerbsDriver::make_pair(const ConnectAction& action) {
  std::string why;
  if (broken_) return give_up(action, FailReason::adapter_broken);
  const std::uint32_t number = lend_control_slots(why) ? queues_->create_pair(action.lane, why) : 0;
  if (number == 0) {
    warnings_.no_connection(why);
    return give_up(action, FailReason::no_resources);
  }
  core_.limit_inline(queues_->inline_bytes());
  if (!core_.covers_all_peers()) warnings_.small_window(core_);
  connect(action, number);
}

bool VerbsDriver::lend_control_slots(std::string& why) {
  while (core_.lacks_control_slots()) {
    SendSlot* const slot = slots_->get(SlotPool::small);
    if (slot == nullptr) {
      const std::size_t bytes = std::size_t{SlotPool::small_bytes} * SlotPool::slab_slots;
      why = "no memory for another connection: " + cannot_register(device_, bytes);
      return false;
    }
    core_.lend_control_slot(slot);
  }
  return true;
}

void VerbsDriver::connect(const ConnectAction& action, std::uint32_t qp_number) {
  errno = 0;
  const auto failed = [&](FailReason reason) {
    if (errno == EACCES) {
      warnings_.no_connection(no_more_connections(device_));
      reason = FailReason::no_resources;
    }
    core_.on_connect_failed(clock(), action.lane, reason, out_);
  };
  if (action.kind == ConnectAction::Kind::connect) {
    const wire::Card& card = core_.card(action.peer);
    if (card.port == 0 || !connections_->connect(action.lane, card, action.hello, qp_number)) {
      failed(FailReason::connect_unreachable);
    }
  } else if (action.kind == ConnectAction::Kind::accept) {
    if (!connections_->accept(action.request, action.lane, action.hello, qp_number)) {
      failed(FailReason::no_resources);
    }
  } else if (queues_->connect_to_itself(action.lane)) {
    core_.on_established(clock(), action.lane, out_);
  } else {
    failed(FailReason::connect_unreachable);  // the port is down
  }
}

void VerbsDriver::give_up(const ConnectAction& action, FailReason reason) {
  if (action.kind == ConnectAction::Kind::accept) {
    connections_->reject(action.request, wire::Reject::closing);
  }
  core_.on_connect_failed(clock(), action.lane, reason, out_);
}

// Without a second lane, reads use the first one.
void VerbsDriver::make_lane_end(const ConnectAction& action) {
  wire::LaneEnd ours = action.ours;
  if (!queues_->has_pair(action.lane)) {
    std::uint32_t random = 0;
    const bool drawn = ::getrandom(&random, sizeof random, 0) == sizeof random;
    std::string why;
    ours.qp_number = drawn ? queues_->create_second_pair(action.lane, core_.fetch_depth(), why) : 0;
    if (!ours.exists() && ours.number == 0 && options_.core.fetches_apart) {
      warnings_.no_connection(why);  // the peer will be lost
    }
    ours.psn = random & wire::psn_mask;
    ours.reads = device_.most_fetches_answered();
  }
  const bool joins = ours.exists() && action.theirs.exists();
  if (joins &&
      !queues_->connect_beside(action.lane, action.beside, ours, action.theirs, action.reads)) {
    ours = {};
  }
  core_.on_lane_end(clock(), action.lane, ours, out_);
}

// What is completed before the pair is gone counts; after that nothing of it can come.
void VerbsDriver::drop(LaneId lane) {
  connections_->drop(lane);
  if (queues_->retire_pair(lane)) await_flush();
  queues_->destroy_flushed();
  core_.on_dropped(clock(), lane, out_);
}

// Some adapters lose the completions of a pair they destroy, and with them receive buffers: so all
// of them are to be there before. The wait has a bound, because it is under the lock.
void VerbsDriver::await_flush() {
  const bool waits = core_.counters().flushes_late < most_late_flushes;
  const Time end = clock() + (waits ? flush_patience : Duration{});
  drain();
  for (bool last = false; !queues_->is_flushed() && !broken_; drain()) {
    if (std::exchange(last, clock() >= end)) {  // polled since: a pause of ours is not the adapter's
      ++core_.counters().flushes_late;
      return;
    }
  }
}

void VerbsDriver::refuse(const ConnectAction& action) {
  if (action.silent) return connections_->forget(action.request);  // the driver counts it
  // What belongs to the lives of connections is nobody's fault. Somebody has to look into all
  // others.
  if (action.reason != wire::Reject::crossed && action.reason != wire::Reject::closing &&
      action.reason != wire::Reject::over) {
    warnings_.refused({action.reason, action.hello.from, connections_->asker(action.request),
                       action.hello.attempt != 0, false},
                      ++core_.counters().requests_refused);
  }
  connections_->reject(action.request, action.reason);
}

// What is left is there in the next turn; meanwhile others may have the lock, whoever asks how
// often.
void VerbsDriver::serve_connections() {
  for (int left = connection_events_at_once; left > 0; --left) {
    errno = 0;
    const std::optional<verbs::ConnectionEvent> event = connections_->next();
    if (event) {
      serve(*event);
      continue;
    }
    if (errno == EACCES && has_device_) {  // for ever, and the event thread would spin
      warnings_.no_connection(no_more_connections(device_));
      has_device_ = false;
    }
    return;
  }
}

void VerbsDriver::serve(const verbs::ConnectionEvent& event) {
  using Kind = verbs::ConnectionEvent::Kind;
  if (event.kind == Kind::request) return add_request({event.request, event.hello});
  if (event.kind == Kind::device_gone) return on_device_gone();
  on_connection_event([&](const Now& now) {
    switch (event.kind) {
      case Kind::request:
      case Kind::device_gone: break;
      case Kind::answer: Driver::on_answer(now, event.lane, event.hello); break;
      case Kind::established: core_.on_established(now, event.lane, out_); break;
      case Kind::rejected: core_.on_rejected(now, event.lane, event.reject, out_); break;
      case Kind::failed: core_.on_connect_failed(now, event.lane, event.reason, out_); break;
      case Kind::disconnected: core_.on_disconnected(now, event.lane, out_); break;
    }
  });
}

}  // namespace weir
