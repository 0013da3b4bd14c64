// RDMA reads: the memory that peers may read, the responder's side of a read, and its data at the
// requester. When a read may leave is decided in nic.cc, where the send queue is.

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tools/sim/nic.h"

namespace weir::sim {

// The node is in the key, so that a key given to the wrong adapter is found out.
std::uint32_t Nic::register_memory(std::uint64_t address, std::uint64_t bytes) {
  const std::uint32_t rkey = (node_ + 1) << 20 | ++registrations_;
  memory_[rkey] = {address, bytes};
  return rkey;
}

void Nic::deregister_memory(std::uint32_t rkey) { memory_.erase(rkey); }

bool Nic::readable(const ReadRequest& read) const {
  if (read.bytes == 0) return true;  // the key is not looked at [IBTA C9-88]
  const auto found = memory_.find(read.rkey);
  if (found == memory_.end()) return false;
  const Memory& memory = found->second;
  return read.address >= memory.address && read.bytes <= memory.bytes &&
         read.address - memory.address <= memory.bytes - read.bytes;
}

// A read that is repeated is executed again. The memory is read when the last byte leaves: what is
// changed or deregistered before the requester said that it has the data shows.
void Nic::on_read_request(const Packet& packet, QueuePair& qp) {
  if (!readable(packet.read)) return refuse(packet, qp, Answer::no_access);
  if (packet.sequence == qp.expected) ++qp.expected;
  qp.line_free = std::max(qp.line_free, fabric_.events.now()) + line_time(packet.read.bytes);
  qp.last_data = qp.line_free;
  const Time arrival = std::max(qp.last_ack, qp.line_free + fabric_.latency());
  // Later answers come later. (One of the same time is already in the queue of events when this
  // one leaves, and would be looked at first.)
  qp.last_ack = arrival + Duration{1};
  fabric_.events.at(qp.line_free, [this, packet, arrival] {
    QueuePair* from = find(packet.to_qp);
    if (from == nullptr || from->broken) return;
    if (!readable(packet.read)) return give_up(packet, *from, Answer::no_access);
    const auto* memory = reinterpret_cast<const std::byte*>(packet.read.address);
    std::vector<std::byte> bytes(memory, memory + packet.read.bytes);
    fabric_.events.at(
        arrival, [&fabric = fabric_, here = node_, to = packet.from_node, number = packet.from_qp,
                  sequence = packet.sequence, bytes = std::move(bytes)] {
          if (fabric.is_cut(here, to)) return;
          if (Nic* nic = fabric.nics[to]) nic->on_data(number, sequence, bytes);
        });
  });
}

// A bad request breaks this end too, but not before the reads that came before it are answered.
// Meanwhile `expected` stays at it, so nothing behind it is looked at.
void Nic::refuse(const Packet& packet, QueuePair& qp, Answer reason) {
  if (qp.last_data < fabric_.events.now()) return give_up(packet, qp, reason);
  fabric_.events.at(qp.last_data, [this, packet, reason] {
    QueuePair* late = find(packet.to_qp);
    if (late != nullptr && !late->broken) give_up(packet, *late, reason);
  });
}

void Nic::give_up(const Packet& packet, QueuePair& qp, Answer reason) {
  answer(packet, qp, reason);
  fail_sends(packet.to_qp, qp, CompletionStatus::wr_flush_err);
}

void Nic::on_data(QpNumber number, std::uint64_t sequence, const std::vector<std::byte>& bytes) {
  QueuePair* qp = find(number);
  // Data for a queue pair that is broken lands nowhere: its memory may be used again.
  if (qp == nullptr || qp->broken || sequence != qp->acked) return;
  const WorkRequest& read = qp->sends.front().request;
  if (!bytes.empty()) {
    std::memcpy(reinterpret_cast<void*>(read.address), bytes.data(), bytes.size());
  }
  --qp->reads;
  on_answer(number, sequence, qp->round, Answer::data, {});
  transmit(number);
}

}  // namespace weir::sim
