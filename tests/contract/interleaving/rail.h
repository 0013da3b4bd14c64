// Two processes on one port each, and what is between them: the smallest fabric that can do what a
// real one can. Nothing happens by itself. Every message of the connection manager and every frame
// moves, or is lost, when the explorer says so.
//
//   connection manager    asker:     asking ─answer─▶ answered ─handled─▶ established
//                         acceptor:  asked ─accept─▶ accepted ─confirmation─▶ established
//   queue pair            sent ─deliver─▶ delivered ─ack─▶ completed; or it breaks
//
// As Linux has it: who destroys its end of an attempt refuses it (so an answer that waits to be
// handled is spoilt), who destroys its end of a connection disconnects.
// [drivers/infiniband/core/cm.c]
//
// Single-threaded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/interleaving/inner.h"
#include "transport/drive/driver.h"

namespace weir::interleaving {

inline constexpr std::uint32_t most_frame_bytes = 64;

class Rail;

// What all parts of a world share.
struct Stage {
  Time now{seconds(1000).ns};
  bool late = false;    // frames under way arrive while a queue pair is being destroyed
  bool steady = false;  // nobody has a cause to end a connection that is whole
  bool leaves[2] = {};  // ends that need no messages any more
  std::string violation;
  std::set<std::pair<std::size_t, std::uint32_t>> arrived{};  // end, message: in its memory
  std::function<void(const std::string&)> note;               // if somebody listens

  void violate(const std::string& what) {
    if (violation.empty()) violation = what;
    if (note) note("VIOLATION: " + what);
  }
};

// A process on a rail: the driver that ships, over the fabric below.
class Side : public Driver<Side> {
 public:
  struct Message {
    std::uint8_t tag;
    std::array<std::byte, 16> bytes;
    std::uint32_t length;
  };

  Side(Stage& stage, Rail& rail, std::size_t which, const Core::Config& config);

  PeerId peer() const { return peer_; }
  PeerId third() const { return third_; }
  PeerState state() const { return core_.state(peer_); }

  // ---- what the layer above does ----

  Status send(std::uint8_t tag, const void* bytes, std::uint32_t length);
  void connect();
  void turn_to_third();
  // Bytes that no weir sends.
  void send_none();
  // Asks for the end of the connection; true once it has come.
  bool close();
  // Polls and hands up. Messages and news are taken with `take_...`.
  void look_once();
  std::vector<Message> take_messages();
  std::vector<LinkNews> take_links() { return std::exchange(links_, {}); }
  std::vector<Failure> take_failures() { return std::exchange(failures_, {}); }
  bool has_for_application() const { return !out_.deliveries.empty() || !failures_.empty(); }
  bool has_links() const { return !links_.empty(); }
  std::optional<std::uint32_t> hold(bool even_if_ready);
  bool send_handover(const HandoverMessage& message);
  std::optional<std::vector<SendSlot*>> give_away(std::uint32_t received);
  std::vector<SendSlot*> take_unsent();
  void let_go();
  Status carry(const SendSlot& frame);

  // ---- what the event thread does ----

  void stand_in();
  void keep_deadline();
  void serve();
  using Driver::add_request;
  using Driver::has_requests;
  void hear(const std::function<void(const Now&)>& step) { on_connection_event(step); }
  void on_answer(const Now& now, LaneId lane, const wire::Hello& hello) {
    Driver::on_answer(now, lane, hello);
  }
  void on_lane_error(LaneId lane);
  Core& core() { return core_; }
  const Core& core() const { return core_; }
  Outbox& box() { return out_; }

  // ---- what the adapter does ----

  void complete(const Completion& completion) { arrived_.push_back(completion); }
  bool has_completions() const { return !arrived_.empty(); }
  void receive(LaneId lane, const std::byte* bytes, std::uint32_t length);

  void describe(const Attempts& ours, const Attempts& theirs, Digest& digest) const;
  std::string text() const;

 private:
  friend class Driver<Side>;
  Now now() const { return stage_.now; }
  int poll_completions();
  void post_receives();
  void post_work();
  void arm(SrqArm) {}
  void listen() {}
  void advertise_rnr_timer(std::uint8_t) {}
  void provide_slab();
  void drop_slab() {}
  void carry_out(const ConnectAction& action);
  void hand_up(const Retired& retired);
  void hand_up(const Failure& failure);
  void hand_up(const Outage&) {}
  void hand_up(const LinkNews& news) {
    if (news.peer == peer_) links_.push_back(news);
  }
  void hand_up(const TransferEnd&) {}
  void hand_up(PeerName) {}
  void wake_thread() {}
  bool is_alive(ProcessId) const { return true; }
  void reap_node() {}

  SendSlot* acquire();
  void answer_for_third(LaneId lane);

  struct SlotMemory {
    SendSlot slot;
    std::array<std::byte, most_frame_bytes> memory;
  };

  Stage& stage_;
  Rail& rail_;
  const std::size_t which_;
  PeerId peer_{};
  PeerId third_{};
  std::vector<int> pairs_;  // by lane: the number of its queue pair; -1: it has none
  std::vector<ReceivePost> posted_;
  std::size_t first_posted_ = 0;
  std::vector<Completion> arrived_;
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  std::vector<std::unique_ptr<SlotMemory>> slots_;
  std::vector<SendSlot*> free_slots_;
  std::vector<LinkNews> links_;
  std::vector<Failure> failures_;
};

// What is between two sides.
class Rail {
 public:
  Rail(Stage& stage, const std::array<Core::Config, 2>& configs)
      : stage_(stage),
        sides_{Side(stage, *this, 0, configs[0]), Side(stage, *this, 1, configs[1])} {}

  Side& side(std::size_t which) { return sides_[which]; }
  const Side& side(std::size_t which) const { return sides_[which]; }

  // ---- what may happen ----

  struct Message {
    enum class Kind : std::uint8_t { request, answer, refusal, confirmation, withdrawal, hang_up };
    Kind kind;
    std::size_t attempt;
    std::size_t to;  // the side
    wire::Reject reason{};
  };
  const std::vector<Message>& messages() const { return messages_; }
  // None of the same attempt in the same direction is before it.
  bool is_next(std::size_t message) const;
  void deliver_message(std::size_t message);
  // A confirmation is repeated as long as both ends are there, since the answer is.
  bool may_lose(std::size_t message) const {
    const Message& one = messages_[message];
    return one.kind != Message::Kind::confirmation || attempts_[one.attempt].asker == Phase::over;
  }
  void lose_message(std::size_t message) {
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(message));
  }

  std::size_t attempts() const { return attempts_.size(); }
  bool is_answered(std::size_t attempt) const {
    return attempts_[attempt].asker == Phase::answered &&
           pairs_[attempts_[attempt].asker_pair].exists;
  }
  std::size_t asker_of(std::size_t attempt) const { return attempts_[attempt].by; }
  void handle_answer(std::size_t attempt);

  std::size_t pairs() const { return pairs_.size(); }
  std::size_t side_of(std::size_t pair) const { return pairs_[pair].side; }
  // The next frame can get to the other end.
  bool may_deliver(std::size_t pair) const;
  void deliver_frame(std::size_t pair);
  // What was delivered can be acknowledged.
  bool may_ack(std::size_t pair) const {
    const Pair& of = pairs_[pair];
    return !gone_ && of.exists && !of.broken && of.delivered > 0;
  }
  void ack(std::size_t pair);
  bool may_break(std::size_t pair) const {
    const Pair& of = pairs_[pair];
    return of.exists && of.connected && !of.broken && !of.third;
  }
  // Repeats run out, or the pair fails.
  void break_pair(std::size_t pair);
  // What is sent can get nowhere any more.
  bool is_futile(std::size_t pair) const {
    const Pair& of = pairs_[pair];
    const bool waits = of.sent.size() > of.delivered && !is_able(of.remote);
    return may_break(pair) && (waits || (gone_ && !of.sent.empty()));
  }
  // Nothing passes from now on, but to the third process.
  void go() {
    gone_ = true;
    messages_.clear();
  }
  bool is_gone() const { return gone_; }
  bool has_frames_for(std::size_t side) const;

  // Of a message, for people.
  std::string text_of_message(std::size_t message) const;
  std::string text_of_frame(std::size_t pair) const;
  void describe(Digest& digest) const;

  // ---- for its sides ----

  std::size_t connect(std::size_t side, LaneId lane, const wire::Hello& hello);
  std::size_t make_third(std::size_t side, LaneId lane);
  // -1: the request was withdrawn.
  int accept(std::size_t side, LaneId lane, RequestId request, const wire::Hello& hello);
  void reject(RequestId request, wire::Reject reason);
  void post(std::size_t pair, const WorkRequest& work);
  // One that is not of the core.
  void post_none(std::size_t pair);
  void hang_up(std::size_t pair);
  // Before the pair is gone, what its adapter had under way completes.
  void retire(std::size_t pair);
  void destroy(std::size_t pair) { pairs_[pair].exists = false; }
  // A pair that is connected to nothing.
  std::size_t make_pair(std::size_t side, LaneId lane);
  // The third process has all that was sent to it. The kind of the last frame.
  wire::FrameKind take_for_third(std::size_t pair);

 private:
  enum class Phase : std::uint8_t { none, asking, answered, asked, accepted, established, over };

  struct Packet {
    WorkId id;
    Opcode opcode;
    bool signalled;
    bool none;  // its sender knows nothing of it
    std::uint32_t bytes;
    std::array<std::byte, most_frame_bytes> data;
  };
  struct Pair {
    std::size_t side;
    LaneId lane;
    std::size_t attempt;
    int remote = -1;
    bool connected = false;
    bool broken = false;
    bool exists = true;
    bool third = false;
    bool acked = false;          // something that was sent, and its sender may know
    std::vector<Packet> sent{};  // not acknowledged
    std::size_t delivered = 0;   // of these
  };
  struct Attempt {
    std::size_t by;
    std::size_t asker_pair;
    int acceptor_pair = -1;
    Phase asker = Phase::asking;
    Phase acceptor = Phase::none;
    bool spoilt = false;  // the answer that waits to be handled was withdrawn
    wire::Hello hello{};
    wire::Hello answer{};
  };

  bool is_able(int pair) const {
    return pair >= 0 && pairs_[static_cast<std::size_t>(pair)].exists &&
           pairs_[static_cast<std::size_t>(pair)].connected &&
           !pairs_[static_cast<std::size_t>(pair)].broken;
  }
  bool is_on_wire(const Pair& from) const {
    return !gone_ && from.delivered < from.sent.size() && is_able(from.remote);
  }
  void put(Message::Kind kind, std::size_t attempt, std::size_t to, wire::Reject reason = {}) {
    if (!gone_) messages_.push_back({kind, attempt, to, reason});
  }
  void flush_pair(Pair& pair);

  Stage& stage_;
  std::vector<Attempt> attempts_;
  std::vector<Message> messages_;
  std::vector<Pair> pairs_;
  bool gone_ = false;
  std::array<Side, 2> sides_;
};

}  // namespace weir::interleaving
