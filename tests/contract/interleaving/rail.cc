#include "tests/contract/interleaving/rail.h"

#include <algorithm>
#include <cstring>

namespace weir::interleaving {

using News = Rail::Message::Kind;

namespace {

// What verbs/connections.cc says of an answer that was withdrawn before it was handled.
constexpr FailReason establish_fails_as = FailReason::connect_spoilt;

}  // namespace

// ---- the connection manager ----

std::size_t Rail::connect(std::size_t side, LaneId lane, const wire::Hello& hello) {
  const std::size_t pair = pairs_.size();
  pairs_.push_back({.side = side, .lane = lane, .attempt = attempts_.size()});
  attempts_.push_back({.by = side, .asker_pair = pair, .hello = hello});
  put(News::request, attempts_.size() - 1, 1 - side);
  return pair;
}

// A third process is always there, and answers at once.
std::size_t Rail::make_third(std::size_t side, LaneId lane) {
  pairs_.push_back(
      {.side = side, .lane = lane, .attempt = SIZE_MAX, .connected = true, .third = true});
  return pairs_.size() - 1;
}

std::size_t Rail::make_pair(std::size_t side, LaneId lane) {
  pairs_.push_back({.side = side, .lane = lane, .attempt = SIZE_MAX});
  return pairs_.size() - 1;
}

wire::FrameKind Rail::take_for_third(std::size_t number) {
  Pair& pair = pairs_[number];
  const wire::FrameKind kind = wire::get_frame_header(pair.sent.back().data.data()).kind;
  pair.delivered = pair.sent.size();
  ack(number);
  return kind;
}

int Rail::accept(std::size_t side, LaneId lane, RequestId request, const wire::Hello& hello) {
  const auto number = static_cast<std::size_t>(request) - 1;
  Attempt& attempt = attempts_[number];
  if (attempt.acceptor != Phase::asked) return -1;
  attempt.acceptor = Phase::accepted;
  attempt.answer = hello;
  attempt.acceptor_pair = static_cast<int>(pairs_.size());
  pairs_[attempt.asker_pair].remote = attempt.acceptor_pair;
  pairs_.push_back({.side = side,
                    .lane = lane,
                    .attempt = number,
                    .remote = static_cast<int>(attempt.asker_pair),
                    .connected = true});
  put(News::answer, number, 1 - side);
  return attempt.acceptor_pair;
}

void Rail::reject(RequestId request, wire::Reject reason) {
  const auto number = static_cast<std::size_t>(request) - 1;
  Attempt& attempt = attempts_[number];
  if (attempt.acceptor != Phase::asked) return;
  attempt.acceptor = Phase::over;
  put(News::refusal, number, attempt.by, reason);
}

// Its owner destroys the pair's end of an attempt or of a connection.
void Rail::hang_up(std::size_t pair) {
  const std::size_t number = pairs_[pair].attempt;
  if (number == SIZE_MAX) return;
  Attempt& attempt = attempts_[number];
  const bool asked = attempt.asker_pair == pair;
  Phase& phase = asked ? attempt.asker : attempt.acceptor;
  const Phase before = std::exchange(phase, Phase::over);
  if (before == Phase::over || before == Phase::none) return;
  const Pair& of = pairs_[pair];
  if (stage_.steady && of.acked && !of.broken && is_able(of.remote) &&
      !sides_[of.side].has_completions()) {
    stage_.violate(std::string(of.side == 0 ? "A" : "B") + " ends a connection that is whole");
  }
  put(before == Phase::established ? News::hang_up : News::withdrawal, number,
      1 - pairs_[pair].side);
}

bool Rail::is_next(std::size_t message) const {
  for (std::size_t i = 0; i < message; ++i) {
    if (messages_[i].attempt == messages_[message].attempt &&
        messages_[i].to == messages_[message].to) {
      return false;
    }
  }
  return true;
}

void Rail::deliver_message(std::size_t which) {
  const Message message = messages_[which];
  lose_message(which);
  Attempt& attempt = attempts_[message.attempt];
  Side& to = sides_[message.to];
  const bool to_asker = message.to == attempt.by;
  Phase& phase = to_asker ? attempt.asker : attempt.acceptor;
  const LaneId lane = to_asker ? pairs_[attempt.asker_pair].lane
                      : attempt.acceptor_pair >= 0
                          ? pairs_[static_cast<std::size_t>(attempt.acceptor_pair)].lane
                          : LaneId::none;
  const auto reject = [&](wire::Reject reason) {
    phase = Phase::over;
    to.hear([&](const Now& now) { to.core().on_rejected(now, lane, reason, to.box()); });
  };
  switch (message.kind) {
    case News::request:
      attempt.acceptor = Phase::asked;
      return to.add_request({RequestId{message.attempt + 1}, attempt.hello});
    case News::answer:
      if (phase == Phase::asking) phase = Phase::answered;
      return;
    case News::refusal:
      if (phase == Phase::asking) reject(message.reason);
      return;
    case News::confirmation:
      if (phase != Phase::accepted) return;
      phase = Phase::established;
      return to.hear([&](const Now& now) { to.core().on_established(now, lane, to.box()); });
    case News::withdrawal:
      switch (phase) {
        case Phase::answered: attempt.spoilt = true; return;
        case Phase::asked: phase = Phase::over; return;  // the request still waits in the line
        case Phase::asking:
        case Phase::accepted:
        case Phase::established: return reject(wire::Reject::closing);  // not weir's words
        case Phase::none:
        case Phase::over: return;
      }
      return;
    case News::hang_up:
      if (phase != Phase::established && phase != Phase::accepted) return;
      phase = Phase::over;
      return to.hear([&](const Now& now) { to.core().on_disconnected(now, lane, to.box()); });
  }
}

// As verbs::Connections does: the pair is ready, the other end is told, then the core hears of it.
void Rail::handle_answer(std::size_t number) {
  Attempt& attempt = attempts_[number];
  Side& to = sides_[attempt.by];
  Pair& pair = pairs_[attempt.asker_pair];
  const LaneId lane = pair.lane;
  if (attempt.spoilt) {
    attempt.asker = Phase::over;
    return to.hear([&](const Now& now) {
      to.core().on_connect_failed(now, lane, establish_fails_as, to.box());
    });
  }
  attempt.asker = Phase::established;
  pair.connected = true;
  put(News::confirmation, number, 1 - attempt.by);
  const wire::Hello answer = attempt.answer;
  to.hear([&](const Now& now) { to.on_answer(now, lane, answer); });
}

// ---- queue pairs ----

void Rail::post(std::size_t number, const WorkRequest& work) {
  Pair& pair = pairs_[number];
  Packet packet{.id = work.id,
                .opcode = work.opcode,
                .signalled = work.signalled,
                .none = false,
                .bytes = work.length_bytes,
                .data = {}};
  if (work.opcode == Opcode::send) {
    if (work.length_bytes > most_frame_bytes) return stage_.violate("a frame is too long");
    std::memcpy(packet.data.data(), reinterpret_cast<const void*>(work.address), work.length_bytes);
  }
  if (pair.broken) {
    sides_[pair.side].complete(
        {Opcode::send, CompletionStatus::wr_flush_err, 0, pair.lane, work.id});
    return;
  }
  pair.sent.push_back(packet);
}

void Rail::post_none(std::size_t number) {
  Packet packet{
      .id = {}, .opcode = Opcode::send, .signalled = false, .none = true, .bytes = 8, .data = {}};
  packet.data.fill(std::byte{0x7f});
  if (!pairs_[number].broken) pairs_[number].sent.push_back(packet);
}

bool Rail::may_deliver(std::size_t number) const {
  const Pair& pair = pairs_[number];
  return pair.exists && pair.connected && !pair.broken && is_on_wire(pair);
}

void Rail::deliver_frame(std::size_t number) {
  Pair& pair = pairs_[number];
  const Packet& packet = pair.sent[pair.delivered++];
  if (packet.opcode != Opcode::send) return;
  const Pair& to = pairs_[static_cast<std::size_t>(pair.remote)];
  sides_[to.side].receive(to.lane, packet.data.data(), packet.bytes);
}

void Rail::ack(std::size_t number) {
  Pair& pair = pairs_[number];
  for (std::size_t i = 0; i < pair.delivered; ++i) {
    if (!pair.sent[i].signalled) continue;
    pair.acked = true;
    sides_[pair.side].complete(
        {Opcode::send, CompletionStatus::success, 0, pair.lane, pair.sent[i].id});
  }
  pair.sent.erase(pair.sent.begin(),
                  pair.sent.begin() + static_cast<std::ptrdiff_t>(pair.delivered));
  pair.delivered = 0;
}

// An error takes the first, and what is behind it is flushed.
void Rail::flush_pair(Pair& pair) {
  pair.broken = true;
  CompletionStatus status = CompletionStatus::retry_exc_err;
  for (const Packet& packet : pair.sent) {
    if (packet.none) continue;
    sides_[pair.side].complete({Opcode::send, status, 0, pair.lane, packet.id});
    status = CompletionStatus::wr_flush_err;
  }
  pair.sent.erase(pair.sent.begin(),
                  pair.sent.begin() + static_cast<std::ptrdiff_t>(pair.delivered));
  pair.delivered = 0;
}

void Rail::break_pair(std::size_t number) {
  Pair& pair = pairs_[number];
  const bool silent = pair.sent.empty();
  flush_pair(pair);
  if (silent) sides_[pair.side].on_lane_error(pair.lane);
}

// Some are on the wire even if their sender's pair is gone.
bool Rail::has_frames_for(std::size_t side) const {
  return std::any_of(pairs_.begin(), pairs_.end(),
                     [&](const Pair& pair) { return pair.side != side && is_on_wire(pair); });
}

void Rail::retire(std::size_t number) {
  Pair& pair = pairs_[number];
  if (stage_.late && pair.remote >= 0) {
    const auto remote = static_cast<std::size_t>(pair.remote);
    while (is_on_wire(pairs_[remote])) deliver_frame(remote);
  }
  flush_pair(pair);
}

// ---- looking in ----

std::string Rail::text_of_message(std::size_t which) const {
  constexpr const char* kinds[] = {"request",      "answer",     "refusal",
                                   "confirmation", "withdrawal", "disconnect"};
  constexpr const char* reasons[] = {"",       "crossed", "stranger", "version",
                                     "buffer", "closing", "over"};
  const Message& message = messages_[which];
  const Attempt& attempt = attempts_[message.attempt];
  std::string text = std::string(message.to == 0 ? "B's " : "A's ") +
                     kinds[static_cast<std::size_t>(message.kind)];
  if (message.kind == News::refusal) {
    text += std::string(" (") + reasons[static_cast<std::size_t>(message.reason)] + ")";
  }
  if (message.kind == News::request && attempt.hello.resumes) {
    text += " (resumes, received " + std::to_string(attempt.hello.received) + ")";
  }
  return text + " of attempt " + std::to_string(message.attempt);
}

std::string Rail::text_of_frame(std::size_t number) const {
  constexpr const char* kinds[] = {"?",        "messages", "credits",  "goodbye",
                                   "recall",   "returned", "lane end", "relayed",
                                   "repeated", "part",     "stay",     "handover"};
  const Pair& pair = pairs_[number];
  const Packet& packet = pair.sent[pair.delivered];
  if (packet.opcode != Opcode::send) return "a probe";
  const wire::FrameHeader header = wire::get_frame_header(packet.data.data());
  return std::string("frame ") + std::to_string(header.sequence) + " (" +
         kinds[static_cast<std::size_t>(header.kind) % std::size(kinds)] + ")";
}

// Attempts and pairs that nothing depends on any more are left out, and the others numbered anew.
void Rail::describe(Digest& digest) const {
  Attempts by[2];
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    by[side].note(attempt_of(sides_[side].core(), sides_[side].peer()));
    by[side].note(attempt_seen_by(sides_[1 - side].core(), sides_[1 - side].peer()));
  }
  for (const Attempt& attempt : attempts_) by[attempt.by].note(attempt.hello.attempt);
  by[0].settle();
  by[1].settle();
  sides_[0].describe(by[0], by[1], digest);
  sides_[1].describe(by[1], by[0], digest);

  std::vector<int> numbers(attempts_.size(), -1);
  int count = 0;
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    const Attempt& attempt = attempts_[i];
    const bool has_message = std::any_of(messages_.begin(), messages_.end(),
                                         [&](const Message& one) { return one.attempt == i; });
    const bool asker = pairs_[attempt.asker_pair].exists;
    const bool acceptor = attempt.acceptor_pair >= 0 &&
                          pairs_[static_cast<std::size_t>(attempt.acceptor_pair)].exists;
    if (!has_message && !asker && !acceptor && attempt.acceptor != Phase::asked) continue;
    numbers[i] = count++;
    digest.add(attempt.by, attempt.asker, attempt.acceptor, attempt.spoilt, asker, acceptor,
               by[attempt.by].rank(attempt.hello.attempt), attempt.hello.resumes,
               attempt.hello.received, attempt.hello.credits, attempt.answer.received,
               attempt.answer.credits);
  }
  digest.add(messages_.size(), gone_);
  for (const Message& message : messages_) {
    digest.add(message.kind, numbers[message.attempt], message.to, message.reason);
  }
  for (const Pair& pair : pairs_) {
    if (!pair.exists && !is_on_wire(pair)) continue;
    digest.add(pair.exists, pair.side, pair.attempt == SIZE_MAX ? -2 : numbers[pair.attempt],
               pair.connected, pair.broken, pair.delivered, pair.sent.size());
    for (const Packet& packet : pair.sent) {
      std::uint64_t words[2];
      std::memcpy(words, packet.data.data(), sizeof words);
      std::uint32_t message = 0;
      std::memcpy(&message, packet.data.data() + 16, sizeof message);
      digest.add(packet.opcode, packet.signalled, packet.bytes, words[0], words[1], message);
    }
  }
}

}  // namespace weir::interleaving
