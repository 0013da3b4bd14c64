// A task's request queue in shared memory [TOK §5.2, "Per Task Queue"]: the task puts descriptors
// in, the holder of its group's server token takes them out in order and later notes the outcome in
// each. The task retires them in order.
//
//   retired  <=  taken  <=  submitted  <=  retired + depth        (counts, modulo 2^64)
//    task        server      task
//
// Only the task writes `submitted` and `retired`, and only the server writes `taken`. Only the
// server that took a descriptor writes its `outcome`, even if another one holds the token by then.
//
// Killed anywhere:
//   server   before it stored `taken`: nothing has begun, the next server takes the descriptor.
//            After: the descriptor names the server, and once it is dead without an outcome, the
//            task learns that the request is in doubt. The queue does not repeat a request: only
//            its user knows whether it may be sent twice.
//   task     the server drops requests not taken yet, because their owner is no longer the slot's;
//            the slot's next owner retires the rest, as `stale`, before it has the room.
//
// A server that could not do what it took sets `doubt` before it reports that; the task clears it
// once it has retired everything that was taken. Until then nobody takes later requests
// (`settled`).
//
// Pure; the task's calls and the server's are serialised in each process. Never blocks.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <span>

#include "flowctl/shared/lease.h"

namespace weir {

inline constexpr std::uint32_t request_words = 5;

// What a task asks for; task and server agree on the meaning of the words.
using Request = std::array<std::uint64_t, request_words>;

template <typename Word>
struct alignas(64) Descriptor {
  Word owner;    // lease of the task that put the request in
  Word server;   // lease of the server that took it, or was about to
  Word outcome;  // 0: none yet
  Word request[request_words];
};

template <typename Word>
struct QueueHead {
  alignas(64) Word submitted;
  Word retired;
  alignas(64) Word taken;
  Word doubt;
};

// The state of a task's oldest request.
enum class Retirement : std::uint8_t {
  empty,     // there is none
  pending,   // no outcome yet
  done,      // `outcome` has the result
  in_doubt,  // its server died; it may have been sent or not
  stale,     // an earlier owner's of this slot
};

template <typename Word>
class TaskQueue {
 public:
  static constexpr std::uint64_t dropped = UINT64_MAX;  // an outcome

  // `ring`: a power of two of descriptors. `slot_lease`: of the slot that owns the queue.
  TaskQueue(QueueHead<Word>& head, std::span<Descriptor<Word>> ring, const Word& slot_lease)
      : head_(&head), ring_(ring), slot_lease_(&slot_lease) {}

  // The task: false if the queue is full.
  bool submit(const Request& request) {
    const std::uint64_t at = head_->submitted.load();
    if (at - head_->retired.load() >= ring_.size()) return false;
    Descriptor<Word>& d = descriptor(at);
    d.server.store(0);
    d.outcome.store(0);
    d.owner.store(slot_lease_->load());
    for (std::uint32_t i = 0; i < request_words; ++i) d.request[i].store(request[i]);
    head_->submitted.store(at + 1);
    return true;
  }

  // The task: takes its oldest request out of the queue, unless it is pending. `alive(ProcessId)`
  // is asked about its server.
  template <typename Alive>
  Retirement retire(std::uint64_t& outcome, Alive&& alive) {
    const Retirement what = oldest(outcome, alive);
    if (what != Retirement::empty && what != Retirement::pending) drop_oldest();
    return what;
  }

  // The task: the same in two steps, first looking, then taking the request out (drop_oldest).
  template <typename Alive>
  Retirement oldest(std::uint64_t& outcome, Alive&& alive) const {
    const std::uint64_t at = head_->retired.load();
    if (!holds(at)) return Retirement::empty;
    if (at == head_->taken.load()) return Retirement::pending;
    const Descriptor<Word>& d = descriptor(at);
    outcome = d.outcome.load();
    const bool lost = outcome == 0 && lease::expired(d.server.load(), alive);
    if (lost) outcome = d.outcome.load();  // the server's last word
    if (outcome == 0 && !lost) return Retirement::pending;
    if (d.owner.load() != slot_lease_->load()) return Retirement::stale;
    return outcome == 0 ? Retirement::in_doubt : Retirement::done;
  }
  // The task: the server that has its oldest request in hand; none if it waits or is over.
  ProcessId server_of_oldest() const {
    const std::uint64_t at = head_->retired.load();
    if (!holds(at) || at == head_->taken.load()) return {};
    const Descriptor<Word>& d = descriptor(at);
    return d.outcome.load() != 0 ? ProcessId{} : lease::process(d.server.load());
  }
  void drop_oldest() { head_->retired.store(head_->retired.load() + 1); }

  // The task: the outcome so far of one of its requests, by number; 0: none yet.
  std::uint64_t outcome(std::uint64_t at) const { return descriptor(at).outcome.load(); }
  // The task: changes a word of a request that is not retired. A server may have read it already.
  void amend(std::uint64_t at, std::uint32_t word, std::uint64_t value) {
    descriptor(at).request[word].store(value);
  }
  // A word of a request that is not retired.
  std::uint64_t word(std::uint64_t at, std::uint32_t word) const {
    return descriptor(at).request[word].load();
  }
  std::uint64_t retired() const { return head_->retired.load(); }
  // Never further than the queue's depth, whatever somebody wrote into the memory.
  std::uint64_t submitted() const {
    const std::uint64_t from = retired();
    return from + std::min<std::uint64_t>(head_->submitted.load() - from, ring_.size());
  }
  // Whether there are requests that no server has taken.
  bool waits() const { return head_->taken.load() != head_->submitted.load(); }

  void raise_doubt() { head_->doubt.store(1); }
  // The task, once it has handled everything that it retired.
  void clear_doubt() {
    if (head_->doubt.load() != 0 && head_->retired.load() == head_->taken.load()) {
      head_->doubt.store(0);
    }
  }

  // The server, with the token: whether everything that other servers took is done, and nothing is
  // in doubt. Then later requests may be taken without overtaking it.
  bool settled(std::uint64_t server) const {
    if (head_->doubt.load() != 0) return false;
    const std::uint64_t taken = head_->taken.load();
    std::uint64_t at = head_->retired.load();
    if (taken - at > ring_.size()) return false;  // damaged
    if (at == taken || descriptor(taken - 1).server.load() == server) return true;
    for (; at != taken; ++at) {
      const Descriptor<Word>& d = descriptor(at);
      if (d.outcome.load() == 0 && d.server.load() != server) return false;
    }
    return true;
  }

  // The server, with the token: takes the next request. `server` is its lease; `at` is for
  // `complete`. False if there is none.
  bool take(std::uint64_t server, Request& request, std::uint64_t& at) {
    for (;;) {
      at = head_->taken.load();
      if (!holds(at)) return false;
      Descriptor<Word>& d = descriptor(at);
      d.server.store(server);
      const bool own = d.owner.load() == slot_lease_->load();
      for (std::uint32_t i = 0; own && i < request_words; ++i) request[i] = d.request[i].load();
      if (!own) d.outcome.store(dropped);
      head_->taken.store(at + 1);
      if (own) return true;
    }
  }

  // The server, with or without the token: reports the outcome of a request; not 0 or `dropped`.
  void complete(std::uint64_t at, std::uint64_t outcome) {
    assert(outcome != 0 && outcome != dropped);
    descriptor(at).outcome.store(outcome);
  }

 private:
  // Whether this is the number of a request; it is not if the memory is damaged.
  bool holds(std::uint64_t at) const { return head_->submitted.load() - at - 1 < ring_.size(); }
  Descriptor<Word>& descriptor(std::uint64_t at) const { return ring_[at & (ring_.size() - 1)]; }

  QueueHead<Word>* head_;
  std::span<Descriptor<Word>> ring_;
  const Word* slot_lease_;
};

}  // namespace weir
