// A core among hostile peers: the bytes of the input are events, in any order. Frames of any
// content arrive, connections are asked for, answered, refused and lost, gets, puts and atomics of
// any length begin, completions come with any status, memory is refused, time jumps. What the
// engine promises the core is kept (below), the rest is free. After every event buffers, credits,
// slots and chunks have to add up, and what the core asks for must make sense.
#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <map>
#include <vector>

#include "tests/fuzz/require.h"
#include "transport/core/core.h"

namespace weir::fuzz {
namespace {

constexpr PeerName self{1, 1};
constexpr std::uint32_t peers = 4;  // the second is we ourselves
constexpr std::uint32_t buffer_bytes = 256;
constexpr std::uint32_t queue_depth = 12;
constexpr std::uint32_t max_rd_atomic = 3;
constexpr std::uint32_t chunk_bytes = 64;

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::uint32_t below(std::uint32_t bound) { return byte() % bound; }
  std::size_t bytes(std::byte* to, std::size_t most) {
    const std::size_t count = std::min(most, left_);
    if (count > 0) std::memcpy(to, data_, count);
    data_ += count;
    left_ -= count;
    return count;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

Core::Config config(bool adaptive = true) {
  Core::Config config;
  config.self = self;
  config.buffer_bytes = buffer_bytes;
  config.window = {.initial = 4, .max = 64};
  config.credits = {.control_reserve = 2, .min_credits = 1, .max_credits = 8};
  config.queue = {
      .depth = queue_depth, .control_reserve = 4, .signal_interval = 3, .signal_bytes = 1024};
  config.inline_bytes = 32;
  config.bundle_bytes = 200;
  config.bundle_message_bytes = 64;
  config.burst_frames = config.flood_messages = 2;
  config.pending_frames = 6;
  config.connections_max = adaptive ? 0 : 2;
  config.resumes = true;
  config.transfers = {
      .plan = {.chunk_bytes = chunk_bytes, .alignment_bytes = 16, .max_message_bytes = 70},
      .reads = {.adaptive = adaptive,
                .reads = 5,
                .most_reads = 5,
                .initial_bytes = 128,
                .least_bytes = 64,
                .most_bytes = 512,
                .queue_bytes = 64,
                .chunk_bytes = 64},
      .write_bytes = 192,
      .small_bytes = 100,
      .bypass_bytes = 128,
      .chain_bytes = 200,
      .measure_every = 3};
  config.max_rd_atomic = max_rd_atomic;
  config.paths = adaptive ? 3 : 1;
  config.spread_bytes = 100;
  return config;
}

// What stands below the core: memory, queue pairs that count, an SRQ.
class World {
 public:
  explicit World(bool adaptive) : core_(config(adaptive)) {
    core_.start(out_);
    for (std::uint32_t i = 0; i < peers; ++i) {
      REQUIRE(core_.add_peer({1, i}, {.port = 1, .further_lanes = 2}) == PeerId{i});
    }
    core_.expect_peers(peers);
    settle();
  }

  void play(Input& input) {
    for (int steps = 0; !input.empty() && steps < 4000; ++steps) {
      step(input);
      settle();
      check();
    }
    for (const BufferId buffer : delivered_) core_.release(buffer);
    delivered_.clear();
    for (std::uint32_t i = 0; i < core_.peer_count(); ++i) core_.abandon(now_, PeerId{i}, out_);
    settle();
    check();
    REQUIRE(lanes_.empty());
    REQUIRE(core_.counters().credits_out == 0);
    REQUIRE(core_.pending_frames() == 0);
    REQUIRE(core_.connecting_count() == 0);
    REQUIRE(lent_ == 0);
    REQUIRE(transfers_.empty());
    REQUIRE(!core_.has_transfers());
    REQUIRE(core_.counters().reads_out == 0);
  }

 private:
  struct LanePair {
    PeerId peer;
    std::deque<WorkRequest> posted;  // not completed, oldest first
    WorkId next = 0;
    std::uint32_t sequence = 0;  // of the peer's frames
    bool bulk = false;
    bool joined = false;  // a bulk lane: connected
  };

  // A get, put or atomic that the core has not reported yet.
  struct Open {
    TransferRequest request;
    std::uint64_t arrived_bytes = 0;
  };

  struct Slot : SendSlot {
    bool lent = false;
    std::array<std::byte, buffer_bytes> memory{};
  };

  PeerId any_peer(Input& input) { return PeerId{input.below(core_.peer_count())}; }
  LaneId any_lane(Input& input) { return LaneId{input.below(8)}; }

  SendSlot* slot() {
    Slot* made = nullptr;
    if (free_.empty()) {
      slots_.emplace_back();
      made = &slots_.back();
      made->frame = made->memory.data();
      made->capacity_bytes = buffer_bytes;
    } else {
      made = free_.back();
      free_.pop_back();
    }
    made->notify = false;
    made->is_car = false;
    made->lent = true;
    ++lent_;
    return made;
  }
  void back(SendSlot* given) {
    Slot* const own = static_cast<Slot*>(given);
    REQUIRE(own->lent);  // else it came back twice
    own->lent = false;
    --lent_;
    free_.push_back(own);
  }

  void step(Input& input) {
    now_ = now_ + milliseconds(input.below(8));
    const std::uint8_t what = input.byte();
    if (what >= 240) return transfer(input);
    switch (what % 20) {
      case 0:
      case 1: return send(input);
      case 2:
        if (std::byte* at = core_.append(any_peer(input), 24, 5)) std::memset(at, 7, 24);
        return;
      case 3:
        core_.pump(now_, out_);
        core_.give_back_credits(out_);
        return core_.begin_round();
      case 4: return request(input);
      case 5: return core_.on_answer(now_, any_lane(input), hello(input), out_);
      case 6: return core_.on_established(now_, any_lane(input), out_);
      case 7: {
        const auto reason = static_cast<wire::Reject>(1 + input.below(6));
        return core_.on_rejected(now_, any_lane(input), reason, out_);
      }
      case 8: {
        constexpr FailReason reasons[] = {FailReason::connect_timeout, FailReason::connect_refused,
                                          FailReason::no_resources};
        return core_.on_connect_failed(now_, any_lane(input), reasons[input.below(3)], out_);
      }
      case 9: return core_.on_disconnected(now_, any_lane(input), out_);
      case 10: return core_.on_lane_error(now_, any_lane(input), out_);
      case 11:
      case 12: return complete(input);
      case 13:
      case 14: return arrive(input);
      case 15: return arrive_raw(input);
      case 16:
        now_ = now_ + seconds(input.below(40));
        if (now_ < core_.next_deadline()) return;
        core_.on_timer(now_, out_);
        REQUIRE(core_.next_deadline() > now_);
        return;
      case 17:
        if (input.below(8) == 0) return core_.abandon(now_, any_peer(input), out_);
        return core_.close(now_, any_peer(input), out_);
      case 18:
        slab_fails_ = input.below(4) == 0;
        bulk_fails_ = input.below(8) == 0;
        if (input.below(2) == 0) return core_.on_srq_limit(out_);
        return core_.on_idle(out_);
      case 19:
        while (!delivered_.empty() && input.below(4) != 0) {
          core_.release(delivered_.back());
          delivered_.pop_back();
        }
        return;
    }
  }

  void send_train(Input& input) {
    const PeerId peer = any_peer(input);
    if (input.below(4) == 0) return core_.let_train(peer, input.below(2) == 0, out_);
    const std::uint32_t cars = 1 + input.below(6);
    if (core_.admit_train(peer) != Status::ok) return;
    const bool was_ready = core_.is_ready(peer);
    const Core::Standing before = core_.standing(peer);
    for (std::uint32_t i = 1; i <= cars; ++i) {
      core_.send_car(now_, peer, slot(), input.byte() % core_.max_payload_bytes(), i == cars, out_);
    }
    // Each car has spent a credit, or waits.
    const Core::Standing after = core_.standing(peer);
    REQUIRE(!was_ready || before.credits + after.pending_frames ==
                              after.credits + before.pending_frames + cars);
  }

  void send(Input& input) {
    const PeerId peer = any_peer(input);
    if (input.below(8) == 0) return send_train(input);
    SendSlot* const given = slot();
    given->notify = input.below(4) == 0;
    const std::uint32_t length = input.below(2) == 0 ? input.below(64) : input.byte();
    const bool must_take = input.below(4) == 0;
    const Status status = core_.send(now_, peer, given, length, 3, must_take, out_);
    REQUIRE(!must_take || status != Status::back_pressure);
    REQUIRE((length > core_.max_payload_bytes()) == (status == Status::too_large));
    if (status != Status::ok) back(given);
  }

  // Each in a range of addresses of its own, by which its chunks are known.
  void transfer(Input& input) {
    constexpr Opcode opcodes[] = {Opcode::read, Opcode::read, Opcode::write, Opcode::fetch_add,
                                  Opcode::compare_swap};
    const Opcode opcode = opcodes[input.below(5)];
    const bool whole = opcode == Opcode::read || opcode == Opcode::write;
    const std::uint64_t token = ++tokens_;
    const TransferRequest request{
        .kind = opcode == Opcode::write ? TransferKind::put : TransferKind::get,
        .peer = any_peer(input),
        .remote_address = (token << 32) + (whole ? input.byte() : 0),
        .local_address = (token << 32) + (whole ? input.byte() : 0),
        .length_bytes = whole ? input.byte() * (1 + input.below(8)) : 8,
        .lkey = static_cast<std::uint32_t>(token),
        .rkey = static_cast<std::uint32_t>(token) + 1,
        .token = token,
        .opcode = opcode,
        .operand = token + 2,
        .compare = token + 3};
    transfers_[token] = {request};
    core_.transfer(now_, request, out_);
  }

  // The open transfer that a posted chunk is of.
  Open& transfer_of(const WorkRequest& chunk) {
    const auto found = transfers_.find(chunk.address >> 32);
    REQUIRE(found != transfers_.end());
    return found->second;
  }

  wire::Hello hello(Input& input) {
    wire::Hello hello;
    hello.from = {1, input.below(peers + 1)};
    hello.to = input.below(16) == 0 ? PeerName{2, 2} : self;
    hello.buffer_bytes = input.below(16) == 0 ? 512 : buffer_bytes;
    if (input.below(16) == 0) hello.protocol_min = hello.protocol_max = input.byte();
    hello.credits = input.byte();
    hello.control_credits = input.byte();
    hello.fetches = input.byte();
    hello.attempt = ++attempts_;
    hello.resumes = input.below(2) == 0;
    if (hello.resumes) hello.received = input.below(16);
    return hello;
  }

  void request(Input& input) {
    const RequestId id{++requests_};
    open_requests_[requests_] = true;
    const wire::Hello asked = hello(input);
    core_.make_way(now_, asked, out_);
    settle_box();
    core_.on_request(now_, id, asked, out_);
    settle();
    REQUIRE(open_requests_.empty());  // accepted or refused at once
  }

  // The adapter completes in order; it may fail any work request, and flushes the rest.
  void complete(Input& input) {
    const LaneId lane = any_lane(input);
    const auto found = lanes_.find(index(lane));
    if (found == lanes_.end() || found->second.posted.empty()) return;
    std::deque<WorkRequest>& posted = found->second.posted;
    const std::size_t which = input.below(static_cast<std::uint32_t>(posted.size()));
    const WorkRequest work = posted[which];
    const auto status =
        input.below(8) == 0 ? static_cast<CompletionStatus>(input.below(22)) : CompletionStatus{};
    if (status == CompletionStatus::success && !work.signalled) return;
    for (std::size_t i = 0; status == CompletionStatus::success && i <= which; ++i) {
      if (is_chunk(posted[i])) transfer_of(posted[i]).arrived_bytes += posted[i].length_bytes;
    }
    posted.erase(posted.begin(), posted.begin() + static_cast<std::ptrdiff_t>(which) + 1);
    core_.on_completion(now_, {Opcode::send, status, 0, lane, work.id}, out_);
  }

  void arrive_bytes(LaneId lane, const std::byte* bytes, std::size_t size,
                    CompletionStatus status) {
    if (srq_.empty()) return;
    const ReceivePost post = srq_.front();
    srq_.pop_front();
    if (size > 0) std::memcpy(reinterpret_cast<std::byte*>(post.address), bytes, size);
    core_.on_completion(
        now_, {Opcode::receive, status, static_cast<std::uint32_t>(size), lane, index(post.buffer)},
        out_);
  }

  // Of what comes from that process by relays, mostly: the next, or once more.
  std::uint32_t next_number(Input& input, std::uint32_t rank) {
    const std::uint32_t trick = input.below(16);
    if (trick == 0) return input.byte();
    std::uint32_t& next = relay_sequence_[rank % relay_sequence_.size()];
    return trick == 1 ? next - 1 : next++;
  }

  // A frame that is well formed, from a peer that may lie in everything else.
  void arrive(Input& input) {
    const LaneId lane = any_lane(input);
    const auto found = lanes_.find(index(lane));
    wire::FrameHeader header;
    using enum wire::FrameKind;
    constexpr wire::FrameKind kinds[] = {messages, credits, goodbye,  recall, returned,
                                         lane_end, relayed, repeated, part,   stay,
                                         handover, trains};
    const std::uint32_t which = input.below(16);
    header.kind = kinds[which < std::size(kinds) ? which : 0];
    header.starved = input.below(2) == 0;
    header.credits = static_cast<std::uint16_t>(input.below(8) == 0 ? input.byte() * 257 : 1);
    header.control_credits = static_cast<std::uint8_t>(input.below(16) == 0 ? input.byte() : 0);
    if (found != lanes_.end()) header.sequence = found->second.sequence++;
    if (input.below(16) == 0) header.sequence += input.byte();
    std::array<std::byte, buffer_bytes> frame{};
    wire::put(frame.data(), header);
    std::size_t size = wire::frame_header_bytes;
    if (header.kind == lane_end) {
      wire::LaneEnd end;
      end.qp_number = input.below(4);
      end.number = static_cast<std::uint8_t>(input.below(2) == 0 ? 0 : input.below(4));
      end.psn = end.qp_number == 0 && end.number == 0 ? 0 : 1 + input.below(8);
      end.reads = static_cast<std::uint8_t>(end.qp_number == 0 ? 0 : 1 + input.below(6));
      end.joined = end.qp_number != 0 && input.below(2) == 0;
      wire::put(&frame[size], end);
      size = wire::lane_frame_bytes;
    }
    if (header.kind == handover) {
      const auto kind = static_cast<HandoverMessage::Kind>(1 + input.below(5));
      wire::put(&frame[size], HandoverMessage{kind, 0, input.byte(), input.byte()});
      size = wire::handover_frame_bytes;
    }
    if (header.kind == messages || header.kind == repeated) {
      const std::size_t first = size;
      for (std::uint32_t count = 1 + input.below(3); count > 0; --count) {
        const std::uint32_t length = input.below(40);
        wire::put(&frame[size], wire::MessageHeader{length, input.byte()});
        size += wire::message_bytes(length);
      }
      if (header.kind == repeated) {
        const std::uint32_t rank = found == lanes_.end() ? 0 : index(found->second.peer);
        wire::put_relay_sequence(&frame[first], next_number(input, rank));
      }
    }
    if (header.kind == relayed) {
      for (std::uint32_t count = 1 + input.below(3); count > 0; --count) {
        const std::uint32_t rank = input.below(peers + 1);
        const std::uint32_t length = input.below(5) * 8;
        const auto bytes = static_cast<std::uint32_t>(wire::message_bytes(length));
        wire::put(&frame[size], wire::SectionHeader{rank, bytes});
        size += wire::section_header_bytes;
        wire::put(&frame[size], wire::MessageHeader{length, input.byte()});
        wire::put_relay_sequence(&frame[size], next_number(input, rank));
        size += bytes;
      }
    }
    arrive_bytes(lane, frame.data(), size, CompletionStatus::success);
  }

  void arrive_raw(Input& input) {
    std::array<std::byte, buffer_bytes> bytes{};
    const std::size_t size = input.bytes(bytes.data(), input.below(64));
    const auto status =
        input.below(4) == 0 ? static_cast<CompletionStatus>(input.below(22)) : CompletionStatus{};
    arrive_bytes(any_lane(input), bytes.data(), size, status);
  }

  // Does what the engine does with the box, in its order.
  void settle() {
    settle_box();
    take_deliveries();
  }

  void settle_box() {
    for (int rounds = 0; !out_.empty(); ++rounds) {
      REQUIRE(rounds < 100);
      out_.rare = false;
      for (; out_.slabs_dropped > 0; --out_.slabs_dropped) drop_slab();
      while (out_.slab_buffers > 0) provide_slab();
      for (const ReceivePost& post : out_.receives) {
        REQUIRE(post.length_bytes == buffer_bytes);
        srq_.push_back(post);
      }
      out_.receives.clear();
      REQUIRE(srq_.size() <= config().window.max);
      out_.arm = false;
      for (const WorkRequest& work : out_.work) post(work);
      out_.work.clear();
      for (std::size_t i = 0; i < out_.connects.size(); ++i) carry_out(out_.connects[i]);
      out_.connects.clear();
      for (const Retired& retired : out_.retired) back(retired.slot);
      out_.retired.clear();
      out_.rnr_changed = false;
      for (const TransferEnd& end : out_.transfers) finish(end);
      out_.transfers.clear();
      for (const Failure& failure : out_.failures) {
        REQUIRE(index(failure.peer) < core_.peer_count());
        REQUIRE(failure.reason != FailReason::none);
      }
      out_.failures.clear();
      out_.outages.clear();
    }
  }

  void take_deliveries() {
    for (const Delivery& delivery : out_.deliveries) {
      const auto at = reinterpret_cast<std::uint64_t>(delivery.payload);
      const bool inside = std::any_of(slabs_.begin(), slabs_.end(), [&](const auto& slab) {
        const auto begin = reinterpret_cast<std::uint64_t>(slab.data());
        return at >= begin && at + delivery.length_bytes <= begin + slab.size();
      });
      REQUIRE(inside);
      if (delivery.last) delivered_.push_back(delivery.buffer);
    }
    out_.deliveries.clear();
  }

  // Once for each transfer; with all its bytes, or when no more can arrive.
  void finish(const TransferEnd& end) {
    const auto found = transfers_.find(end.token);
    REQUIRE(found != transfers_.end());
    const Open& open = found->second;
    // Chunks that were not known to be complete go again.
    REQUIRE(!end.ok || open.arrived_bytes >= open.request.length_bytes);
    for (const auto& [id, lane] : lanes_) {
      for (const WorkRequest& work : lane.posted) {
        REQUIRE(!is_chunk(work) || work.address >> 32 != end.token);
      }
    }
    transfers_.erase(found);
  }

  void drop_slab() {
    const auto begin = reinterpret_cast<std::uint64_t>(slabs_.back().data());
    for (const ReceivePost& post : srq_) {
      REQUIRE(post.address < begin || post.address >= begin + slabs_.back().size());
    }
    slabs_.pop_back();
  }

  void provide_slab() {
    const std::uint32_t count = std::exchange(out_.slab_buffers, 0);
    if (slab_fails_ && !slabs_.empty()) return core_.on_slab_failed(out_);
    slabs_.emplace_back(std::size_t{count} * buffer_bytes);
    core_.on_slab(reinterpret_cast<std::uint64_t>(slabs_.back().data()), 1, count, out_);
  }

  void post(const WorkRequest& work) {
    const auto found = lanes_.find(index(work.lane));
    REQUIRE(found != lanes_.end());
    LanePair& lane = found->second;
    const PeerState state = core_.state(lane.peer);
    REQUIRE(state != PeerState::connecting && state != PeerState::accepting &&
            !any_broken.has(state));
    REQUIRE(work.id == lane.next++);
    lane.posted.push_back(work);
    REQUIRE(lane.posted.size() <= (lane.bulk ? core_.fetch_depth() : queue_depth));
    REQUIRE(!lane.bulk || (lane.joined && work.opcode == Opcode::read));
    if (is_chunk(work)) return check_chunk(work, lane);
    if (work.opcode != Opcode::send) return;
    REQUIRE(wire::check_frame(reinterpret_cast<const std::byte*>(work.address), work.length_bytes));
  }

  static bool is_chunk(const WorkRequest& work) {
    return fetches(work.opcode) || work.opcode == Opcode::write;
  }

  void check_chunk(const WorkRequest& work, const LanePair& lane) {
    const TransferRequest& whole = transfer_of(work).request;
    REQUIRE((work.signalled || lane.bulk) && work.length_bytes > 0);
    REQUIRE(lane.peer == whole.peer && work.opcode == whole.opcode);
    REQUIRE(work.lkey == whole.lkey && work.rkey == whole.rkey);
    REQUIRE(work.operand == whole.operand && work.compare == whole.compare);
    const std::uint64_t offset = work.address - whole.local_address;
    REQUIRE(offset == work.remote_address - whole.remote_address);
    REQUIRE(offset < whole.length_bytes && work.length_bytes <= whole.length_bytes - offset);
    REQUIRE(work.inlined == (work.opcode == Opcode::write && work.length_bytes <= 32));
    if (lane.bulk) return;  // its queue pair bounds what is under way
    const auto fetching = std::count_if(lane.posted.begin(), lane.posted.end(),
                                        [](const auto& one) { return fetches(one.opcode); });
    REQUIRE(fetching <= static_cast<std::ptrdiff_t>(max_rd_atomic));
  }

  void carry_out(const ConnectAction action) {
    using Kind = ConnectAction::Kind;
    if (action.kind == Kind::reject || action.kind == Kind::accept) {
      REQUIRE(open_requests_.erase(static_cast<std::uint64_t>(action.request)) == 1);
    }
    if (action.kind == Kind::reject) return;
    if (action.kind == Kind::drop) {
      REQUIRE(lanes_.erase(index(action.lane)) == 1);
      core_.on_dropped(now_, action.lane, out_);
      return;
    }
    if (action.kind == Kind::lane_end) return make_lane_end(action);
    REQUIRE(lanes_.count(index(action.lane)) == 0);
    lanes_[index(action.lane)].peer = action.peer;
    if (action.hello.resumes) lanes_[index(action.lane)].sequence = action.hello.received;
    while (core_.lacks_control_slots()) {
      core_.lend_control_slot(slot());
      --lent_;  // for good
    }
  }

  void make_lane_end(const ConnectAction& action) {
    REQUIRE(lanes_.count(index(action.beside)) == 1 && !lanes_[index(action.beside)].bulk);
    REQUIRE(action.reads > 0 && action.reads <= max_rd_atomic);
    LanePair& lane = lanes_[index(action.lane)];
    REQUIRE(!lane.joined);
    lane.peer = action.peer;
    lane.bulk = true;
    lane.joined = action.theirs.qp_number != 0 && !bulk_fails_;
    wire::LaneEnd ours{.qp_number = index(action.lane) + 1, .psn = 7, .reads = 4};
    core_.on_lane_end(now_, action.lane, bulk_fails_ ? wire::LaneEnd{} : ours, out_);
  }

  void check() {
    for (const auto& [id, lane] : lanes_) {
      const bool heard_of = lane.posted.empty() || !lane.bulk || lane.posted.back().signalled;
      REQUIRE(heard_of);
    }
    REQUIRE(core_.conserved());
    REQUIRE(core_.counters().receives_posted == srq_.size());
    REQUIRE(core_.counters().window <= config().window.max);
  }

  Core core_;
  Outbox out_;
  Time now_{1};
  bool slab_fails_ = false;
  bool bulk_fails_ = false;
  std::uint64_t attempts_ = 0;
  std::deque<std::vector<std::byte>> slabs_;
  std::deque<ReceivePost> srq_;
  std::vector<BufferId> delivered_;
  std::array<std::uint32_t, 8> relay_sequence_{};  // by rank
  std::map<std::uint32_t, LanePair> lanes_;
  std::map<std::uint64_t, bool> open_requests_;
  std::uint64_t requests_ = 0;
  std::map<std::uint64_t, Open> transfers_;  // by token
  std::uint64_t tokens_ = 0;
  std::deque<Slot> slots_;
  std::vector<Slot*> free_;
  std::int64_t lent_ = 0;
};

}  // namespace
}  // namespace weir::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weir::fuzz::Input input(data, size);
  weir::fuzz::World(input.below(2) == 0).play(input);
  return 0;
}
