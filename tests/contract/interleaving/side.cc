#include <algorithm>
#include <cstring>

#include "tests/contract/interleaving/rail.h"

namespace weir::interleaving {
namespace {

using Action = ConnectAction::Kind;

constexpr PeerName third_name{1, 100};

// Both ends of a rail, and the third process.
PeerName name_of(std::size_t which) { return {1, static_cast<std::uint32_t>(which)}; }
wire::Key key_of(PeerName name) { return {static_cast<std::uint8_t>(name.rank + 1)}; }

Core::Config named(Core::Config config, std::size_t which) {
  config.self = name_of(which);
  config.key = key_of(config.self);
  return config;
}

// Of the message in a frame; 0: there is none.
std::uint32_t number_of(const std::byte* frame) {
  std::uint32_t number = 0;
  if (wire::get_frame_header(frame).kind == wire::FrameKind::messages) {
    std::memcpy(&number, frame + wire::frame_header_bytes + wire::message_header_bytes,
                sizeof number);
  }
  return number;
}

}  // namespace

Side::Side(Stage& stage, Rail& rail, std::size_t which, const Core::Config& config)
    : Driver(named(config, which), stage.now), stage_(stage), rail_(rail), which_(which) {
  core_.start(out_);
  flush();
  const PeerName other = name_of(1 - which);
  peer_ = core_.add_peer(other, {.port = 1, .key = key_of(other)});
  third_ = core_.add_peer(third_name, {.port = 1, .key = key_of(third_name)});
}

// ---- the layer above ----

SendSlot* Side::acquire() {
  if (!free_slots_.empty()) {
    SendSlot* const slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  slots_.push_back(std::make_unique<SlotMemory>());
  SendSlot& slot = slots_.back()->slot;
  slot.frame = slots_.back()->memory.data();
  slot.capacity_bytes = most_frame_bytes;
  return &slot;
}

Status Side::send(std::uint8_t tag, const void* bytes, std::uint32_t length) {
  SendSlot* const slot = acquire();
  std::memcpy(slot->payload(), bytes, length);
  const Status status = core_.send(now(), peer_, slot, length, tag, true, out_);
  if (status != Status::ok) free_slots_.push_back(slot);
  finish_call();
  return status;
}

void Side::connect() {
  core_.connect(now(), peer_, out_);
  if (!out_.empty()) flush();
}

void Side::turn_to_third() {
  SendSlot* const slot = acquire();
  std::memset(slot->payload(), 0, 8);
  if (core_.send(now(), third_, slot, 8, 1, true, out_) != Status::ok) free_slots_.push_back(slot);
  finish_call();
}

void Side::send_none() {
  for (std::size_t lane = 0; lane < pairs_.size(); ++lane) {
    if (pairs_[lane] < 0 || core_.peer_of(LaneId{static_cast<std::uint32_t>(lane)}) != peer_)
      continue;
    rail_.post_none(static_cast<std::size_t>(pairs_[lane]));
  }
}

bool Side::close() {
  core_.close(now(), peer_, out_);
  if (!out_.empty()) flush();
  return core_.closed(peer_);
}

void Side::look_once() {
  look();
  // Once more: housework waits for a look that finds nothing.
  look();
}

std::vector<Side::Message> Side::take_messages() {
  std::vector<Message> messages;
  for (const Delivery& delivery : out_.deliveries) {
    Message message{.tag = delivery.tag, .bytes = {}, .length = delivery.length_bytes};
    std::memcpy(message.bytes.data(), delivery.payload,
                std::min<std::size_t>(delivery.length_bytes, sizeof message.bytes));
    messages.push_back(message);
    if (delivery.last) note_released(delivery.buffer);
  }
  out_.deliveries.clear();
  return messages;
}

std::optional<std::uint32_t> Side::hold(bool even_if_ready) {
  drain();
  const bool held = core_.hold(now(), peer_, even_if_ready, out_);
  if (!out_.empty()) flush();
  if (!held || !core_.is_held(peer_)) return std::nullopt;
  return core_.received(peer_);
}

std::optional<std::vector<SendSlot*>> Side::give_away(std::uint32_t received) {
  std::vector<SendSlot*> frames;
  const bool gave = core_.give_away(now(), peer_, received, out_,
                                    [&](SendSlot* slot) { frames.push_back(slot); });
  if (!out_.empty()) flush();
  return gave ? std::optional(std::move(frames)) : std::nullopt;
}

bool Side::send_handover(const HandoverMessage& message) {
  const bool sent = core_.send_handover(peer_, message, out_);
  if (!out_.empty()) flush();
  return sent;
}

std::vector<SendSlot*> Side::take_unsent() {
  std::vector<SendSlot*> frames;
  core_.take_unsent(peer_, [&](SendSlot* slot) { frames.push_back(slot); });
  return frames;
}

void Side::let_go() {
  core_.let_go(now(), peer_, out_);
  if (!out_.empty()) flush();
}

Status Side::carry(const SendSlot& frame) {
  SendSlot* const slot = acquire();
  std::memcpy(slot->frame, frame.frame, frame.frame_bytes);
  slot->frame_bytes = frame.frame_bytes;
  slot->messages = frame.messages;
  const Status status = core_.send_frame(now(), peer_, slot, out_);
  if (status != Status::ok) free_slots_.push_back(slot);
  finish_call();
  return status;
}

void Side::hand_up(const Retired& retired) {
  const std::uint32_t number = number_of(retired.slot->frame);
  if (retired.delivered && number > 0 && !stage_.leaves[1 - which_] &&
      stage_.arrived.count({1 - which_, number}) == 0) {
    stage_.violate("message " + std::to_string(number) + (which_ == 0 ? " of A" : " of B") +
                   " is told as delivered, and never arrived");
  }
  free_slots_.push_back(retired.slot);
}

void Side::hand_up(const Failure& failure) {
  if (failure.peer == peer_) failures_.push_back(failure);
  if (stage_.note) {
    stage_.note(std::string("  ") + (which_ == 0 ? "A" : "B") + " gives up peer " +
                std::to_string(index(failure.peer)) + ": " + to_text(failure.reason) + ", " +
                to_text(failure.completion) + (failure.lost_work ? ", work is lost" : ""));
  }
}

// ---- the event thread ----

// For an application that computes, which has left something that can go on.
void Side::stand_in() {
  drain();
  core_.pump(now(), out_);
  flush();
}

void Side::keep_deadline() {
  if (stage_.now < core_.next_deadline()) return;
  drain();
  core_.on_timer(now(), out_);
  flush();
}

void Side::serve() { serve_request(); }

void Side::on_lane_error(LaneId lane) {
  core_.on_lane_error(now(), lane, out_);
  flush();
}

// ---- the adapter ----

int Side::poll_completions() {
  const std::vector<Completion> arrived = std::exchange(arrived_, {});
  for (const Completion& completion : arrived) core_.on_completion(now(), completion, out_);
  return static_cast<int>(arrived.size());
}

void Side::post_receives() {
  posted_.insert(posted_.end(), out_.receives.begin(), out_.receives.end());
  out_.receives.clear();
}

void Side::receive(LaneId lane, const std::byte* bytes, std::uint32_t length) {
  if (first_posted_ == posted_.size()) return stage_.violate("a frame found no buffer");
  const ReceivePost post = posted_[first_posted_++];
  std::memcpy(reinterpret_cast<void*>(post.address), bytes, length);
  stage_.arrived.insert({which_, number_of(bytes)});
  arrived_.push_back(
      {Opcode::receive, CompletionStatus::success, length, lane, index(post.buffer)});
}

void Side::post_work() {
  for (const WorkRequest& work : out_.work) {
    const int pair = index(work.lane) < pairs_.size() ? pairs_[index(work.lane)] : -1;
    if (pair < 0) {
      stage_.violate("work for a lane that does not exist");
      continue;
    }
    rail_.post(static_cast<std::size_t>(pair), work);
    if (core_.peer_of(work.lane) == third_) answer_for_third(work.lane);
  }
  out_.work.clear();
}

// It has all at once, and wants nothing: asked whether the connection may end, it agrees.
void Side::answer_for_third(LaneId lane) {
  const auto pair = static_cast<std::size_t>(pairs_[index(lane)]);
  std::array<std::byte, most_frame_bytes> frame{};
  const bool asks = rail_.take_for_third(pair) == wire::FrameKind::part;
  if (!asks) return;
  wire::put(frame.data(), wire::FrameHeader{.kind = wire::FrameKind::goodbye});
  receive(lane, frame.data(), wire::frame_header_bytes);
}

void Side::provide_slab() {
  const std::uint32_t count = std::exchange(out_.slab_buffers, 0);
  slabs_.push_back(std::make_unique<std::byte[]>(std::size_t{count} * core_.config().buffer_bytes));
  core_.on_slab(reinterpret_cast<std::uint64_t>(slabs_.back().get()), 1, count, out_);
}

void Side::carry_out(const ConnectAction& action) {
  if (stage_.note) {
    constexpr const char* kinds[] = {"asks",  "accepts",    "refuses",
                                     "loops", "drops lane", "lane end"};
    stage_.note(std::string(which_ == 0 ? "A " : "B ") +
                kinds[static_cast<std::size_t>(action.kind)] +
                (action.kind == Action::reject ? "" : " " + std::to_string(index(action.lane))));
  }
  if (action.kind == Action::reject) return rail_.reject(action.request, action.reason);
  const std::size_t lane = index(action.lane);
  if (lane >= pairs_.size()) pairs_.resize(lane + 1, -1);
  int& pair = pairs_[lane];
  if (action.kind == Action::drop) {
    if (pair < 0) return stage_.violate("a lane was released that does not exist: two have had it");
    const auto number = static_cast<std::size_t>(pair);
    rail_.hang_up(number);
    rail_.retire(number);
    drain();
    rail_.destroy(number);
    pairs_[lane] = -1;
    drain();
    return core_.on_dropped(now(), action.lane, out_);
  }
  if (pair >= 0) return stage_.violate("a lane was made that somebody else has");
  while (core_.lacks_control_slots()) core_.lend_control_slot(acquire());
  if (action.kind == Action::connect && action.peer == third_) {
    pair = static_cast<int>(rail_.make_third(which_, action.lane));
    wire::Hello answer{.from = third_name,
                       .to = core_.config().self,
                       .buffer_bytes = core_.config().buffer_bytes,
                       .credits = 4,
                       .control_credits = 2,
                       .key = action.hello.key,
                       .attempt = action.hello.attempt};
    return core_.on_answer(now(), action.lane, answer, out_);
  }
  if (action.kind == Action::connect) {
    pair = static_cast<int>(rail_.connect(which_, action.lane, action.hello));
    return;
  }
  pair = rail_.accept(which_, action.lane, action.request, action.hello);
  if (pair >= 0) return;
  pair = static_cast<int>(rail_.make_pair(which_, action.lane));
  core_.on_connect_failed(now(), action.lane, FailReason::no_resources, out_);
}

// ---- looking in ----

void Side::describe(const Attempts& ours, const Attempts& theirs, Digest& digest) const {
  interleaving::describe(core_, peer_, stage_.now, ours, theirs, digest);
  digest.add(core_.state(third_), core_.standing(third_).pending_frames,
             coarse(core_.next_deadline(), stage_.now, core_.config().attempt_timeout),
             has_requests(), core_.connecting_count(), core_.counters().window);
  digest.add(arrived_.size());
  for (const Completion& completion : arrived_) {
    digest.add(completion.opcode, completion.status, completion.length_bytes,
               index(completion.lane), completion.opcode == Opcode::send ? completion.id : 0);
  }
  digest.add(out_.deliveries.size(), links_.size(), failures_.size());
  for (const LinkNews& news : links_) {
    digest.add(news.kind, news.message.kind, news.message.rail, news.message.received,
               news.message.exchange);
  }
}

std::string Side::text() const {
  const Core::Standing standing = core_.standing(peer_);
  const PeerState third = core_.state(third_);
  return std::string(to_text(core_.state(peer_))) + (core_.is_held(peer_) ? " (held)" : "") + ", " +
         std::to_string(standing.pending_frames) + " wait, " + std::to_string(arrived_.size()) +
         " completions" +
         (third == PeerState::idle ? "" : std::string(", to the third ") + to_text(third));
}

}  // namespace weir::interleaving
