// A world that is left to itself: the fabric is whole, and time passes.
#include <algorithm>

#include "tests/contract/interleaving/world.h"

namespace weir::interleaving {
namespace {

constexpr std::size_t most_rounds = 400;  // until both ends agree

}  // namespace

// Everything that can happen happens, once, in an order that a sound fabric may have.
bool World::step_all(std::optional<std::size_t> away) {
  bool moved = false;
  for (const auto& rail : rails_) {
    while (!rail->messages().empty()) {
      if (stage_.note) stage_.note(rail->text_of_message(0));
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
        if (stage_.note) stage_.note(rail->text_of_frame(i));
        rail->deliver_frame(i);
        moved = true;
      }
      if (rail->may_ack(i)) rail->ack(i);
    }
  }
  for (std::size_t end = 0; end < 2; ++end) {
    for (const auto& rail : rails_) moved = moved || rail->side(end).has_completions();
    for (const auto& rail : rails_) moved = moved || rail->side(end).has_links();
    if (away == end) {
      for (const auto& rail : rails_) rail->side(end).stand_in();
      serve_links(end);
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
    if (!agree && !rails_[rail]->is_gone()) return false;
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
    if (stage_.note) stage_.note("[" + text() + "]");
    if (round == most_rounds) return stage_.violate(what_lacks());
    const Time before = stage_.now;
    const bool lost = rails_.size() > 1 && (ends_[0].links.is_lost(0) || ends_[1].links.is_lost(0));
    if (lost && next_deadline() > before + first_rail_asked_every) {
      stage_.now = before + first_rail_asked_every;
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

// Nobody is woken for nothing any more. A rail that is gone is asked for now and then.
void World::check_end() {
  for (int i = 0; i < 6; ++i) {
    const Time before = stage_.now;
    pass_time();
    run_all(std::nullopt);
    if (i < 3 || scenario_.gone) continue;
    if (next_deadline() != Time::never() && next_deadline() - before < milliseconds(500)) {
      stage_.violate("the event thread is woken for ever, though nothing waits: " + text());
    }
  }
  if (stage_.violation.empty() && !is_over()) stage_.violate("the end does not last: " + text());
}

}  // namespace weir::interleaving
