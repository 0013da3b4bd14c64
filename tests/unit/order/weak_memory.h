// A memory as weak as that of C++ (or ARM), and every run of a few threads on it.
//
// A place (an atomic) keeps all values ever stored, in the order of their modification. Each thread
// has a view: for each place, the oldest value that it may still read. A load returns any value
// from there on, and the choice moves the view. A store goes anywhere behind the view. It carries
// the storer's view along if it is a release, and a load that acquires takes that over. An exchange
// stores right behind what it has read, and passes on what that carried. Sequentially consistent
// accesses of a place see each other in the order of the run.
//
// So loads and stores pass each other as C++ allows, but no load sees a store that comes later in
// the run: that leaves out load buffering (and with it values out of thin air). This is the
// promise-free part of Kang et al., "A promising semantics for relaxed-memory concurrency", POPL
// 2017. Mixed with weaker ones, sequentially consistent accesses order less here than in C++.
//
// Memory that is no atomic (Plain) is to be ordered by these: an access that does not know of an
// earlier one, of which one writes, is a race, and ends the search.
//
// Threads are fibers, and a run is a list of choices: who goes on, what is read, where a store goes,
// who is killed. `explore` takes all, depth first, and leaves a run that comes to a known state:
// the same memory and views, and threads that have read the same so far.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace weir::weak {

inline constexpr std::size_t most_places = 96;
inline constexpr std::size_t most_threads = 3;
using View = std::array<std::uint16_t, most_places>;  // times in each place's order

inline void join(View& view, const View& other) {
  for (std::size_t i = 0; i < most_places; ++i) view[i] = std::max(view[i], other[i]);
}

enum class Kind : std::uint8_t { load, store, exchange };
enum class Half : std::uint8_t { acquire, release, total };

// An order left out on purpose: of all accesses of this kind to that place.
struct Weakened {
  std::size_t place = most_places;
  Kind kind = Kind::load;
  Half half = Half::acquire;
  friend auto operator<=>(const Weakened&, const Weakened&) = default;
};

class Memory {
 public:
  struct Result {
    std::string problem;  // empty: none
    std::uint64_t runs = 0, states = 0, ends = 0;
  };

  // A world is made anew at the same address for each run. It has `static constexpr std::size_t
  // threads`, `void run(std::size_t thread)`, and `const char* broken()`, asked at the end, when
  // all is seen; nullptr: nothing. `kills`: so many of the first `World::mortals` threads are
  // killed, before any of their accesses.
  template <typename World>
  Result explore(std::uint32_t kills = 0, Weakened weakened = {}) {
    static_assert(World::threads <= most_threads);
    alignas(World) static std::byte storage[sizeof(World)];
    base_ = storage;
    weakened_ = weakened;
    seen_.clear();
    places_.reserve(most_places);
    path_.clear();
    result_ = {};
    current = this;
    do {
      begin_run(World::threads, kills);
      if constexpr (requires { World::mortals; }) mortals_ = World::mortals;
      auto* const world = new (storage) World;
      body_ = [world](std::size_t thread) { world->run(thread); };
      ++result_.runs;
      play();
      if (ended_) {
        ++result_.ends;
        if (const char* problem = world->broken()) report(problem);
      }
      world->~World();
    } while (result_.problem.empty() && next_path());
    current = nullptr;
    return result_;
  }

  // The places and accesses that runs have used, with an order that can be left out.
  const std::set<Weakened>& orders() const { return orders_; }
  // A place's offset in its world.
  std::size_t offset_of(std::size_t place) const { return offsets_[place]; }

  // ---- for what stands in for std::atomic ----

  static inline Memory* current = nullptr;  // while a world lives

  std::uint64_t load(const void* at, std::uint64_t initial, std::memory_order order) {
    const std::size_t place = step(at, initial);
    const Orders orders = orders_of(place, Kind::load, order);
    const Message& read = choose(place, orders.total, [](const Message*, const Message*) {
      return true;
    });
    take(place, read, orders);
    return told(read.value);
  }

  void store(const void* at, std::uint64_t initial, std::uint64_t value, std::memory_order order) {
    const std::size_t place = step(at, initial);
    const Orders orders = orders_of(place, Kind::store, order);
    // Behind the one chosen, unless an exchange is there.
    const Message before = choose(place, orders.total, [](const Message*, const Message* next) {
      return next == nullptr || !next->exchanged;
    });
    put(place, before, value, {}, false, orders);
    told(1);
  }

  // `change` returns whether the value that it gets is to be exchanged for another one.
  // `used`: the thread goes by what it was.
  template <typename Change>
  std::uint64_t exchange(const void* at, std::uint64_t initial, std::memory_order order,
                         std::memory_order failed, Change&& change, bool used = true) {
    const std::size_t place = step(at, initial);
    const Orders orders = orders_of(place, Kind::exchange, order);
    const Message read =
        choose(place, orders.total, [&](const Message* message, const Message* next) {
          std::uint64_t value = message->value;
          return next == nullptr || !next->exchanged || !change(value);
        });
    std::uint64_t value = read.value;
    if (!change(value)) {
      take(place, read, orders_of(place, Kind::exchange, failed));
      return told(read.value);
    }
    take(place, read, orders);
    put(place, read, value, read.carries, true, orders);
    told(used ? read.value : 1);
    return read.value;
  }

  // ---- the kernel ----

  // Sleeps until `wake`, if the value read now is `old`: a futex.
  bool sleep(const void* at, std::uint64_t initial, std::uint64_t old) {
    const std::size_t place = step(at, initial);
    if (self_ == nobody) return false;
    fence();
    const Message& read = choose(place, false, [](const Message*, const Message*) { return true; });
    take(place, read, {});
    told(read.value);
    if (read.value != old) return false;
    self().asleep_at = static_cast<std::uint16_t>(place + 1);
    step(at, initial);
    return told(1) != 0;
  }
  void wake(const void* at, std::uint64_t initial) {
    const std::size_t place = step(at, initial);
    fence();
    std::vector<std::size_t> sleepers;
    for (std::size_t t = 0; t < count_; ++t) {
      if (threads_[t].asleep_at == place + 1) sleepers.push_back(t);
    }
    if (!sleepers.empty()) threads_[sleepers[pick(sleepers.size())]].asleep_at = 0;
    told(1);
  }
  // Whether that thread is there. One that has ended has been seen to write all that it wrote.
  bool alive(std::size_t thread) {
    if (self_ != nobody) {
      step(nullptr, 0);
      if (!threads_[thread].runs) join(self().view, threads_[thread].view);
    }
    return told(threads_[thread].runs ? 1 : 0) != 0;
  }
  // A thread goes on once this holds, which must depend on the places' newest values only.
  template <typename Holds>
  void wait_until(Holds&& holds) {
    self().waits_for = holds;
    step(nullptr, 0);
    self().waits_for = nullptr;
    told(1);
  }
  // A lock that is right by itself.
  void lock(const void* at) {
    const std::size_t place = place_of(at, 0);
    wait_until([this, place] { return places_[place].messages.back().value == 0; });
    change_lock(place, 1);
  }
  void unlock(const void* at) { change_lock(place_of(at, 0), 0); }
  void wait_for_all_others() {
    wait_until([this, me = self_] {
      for (std::size_t t = 0; t < count_; ++t) {
        if (t != me && threads_[t].runs) return false;
      }
      return true;
    });
  }
  // A turn of a loop that waits for others: leaves this run after a few, which are enough to see
  // any new state, unless nobody else goes on. Then all is seen, and it is false; and to wait still
  // is a problem.
  bool pause() {
    step(nullptr, 0);
    told(2);
    bool others = false;
    for (std::size_t t = 0; t < count_; ++t) others = others || (t != self_ && can_run(t));
    if (others) {
      if (++self().pauses > most_pauses) leave_run();
      return true;
    }
    if (++self().last_pauses > 4) report("somebody waits for ever");
    see_all(self().view, false);
    return false;
  }

  // ---- memory that is no atomic ----

  void touch(const void* at, bool writes) {
    if (self_ == nobody) return;
    Place& written = place(place_of(at, 0, 0), true);
    bool knows = self().view[index(written)] >= written.messages.back().time;
    for (std::size_t t = 0; writes && t < count_; ++t) {
      Place& read = place(place_of(at, 0, t + 1), true);
      knows = knows && self().view[index(read)] >= read.messages.back().time;
    }
    if (!knows) report("a race: memory is used without an order");
    Place& changed = writes ? written : place(place_of(at, 0, self_ + 1), true);
    Message& last = changed.messages.back();
    self().view[index(changed)] = last.time = static_cast<std::uint16_t>(last.time + 1);
  }

  // ---- what tests count, in the order of the run; no access ----

  std::uint64_t& book(std::size_t i) { return books_[i]; }
  void report(const char* problem) {
    if (result_.problem.empty()) result_.problem = problem;
    leave_run();
  }
  std::size_t thread() const { return self_; }

 private:
  static constexpr std::size_t nobody = most_threads;
  static constexpr std::uint16_t gap = 256;  // between the times of stores, for others in between
  static constexpr std::uint32_t most_pauses = 3;

  struct Message {
    std::uint64_t value = 0;
    std::uint16_t time = gap;
    bool exchanged = false;  // nothing may come between it and the one before
    View carries{};
  };
  struct Place {
    std::vector<Message> messages;  // in the order of modification
    bool plain = false;
  };
  struct Orders {
    bool acquire = false, release = false, total = false;
  };
  struct Thread {
    View view{};
    std::uint64_t told = 0;  // a hash of all it has read
    bool runs = true;        // neither over nor killed
    std::uint16_t asleep_at = 0;
    std::uint32_t pauses = 0, last_pauses = 0;
    std::function<bool()> waits_for;
    jmp_buf context;
    ucontext_t first_context;
    std::unique_ptr<std::byte[]> stack;
  };
  struct Choice {
    std::uint32_t taken, of;
  };

  Thread& self() { return threads_[self_]; }
  Place& place(std::size_t i, bool plain = false) {
    places_[i].plain = plain;
    return places_[i];
  }
  std::size_t index(const Place& place) const {
    return static_cast<std::size_t>(&place - places_.data());
  }

  // ---- places ----

  // Numbers of places are the same in all runs, for the world lies at the same address.
  std::size_t place_of(const void* at, std::uint64_t initial, std::size_t part = 0) {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(at) - base_);
    const auto [found, fresh] = numbers_.try_emplace({offset, part}, offsets_.size());
    const std::size_t i = found->second;
    if (fresh) {
      if (i >= most_places) std::abort();
      offsets_.push_back(offset);
    }
    if (places_.size() <= i) places_.resize(i + 1);
    if (places_[i].messages.empty()) {
      places_[i].messages.push_back({initial, gap, false, {}});
    }
    return i;
  }

  void change_lock(std::size_t place, std::uint64_t value) {
    constexpr Orders orders{.acquire = true, .release = true, .total = false};
    const Message last = places_[place].messages.back();
    take(place, last, orders);
    put(place, last, value, {}, true, orders);
  }

  // Both halves of the order that this access has, less what is left out on purpose.
  Orders orders_of(std::size_t place, Kind kind, std::memory_order order) {
    using enum std::memory_order;
    const bool total = order == seq_cst;
    Orders has{.acquire = total || order == acquire || order == acq_rel || order == consume,
               .release = total || order == release || order == acq_rel,
               .total = total};
    if (kind == Kind::store) has.acquire = false;
    if (kind == Kind::load) has.release = false;
    if (self_ == nobody) return has;
    const auto leave_out = [&](bool& half, Half which) {
      if (!half) return;
      orders_.insert(Weakened{place, kind, which});
      half = Weakened{place, kind, which} != weakened_;
    };
    leave_out(has.acquire, Half::acquire);
    leave_out(has.release, Half::release);
    leave_out(has.total, Half::total);
    return has;
  }

  // One of the messages that may be read and pass.
  template <typename Passes>
  const Message& choose(std::size_t place, bool total, Passes&& passes) {
    const std::vector<Message>& messages = places_[place].messages;
    if (self_ == nobody) return messages.back();
    if (total) self().view[place] = std::max(self().view[place], total_[place]);
    std::array<std::uint16_t, 64> open;
    std::size_t count = 0;
    for (std::size_t i = messages.size(); i-- > 0 && messages[i].time >= self().view[place];) {
      const Message* const next = i + 1 < messages.size() ? &messages[i + 1] : nullptr;
      if (passes(&messages[i], next)) open[count++] = static_cast<std::uint16_t>(i);
    }
    if (count == 0) std::abort();
    return messages[open[pick(count)]];
  }

  void take(std::size_t place, const Message& read, const Orders& orders) {
    if (self_ == nobody) return;
    self().view[place] = std::max(self().view[place], read.time);
    if (orders.acquire) join(self().view, read.carries);
    if (orders.total) total_[place] = std::max(total_[place], read.time);
  }

  void put(std::size_t place, const Message& before, std::uint64_t value, const View& passed_on,
           bool exchanged, const Orders& orders) {
    std::vector<Message>& messages = places_[place].messages;
    auto at = messages.begin();
    while (at != messages.end() && at->time <= before.time) ++at;
    const std::uint32_t time = at == messages.end() ? before.time + std::uint32_t{gap}
                                                    : (before.time + std::uint32_t{at->time}) / 2;
    if (time == before.time || time > UINT16_MAX) std::abort();
    Message stored{value, static_cast<std::uint16_t>(time), exchanged, passed_on};
    if (self_ != nobody) {
      self().view[place] = stored.time;
      if (orders.release) join(stored.carries, self().view);
      if (orders.total) total_[place] = std::max(total_[place], stored.time);
    }
    stored.carries[place] = std::max(stored.carries[place], stored.time);
    messages.insert(at, stored);
  }

  void see_all(View& view, bool and_plain) const {
    for (std::size_t p = 0; p < places_.size(); ++p) {
      if (places_[p].messages.empty() || (places_[p].plain && !and_plain)) continue;
      view[p] = places_[p].messages.back().time;
    }
  }

  void fence() {
    join(self().view, total_);
    total_ = self().view;
  }

  std::uint64_t told(std::uint64_t value) {
    if (self_ != nobody) mix(self().told, value + 1);
    return value;
  }
  static void mix(std::uint64_t& hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9fb21c651e98df25ull;
    hash ^= hash >> 32;
  }

  // ---- runs ----

  void begin_run(std::size_t threads, std::uint32_t kills) {
    for (Place& place : places_) place.messages.clear();
    for (Thread& thread : threads_) {
      thread.view.fill(gap);
      thread.told = 0;
      thread.runs = true;
      thread.asleep_at = 0;
      thread.pauses = thread.last_pauses = 0;
      thread.waits_for = nullptr;
    }
    total_.fill(gap);
    books_ = {};
    count_ = threads;
    kills_ = kills;
    at_ = 0;
    begun_ = ended_ = false;
    self_ = nobody;
  }

  void play() {
    for (Thread& thread : threads_) see_all(thread.view, true);  // what the world was made of
    for (Thread& thread : std::span(threads_).first(count_)) {
      if (thread.stack == nullptr) thread.stack = std::make_unique<std::byte[]>(stack_bytes);
      getcontext(&thread.first_context);
      thread.first_context.uc_stack.ss_sp = thread.stack.get();
      thread.first_context.uc_stack.ss_size = stack_bytes;
      makecontext(&thread.first_context, &enter, 0);
      start(thread);
    }
    self_ = nobody;
    begun_ = true;
    go_on(home_);
    self_ = nobody;
  }
  // Runs it as far as its first access.
  void start(const Thread& thread) {
    self_ = static_cast<std::size_t>(&thread - threads_.data());
    if (_setjmp(home_) == 0) setcontext(&thread.first_context);
  }
  static void enter() {
    Memory& memory = *current;
    memory.body_(memory.self_);
    memory.self().runs = false;
    memory.go_on(memory.self().context);
    std::abort();
  }
  // Leaves all threads where they are. They own nothing.
  void leave_run() {
    if (self_ == nobody) return;
    ended_ = false;
    const std::size_t from = self_;
    self_ = nobody;
    jump(threads_[from].context, home_);
  }

  bool can_run(std::size_t t) const {
    const Thread& thread = threads_[t];
    return thread.runs && thread.asleep_at == 0 && (!thread.waits_for || thread.waits_for());
  }

  // Before each access: who makes the next one?
  std::size_t step(const void* at, std::uint64_t initial) {
    if (self_ != nobody) go_on(self().context);
    return at == nullptr ? 0 : place_of(at, initial);
  }
  void go_on(jmp_buf& from) {
    if (!begun_) return switch_to(from, nobody);
    for (;;) {
      if (at_ == path_.size() && !seen_.insert(state()).second) {
        return switch_to(from, nobody);
      }
      std::array<std::size_t, most_threads> ready;
      std::size_t count = 0;
      bool left = false;
      for (std::size_t t = 0; t < count_; ++t) {
        left = left || threads_[t].runs;
        if (can_run(t)) ready[count++] = t;
      }
      if (count == 0) {
        ended_ = !left;
        if (left && result_.problem.empty()) result_.problem = "somebody sleeps for ever";
        return switch_to(from, nobody);
      }
      const auto end = ready.begin() + static_cast<std::ptrdiff_t>(count);
      const auto dying = static_cast<std::size_t>(
          std::count_if(ready.begin(), end, [this](std::size_t t) { return t < mortals_; }));
      const std::size_t choice = pick(kills_ > 0 ? count + dying : count);  // they are the first
      if (choice < count) return switch_to(from, ready[choice]);
      --kills_;
      Thread& killed = threads_[ready[choice - count]];
      killed.runs = false;
      killed.told = 0;
    }
  }
  void switch_to(jmp_buf& from, std::size_t to) {
    if (to == self_) return;
    self_ = to;
    jump(from, to == nobody ? home_ : threads_[to].context);
  }
  // Without the system calls of swapcontext.
  static void jump(jmp_buf& from, jmp_buf& to) {
    if (_setjmp(from) == 0) _longjmp(to, 1);
  }

  std::size_t pick(std::size_t of) {
    if (of == 1) return 0;
    if (at_ == path_.size()) path_.push_back({0, static_cast<std::uint32_t>(of)});
    if (path_[at_].of != of) std::abort();  // the world is not the same in each run
    return path_[at_++].taken;
  }
  bool next_path() {
    while (!path_.empty() && ++path_.back().taken == path_.back().of) path_.pop_back();
    return !path_.empty();
  }

  // Views by how many values of a place they have left behind, of those that somebody may read.
  struct State {
    std::uint64_t a = 1, b = 2;
    bool operator==(const State&) const = default;
  };
  struct Hash {
    std::size_t operator()(const State& state) const { return state.a; }
  };
  State state() {
    State state;
    const auto add = [&state](std::uint64_t word) {
      mix(state.a, word);
      state.b = (state.b + word) * 0xd6e8feb86659fd93ull;
      state.b ^= state.b >> 29;
    };
    std::array<std::uint16_t, most_places> first;
    for (std::size_t p = 0; p < places_.size(); ++p) {
      first[p] = UINT16_MAX;
      for (std::size_t t = 0; t < count_; ++t) {
        if (threads_[t].runs) first[p] = std::min(first[p], threads_[t].view[p]);
      }
    }
    const auto add_view = [&](const View& view) {
      for (std::size_t p = 0; p < places_.size(); ++p) {
        if (places_[p].messages.empty()) continue;
        std::uint64_t behind = 0;
        for (const Message& message : places_[p].messages) {
          behind += message.time > first[p] && message.time <= view[p] ? 1 : 0;
        }
        if (behind > 0) add(p << 16 | behind);
      }
      add(UINT64_MAX);
    };
    for (std::size_t p = 0; p < places_.size(); ++p) {
      const std::vector<Message>& messages = places_[p].messages;
      for (std::size_t i = 0; i < messages.size(); ++i) {
        if (messages.size() > 1 && i + 1 < messages.size() && messages[i + 1].time <= first[p])
          continue;
        if (messages.size() == 1 && messages[0].time == gap) continue;
        add(p << 1 | (messages[i].exchanged ? 1 : 0));
        add(messages[i].value);
        if (!places_[p].plain) add_view(messages[i].carries);
      }
    }
    for (std::size_t t = 0; t < count_; ++t) {
      const Thread& thread = threads_[t];
      add(std::uint64_t{thread.runs} << 32 | thread.asleep_at);
      add(thread.told);
      add_view(thread.view);
    }
    add_view(total_);
    for (const std::uint64_t book : books_) add(book);
    add(kills_);
    return state;
  }

  static constexpr std::size_t stack_bytes = 64 << 10;

  const std::byte* base_ = nullptr;
  Weakened weakened_;
  std::function<void(std::size_t)> body_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> numbers_;
  std::vector<std::size_t> offsets_;
  std::vector<Place> places_;
  std::array<Thread, most_threads> threads_;
  View total_{};
  std::array<std::uint64_t, 8> books_{};
  std::size_t count_ = 0;
  std::size_t self_ = nobody;
  std::uint32_t kills_ = 0;
  std::size_t mortals_ = 0;
  bool begun_ = false;
  bool ended_ = false;
  jmp_buf home_;
  std::vector<Choice> path_;
  std::size_t at_ = 0;
  std::unordered_set<State, Hash> seen_;
  std::set<Weakened> orders_;
  Result result_;
};

}  // namespace weir::weak
