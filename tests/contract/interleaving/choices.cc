// What may happen next in a world, and what it is called.
#include <algorithm>

#include "tests/contract/interleaving/world.h"

namespace weir::interleaving {
namespace {

using Event = Choice::Kind;

}  // namespace

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
    if (left_.strangers > 0 && side(end, 0).state() == PeerState::ready) {
      add({.kind = Event::stranger, .end = end});
    }
    if (left_.closes[end] > 0 && !of.closing) add({.kind = Event::close, .end = end}, true);
    bool has_completions = false;
    bool has_news = of.closing && !of.closed;
    for (const auto& rail : rails_) {
      has_completions = has_completions || rail->side(end).has_completions();
      has_news = has_news || rail->side(end).has_for_application();
    }
    const bool has_links = std::any_of(rails_.begin(), rails_.end(), [&](const auto& rail) {
      return rail->side(end).has_links();
    });
    if (has_links) add({.kind = Event::serve_links, .end = end}, true);
    if (has_completions || has_news || has_links) add({.kind = Event::look, .end = end}, true);
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
    case Event::serve_links: text = "the event thread of " + who + " sees to its rails"; break;
    case Event::look: text = "the application of " + who + " looks"; break;
    case Event::stand_in: text = "the event thread of " + who + " looks"; break;
    case Event::close: text = who + " leaves"; break;
    case Event::third: text = who + " sends to a third process"; break;
    case Event::connect: text = who + " asks for a connection ahead"; break;
    case Event::stranger: text = who + " sends a frame that is none"; break;
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
      if (scenario_.gone) rail.go();
      break;
    case Event::exhaust: rail.break_pair(choice.which); break;
    case Event::send:
      --left_.messages[choice.end];
      send(choice.end);
      break;
    case Event::look: look(choice.end); break;
    case Event::serve_links: serve_links(choice.end); break;
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
    case Event::stranger:
      --left_.strangers;
      side(choice.end, 0).send_none();
      break;
    case Event::timer:
      --left_.timers;
      pass_time();
      break;
  }
  stage_.late = false;
  note_ready();
  check_now();
}

void World::note_ready() {
  for (std::uint8_t end = 0; end < 2; ++end) {
    End& of = ends_[end];
    of.was_ready = of.was_ready || (of.asked && side(end, 0).state() == PeerState::ready);
  }
}

// What must not be at any time.
void World::check_now() {
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    for (std::size_t end = 0; end < 2; ++end) {
      const Side& one = side(end, rail);
      const Duration attempt = one.core().config().attempt_timeout;
      const Duration longest = std::max(attempt, one.core().config().peer_timeout / 4);
      const bool is_held = one.core().is_held(one.peer());
      Held& held = held_[rail][end];
      const Duration so_far = held.since == Time{} ? Duration{} : stage_.now - held.since;
      if (is_held && so_far > std::min(attempt * (1 << held.in_vain), longest) * 5 / 4) {
        stage_.violate(std::string(name(end)) + " holds a session for too long");
      }
      if (!is_held && so_far >= attempt) ++held.in_vain;
      if (one.state() == PeerState::ready) held.in_vain = 0;
      if (!is_held || held.since == Time{}) held.since = is_held ? stage_.now : Time{};
    }
  }
}

}  // namespace weir::interleaving
