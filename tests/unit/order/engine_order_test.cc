// What threads of a process share without a lock, or as one: each order that is needed, and no run
// of theirs in a weak memory that goes wrong.
#include <gtest/gtest.h>

#include <cstddef>
#include <mutex>
#include <optional>

#include "tests/unit/order/worlds.h"
#include "transport/btl/flush.h"
#include "transport/engine/doze.h"
#include "transport/engine/inbox.h"
#include "transport/engine/link_inbox.h"
#include "transport/engine/lock.h"
#include "transport/engine/stand_in.h"

namespace weir {
namespace {

weak::Memory& memory() { return *weak::Memory::current; }

// ---- the lock ----

template <std::size_t count>
struct Locking {
  static constexpr std::size_t threads = count;
  static std::array<Named, 1> names() { return {{{offsetof(Locking, lock), 1, "lock"}}}; }
  Lock lock;
  Plain data;
  void run(std::size_t) {
    const std::lock_guard guard(lock);
    data.write();
  }
  const char* broken() { return nullptr; }
};

TEST(EngineOrders, OfTheEnginesLock) {
  EXPECT_EQ(weak::Memory().explore<Locking<3>>().problem, "");
  EXPECT_EQ(needed_orders<Locking<2>>(),
            "lock: exchange acquire\n"
            "lock: exchange release\n"
            "lock: exchange seq_cst\n");
}

// ---- flushes ----

// An operation that was begun here is ended by another thread, while a third one flushes, too.
struct Flushing {
  static constexpr std::size_t threads = 3;
  static std::array<Named, 1> names() {
    return {{{offsetof(Flushing, epochs), sizeof epochs, "epochs"}}};
  }
  btl::FlushEpochs epochs;
  Atomic<int> handed_over{0};
  Plain data;
  void run(std::size_t t) {
    const auto progress = [] { memory().pause(); };
    if (t == 0) {
      handed_over.store(1 + epochs.begin(), std::memory_order_release);
      epochs.flush(progress);
      data.read();
    } else if (t == 1) {
      int epoch = 0;
      while ((epoch = handed_over.load(std::memory_order_acquire)) == 0) memory().pause();
      data.write();
      epochs.end(static_cast<std::uint8_t>(epoch - 1));
    } else {
      epochs.flush(progress);
    }
  }
  const char* broken() { return nullptr; }
};

TEST(EngineOrders, OfFlushes) {
  EXPECT_EQ(needed_orders<Flushing>(),
            "epochs: load acquire\n"
            "epochs: exchange release\n");
}

// ---- what is handed up ----

// As Engine::fetch has it.
struct HandingUp {
  static constexpr std::size_t threads = 3;
  static std::array<Named, 1> names() {
    return {{{offsetof(HandingUp, inbox), sizeof inbox, "inbox"}}};
  }
  Mutex lock;
  Inbox inbox;
  std::vector<Delivery> messages;
  Plain taken;  // what the inbox keeps of these

  HandingUp() {
    for (std::uint8_t i = 0; i < 2; ++i) {
      messages.push_back({PeerId{0}, BufferId{i}, nullptr, nullptr, 0, i, true});
    }
  }
  void run(std::size_t t) {
    const ThreadMark self{t + 1};
    {
      const std::lock_guard guard(lock);
      if (inbox.owner() != ThreadMark::none) return;
      taken.write();
      if (!inbox.has_taken()) inbox.take(messages);
      inbox.enter(self);
    }
    struct Handler {
      void on_message(const Delivery&) { ++memory().book(0); }
      void on_retired(SendSlot*, bool) {}
      void on_transfer(const TransferEnd&) {}
      void on_failure(const Failure&) {}
      void on_refusal(const Refusal&) {}
      void on_warning(const std::string&) {}
      void on_breakdown(const std::string&) {}
    } handler;
    const auto one = [](int count) { return count < 1; };
    taken.write();
    inbox.hand_up(handler, one, [](BufferId) {});
    inbox.leave();
  }
  const char* broken() { return memory().book(0) <= 2 ? nullptr : "handed up twice"; }
};

TEST(EngineOrders, OfWhatIsHandedUp) {
  EXPECT_EQ(needed_orders<HandingUp>(),
            "inbox: load acquire\n"
            "inbox: store release\n");
}

// ---- news of connections: of two engines, for one who serves them ----

struct Serving {
  static constexpr std::size_t threads = 3;
  static std::array<Named, 1> names() { return {{{offsetof(Serving, news), 1, "news"}}}; }
  Atomic<bool> news{false};
  struct Engine {
    Mutex lock;
    LinkInbox links;
    Plain waiting;
  } engines[2];
  std::vector<LinkNews> served;

  Serving() {
    for (Engine& engine : engines) engine.links.watch(news, [this] { serve(); });
  }
  // As FramesOverRails::serve_links.
  void serve() {
    while (news.exchange(false)) {
      for (Engine& engine : engines) {
        {
          const std::lock_guard guard(engine.lock);
          engine.waiting.write();
          engine.links.take(served);
        }
        memory().book(0) += served.size();
        served.clear();
      }
    }
  }
  void run(std::size_t t) {
    if (t == 2) return engines[0].links.serve();
    const std::lock_guard guard(engines[t].lock);
    engines[t].waiting.write();
    engines[t].links.add({.kind = LinkNews::Kind::up});
  }
  const char* broken() {
    return memory().book(0) == 2 || news.load() ? nullptr : "news that nobody hears of";
  }
};

// The engines' locks order the rest.
TEST(EngineOrders, OfNewsOfConnections) { EXPECT_EQ(needed_orders<Serving>(), ""); }

// ---- who dozes, and the visit that wakes him ----

template <bool visits_first>
struct Dozing {
  static constexpr std::size_t threads = 2;
  Mutex lock;
  StandIn stand_in;
  Doze doze;
  void run(std::size_t t) {
    std::uint64_t& bell = memory().book(0);
    if (t == 0) {
      const std::uint64_t seen = stand_in.visits();
      const auto is_visited = [&] {
        const std::lock_guard guard(lock);
        return stand_in.visits() != seen;
      };
      if (seen > 0 || !doze.begin(is_visited)) return;
      memory().wait_until([&bell] { return bell != 0; });
      doze.end();
    } else {
      if (!visits_first && doze.ends_by_visit()) bell = 1;
      {
        const std::lock_guard guard(lock);
        stand_in.visit();
      }
      if (visits_first && doze.ends_by_visit()) bell = 1;
    }
  }
  const char* broken() { return nullptr; }
};

TEST(EngineOrders, OfADozeAndItsEnd) {
  EXPECT_EQ(weak::Memory().explore<Dozing<true>>().problem, "");
  EXPECT_NE(weak::Memory().explore<Dozing<false>>().problem, "");
}

}  // namespace
}  // namespace weir
