// RDMA: the memory that peers may touch, the responder's side of reads, writes and atomics, and
// what comes back at the requester. When a request may leave is decided in nic.cc, where the send
// queue is.

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

#include "tools/sim/nic.h"

namespace weir::sim {
namespace {

Access needed_for(Opcode opcode) {
  switch (opcode) {
    case Opcode::read: return Access::remote_read;
    case Opcode::fetch_add:
    case Opcode::compare_swap: return Access::remote_atomic;
    default: return Access::remote_write;
  }
}

// Does it; returns the 8 bytes that were there before.
std::vector<std::byte> execute(const WorkRequest& atomic) {
  auto* const memory = reinterpret_cast<void*>(atomic.remote_address);
  std::vector<std::byte> before(sizeof(std::uint64_t));
  std::memcpy(before.data(), memory, before.size());
  std::uint64_t value;
  std::memcpy(&value, memory, sizeof value);
  if (atomic.opcode == Opcode::fetch_add) {
    value += atomic.operand;
  } else if (value == atomic.compare) {
    value = atomic.operand;
  }
  std::memcpy(memory, &value, sizeof value);
  return before;
}

}  // namespace

// The node is in the key, so that a key given to the wrong adapter is found out.
std::uint32_t Nic::register_memory(std::uint64_t address, std::uint64_t bytes, Access access) {
  // Whoever lets peers change memory must be able to do so himself. [IBTA 10.6.3.1]
  if ((access & (Access::remote_write | Access::remote_atomic)) != Access::local_read &&
      !includes(access, Access::local_write)) {
    fabric_.violation("memory was registered for remote changes but not for local ones (EINVAL)");
  }
  const std::uint32_t rkey = (node_ + 1) << 20 | ++registrations_;
  memory_[rkey] = {address, bytes, access};
  return rkey;
}

void Nic::deregister_memory(std::uint32_t rkey) { memory_.erase(rkey); }

bool Nic::permitted(const WorkRequest& request) const {
  if (request.length_bytes == 0) return true;  // the key is not looked at [IBTA C9-88]
  const auto found = memory_.find(request.rkey);
  if (found == memory_.end()) return false;
  const Memory& memory = found->second;
  return includes(memory.access, needed_for(request.opcode)) &&
         request.remote_address >= memory.address && request.length_bytes <= memory.bytes &&
         request.remote_address - memory.address <= memory.bytes - request.length_bytes;
}

// One that is repeated is acknowledged again, not executed again. [IBTA 9.7.5.1]
void Nic::on_write(const Packet& packet, QueuePair& qp) {
  if (packet.sequence < qp.expected) return acknowledge_again(packet, qp);
  if (!permitted(packet.request)) return refuse(packet, qp, Answer::no_access);
  if (!packet.bytes.empty()) {
    std::memcpy(reinterpret_cast<void*>(packet.request.remote_address), packet.bytes.data(),
                packet.bytes.size());
  }
  ++qp.expected;
  answer(packet, qp, Answer::ack);
}

// A read that is repeated is executed again. The memory is read when the last byte leaves: what is
// changed or deregistered before the requester said that it has the data shows.
void Nic::on_read(const Packet& packet, QueuePair& qp) {
  const bool repeated = packet.sequence < qp.expected;
  if (!permitted(packet.request)) {
    // The requester may have the data, and the memory may be gone for that reason.
    return repeated ? void() : refuse(packet, qp, Answer::no_access);
  }
  if (!repeated) ++qp.expected;
  send_back(packet, qp, [this, packet, repeated](std::vector<std::byte>& bytes) {
    if (!permitted(packet.request)) {
      if (!repeated) give_up(packet, *find(packet.to_qp), Answer::no_access);
      return false;
    }
    const auto* memory = reinterpret_cast<const std::byte*>(packet.request.remote_address);
    bytes.assign(memory, memory + packet.request.length_bytes);
    return true;
  });
}

// Executed once: the result is kept, and one that is repeated gets it again. [IBTA 9.4.5]
void Nic::on_atomic(const Packet& packet, QueuePair& qp) {
  if (packet.sequence == qp.expected) {
    if (!permitted(packet.request)) return refuse(packet, qp, Answer::no_access);
    ++qp.expected;
    qp.results.push_back({packet.sequence, execute(packet.request)});
    // No requester repeats more than it may have under way.
    if (qp.results.size() > config_.max_rd_atomic) qp.results.pop_front();
  }
  const auto kept = std::find_if(qp.results.begin(), qp.results.end(), [&](const Result& result) {
    return result.sequence == packet.sequence;
  });
  if (kept == qp.results.end()) return;  // a late copy of what was answered long ago
  send_back(packet, qp, [result = kept->before](std::vector<std::byte>& bytes) {
    bytes = result;
    return true;
  });
}

// What a request fetched goes back on the line of the queue pair. `fetch` is asked for the bytes
// when they leave; false: there is nothing to send.
void Nic::send_back(const Packet& packet, QueuePair& qp,
                    std::function<bool(std::vector<std::byte>&)> fetch) {
  const std::uint32_t size = packet.request.length_bytes;
  qp.line_free = std::max(qp.line_free, fabric_.events.now()) + fabric_.wire->line_time(size);
  qp.last_data = qp.line_free;
  const auto load = [this, packet, fetch = std::move(fetch)]() -> Wire::Action {
    QueuePair* from = find(packet.to_qp);
    if (from == nullptr || from->broken) return {};
    std::vector<std::byte> bytes;
    if (!fetch(bytes)) return {};
    return back_at(packet,
                   [number = packet.from_qp, sequence = packet.sequence,
                    bytes = std::move(bytes)](Nic& nic) { nic.on_data(number, sequence, bytes); });
  };
  fabric_.wire->send_at(qp.line_free, qp.answers, Wire::Kind::data, size, load);
}

// A bad request breaks this end too, but not before what was fetched before it is sent back.
// Meanwhile `expected` stays at it, so nothing behind it is looked at.
void Nic::refuse(const Packet& packet, QueuePair& qp, Answer reason) {
  if (qp.last_data < fabric_.events.now()) return give_up(packet, qp, reason);
  fabric_.events.at(qp.last_data, [this, packet, reason] {
    QueuePair* late = find(packet.to_qp);
    if (late != nullptr && !late->broken) give_up(packet, *late, reason);
  });
}

void Nic::on_data(QpNumber number, std::uint64_t sequence, const std::vector<std::byte>& bytes) {
  QueuePair* qp = find(number);
  // Data for a queue pair that is broken lands nowhere: its memory may be used again.
  if (qp == nullptr || qp->broken) return;
  acknowledge(number, *qp, sequence);
  if (sequence != qp->acked || qp->sends.empty()) return;  // the second time, or too early
  qp->last_answer = fabric_.events.now();
  const WorkRequest& fetch = qp->sends.front().request;
  assert(fetches(fetch.opcode) && bytes.size() == fetch.length_bytes);
  if (!bytes.empty()) {
    std::memcpy(reinterpret_cast<void*>(fetch.address), bytes.data(), bytes.size());
  }
  finish_oldest(number, *qp);
  transmit(number);
}

}  // namespace weir::sim
