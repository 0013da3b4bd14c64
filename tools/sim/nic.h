// One adapter: RC queue pairs, a shared receive queue, a completion queue. What verbs promises and
// where adapters differ, no packet format. [IBTA 9.7, 10.7, 11.4]
//
//   * A queue pair delivers in order, exactly once. Each send consumes one receive of the SRQ.
//   * No receive there: RNR NAK; the sender waits, then repeats from that send on. Order is kept
//     behind a stalled send. Patience is unlimited (rnr_retry 7).
//   * No answer for `Timing::retries`: retry_exc_err. After an error every later send is flushed.
//   * A successful send without `signalled` makes no completion; an error always does.
//   * The memory of a send that is not inlined is read when it leaves, and again when it is
//     repeated: a slot that is used again too early shows as wrong content at the receiver.
//   * Posting beyond the depth of a queue is a violation: the core has to count.
//   * What got no answer for a while is repeated, with all behind it. A send or a write that the
//     other end executed before is only acknowledged again, an atomic gets the kept result again,
//     a read is executed again. [IBTA 9.7.5.1]
//   * A repeated send or write is acknowledged with the last request that was executed, so a fetch
//     behind it may be acknowledged without its data. A correct requester goes on waiting for the
//     data; Soft-RoCE takes the fetch for complete, if it needs one packet (`loses_fetches`).
//   * Writes, reads and atomics ask for registered memory of the peer, with the right to do that,
//     and need no receive there. If it is not so: rem_access_err, and both ends are broken.
//   * A write lies in the peer's memory, all of it, when it is acknowledged, not before it arrives.
//   * Reads and atomics fetch: at most max_rd_atomic of a queue pair are under way; the next one,
//     and all behind it, wait. (With 0 adapters hang without a word, so posting one is a
//     violation.)
//   * What was posted behind a fetch may be executed before what it fetches is here, but completes
//     after it. The data lies in memory when the fetch completes, not before.
//   * Nothing lands in memory by a queue pair that is broken or gone, at either end. (What was
//     under way when only the other end broke does.)
//
// What is fetched is on the line of the responder's queue pair, one after the other with its
// sends. Whether queue pairs get into each other's way is the wire's business (fabric.h). Local
// keys are not looked at.
//
// Single-threaded; everything happens in events of the fabric.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/access.h"
#include "base/work.h"
#include "tools/sim/fabric.h"
#include "tools/sim/shared_adapter.h"

namespace weir::sim {

enum class QpNumber : std::uint32_t { none = 0 };

// A completion as the adapter knows it: the lane of a queue pair is the engine's business.
struct QpCompletion {
  QpNumber qp;
  Completion completion;  // lane not filled in
  Time visible{};         // polls before do not see it
  bool solicited = false;
};

class Nic {
 public:
  struct Config {
    std::uint32_t srq_depth = 4096;
    std::uint32_t cq_depth = 1u << 20;
    SrqLimitStyle limit_style = SrqLimitStyle::hardware;
    std::uint32_t max_rd_atomic = 16;  // fetches of one queue pair under way, as negotiated
    bool loses_fetches = false;        // completes a fetch whose data was lost, as Soft-RoCE does
    SharedAdapter* shared = nullptr;   // what the processes of its host share, if anything
  };

  Nic(Fabric& fabric, Node node, const Config& config);
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  Node node() const { return node_; }

  // ---- queue pairs ----
  QpNumber create_qp(std::uint32_t send_depth) {
    const QpNumber number{next_qp_++};
    qps_[number].depth = send_depth;
    return number;
  }
  // From here on it receives, and what is posted is sent.
  // `most_fetches`: under way, if fewer than max_rd_atomic.
  void connect_qp(QpNumber qp, Node remote_node, QpNumber remote_qp,
                  std::uint32_t most_fetches = UINT32_MAX);
  Node remote_node(QpNumber qp) const { return qps_.at(qp).remote_node; }
  // Its completions that were not polled stay, with the number of a queue pair that is gone.
  void destroy_qp(QpNumber qp);
  // Breaks it as a device error would: the oldest send in flight fails, the rest is flushed.
  void break_qp(QpNumber qp, CompletionStatus status);
  // The same for one of those that are connected, by number modulo how many there are; an idle one
  // breaks at its next send. False if there is none.
  bool break_some_qp(std::uint32_t pick, CompletionStatus status);
  // The process is gone: no queue pair answers any more.
  void power_off();

  void post_send(QpNumber qp, const WorkRequest& request);

  // ---- memory that peers may touch ----
  // Returns the rkey; it is of no use with another adapter.
  std::uint32_t register_memory(std::uint64_t address, std::uint64_t bytes, Access access);
  void deregister_memory(std::uint32_t rkey);

  // ---- shared receive queue, completions ----
  void post_receives(std::span<const ReceivePost> posts);
  void arm(SrqArm arm);
  // How long senders wait after an RNR NAK of ours.
  void advertise_rnr_timer(Duration wait) { rnr_wait_ = wait; }
  bool poll(QpCompletion& completion);
  // The next solicited completion makes an event, once.
  void listen() { listens_ = true; }
  static constexpr Duration latest_event = milliseconds(3);
  // When the last one was lost.
  Time event_lost_at() const { return event_lost_at_; }
  // Since when a solicited completion could have been polled; never: none waits.
  Time solicited_since() const {
    for (const QpCompletion& completion : cq_) {
      if (completion.solicited) return completion.visible;
    }
    return Time::never();
  }

  // Whether a posted receive lies in this memory.
  bool has_receive_in(std::uint64_t address, std::uint64_t bytes) const;

  std::uint32_t posted() const { return static_cast<std::uint32_t>(srq_.size()); }
  std::uint64_t rnr_naks() const { return rnr_naks_; }
  std::uint64_t completions_made() const { return completions_made_; }
  // The most fetches that one queue pair ever had under way.
  std::uint32_t most_fetches() const { return most_fetches_; }

  // Called (as an event, not from within a call) when the limit event fires.
  std::function<void()> on_limit;
  // The event of a solicited completion; likewise.
  std::function<void()> on_solicited;
  // A completion was made. For an engine that sleeps.
  std::function<void()> on_completion;

 private:
  struct Send {
    WorkRequest request;
    std::vector<std::byte> inlined;
    bool left = false;  // ever
    Time first_left{};
    Time last_left{};
  };

  // Of an atomic that was executed.
  struct Result {
    std::uint64_t sequence;
    std::vector<std::byte> before;
  };

  struct QueuePair {
    std::uint32_t depth = 0;
    bool connected = false;
    bool broken = false;
    Node remote_node = 0;
    QpNumber remote_qp = QpNumber::none;
    // Sending: sends_[0] has sequence `acked`.
    std::deque<Send> sends;
    std::uint64_t acked = 0;     // sends answered
    std::uint64_t sent = 0;      // sends transmitted, in this round
    std::uint64_t round = 0;     // one more with each repetition
    bool stalled = false;        // waits for the RNR timer
    std::uint32_t fetching = 0;  // of those sent in this round, fetches without their data
    std::uint32_t most_fetches = 0;
    Time line_free{};
    Wire::Stream requests{};
    Time last_answer{};
    bool watched = false;  // the retry timer runs
    // An entry of the queue is free again only when a completion at or after it was polled.
    std::uint64_t posted = 0;
    std::uint64_t reaped = 0;
    CompletionStatus fail_next = CompletionStatus::success;
    // Receiving
    std::uint64_t expected = 0;
    Wire::Stream answers{};
    Time last_data{};  // the last byte of what was fetched leaves
    std::deque<Result> results;
  };

  struct Memory {
    std::uint64_t address;
    std::uint64_t bytes;
    Access access;
  };

  struct Packet {
    Node from_node;
    QpNumber from_qp;
    QpNumber to_qp;
    std::uint64_t sequence;
    std::uint64_t round;
    WorkRequest request;
    std::vector<std::byte> bytes;  // of a send or a write
  };

  enum class Answer : std::uint8_t { ack, rnr, too_long, no_access };

  QueuePair* find(QpNumber qp) {
    const auto found = qps_.find(qp);
    return found == qps_.end() ? nullptr : &found->second;
  }
  bool is_well_formed(const WorkRequest& request);
  void transmit(QpNumber number);
  // Everything that is not answered will leave again.
  void go_back(QueuePair& qp) {
    ++qp.round;
    qp.sent = qp.acked;
    qp.fetching = 0;
  }
  void on_packet(const Packet& packet);
  void on_send(const Packet& packet, QueuePair& qp);
  void receive(QpNumber number, const std::vector<std::byte>& bytes, bool solicited);
  void answer(const Packet& packet, QueuePair& qp, Answer answer);
  Wire::Action back_at(const Packet& packet, std::function<void(Nic&)> then);
  // What is repeated is answered for all that was executed. [IBTA 9.7.5.1.2]
  void acknowledge_again(Packet packet, QueuePair& qp) {
    packet.sequence = qp.expected - 1;
    answer(packet, qp, Answer::ack);
  }
  void on_answer(QpNumber number, std::uint64_t sequence, std::uint64_t round, Answer answer,
                 Duration wait);
  // What to call when the shared adapter has dealt with an answer: at once, if there is none.
  void when_served(QpNumber number, std::uint64_t sequence, EventQueue::Action then) {
    if (config_.shared == nullptr) return then();
    fabric_.events.at(config_.shared->end(fabric_.events.now(), context_of(number, sequence)),
                      std::move(then));
  }
  // A request's name in the shared adapter.
  std::uint64_t context_of(QpNumber number, std::uint64_t sequence) const {
    return std::uint64_t{node_} << 48 | static_cast<std::uint64_t>(number) << 32 |
           (sequence & UINT32_MAX);
  }
  // The other end executed everything before `sequence`. A fetch is done only when its data is
  // here: if that was lost, the fetch is repeated, or with the other end gone the retries run out.
  void acknowledge(QpNumber number, QueuePair& qp, std::uint64_t sequence) {
    while (qp.acked < sequence && !qp.sends.empty() && !fetches(qp.sends.front().request.opcode)) {
      finish_oldest(number, qp);
    }
  }
  void finish_oldest(QpNumber number, QueuePair& qp);
  void refuse(const Packet& packet, QueuePair& qp, Answer reason);
  void give_up(const Packet& packet, QueuePair& qp, Answer reason) {
    answer(packet, qp, reason);
    fail_sends(packet.to_qp, qp, CompletionStatus::wr_flush_err);
  }
  bool permitted(const WorkRequest& request) const;
  void on_write(const Packet& packet, QueuePair& qp);
  void on_read(const Packet& packet, QueuePair& qp);
  void on_atomic(const Packet& packet, QueuePair& qp);
  void send_back(const Packet& packet, QueuePair& qp,
                 std::function<bool(std::vector<std::byte>&)> fetch);
  void on_data(QpNumber number, std::uint64_t sequence, const std::vector<std::byte>& bytes);
  bool takes_for_data(const QueuePair& qp, std::uint64_t sequence) const;
  // Patience starts when the last byte of the oldest request has left, and is for the time that
  // what it fetches takes on the line. (Between packets of a long message adapters hear of each
  // other.)
  Duration answer_time(const Send& oldest) const {
    return fabric_.wire->line_time(fetches(oldest.request.opcode) ? oldest.request.length_bytes
                                                                  : 0);
  }
  Time fails_at(const QueuePair& qp) const;
  Time repeats_at(const QueuePair& qp) const;
  void watch(QpNumber number);
  void fail_sends(QpNumber number, QueuePair& qp, CompletionStatus status);
  void complete(QpNumber number, const Completion& completion, bool solicited = false);
  void notify();
  void consumed() {
    if (armed_ && srq_.size() < limit_) fire_limit();
  }
  void fire_limit();

  Fabric& fabric_;
  Node node_;
  Config config_;
  std::uint32_t next_qp_ = 1;
  std::map<QpNumber, QueuePair> qps_;
  std::uint32_t registrations_ = 0;
  std::map<std::uint32_t, Memory> memory_;  // by rkey
  std::deque<ReceivePost> srq_;
  std::deque<QpCompletion> cq_;
  bool armed_ = false;
  std::uint32_t limit_ = 0;
  bool listens_ = true;
  Time event_lost_at_{-seconds(1000).ns};
  std::uint64_t rnr_naks_ = 0;
  Duration rnr_wait_;
  std::uint64_t completions_made_ = 0;
  std::uint32_t most_fetches_ = 0;
};

}  // namespace weir::sim
