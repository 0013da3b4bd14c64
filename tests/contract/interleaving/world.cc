#include "tests/contract/interleaving/world.h"

#include <algorithm>
#include <cstring>

namespace weir::interleaving {
namespace {

using Event = Choice::Kind;

constexpr Duration asks_again_every = seconds(1);  // for the first rail (btl/rails.h)
constexpr std::size_t most_rounds = 400;           // until both ends agree

Core::Config config_for(const Scenario& scenario, std::size_t end) {
  Core::Config config;
  config.buffer_bytes = 128;
  config.window = {.initial = 16, .max = 32};
  config.credits = {.control_reserve = 2,
                    .min_credits = std::min(2u, scenario.credits),
                    .max_credits = scenario.credits};
  config.queue = {.depth = 16,
                  .control_reserve = 4,
                  .signal_interval = scenario.signal_interval,
                  .signal_bytes = 32768};
  config.inline_bytes = 64;
  config.bundle_bytes = 0;
  config.bundle_message_bytes = 0;
  config.pending_frames = 16;
  config.shrink_after = {};
  config.attempt_timeout = seconds(2);
  config.connect_timeout = config.peer_timeout = seconds(scenario.may_end ? 6 : 60);
  config.resumes = true;
  config.frames_may_repeat = false;
  config.among_rails = scenario.rails > 1;
  config.connections_max = scenario.places[end];
  return config;
}

const char* name(std::size_t end) { return end == 0 ? "A" : "B"; }

}  // namespace

// What an exchange about frames needs done, as in btl/rail_frames.cc.
class World::Ways {
 public:
  Ways(World& world, std::size_t end) : world_(world), end_(end) {}

  std::optional<std::uint32_t> hold(std::size_t rail) {
    if (rail >= world_.rails_.size()) return std::nullopt;
    return world_.side(end_, rail).hold();
  }
  void give_away(std::size_t rail, std::uint32_t received) {
    world_.give_away(end_, rail, received);
  }
  void let_go(std::size_t rail) { world_.side(end_, rail).let_go(); }
  bool send(std::size_t over, const HandoverMessage& message) {
    const auto bytes = put(message);
    return world_.side(end_, over).send(handover_tag, bytes.data(), handover_bytes) == Status::ok;
  }

 private:
  World& world_;
  std::size_t end_;
};

World::World(const Scenario& scenario) : scenario_(scenario), left_(scenario.budget) {
  for (std::size_t i = 0; i < scenario.rails; ++i) {
    rails_.push_back(std::make_unique<Rail>(
        stage_, std::array{config_for(scenario, 0), config_for(scenario, 1)}));
  }
  if (scenario.ready) make_ready();
}

void World::make_ready() {
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) side(0, rail).connect();
  run_all(std::nullopt);
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    for (std::size_t end = 0; end < 2; ++end) {
      if (side(end, rail).state() != PeerState::ready) stage_.violate("no beginning");
    }
  }
}

// ---- what may happen ----

std::vector<Choice> World::choices() const {
  std::vector<Choice> all;
  const auto add = [&](Choice choice, bool may_be_late = false) {
    all.push_back(choice);
    if (!may_be_late || !scenario_.late) return;
    const bool has = std::any_of(rails_.begin(), rails_.end(), [&](const auto& rail) {
      return rail->has_frames_for(choice.end) ||
             (choice.kind == Event::timer && rail->has_frames_for(1));
    });
    choice.late = true;
    if (has) all.push_back(choice);
  };
  for (std::uint8_t r = 0; r < rails_.size(); ++r) {
    const Rail& rail = *rails_[r];
    for (std::uint16_t i = 0; i < rail.messages().size(); ++i) {
      if (scenario_.reorders ? !rail.is_next(i) : i > 0) continue;
      const auto end = static_cast<std::uint8_t>(rail.messages()[i].to);
      add({.kind = Event::deliver_message, .end = end, .rail = r, .which = i}, true);
      if (left_.losses > 0 && rail.may_lose(i))
        add({.kind = Event::lose_message, .end = end, .rail = r, .which = i});
    }
    for (std::uint16_t i = 0; i < rail.attempts(); ++i) {
      const auto end = static_cast<std::uint8_t>(rail.asker_of(i));
      if (rail.is_answered(i)) {
        add({.kind = Event::handle_answer, .end = end, .rail = r, .which = i}, true);
      }
    }
    for (std::uint8_t end = 0; end < 2; ++end) {
      if (rail.side(end).has_requests()) add({.kind = Event::serve, .end = end, .rail = r}, true);
    }
    for (std::uint16_t i = 0; i < rail.pairs(); ++i) {
      const auto end = static_cast<std::uint8_t>(rail.side_of(i));
      const auto to = static_cast<std::uint8_t>(1 - end);
      if (rail.may_deliver(i)) {
        add({.kind = Event::deliver_frame, .end = to, .rail = r, .which = i});
      }
      if (rail.may_ack(i)) add({.kind = Event::ack, .end = end, .rail = r, .which = i});
      if (left_.breaks > 0 && rail.may_break(i)) {
        add({.kind = Event::break_pair, .end = end, .rail = r, .which = i}, true);
      }
      if (rail.is_futile(i)) add({.kind = Event::exhaust, .end = end, .rail = r, .which = i}, true);
    }
  }
  for (std::uint8_t end = 0; end < 2; ++end) {
    const End& of = ends_[end];
    if (of.has_ended) continue;
    const End& other = ends_[1 - end];
    const bool leaves = of.closing || (other.closing && !other.closed);
    if (left_.messages[end] > 0 && !leaves) add({.kind = Event::send, .end = end});
    if (left_.third[end] > 0 && !of.closing) add({.kind = Event::third, .end = end}, true);
    if (left_.connects[end] > 0 && !of.closing) add({.kind = Event::connect, .end = end}, true);
    if (left_.closes[end] > 0 && !of.closing) add({.kind = Event::close, .end = end}, true);
    bool has_completions = false;
    bool has_news = of.closing && !of.closed;
    for (const auto& rail : rails_) {
      has_completions = has_completions || rail->side(end).has_completions();
      has_news = has_news || rail->side(end).has_for_application();
    }
    if (has_completions || has_news) add({.kind = Event::look, .end = end}, true);
    if (has_completions && scenario_.computes) add({.kind = Event::stand_in, .end = end}, true);
  }
  if (left_.timers > 0 && next_deadline() != Time::never()) add({.kind = Event::timer}, true);
  return all;
}

std::string World::text(const Choice& choice) const {
  const Rail& rail = *rails_[choice.rail];
  const std::string who = name(choice.end);
  std::string text;
  switch (choice.kind) {
    case Event::deliver_message:
      text = rail.text_of_message(choice.which) + " reaches " + who;
      break;
    case Event::lose_message: text = rail.text_of_message(choice.which) + " is lost"; break;
    case Event::handle_answer: text = who + " handles the answer"; break;
    case Event::serve: text = who + " serves the request that waits"; break;
    case Event::deliver_frame:
      text = rail.text_of_frame(choice.which) + " arrives at " + who;
      break;
    case Event::ack: text = who + " has acknowledged what it sent"; break;
    case Event::break_pair: text = "the queue pair of " + who + " breaks"; break;
    case Event::exhaust: text = who + " repeats in vain until its queue pair breaks"; break;
    case Event::send:
      text = who + " sends message " + std::to_string(ends_[choice.end].sent + 1);
      break;
    case Event::look: text = "the application of " + who + " looks"; break;
    case Event::stand_in: text = "the event thread of " + who + " looks"; break;
    case Event::close: text = who + " leaves"; break;
    case Event::third: text = who + " sends to a third process"; break;
    case Event::connect: text = who + " asks for a connection ahead"; break;
    case Event::timer: text = "time passes until the next deadline"; break;
  }
  if (rails_.size() > 1 && choice.kind < Event::send) {
    text = "rail " + std::to_string(choice.rail) + ": " + text;
  }
  return text + (choice.late ? ", and frames arrive while queue pairs are destroyed" : "");
}

std::string World::text() const {
  std::string text;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    text += (rail > 0 ? " | " : "") + std::string("A ") + side(0, rail).text() + "; B " +
            side(1, rail).text();
  }
  return text;
}

void World::apply(const Choice& choice) {
  Rail& rail = *rails_[choice.rail];
  stage_.late = choice.late;
  switch (choice.kind) {
    case Event::deliver_message: rail.deliver_message(choice.which); break;
    case Event::lose_message:
      --left_.losses;
      rail.lose_message(choice.which);
      break;
    case Event::handle_answer: rail.handle_answer(choice.which); break;
    case Event::serve: side(choice.end, choice.rail).serve(); break;
    case Event::deliver_frame: rail.deliver_frame(choice.which); break;
    case Event::ack: rail.ack(choice.which); break;
    case Event::break_pair:
      --left_.breaks;
      rail.break_pair(choice.which);
      break;
    case Event::exhaust: rail.break_pair(choice.which); break;
    case Event::send:
      --left_.messages[choice.end];
      send(choice.end);
      break;
    case Event::look: look(choice.end); break;
    case Event::stand_in:
      for (const auto& one : rails_) one->side(choice.end).stand_in();
      break;
    case Event::close:
      --left_.closes[choice.end];
      ends_[choice.end].closing = true;
      close(choice.end);
      break;
    case Event::third:
      --left_.third[choice.end];
      side(choice.end, 0).turn_to_third();
      break;
    case Event::connect:
      --left_.connects[choice.end];
      ends_[choice.end].asked = true;
      side(choice.end, 0).connect();
      break;
    case Event::timer:
      --left_.timers;
      pass_time();
      break;
  }
  stage_.late = false;
  note_ready();
}

void World::note_ready() {
  for (std::uint8_t end = 0; end < 2; ++end) {
    End& of = ends_[end];
    of.was_ready = of.was_ready || (of.asked && side(end, 0).state() == PeerState::ready);
  }
}

// ---- the layer above ----

Status World::send_over(std::size_t end, std::uint8_t tag, const void* bytes, std::uint32_t length,
                        const SendSlot* frame, std::size_t except) {
  End& of = ends_[end];
  const auto other = static_cast<std::uint8_t>(~(of.up | of.down) & 1);
  for (const std::uint8_t among : {of.up, other, static_cast<std::uint8_t>(of.down & ~of.up)}) {
    for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
      if ((among >> rail & 1) == 0 || rail == except) continue;
      Side& over = side(end, rail);
      const Status status = frame != nullptr ? over.carry(*frame) : over.send(tag, bytes, length);
      if (status == Status::elsewhere || status == Status::peer_failed) continue;
      of.carried |= static_cast<std::uint8_t>(1u << rail);
      return status;
    }
  }
  return Status::peer_failed;
}

void World::send(std::size_t end) {
  std::array<std::uint32_t, 2> bytes{++ends_[end].sent, 0};
  const Status status = rails_.size() == 1
                            ? side(end, 0).send(1, bytes.data(), sizeof bytes)
                            : send_over(end, 1, bytes.data(), sizeof bytes, nullptr, SIZE_MAX);
  if (status != Status::ok && !scenario_.may_end) {
    stage_.violate(std::string(name(end)) + " could not send: " + to_text(status));
  }
}

void World::take_message(std::size_t end, std::size_t rail, const Side::Message& message) {
  End& of = ends_[end];
  if (message.tag == handover_tag) {
    const auto handover =
        get_handover(std::span(message.bytes.data(), std::size_t{message.length}));
    if (!handover) return stage_.violate("no handover message");
    return of.handover.on_message(*handover, rail, Ways(*this, end));
  }
  std::uint32_t number = 0;
  std::memcpy(&number, message.bytes.data(), sizeof number);
  const std::string text = "message " + std::to_string(number) + " of " + name(1 - end);
  if (!of.got.insert(number).second) return stage_.violate(text + " came twice");
  if (number > ends_[1 - end].sent) return stage_.violate(text + " was never sent");
  if (rails_.size() == 1 && number != of.got.size()) stage_.violate(text + " came out of order");
}

void World::look(std::size_t end) {
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    side(end, rail).look_once();
    take(end, rail);
  }
  End& of = ends_[end];
  if (of.closing && !of.closed) close(end);
  if (rails_.size() > 1 && (of.lost & 1) != 0 && stage_.now - of.asked_again >= asks_again_every) {
    of.asked_again = stage_.now;
    side(end, 0).connect();
  }
}

void World::take(std::size_t end, std::size_t rail) {
  Side& of = side(end, rail);
  for (const Side::Message& message : of.take_messages()) take_message(end, rail, message);
  for (const Failure& failure : of.take_failures()) on_failure(end, rail, failure);
  for (const LinkChange& change : of.take_links()) on_link(end, rail, change);
}

void World::note_link(End& end, std::size_t rail, bool up) {
  const auto bit = static_cast<std::uint8_t>(1u << rail);
  if (up) {
    end.up |= bit;
    end.lost &= static_cast<std::uint8_t>(~bit);
    end.down &= static_cast<std::uint8_t>(~bit);
  } else {
    end.up &= static_cast<std::uint8_t>(~bit);
    end.down |= bit;
  }
}

void World::on_link(std::size_t end, std::size_t rail, const LinkChange& change) {
  End& of = ends_[end];
  of.handover.set_first(end == 0);
  note_link(of, rail, change.up);
  if (change.up) {
    of.handover.on_up(rail, Ways(*this, end));
  } else {
    of.handover.on_down(rail, Ways(*this, end));
  }
  if (!change.up && rail == 0) {
    for (std::size_t i = 1; i < rails_.size(); ++i) side(end, i).connect();
  }
}

// A peer that was given up ends the job, unless another rail can do without this one. No outage of
// ours lasts so long, unless it may.
void World::on_failure(std::size_t end, std::size_t rail, const Failure& failure) {
  End& of = ends_[end];
  const std::string text = std::string(name(end)) + " gives up " + name(1 - end) + ": " +
                           to_text(failure.reason) +
                           (failure.completion != CompletionStatus::success
                                ? std::string(" (") + to_text(failure.completion) + ")"
                                : "");
  const bool is_of_outage =
      failure.reason == FailReason::connect_timeout ||
      failure.reason == FailReason::connect_refused || failure.reason == FailReason::no_resources ||
      failure.reason == FailReason::send_failed || failure.reason == FailReason::stalled ||
      failure.reason == FailReason::vanished;
  if (!(scenario_.may_end && is_of_outage) && !of.closing) stage_.violate(text);
  if (rails_.size() == 1) {
    of.has_ended = true;
    return;
  }
  const auto bit = static_cast<std::uint8_t>(1u << rail);
  note_link(of, rail, false);
  of.lost |= bit;
  of.handover.on_end(rail, Ways(*this, end));
  const bool carried = (of.carried & bit) != 0 || rail == 0;
  of.carried &= static_cast<std::uint8_t>(~bit);
  if (of.up == 0 || (carried && failure.lost_work)) of.has_ended = true;
}

void World::give_away(std::size_t end, std::size_t rail, std::uint32_t received) {
  for (const SendSlot* const slot : side(end, rail).give_away(received)) {
    if (send_over(end, 0, nullptr, 0, slot, rail) != Status::ok) {
      stage_.violate("a frame that was given away found no rail");
    }
  }
}

void World::close(std::size_t end) {
  End& of = ends_[end];
  of.closed = true;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    of.closed = side(end, rail).close() && of.closed;
  }
}

// ---- time ----

Time World::next_deadline() const {
  Time next = Time::never();
  for (const auto& rail : rails_) {
    for (std::size_t end = 0; end < 2; ++end) {
      next = std::min(next, rail->side(end).core().next_deadline());
    }
  }
  return next;
}

void World::pass_time() {
  const Time next = next_deadline();
  if (next == Time::never()) return;
  stage_.now = std::max(stage_.now, next);
  for (const auto& rail : rails_) {
    for (std::size_t end = 0; end < 2; ++end) rail->side(end).keep_deadline();
  }
}

// ---- left to itself ----

// Everything that can happen happens, once, in an order that a sound fabric may have.
bool World::step_all(std::optional<std::size_t> away) {
  bool moved = false;
  for (const auto& rail : rails_) {
    while (!rail->messages().empty()) {
      rail->deliver_message(0);
      moved = true;
    }
    for (std::size_t i = 0; i < rail->attempts(); ++i) {
      if (!rail->is_answered(i)) continue;
      rail->handle_answer(i);
      moved = true;
    }
    for (std::size_t end = 0; end < 2; ++end) {
      if (!rail->side(end).has_requests()) continue;
      rail->side(end).serve();
      moved = moved || !rail->side(end).has_requests();
    }
    for (std::size_t i = 0; i < rail->pairs(); ++i) {
      if (rail->is_futile(i)) {
        rail->break_pair(i);
        moved = true;
      }
      while (rail->may_deliver(i)) {
        rail->deliver_frame(i);
        moved = true;
      }
      if (rail->may_ack(i)) rail->ack(i);
    }
  }
  for (std::size_t end = 0; end < 2; ++end) {
    for (const auto& rail : rails_) moved = moved || rail->side(end).has_completions();
    if (away == end) {
      for (const auto& rail : rails_) rail->side(end).stand_in();
    } else {
      for (const auto& rail : rails_) moved = moved || rail->side(end).has_for_application();
      look(end);
    }
  }
  note_ready();
  return moved;
}

void World::run_all(std::optional<std::size_t> away) {
  for (std::size_t i = 0; i < most_rounds && stage_.violation.empty(); ++i) {
    if (!step_all(away)) return;
  }
  stage_.violate("there is no end of what happens at once");
}

// Both ends agree, and everything has arrived.
bool World::is_over() const {
  const auto has_none = [](PeerState state) {
    return state == PeerState::idle || state == PeerState::closed || state == PeerState::failed;
  };
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    const Side& a = side(0, rail);
    const Side& b = side(1, rail);
    const bool agree = (has_none(a.state()) && has_none(b.state())) ||
                       (a.state() == PeerState::ready && b.state() == PeerState::ready);
    if (!agree) return false;
    for (const Side* one : {&a, &b}) {
      if (one->core().standing(one->peer()).pending_frames > 0) return false;
      if (one->core().standing(one->third()).pending_frames > 0) return false;
    }
  }
  for (std::size_t end = 0; end < 2; ++end) {
    const End& of = ends_[end];
    const End& other = ends_[1 - end];
    if (of.closing && !of.closed) return false;
    if (of.asked && !of.was_ready) return false;
    const bool ends = of.closing || of.has_ended || other.has_ended;
    if (!ends && of.got.size() != other.sent) return false;
  }
  return true;
}

void World::settle(std::optional<std::size_t> away) {
  stage_.late = false;
  // Processes leave together.
  const bool leave = ends_[0].closing || ends_[1].closing;
  for (std::size_t end = 0; leave && end < 2; ++end) {
    if (!std::exchange(ends_[end].closing, true)) close(end);
  }
  if (away) {
    const Time until = stage_.now + seconds(150);
    for (std::size_t i = 0; stage_.now < until && stage_.violation.empty(); ++i) {
      run_all(away);
      if (next_deadline() > until || i > most_rounds * 2) break;
      pass_time();
    }
  }
  for (std::size_t round = 0; stage_.violation.empty(); ++round) {
    run_all(std::nullopt);
    if (!stage_.violation.empty()) break;
    if (is_over()) {
      steps_ = round;
      return check_end();
    }
    if (round == most_rounds) return stage_.violate(what_lacks());
    const Time before = stage_.now;
    const bool lost = rails_.size() > 1 && ((ends_[0].lost | ends_[1].lost) & 1) != 0;
    if (lost && next_deadline() > before + asks_again_every) {
      stage_.now = before + asks_again_every;
    } else if (next_deadline() == Time::never()) {
      return stage_.violate("nobody waits for anything, and yet: " + text());
    } else {
      pass_time();
    }
  }
}

std::string World::what_lacks() const {
  for (std::size_t end = 0; end < 2; ++end) {
    for (std::uint32_t number = 1; number <= ends_[1 - end].sent; ++number) {
      if (ends_[end].got.count(number) == 0) {
        return "message " + std::to_string(number) + " of " + name(1 - end) +
               " never comes: " + text();
      }
    }
  }
  return "the ends never agree: " + text();
}

// Nobody is woken for nothing any more.
void World::check_end() {
  for (int i = 0; i < 6; ++i) {
    const Time before = stage_.now;
    pass_time();
    run_all(std::nullopt);
    if (i < 3) continue;
    if (next_deadline() != Time::never() && next_deadline() - before < milliseconds(500)) {
      stage_.violate("the event thread is woken for ever, though nothing waits: " + text());
    }
  }
  if (stage_.violation.empty() && !is_over()) stage_.violate("the end does not last: " + text());
}

std::uint64_t World::digest() const {
  Digest digest;
  for (const auto& rail : rails_) rail->describe(digest);
  for (std::size_t end = 0; end < 2; ++end) {
    const End& of = ends_[end];
    digest.add(of.sent, of.got.size(), of.closing, of.closed, of.up, of.down, of.lost, of.carried,
               of.asked, of.was_ready, left_.messages[end], left_.closes[end], left_.third[end],
               left_.connects[end]);
    for (const std::uint32_t number : of.got) digest.add(number);
    if (rails_.size() > 1) interleaving::describe(of.handover, digest);
  }
  digest.add(left_.breaks, left_.losses, left_.timers);
  return digest.value();
}

}  // namespace weir::interleaving
