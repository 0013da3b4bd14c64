// The explorer itself: which outcomes it finds for two well-known little programs, in both orders.
#include "tests/unit/flowctl/explorer.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

// Each process runs one operation on two words.
template <typename Program>
struct LitmusWorld {
  static constexpr std::uint32_t processes = 2;
  struct Memory {
    ExploredWord x, y;
  };
  struct Private {
    std::uint64_t read[2];
    bool over;
  };
  static inline Memory shared;

  Memory memory;
  Private own[processes];
  bool alive[processes];

  static LitmusWorld start() {
    LitmusWorld world;
    std::memset(static_cast<void*>(&world), 0, sizeof world);
    world.alive[0] = world.alive[1] = true;
    return world;
  }
  bool done(std::uint32_t p) const { return own[p].over; }
  bool run(std::uint32_t p, Private& me) {
    Program::run(p, shared, me);
    me.over = true;
    return true;
  }
  void observe(const LitmusWorld&, std::uint32_t) {}
  const char* broken() const { return nullptr; }
  const char* broken_at_end() const { return Program::is_odd(own) ? "odd" : nullptr; }
};

// Each writes its word and reads the other's: both read nothing.
struct Buffering {
  template <typename Memory, typename Private>
  static void run(std::uint32_t p, Memory& memory, Private& me) {
    (p == 0 ? memory.x : memory.y).store(1);
    me.read[0] = (p == 0 ? memory.y : memory.x).load();
  }
  template <typename Private>
  static bool is_odd(const Private* own) {
    return own[0].read[0] == 0 && own[1].read[0] == 0;
  }
};

// The same with an exchange in place of the store.
struct Exchanging {
  template <typename Memory, typename Private>
  static void run(std::uint32_t p, Memory& memory, Private& me) {
    std::uint64_t expected = 0;
    (p == 0 ? memory.x : memory.y).compare_exchange(expected, 1);
    me.read[0] = (p == 0 ? memory.y : memory.x).load();
  }
  template <typename Private>
  static bool is_odd(const Private* own) {
    return Buffering::is_odd(own);
  }
};

// One writes data, then a flag: the other sees the flag, and not the data.
struct Passing {
  template <typename Memory, typename Private>
  static void run(std::uint32_t p, Memory& memory, Private& me) {
    if (p == 0) {
      memory.x.store(1);
      memory.y.store(1);
    } else {
      me.read[0] = memory.y.load();
      me.read[1] = memory.x.load();
    }
  }
  template <typename Private>
  static bool is_odd(const Private* own) {
    return own[1].read[0] == 1 && own[1].read[1] == 0;
  }
};

template <typename Program>
bool finds_it(Order order) {
  Explorer<LitmusWorld<Program>> explorer;
  return explorer.run(LitmusWorld<Program>::start(), 0, order).problem == "odd";
}

TEST(Explorer, OnlyStoresThatWaitPassALaterLoad) {
  EXPECT_FALSE(finds_it<Buffering>(Order::sequential));
  EXPECT_TRUE(finds_it<Buffering>(Order::buffered));
  EXPECT_FALSE(finds_it<Exchanging>(Order::buffered));
}

TEST(Explorer, StoresStayInTheirOrder) {
  EXPECT_FALSE(finds_it<Passing>(Order::sequential));
  EXPECT_FALSE(finds_it<Passing>(Order::buffered));
}

}  // namespace
}  // namespace weir
