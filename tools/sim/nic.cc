#include "tools/sim/nic.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace weir::sim {
namespace {

// Less than any message of the connection manager takes: what the adapter did is seen before what
// the connection manager says of it.
constexpr Duration most_delay = microseconds(8);

constexpr std::uint32_t packet_bytes = 1024;

// A request leaves so often before its queue pair is given up (retry_cnt 6).
constexpr int transmissions = 7;

}  // namespace

Nic::Nic(Fabric& fabric, Node node, const Config& config)
    : fabric_(fabric), node_(node), config_(config), rnr_wait_(fabric.timing.rnr) {
  if (fabric_.nics.size() <= node) fabric_.nics.resize(node + 1);
  fabric_.nics[node] = this;
}

// ---- queue pairs ----

void Nic::connect_qp(QpNumber number, Node remote_node, QpNumber remote_qp,
                     std::uint32_t most_fetches) {
  QueuePair* qp = find(number);
  if (qp == nullptr) return;
  qp->connected = true;
  qp->remote_node = remote_node;
  qp->remote_qp = remote_qp;
  qp->most_fetches = std::min(most_fetches, config_.max_rd_atomic);
  qp->requests = fabric_.wire->open(node_, remote_node);
  qp->answers = fabric_.wire->open(node_, remote_node);
}

// Whoever destroys a pair flushes it first: the completion of a marker comes behind all others.
void Nic::destroy_qp(QpNumber number) {
  qps_.erase(number);
  for (QpCompletion& completion : cq_) {
    completion.visible = std::min(completion.visible, fabric_.events.now());
  }
}

void Nic::power_off() {
  qps_.clear();
  memory_.clear();
  srq_.clear();
  cq_.clear();
  fabric_.nics[node_] = nullptr;
}

void Nic::break_qp(QpNumber number, CompletionStatus status) {
  QueuePair* qp = find(number);
  if (qp == nullptr || qp->broken) return;
  if (qp->sends.empty()) {
    qp->fail_next = status;
  } else {
    fail_sends(number, *qp, status);
  }
}

bool Nic::break_some_qp(std::uint32_t pick, CompletionStatus status) {
  std::vector<QpNumber> connected;
  for (const auto& [number, qp] : qps_) {
    if (qp.connected && !qp.broken) connected.push_back(number);
  }
  if (connected.empty()) return false;
  break_qp(connected[pick % connected.size()], status);
  return true;
}

// ---- sending ----

void Nic::post_send(QpNumber number, const WorkRequest& request) {
  QueuePair* qp = find(number);
  if (qp == nullptr || !qp->connected) {
    return fabric_.violation("a send was posted to a queue pair that is not connected");
  }
  if (qp->posted - qp->reaped >= qp->depth) {
    return fabric_.violation("a send queue was posted beyond its depth");
  }
  if (!is_well_formed(request)) return;
  ++qp->posted;
  if (qp->sends.empty()) qp->last_answer = fabric_.events.now();
  qp->sends.push_back({.request = request, .inlined = {}});
  if (request.inlined) {
    const auto* from = reinterpret_cast<const std::byte*>(request.address);
    qp->sends.back().inlined.assign(from, from + request.length_bytes);
  }
  if (qp->broken) return fail_sends(number, *qp, CompletionStatus::wr_flush_err);
  if (qp->fail_next != CompletionStatus::success) return fail_sends(number, *qp, qp->fail_next);
  transmit(number);
}

// What the adapter takes for itself (EINVAL).
bool Nic::is_well_formed(const WorkRequest& request) {
  if (!fetches(request.opcode)) return true;
  const char* wrong = nullptr;
  if (config_.max_rd_atomic == 0) {
    wrong = "a read or an atomic was posted to a queue pair with max_rd_atomic 0";
  } else if (request.inlined) {
    wrong = "a read or an atomic was posted inline (EINVAL)";
  } else if (request.opcode != Opcode::read && request.length_bytes != sizeof(std::uint64_t)) {
    wrong = "an atomic of other than 8 bytes was posted (EINVAL)";
  } else if (request.opcode != Opcode::read &&
             request.remote_address % sizeof(std::uint64_t) != 0) {
    wrong = "an atomic that is not aligned was posted (EINVAL)";
  }
  if (wrong != nullptr) fabric_.violation(wrong);
  return wrong == nullptr;
}

// Requests leave one after the other at the speed of the line, up to a fetch that is one too many.
void Nic::transmit(QpNumber number) {
  QueuePair& qp = *find(number);
  while (!qp.stalled && qp.sent < qp.acked + qp.sends.size()) {
    Send& next = qp.sends[qp.sent - qp.acked];
    const bool fetch = fetches(next.request.opcode);
    if (fetch) {
      if (qp.fetching >= qp.most_fetches) break;
      most_fetches_ = std::max(most_fetches_, ++qp.fetching);
      const Nic* const there = fabric_.nics[qp.remote_node];
      if (there != nullptr && qp.fetching > there->config_.max_rd_atomic) {
        fabric_.violation("more fetches are under way than the peer's adapter answers");
      }
    }
    const std::uint64_t sequence = qp.sent++;
    Time start = std::max(qp.line_free, fabric_.events.now());
    if (config_.shared != nullptr) {
      start = std::max(start,
                       config_.shared->begin(fabric_.events.now(), context_of(number, sequence)));
    }
    qp.line_free = start + fabric_.wire->line_time(fetch ? 0 : next.request.length_bytes);
    if (!next.left) next.first_left = qp.line_free;
    next.left = true;
    next.last_left = qp.line_free;
    const std::uint64_t round = qp.round;
    fabric_.events.at(qp.line_free, [this, number, sequence, round] {
      QueuePair* from = find(number);
      if (from == nullptr || from->broken || from->round != round || sequence < from->acked) return;
      const Send& leaving = from->sends[sequence - from->acked];
      const WorkRequest& request = leaving.request;
      Packet packet{node_, number, from->remote_qp, sequence, round, request, {}};
      if (request.inlined) {
        packet.bytes = leaving.inlined;
      } else if (!fetches(request.opcode)) {
        const auto* memory = reinterpret_cast<const std::byte*>(request.address);
        packet.bytes.assign(memory, memory + request.length_bytes);
      }
      const auto kind = fetches(request.opcode) ? Wire::Kind::control : Wire::Kind::data;
      const auto size = static_cast<std::uint32_t>(packet.bytes.size());
      fabric_.wire->send(from->requests, kind, size,
                         [&fabric = fabric_, to = from->remote_node, packet = std::move(packet)] {
                           if (fabric.is_cut(packet.from_node, to)) return;
                           if (fabric.strikes(fabric.hazards.lost_request)) return;
                           if (Nic* nic = fabric.nics[to]) nic->on_packet(packet);
                         });
    });
  }
  watch(number);
}

Time Nic::fails_at(const QueuePair& qp) const {
  const Send& oldest = qp.sends.front();
  return std::max(qp.last_answer, oldest.first_left) + answer_time(oldest) + fabric_.timing.retries;
}

Time Nic::repeats_at(const QueuePair& qp) const {
  const Send& oldest = qp.sends.front();
  const Time asked = qp.stalled ? fabric_.events.now() : oldest.last_left;
  return std::max(qp.last_answer, asked) + answer_time(oldest) +
         Duration{fabric_.timing.retries.ns / transmissions};
}

void Nic::watch(QpNumber number) {
  QueuePair* qp = find(number);
  if (qp == nullptr || qp->watched || qp->sends.empty()) return;
  qp->watched = true;
  fabric_.events.at(std::min(fails_at(*qp), repeats_at(*qp)), [this, number] {
    QueuePair* late = find(number);
    if (late == nullptr) return;
    late->watched = false;
    if (late->sends.empty()) return;
    const Time now = fabric_.events.now();
    if (now >= fails_at(*late)) {
      return fail_sends(number, *late, CompletionStatus::retry_exc_err);
    }
    if (now >= repeats_at(*late)) {
      go_back(*late);
      return transmit(number);
    }
    watch(number);
  });
}

void Nic::on_answer(QpNumber number, std::uint64_t sequence, std::uint64_t round, Answer answer,
                    Duration wait) {
  QueuePair* qp = find(number);
  if (qp == nullptr || qp->broken) return;
  qp->last_answer = fabric_.events.now();
  acknowledge(number, *qp, answer == Answer::ack ? sequence + 1 : sequence);
  if (answer == Answer::ack && takes_for_data(*qp, sequence)) {
    finish_oldest(number, *qp);
    return transmit(number);
  }
  if (answer == Answer::ack || sequence != qp->acked || qp->sends.empty()) return;
  if (answer != Answer::rnr) {
    return fail_sends(number, *qp,
                      answer == Answer::too_long ? CompletionStatus::rem_op_err
                                                 : CompletionStatus::rem_access_err);
  }
  if (round != qp->round) return;
  go_back(*qp);
  qp->stalled = true;
  fabric_.events.after(wait, [this, number] {
    QueuePair* again = find(number);
    if (again == nullptr || again->broken) return;
    again->stalled = false;
    transmit(number);
  });
}

// rxe_comp.c (Linux 6.1): an acknowledgement with the very number of a response that it waits for.
bool Nic::takes_for_data(const QueuePair& qp, std::uint64_t sequence) const {
  return config_.loses_fetches && sequence == qp.acked && sequence < qp.sent && !qp.sends.empty() &&
         qp.sends.front().request.length_bytes <= packet_bytes;
}

void Nic::finish_oldest(QpNumber number, QueuePair& qp) {
  const WorkRequest request = qp.sends.front().request;
  qp.sends.pop_front();
  if (fetches(request.opcode) && qp.acked < qp.sent) --qp.fetching;
  qp.sent = std::max(qp.sent, ++qp.acked);
  if (request.signalled) {
    complete(number, {Opcode::send, CompletionStatus::success, 0, LaneId::none, request.id});
  }
}

void Nic::fail_sends(QpNumber number, QueuePair& qp, CompletionStatus status) {
  qp.broken = true;
  while (!qp.sends.empty()) {
    const WorkId id = qp.sends.front().request.id;
    qp.sends.pop_front();
    complete(number, {Opcode::send, status, 0, LaneId::none, id});
    status = CompletionStatus::wr_flush_err;
  }
}

// ---- receiving ----

void Nic::on_packet(const Packet& packet) {
  QueuePair* qp = find(packet.to_qp);
  if (qp == nullptr || !qp->connected || qp->broken || qp->remote_qp != packet.from_qp ||
      qp->remote_node != packet.from_node) {
    return;  // silence: the sender's retries will run out
  }
  if (packet.sequence > qp->expected) return;  // behind one that was turned back
  switch (packet.request.opcode) {
    case Opcode::probe:  // a write of nothing
    case Opcode::write: return on_write(packet, *qp);
    case Opcode::read: return on_read(packet, *qp);
    case Opcode::fetch_add:
    case Opcode::compare_swap: return on_atomic(packet, *qp);
    case Opcode::send:
    case Opcode::receive: return on_send(packet, *qp);
  }
}

void Nic::on_send(const Packet& packet, QueuePair& qp) {
  if (packet.sequence < qp.expected) return acknowledge_again(packet, qp);
  if (srq_.empty()) {
    ++rnr_naks_;
    return answer(packet, qp, Answer::rnr);
  }
  if (fabric_.strikes(fabric_.hazards.rnr_storm)) return answer(packet, qp, Answer::rnr);
  const bool fits = packet.bytes.size() <= srq_.front().length_bytes;
  if (fits) {
    ++qp.expected;
    answer(packet, qp, Answer::ack);
  }
  receive(packet.to_qp, packet.bytes, packet.request.solicited);
  if (!fits) refuse(packet, qp, Answer::too_long);
  consumed();
  if (!fits || srq_.empty()) return;
  // What Soft-RoCE does now and then with a SEND that it repeats. [transport/PROTOCOL.md, §2]
  if (!fabric_.strikes(fabric_.hazards.send_again)) return;
  receive(packet.to_qp, fabric_.random.chance(500) ? packet.bytes : std::vector<std::byte>{},
          packet.request.solicited);
  consumed();
}

// Takes the next receive buffer.
void Nic::receive(QpNumber number, const std::vector<std::byte>& bytes, bool solicited) {
  const ReceivePost post = srq_.front();
  srq_.pop_front();
  const auto size = static_cast<std::uint32_t>(bytes.size());
  const bool fits = size <= post.length_bytes;
  if (fits) std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(post.address));
  complete(number,
           {Opcode::receive, fits ? CompletionStatus::success : CompletionStatus::loc_len_err, size,
            LaneId::none, index(post.buffer)},
           solicited);
}

void Nic::answer(const Packet& packet, QueuePair& qp, Answer answer) {
  fabric_.wire->send(qp.answers, Wire::Kind::control, 0,
                     back_at(packet, [number = packet.from_qp, sequence = packet.sequence,
                                      round = packet.round, answer, wait = rnr_wait_](Nic& nic) {
                       nic.on_answer(number, sequence, round, answer, wait);
                     }));
}

// What the adapter that asked does when it has the answer, unless that gets lost on the way.
Wire::Action Nic::back_at(const Packet& packet, std::function<void(Nic&)> then) {
  return [&fabric = fabric_, here = node_, to = packet.from_node, number = packet.from_qp,
          sequence = packet.sequence, then = std::move(then)] {
    if (fabric.is_cut(here, to) || fabric.strikes(fabric.hazards.lost_answer)) return;
    Nic* const nic = fabric.nics[to];
    if (nic == nullptr) return;
    nic->when_served(number, sequence, [&fabric, to, then] {
      if (Nic* nic = fabric.nics[to]) then(*nic);
    });
  };
}

void Nic::post_receives(std::span<const ReceivePost> posts) {
  if (srq_.size() + posts.size() > config_.srq_depth) {
    return fabric_.violation("the shared receive queue was posted beyond its depth");
  }
  srq_.insert(srq_.end(), posts.begin(), posts.end());
}

void Nic::arm(SrqArm arm) {
  if (arm.limit > config_.srq_depth) {
    return fabric_.violation("an SRQ limit above the depth of the queue (EINVAL)");
  }
  limit_ = arm.limit;
  armed_ = limit_ > 0;
  if (armed_ && config_.limit_style == SrqLimitStyle::hardware && srq_.size() < limit_) {
    fire_limit();
  }
}

void Nic::fire_limit() {
  armed_ = false;
  if (fabric_.strikes(fabric_.hazards.lost_limit)) return;
  const int times = fabric_.strikes(fabric_.hazards.doubled_limit) ? 2 : 1;
  for (int i = 0; i < times; ++i) {
    fabric_.events.after({0}, [this] {
      if (on_limit) on_limit();
    });
  }
}

// ---- completions ----

void Nic::complete(QpNumber number, const Completion& completion, bool solicited) {
  if (cq_.size() >= config_.cq_depth) return fabric_.violation("the completion queue overflowed");
  Time visible = fabric_.events.now();
  if (fabric_.strikes(fabric_.hazards.delayed_completion)) {
    visible = visible + fabric_.random.up_to(most_delay);
  }
  if (!cq_.empty()) visible = std::max(visible, cq_.back().visible);
  cq_.push_back({number, completion, visible, solicited});
  ++completions_made_;
  if (solicited && on_solicited) fabric_.events.at(visible, [this] { notify(); });
  if (on_completion) on_completion();
}

// A poll sees now what it is about.
void Nic::notify() {
  if (!listens_) return;
  listens_ = false;
  if (fabric_.strikes(fabric_.hazards.lost_event)) {
    event_lost_at_ = fabric_.events.now();
    return;
  }
  const bool late = fabric_.strikes(fabric_.hazards.late_event);
  fabric_.events.after(late ? fabric_.random.up_to(latest_event) : Duration{},
                       [this] { on_solicited(); });
}

bool Nic::has_receive_in(std::uint64_t address, std::uint64_t bytes) const {
  return std::any_of(srq_.begin(), srq_.end(), [&](const ReceivePost& post) {
    return post.address >= address && post.address - address < bytes;
  });
}

bool Nic::poll(QpCompletion& completion) {
  if (cq_.empty() || cq_.front().visible > fabric_.events.now()) return false;
  completion = cq_.front();
  cq_.pop_front();
  if (completion.completion.opcode == Opcode::send) {
    if (QueuePair* qp = find(completion.qp)) qp->reaped = completion.completion.id + 1;
  }
  return true;
}

}  // namespace weir::sim
