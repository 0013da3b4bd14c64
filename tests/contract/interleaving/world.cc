#include "tests/contract/interleaving/world.h"

#include <algorithm>
#include <cstring>

namespace weir::interleaving {
namespace {

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

}  // namespace

// The peer of an end over all rails (rail/frames.h). There are no transfers.
class World::Ways {
 public:
  Ways(World& world, std::size_t end) : world_(world), end_(end) {}

  std::size_t count() const { return world_.rails_.size(); }
  std::optional<std::uint32_t> hold(std::size_t rail, bool even_if_ready) {
    return world_.side(end_, rail).hold(even_if_ready);
  }
  std::optional<std::uint32_t> received_before_end(std::size_t rail) {
    const Side& side = world_.side(end_, rail);
    return side.core().received_before_end(side.peer());
  }
  auto give_away(std::size_t rail, std::uint32_t received) {
    return world_.side(end_, rail).give_away(received);
  }
  auto take_unsent(std::size_t rail) { return world_.side(end_, rail).take_unsent(); }
  void let_go(std::size_t rail) { world_.side(end_, rail).let_go(); }
  bool send(std::size_t over, const HandoverMessage& message) {
    return world_.side(end_, over).send_handover(message);
  }
  Status carry(std::size_t over, const SendSlot& frame) {
    return world_.side(end_, over).carry(frame);
  }
  void discard(std::size_t, SendSlot*) {}
  void connect(std::size_t rail) { world_.side(end_, rail).connect(); }
  void withdraw(std::size_t) {}
  void on_way_lost(std::size_t, FailReason) {}
  void on_given_away(std::size_t, std::size_t, std::size_t lost) {
    if (lost > 0) world_.stage_.violate("a frame that was given away found no rail");
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
  stage_.steady = scenario.steady;
}

World::~World() {
  for (const auto& rail : rails_) {
    for (std::size_t end = 0; end < 2; ++end) note_rules(rail->side(end).core());
  }
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

// ---- the layer above ----

void World::send(std::size_t end) {
  std::array<std::uint32_t, 2> bytes{++ends_[end].sent, 0};
  const Status status = rails_.size() == 1
                            ? side(end, 0).send(1, bytes.data(), sizeof bytes)
                            : ends_[end].links.send(rails_.size(), 0, [&](std::size_t rail) {
                                return side(end, rail).send(1, bytes.data(), sizeof bytes);
                              });
  if (status != Status::ok && !scenario_.may_end) {
    stage_.violate(std::string(name(end)) + " could not send: " + to_text(status));
  }
}

void World::take_message(std::size_t end, const Side::Message& message) {
  End& of = ends_[end];
  std::uint32_t number = 0;
  std::memcpy(&number, message.bytes.data(), sizeof number);
  const std::string text = "message " + std::to_string(number) + " of " + name(1 - end);
  if (!of.got.insert(number).second) return stage_.violate(text + " came twice");
  if (number > ends_[1 - end].sent) return stage_.violate(text + " was never sent");
  if (rails_.size() == 1 && number != of.got.size()) stage_.violate(text + " came out of order");
}

void World::look(std::size_t end) {
  serve_links(end);
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    side(end, rail).look_once();
    take(end, rail);
  }
  End& of = ends_[end];
  if (of.closing && !of.closed) close(end);
  if (rails_.size() > 1 && of.links.is_lost(0) &&
      stage_.now - of.asked_again >= first_rail_asked_every) {
    of.asked_again = stage_.now;
    side(end, 0).connect();
  }
}

void World::take(std::size_t end, std::size_t rail) {
  Side& of = side(end, rail);
  for (const Side::Message& message : of.take_messages()) take_message(end, message);
  for (const Failure& failure : of.take_failures()) on_failure(end, rail, failure);
}

// As Rails::serve_links: by the event thread, or on the way by the application.
void World::serve_links(std::size_t end) {
  const auto has_news = [&] {
    return std::any_of(rails_.begin(), rails_.end(),
                       [&](const auto& rail) { return rail->side(end).has_links(); });
  };
  for (int turn = 0; has_news(); ++turn) {
    if (turn == 100) return stage_.violate("there is no end of news of the rails");
    for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
      for (const LinkNews& news : side(end, rail).take_links()) on_news(end, rail, news);
    }
  }
}

void World::on_news(std::size_t end, std::size_t rail, const LinkNews& news) {
  End& of = ends_[end];
  of.links.set_first(end == 0);
  Ways ways(*this, end);
  RailFrames(of.links, ways).on_news(rail, news);
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
      failure.reason == FailReason::connect_spoilt || failure.reason == FailReason::send_failed ||
      failure.reason == FailReason::stalled || failure.reason == FailReason::vanished;
  const bool is_of_stranger =
      scenario_.budget.strangers > 0 && failure.reason == FailReason::bad_frame;
  if (!(scenario_.may_end && is_of_outage) && !is_of_stranger && !of.closing) {
    stage_.violate(text);
  }
  if (rails_.size() == 1) {
    of.has_ended = true;
    return;
  }
  serve_links(end);
  Ways ways(*this, end);
  if (!RailFrames(of.links, ways)
           .outlives(rail, failure.reason, failure.lost_work, failure.in_doubt)) {
    of.has_ended = true;
    if (scenario_.gone) stage_.violate(text + ", though the other rail works");
  }
}

void World::close(std::size_t end) {
  End& of = ends_[end];
  of.closed = stage_.leaves[end] = true;
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

// ---- looking in ----

std::uint64_t World::digest() const {
  Digest digest;
  for (const auto& rail : rails_) rail->describe(digest);
  for (std::size_t end = 0; end < 2; ++end) {
    const End& of = ends_[end];
    digest.add(of.sent, of.got.size(), of.closing, of.closed, of.asked, of.was_ready,
               left_.messages[end], left_.closes[end], left_.third[end], left_.connects[end]);
    for (const std::uint32_t number : of.got) digest.add(number);
    if (rails_.size() > 1) interleaving::describe(of.links, digest);
  }
  digest.add(left_.breaks, left_.losses, left_.timers, left_.strangers);
  return digest.value();
}

}  // namespace weir::interleaving
