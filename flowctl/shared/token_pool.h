// The node's token pool [TOK §5.1, count limiting]: a request takes tokens before it may reach the
// adapter and gives them back when it is complete. First come, first served, by numbered tickets:
//
//   line      tokens ever asked for. To ask for n is to move it from s to s+n; [s, s+n) is the
//             ticket, s+n its number.
//   G         tokens there are, plus all that were ever returned
//   A ticket is granted once its end <= G.
//
// So no ticket overtakes another, a small request does not pass a big one, and nobody starves: a
// ticket is granted when enough of the tokens before it are returned, whoever comes later. And
// there are never too many tokens out: the granted tickets lie in [0, G), which is the pool plus
// everything returned, all of it from granted tickets.
//
// G is not stored. Each process has a slot with what *it* returned so far, which only it writes; G
// is the sum. `granted` holds some sum of the past: never too high, so it may be stale.
//
// A process may be killed between any two accesses, and the others must know what it held:
//
//   give   is one store: it is done or not.
//   take   writes its plan into the slot (`plan`: from where, how many), then moves `line`, then
//          notes the move in the slot (`drawn`). In case of death in between, `line` also names
//          the slot that moved it last, and the next mover first notes that in this slot's
//          `witness`, unless the owner has noted the move itself. So a plan was carried out if and
//          only if `line` still says so, or `witness` does. No two moves end at the same number.
//   reap   first settles a plan that is not in `drawn`, then returns the tokens drawn and granted,
//          then frees the lease. Each step is one exchange from the value that it was judged by,
//          so any number of reapers may work on a slot, and be killed, and each step is done once.
//          `drawn` counts its changes and a lease its owners, so the exchange of a reaper that
//          slept meanwhile fails. A dead process's waiting ticket stays in line, because tickets
//          before it rely on its tokens not being back. It is returned when its turn has surely
//          come: when as much was returned as was asked for before it. (That applies to its last
//          ticket, whether it waited or not: the limit that it used is not known.)
//
// A process has at most one waiting ticket (in [TOK] a task stands still then); the requests behind
// it wait inside the process. That keeps one rank from filling the line, and tells a reaper which
// of its tickets may not be granted: the last. The process must give back the tokens that it holds
// meanwhile when their requests are complete, not when the ticket is granted: others ahead in the
// line may wait for just those.
//
// Why the orders of shared_word.h suffice: `line` moves by exchanges only, so a process that reads
// it sees everything written before any earlier move: the mover's plan, and the witness of the move
// before. Whoever learned from the kernel that a process is dead sees all that it wrote.
//
// Differs: [TOK] gives a ticket only to denied requests, under a lock; here every request has one,
// so there is nothing to lock. [TOK] activates the next in line on completion; here the waiter
// looks itself, because its process may be computing.
//
// A process may treat the pool as smaller than it is (`limit`): it claims each ticket later, once
// the tokens asked for up to it and not returned are within the limit. Nothing else changes, so
// processes with different limits may share a pool, and those with equal limits go in order. The
// tokens in use never exceed the limit with which the furthest claimed ticket was claimed: no
// claimed token lies behind that ticket's end e, so at most e less all that was returned is in use;
// that was within the limit then, and only falls. So a limit holds for whoever asked last. It does
// not hold for a process that asked earlier, if larger limits passed it: what they return lets it
// go, too, although they took more meanwhile. (Else the smallest limit would bound everybody.)
//
// Counters are modulo 2^47: compared values are never that far apart. All zeros is a full pool.
//
// Pure; in each process the caller serialises. Never blocks, never allocates.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>

#include "flowctl/shared/lease.h"

namespace weir {

// How many tokens a request takes [TOK §5.1]: one each, or in proportion to its size.
struct TokenCost {
  std::uint64_t bytes_per_token = 0;  // 0: one token per request

  constexpr std::uint32_t tokens(std::uint64_t bytes) const {
    if (bytes_per_token == 0) return 1;
    const std::uint64_t wanted = bytes / bytes_per_token + (bytes % bytes_per_token != 0 ? 1 : 0);
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(wanted, 1, UINT32_MAX));
  }
};

// A process's part of the pool, in a cache line of its own. Besides the owner, the process that
// draws next writes `witness`, and reapers write everything once the owner is dead.
template <typename Word>
struct alignas(64) PoolSlot {
  Word lease;     // lease.h
  Word plan;      // start 47 | tokens 16 | parity 1: the draw under way, or the last one
  Word drawn;     // tokens ever drawn 47 | dropped 1 | changes 16
  Word witness;   // an end that `line` once had from this slot 47 | 1
  Word returned;  // tokens ever returned
  Word active;    // requests in the adapter now, including those without tokens
};

template <typename Word>
struct PoolHead {
  alignas(64) Word line;     // tokens ever asked for 47 | slot that asked last, plus 1, 17
  alignas(64) Word granted;  // a value of G that some process saw
  Word used;                 // slots from here on were never leased
};

// What the node has under way, by the slots of all its processes.
struct NodeLoad {
  std::uint32_t active_cores = 0;      // processes with requests in the adapter
  std::uint64_t active_node_msgs = 0;  // their requests
};

template <typename Word>
class TokenPool {
 public:
  static constexpr std::uint32_t most_tokens = 0xffff;

  struct Ticket {
    std::uint64_t end = 0;     // the ticket's number
    std::uint32_t tokens = 0;  // at most the pool's
  };

  // On memory that all processes of the node map; `tokens` (1 … most_tokens) is the same for all.
  TokenPool(PoolHead<Word>& head, std::span<PoolSlot<Word>> slots, std::uint32_t tokens)
      : head_(&head), slots_(slots), tokens_(std::clamp(tokens, 1u, most_tokens)) {}

  // Leases a slot. False if all slots belong to living processes.
  template <typename Alive>
  bool join(ProcessId self, Alive&& alive) {
    assert(!joined());
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      std::uint64_t lease = slots_[i].lease.load();
      if (lease::expired(lease, alive)) {
        settle(i, lease);
        lease = slots_[i].lease.load();
      }
      if (!lease::free(lease)) continue;
      // Before the lease: no reaper would see the slot of a process killed in between.
      raise_used(i + 1);
      const std::uint64_t mine = lease::taken(lease, self);
      if (!slots_[i].lease.compare_exchange(lease, mine)) continue;
      slot_ = i;
      lease_ = mine;
      drawn_ = slots_[i].drawn.load();
      returned_ = slots_[i].returned.load();
      slots_[i].active.store(0);
      return true;
    }
    return false;
  }
  bool joined() const { return slot_ != none; }

  // The slot becomes free: at once, or by reapers if it still has tokens. The adapter must be done
  // with everything of this process.
  void leave() {
    if (!joined()) return;
    const bool empty = total(drawn_) == returned_;
    std::uint64_t lease = lease_;
    slots_[slot_].lease.compare_exchange(lease, empty ? lease::freed(lease_) : lease::left(lease_));
    slot_ = none;
    waiting_ = false;
  }

  // Draws a ticket. True if it is granted, else see `recheck`. No other ticket may be waiting.
  // Costs one exchange, and another if the process that drew last has not noted its draw yet.
  bool try_take(std::uint32_t tokens, Ticket& ticket, std::uint32_t limit = most_tokens) {
    return try_take(tokens, ticket, limit, all_sums(), nobody_excused);
  }
  template <typename Sum, typename Excused>
  bool try_take(std::uint32_t tokens, Ticket& ticket, std::uint32_t limit, Sum&& sum,
                Excused&& excused) {
    assert(joined() && !waiting_);
    PoolSlot<Word>& own = slots_[slot_];
    ticket.tokens = std::clamp(tokens, 1u, tokens_);  // a larger one could never be granted
    const std::uint64_t parity = (drawn_ + 1) & 1;
    std::uint64_t line = head_->line.load();
    do {
      testify(line);
      own.plan.store(end(line) << 17 | std::uint64_t{ticket.tokens} << 1 | parity);
      ticket.end = add(end(line), ticket.tokens);
    } while (!head_->line.compare_exchange(line, ticket.end << 17 | (slot_ + 1)));
    drawn_ = next(drawn_, ticket.tokens);
    own.drawn.store(drawn_);
    waiting_ = true;
    return recheck(ticket, limit, sum, excused);
  }

  // Whether the ticket is granted by now. Reads one word, and if that is not enough, one word of
  // every slot. Do not ask again once it was true. If `limit` is below its tokens, the ticket waits
  // until nothing else is in use.
  bool recheck(const Ticket& ticket, std::uint32_t limit = most_tokens) {
    return recheck(ticket, limit, all_sums(), nobody_excused);
  }
  // `sum(all, known)`: a value of G (`available`), which may be old, or the one known. It is asked
  // twice; only with `all` may it take long. `excused()`: so many tokens do not count for this
  // process, because their holders do not move. It is asked after the sum was taken, so what a
  // holder gives back meanwhile counts at most once.
  template <typename Sum, typename Excused>
  bool recheck(const Ticket& ticket, std::uint32_t limit, Sum&& sum, Excused&& excused) {
    assert(waiting_);
    const std::uint32_t kept = tokens_ - std::clamp(limit, ticket.tokens, tokens_);
    const std::uint64_t wanted = add(ticket.end, kept);
    std::uint64_t known = head_->granted.load();
    if (!reached(known, wanted)) {
      for (const bool all : {false, true}) {
        const std::uint64_t now = sum(all, known);
        if (now != known && reached(now, known)) {
          known = now;
          head_->granted.store(known);  // everybody shares its cache line
        }
        if (reached(known, wanted)) break;
      }
      if (!reached(known, wanted) && !reached(add(known, excused()), wanted)) return false;
    }
    waiting_ = false;
    return true;
  }
  // G, if the others have returned so much.
  std::uint64_t available(std::uint64_t returned_by_others) const {
    return (tokens_ + returned_ + returned_by_others) & mask;
  }

  // The tokens of another process, to tell whether it moves: if so, the first two change. `out`
  // includes its waiting ticket, because a process that does not move will not claim it.
  struct Holder {
    std::uint64_t drawn = 0;
    std::uint64_t returned = 0;
    std::uint64_t out = 0;
    std::uint64_t last = 0;         // where its last ticket begins in the line
    std::uint32_t last_tokens = 0;  // 0: not known

    // The part of `out` that was asked for before `ticket`.
    std::uint64_t out_before(const Ticket& ticket) const {
      return reached(last, ticket.end) ? out - std::min<std::uint64_t>(out, last_tokens) : out;
    }
  };
  std::uint32_t holders() const { return static_cast<std::uint32_t>(used()); }
  Holder holder(std::uint32_t i) const {
    // `returned` first: it never passes `drawn`.
    const std::uint64_t returned = slots_[i].returned.load();
    Holder found{slots_[i].drawn.load(), returned};
    found.out = sub(total(found.drawn), found.returned);
    const std::uint64_t plan = slots_[i].plan.load();
    found.last = plan >> 17;
    if (settled(plan, found.drawn))
      found.last_tokens = static_cast<std::uint32_t>(plan_tokens(plan));
    return found;
  }

  // The same of a slot without its last ticket, from one cache line.
  struct Share {
    std::uint64_t returned = 0;
    std::uint64_t asked = 0;  // held or waited for
  };
  Share share(std::uint32_t i) const {
    const std::uint64_t returned = slots_[i].returned.load();
    return {returned, sub(total(slots_[i].drawn.load()), returned)};
  }

  // Returns tokens of granted tickets. A plain store.
  void give(std::uint32_t tokens) {
    assert(joined() && tokens <= sub(total(drawn_), returned_));
    returned_ = add(returned_, tokens);
    slots_[slot_].returned.store(returned_);
  }

  // Takes back the tokens of dead processes. Returns how many. A dead process's last ticket is
  // taken back by a later call, if tokens asked for before it are still out. `alive(ProcessId)` may
  // cost system calls: call this for a ticket that has waited for long.
  template <typename Alive>
  std::uint64_t reap(Alive&& alive) {
    std::uint64_t back = 0;
    const std::uint64_t count = used();
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i == slot_) continue;
      const std::uint64_t lease = slots_[i].lease.load();
      if (lease::expired(lease, alive)) back += settle(i, lease);
    }
    return back;
  }

  // The requests that this process has in the adapter, with or without tokens. A plain store.
  void set_active(std::uint64_t requests) { slots_[slot_].active.store(requests); }

  // Reads two words of every slot: for occasional use.
  NodeLoad load() const {
    NodeLoad sum;
    const std::uint64_t count = used();
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t lease = slots_[i].lease.load();
      const std::uint64_t active = slots_[i].active.load();
      if (lease::free(lease) || lease::is_left(lease) || active == 0) continue;
      sum.active_cores += 1;
      sum.active_node_msgs += active;
    }
    return sum;
  }

  // Tokens that the process of a slot holds or waits for.
  static std::uint64_t asked(const PoolSlot<Word>& slot) {
    return sub(total(slot.drawn.load()), slot.returned.load());
  }
  // Of these, the tokens that its process waits for, if it uses `limit`; `back` is the sum ever
  // returned. If the process excuses others, it may hold them already, which is not visible here.
  static std::uint64_t waited_for(const PoolSlot<Word>& slot, std::uint64_t back,
                                  std::uint64_t limit) {
    const std::uint64_t plan = slot.plan.load();
    if (!settled(plan, slot.drawn.load())) return 0;
    const std::uint64_t tokens = plan_tokens(plan);
    if (reached(add(back, std::max(limit, tokens)), plan_end(plan))) return 0;
    return std::min(tokens, asked(slot));
  }
  // Tokens that were ever asked for, modulo 2^47: if this is as it was, nobody has asked.
  std::uint64_t line_end() const { return end(head_->line.load()); }
  // Tokens that all processes hold or wait for.
  std::uint64_t asked() const { return sub(add(end(head_->line.load()), tokens_), available()); }

  bool waiting() const { return waiting_; }
  std::uint32_t tokens() const { return tokens_; }
  std::uint32_t slot() const { return slot_; }
  static constexpr std::uint32_t none = UINT32_MAX;

 private:
  static constexpr std::uint64_t mask = (std::uint64_t{1} << 47) - 1;
  static constexpr std::uint64_t dropped = 1 << 16;
  static constexpr auto nobody_excused = [] { return std::uint64_t{0}; };
  auto all_sums() const {
    return [this](bool all, std::uint64_t known) { return all ? available() : known; };
  }

  static std::uint64_t add(std::uint64_t a, std::uint64_t b) { return (a + b) & mask; }
  static std::uint64_t sub(std::uint64_t a, std::uint64_t b) { return (a - b) & mask; }
  static bool reached(std::uint64_t counter, std::uint64_t value) {
    return sub(counter, value) <= mask / 2;
  }

  static std::uint64_t end(std::uint64_t line) { return line >> 17; }
  static std::uint64_t plan_tokens(std::uint64_t plan) { return (plan >> 1) & 0xffff; }
  static std::uint64_t plan_end(std::uint64_t plan) { return add(plan >> 17, plan_tokens(plan)); }
  static std::uint64_t total(std::uint64_t drawn) { return drawn >> 17; }
  // The plan is noted in `drawn`, as done or as dropped.
  static bool settled(std::uint64_t plan, std::uint64_t drawn) { return ((plan ^ drawn) & 1) == 0; }
  // `drawn` after a plan for `tokens`; 0: the plan is dropped.
  static std::uint64_t next(std::uint64_t drawn, std::uint64_t tokens) {
    return add(total(drawn), tokens) << 17 | (tokens == 0 ? dropped : 0) | ((drawn + 1) & 0xffff);
  }

  // G.
  std::uint64_t available() const {
    std::uint64_t sum = tokens_;
    const std::uint64_t count = used();
    for (std::uint32_t i = 0; i < count; ++i) sum += slots_[i].returned.load();
    return sum & mask;
  }

  // A damaged word has no effect.
  std::uint64_t used() const { return std::min<std::uint64_t>(head_->used.load(), slots_.size()); }

  void raise_used(std::uint64_t to) {
    std::uint64_t used = head_->used.load();
    while (used < to && !head_->used.compare_exchange(used, to)) continue;
  }

  // Notes that `line` was moved as it says, before it is moved on and no longer says so.
  void testify(std::uint64_t line) {
    const std::uint64_t mover = line & 0x1ffff;
    if (mover == 0 || mover == slot_ + 1 || mover > slots_.size()) return;
    PoolSlot<Word>& slot = slots_[mover - 1];
    const std::uint64_t plan = slot.plan.load();
    if (plan_end(plan) != end(line) || settled(plan, slot.drawn.load())) return;
    const std::uint64_t saw = end(line) << 1 | 1;
    std::uint64_t witness = slot.witness.load();
    while (witness == 0 || !reached(witness >> 1, saw >> 1)) {
      if (slot.witness.compare_exchange(witness, saw)) return;
    }
  }

  // Settles one slot whose lease has expired. Returns the tokens that came back. If an exchange
  // fails, another reaper has done it and goes on from there.
  std::uint64_t settle(std::uint32_t i, std::uint64_t lease) {
    PoolSlot<Word>& slot = slots_[i];
    std::uint64_t returned = slot.returned.load();
    std::uint64_t drawn = slot.drawn.load();
    const std::uint64_t plan = slot.plan.load();
    // The lease is still the dead one's, so these three values were too.
    if (slot.lease.load() != lease) return 0;
    if (!settled(plan, drawn)) {
      // Read `line` before `witness`: if it moves on in between, the witness has it.
      const bool last = head_->line.load() == (plan_end(plan) << 17 | (i + 1));
      const bool happened = last || slot.witness.load() == (plan_end(plan) << 1 | 1);
      const std::uint64_t after = next(drawn, happened ? plan_tokens(plan) : 0);
      if (!slot.drawn.compare_exchange(drawn, after)) return 0;
      drawn = after;
    }
    const std::uint64_t held = sub(total(drawn), returned);
    // A process with less than its last ticket has claimed that ticket, and given part of it back.
    const bool maybe_waits = held > 0 && held >= plan_tokens(plan) && (drawn & dropped) == 0 &&
                             !reached(sub(available(), tokens_), plan >> 17);
    const std::uint64_t back = held - (maybe_waits ? plan_tokens(plan) : 0);
    if (back > 0 && !slot.returned.compare_exchange(returned, add(returned, back))) return 0;
    if (!maybe_waits) {
      std::uint64_t expected = lease;
      slot.lease.compare_exchange(expected, lease::freed(lease));
    }
    return back;
  }

  PoolHead<Word>* head_;
  std::span<PoolSlot<Word>> slots_;
  std::uint32_t tokens_;

  std::uint32_t slot_ = none;
  std::uint64_t lease_ = 0;
  std::uint64_t drawn_ = 0;     // as in the slot
  std::uint64_t returned_ = 0;  // as in the slot
  bool waiting_ = false;        // for the ticket drawn last
};

}  // namespace weir
