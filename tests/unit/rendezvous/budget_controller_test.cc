// The adaptive read budget on a model of a fabric: requests take half of the base time to a server
// that sends `bytes_per_us`, one chunk after the other, and the data takes the other half back. So
// the smallest window that fills the server is rate * base + one chunk, and everything beyond it
// queues.
#include "rendezvous/budget_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iostream>
#include <string>
#include <vector>

#include "tools/sim/random.h"

namespace weir {
namespace {

constexpr std::uint32_t chunk_bytes = 128 << 10;

struct Fabric {
  double bytes_per_us = 12'500;  // 100 Gbit/s
  double base_us = 10;
  double jitter_us = 0;  // at most, on each chunk's way
};

struct Result {
  double utilisation = 0;  // of the server, while measured
  double mean_queue = 0;   // bytes waiting for the server, sampled at completions
  double least_queue = 1e18;
  double peak_queue = 0;
  std::uint64_t window = 0;
  double us = 0;  // what it took
};

class Loop {
 public:
  Loop(const BudgetController::Config& config, const Fabric& fabric, std::uint64_t seed = 1)
      : controller_(config), fabric_(fabric), random_(seed) {}

  void set_fabric(const Fabric& fabric) { fabric_ = fabric; }
  BudgetController& controller() { return controller_; }
  double now_us() const { return now_us_; }

  // Reads what `chunks` chunks of the first size have, in chunks of sizes from `sizes`, or less
  // where the controller wants so. Keeps the window full.
  Result run(int chunks, const std::vector<std::uint32_t>& sizes = {chunk_bytes}) {
    Result result;
    const double from = now_us_;
    double served = 0;
    double queue_sum = 0;
    int reads = 0;
    const std::int64_t bytes_to_read = std::int64_t{chunks} * sizes.front();
    for (std::int64_t done = 0; done < bytes_to_read; ++reads) {
      while (in_flight_.empty() || in_flight_.size() < controller_.reads()) {
        const std::uint32_t bytes =
            std::min(sizes[random_.below(sizes.size())], controller_.chunk_bytes(outstanding_));
        if (!in_flight_.empty() && outstanding_ + bytes > controller_.bytes()) {
          controller_.on_limited();
          break;
        }
        post(bytes);
      }
      const Read read = in_flight_.front();
      in_flight_.pop_front();
      now_us_ = read.done_us;
      const double queue = waiting_bytes();
      queue_sum += queue;
      result.least_queue = std::min(result.least_queue, queue);
      result.peak_queue = std::max(result.peak_queue, queue);
      served += read.bytes / fabric_.bytes_per_us;
      controller_.on_read(at(now_us_), read.bytes, at(now_us_) - at(read.posted_us), outstanding_);
      outstanding_ -= read.bytes;
      done += read.bytes;
    }
    result.us = now_us_ - from;
    result.utilisation = served / result.us;
    result.mean_queue = queue_sum / reads;
    result.window = controller_.window_bytes();
    return result;
  }

  // Lets everything come home, then time passes without traffic.
  void pause(double us) {
    while (!in_flight_.empty()) {
      now_us_ = in_flight_.front().done_us;
      outstanding_ -= in_flight_.front().bytes;
      in_flight_.pop_front();
    }
    now_us_ += us;
  }

 private:
  struct Read {
    std::uint32_t bytes;
    double posted_us, arrived_us, begun_us, done_us;
  };

  static Time at(double us) { return {static_cast<std::int64_t>(us * 1000)}; }

  void post(std::uint32_t bytes) {
    const double jitter = fabric_.jitter_us * static_cast<double>(random_.below(1001)) / 1000.0;
    const double arrived = now_us_ + fabric_.base_us / 2 + jitter;
    const double begun = std::max(arrived, server_free_us_);
    server_free_us_ = begun + bytes / fabric_.bytes_per_us;
    // A queue pair completes in order.
    const double done = server_free_us_ + fabric_.base_us / 2;
    const double before = in_flight_.empty() ? 0 : in_flight_.back().done_us;
    in_flight_.push_back({bytes, now_us_, arrived, begun, std::max(done, before)});
    outstanding_ += bytes;
  }

  double waiting_bytes() const {
    double bytes = 0;
    for (const Read& read : in_flight_) {
      if (read.arrived_us <= now_us_ && read.begun_us > now_us_) bytes += read.bytes;
    }
    return bytes;
  }

  BudgetController controller_;
  Fabric fabric_;
  sim::Random random_;
  double now_us_ = 1000;
  double server_free_us_ = 0;
  std::uint64_t outstanding_ = 0;
  std::deque<Read> in_flight_;
};

// The window that just fills the server.
double enough(const Fabric& fabric) { return fabric.bytes_per_us * fabric.base_us + chunk_bytes; }

void print(const std::string& what, const Result& r, double just_enough) {
  std::cout << what << ": window " << (r.window >> 10) << " KiB (just enough "
            << static_cast<int>(just_enough / 1024) << "), utilisation " << r.utilisation
            << ", queue mean " << static_cast<int>(r.mean_queue / 1024) << " peak "
            << static_cast<int>(r.peak_queue / 1024) << " KiB\n";
}

TEST(BudgetController, FixedCStays) {
  BudgetController::Config config;
  config.adaptive = false;
  config.reads = 30;
  Loop loop(config, {});
  loop.run(1000);
  loop.set_fabric({.bytes_per_us = 1000, .base_us = 500});
  loop.run(1000);
  EXPECT_EQ(loop.controller().reads(), 30u);
  EXPECT_EQ(loop.controller().bytes(), UINT64_MAX);
  BudgetController none({.adaptive = false, .reads = 0});
  EXPECT_EQ(none.reads(), 1u);
}

TEST(BudgetController, FindsTheFabricsWindow) {
  struct Case {
    const char* what;
    Fabric fabric;
  };
  for (const Case& c :
       {Case{"100G, 2 us", {12'500, 2, 0}}, Case{"100G, 10 us", {12'500, 10, 0}},
        Case{"100G, 100 us", {12'500, 100, 0}}, Case{"400G, 20 us", {50'000, 20, 0}},
        Case{"10G, 50 us", {1'250, 50, 0}}, Case{"12.5G sink, 10 us", {1'562, 10, 0}},
        Case{"100G, 20 us, jitter 3 us", {12'500, 20, 3}},
        Case{"Soft-RoCE: 150 MB/s, 30 us", {150, 30, 5}}}) {
    const BudgetController::Config config;
    const double q = static_cast<double>(config.queue_bytes);
    Loop loop(config, c.fabric);
    loop.run(300);  // find it
    const Result result = loop.run(3000);
    print(c.what, result, enough(c.fabric));
    EXPECT_GE(result.utilisation, 0.97) << c.what;
    // The estimate and the queue differ by the chunk that has just begun.
    EXPECT_LE(result.peak_queue, 2 * q + chunk_bytes) << c.what;
    EXPECT_LE(static_cast<double>(result.window), enough(c.fabric) + 2 * q + chunk_bytes) << c.what;
  }
}

// What a receiver takes, 1, 2, 4 and 8 times slower than its link of 100 Gbit/s, decides how much
// may queue: the time is the same for all.
TEST(BudgetController, ASlowReceiverHasAShortQueue) {
  const BudgetController::Config config;
  std::uint64_t before = UINT64_MAX;
  for (const double slower : {1, 2, 4, 8}) {
    const Fabric fabric{12'500 / slower, 2, 0.2};
    const double short_read_us = fabric.base_us + 4096 / fabric.bytes_per_us;
    Loop loop(config, fabric);
    loop.run(1000);
    const Result result = loop.run(3000);
    print(std::to_string(slower) + "x slower", result, enough(fabric));
    EXPECT_GE(result.utilisation, 0.98);
    EXPECT_LE(result.peak_queue / fabric.bytes_per_us,
              6 * short_read_us + loop.controller().chunk_bytes() / fabric.bytes_per_us);
    EXPECT_LE(loop.controller().chunk_bytes() * 2, result.window);
    EXPECT_LT(result.window, before);
    before = result.window;
  }
  EXPECT_LE(before, 64u << 10u);
}

// An application computes, and looks only every 10 ms: then all reads are back.
TEST(BudgetController, ALateLookIsNoSlowReceiver) {
  const BudgetController::Config config;
  BudgetController controller(config);
  Time now{1'000'000};
  controller.on_read(now, 4096, microseconds(3), 4096);
  // A slow receiver that looks at once: two chunks under way all the time.
  for (int i = 0; i < 100; ++i) {
    now = now + microseconds(100);
    controller.on_read(now, controller.chunk_bytes(1), microseconds(200), controller.bytes());
  }
  EXPECT_EQ(controller.window_bytes(), config.least_bytes);
  for (int look = 0; look < 20; ++look) {
    now = now + milliseconds(10);
    for (std::uint64_t left = controller.window_bytes(); left > 0;) {
      const auto bytes =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(controller.chunk_bytes(1), left));
      controller.on_limited();
      controller.on_read(now, bytes, milliseconds(10), left);
      left -= bytes;
    }
  }
  EXPECT_EQ(controller.window_bytes(), 2 * config.queue_bytes);
}

// The first chunk into an empty fabric is short, and another one when its time is old.
TEST(BudgetController, SoundsTheEmptyFabric) {
  const BudgetController::Config config;
  BudgetController controller(config);
  EXPECT_EQ(controller.chunk_bytes(0), 4096u);
  const std::uint32_t usual = controller.chunk_bytes();
  EXPECT_GT(usual, 4096u);
  EXPECT_EQ(controller.chunk_bytes(1), usual);
  Time now{1'000'000};
  controller.on_read(now, 4096, microseconds(20), 4096);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(controller.chunk_bytes(0), usual);
    now = now + milliseconds(120);
    controller.on_read(now, chunk_bytes, microseconds(90), chunk_bytes);
  }
  now = now + milliseconds(120);
  controller.on_read(now, chunk_bytes, microseconds(90), chunk_bytes);
  EXPECT_EQ(controller.chunk_bytes(0), 4096u);
  EXPECT_EQ(controller.chunk_bytes(1), usual);
  controller.on_read(now, 4096, microseconds(21), 4096);  // as before
  EXPECT_EQ(controller.chunk_bytes(0), usual);
  EXPECT_EQ(controller.probes(), 0u);
  // With a fixed c there is nothing to find out.
  BudgetController fixed({.adaptive = false});
  EXPECT_EQ(fixed.chunk_bytes(0), fixed.chunk_bytes());
}

TEST(BudgetController, RisesFastOnAnIdleFabric) {
  // 64 chunks of delay * bandwidth: against a window that is right from the start.
  const Fabric fabric{12'500, 670, 0};
  const BudgetController::Config config;
  BudgetController::Config right = config;
  right.adaptive = false;
  right.reads = 66;
  const double best = Loop(right, fabric).run(4000).us;
  const double adaptive = Loop(config, fabric).run(4000).us;
  std::cout << "500 MiB, delay of 64 chunks: fixed c = 66 " << best / 1000 << " ms, adaptive "
            << adaptive / 1000 << " ms\n";
  EXPECT_LE(adaptive, best * 1.3);
  // And where the delay is small, at once.
  const Fabric near{12'500, 5, 0};
  const double near_best = Loop(right, near).run(100).us;
  const double near_adaptive = Loop(config, near).run(100).us;
  EXPECT_LE(near_adaptive, near_best * 1.03);
}

TEST(BudgetController, SurvivesASlowPhase) {
  const Fabric fast{12'500, 60, 0};
  const Fabric slow{1'562, 60, 0};  // an eighth
  const BudgetController::Config config;
  const double q = static_cast<double>(config.queue_bytes);
  Loop loop(config, fast);
  loop.run(1000);
  const Result before = loop.run(500);
  loop.set_fabric(slow);
  loop.run(150);  // falls
  const Result during = loop.run(300);
  print("slowed down 8 times", during, enough(slow));
  EXPECT_LE(during.peak_queue, 2 * q + chunk_bytes);
  EXPECT_GE(during.utilisation, 0.97);
  loop.set_fabric(fast);
  loop.run(60);  // rises
  const Result after = loop.run(500);
  print("fast again", after, enough(fast));
  EXPECT_GE(after.utilisation, before.utilisation * 0.97);
}

TEST(BudgetController, LearnsALongerRoute) {
  BudgetController::Config config;
  config.base_age = milliseconds(20);
  Loop loop(config, {12'500, 20, 0});
  loop.run(2000);
  loop.set_fabric({12'500, 200, 0});
  const Result blind = loop.run(50);
  loop.run(4000);
  const Result result = loop.run(2000);
  print("a route ten times as long, first", blind, enough({12'500, 200, 0}));
  print("and once it is learnt", result, enough({12'500, 200, 0}));
  EXPECT_GE(loop.controller().probes(), 1u);
  EXPECT_NEAR(static_cast<double>(loop.controller().base_rtt().ns), 200'328, 2000);
  EXPECT_GE(result.utilisation, 0.9);
}

// Under load a shorter route shows in no time: what was delay is queue now.
TEST(BudgetController, LearnsAShorterRoute) {
  BudgetController::Config config;
  config.base_age = milliseconds(20);
  const Fabric near{12'500, 20, 0};
  Loop loop(config, {12'500, 200, 0});
  loop.run(1000);
  loop.set_fabric(near);
  loop.run(4000);
  const Result result = loop.run(1000);
  print("a route a tenth as long", result, enough(near));
  EXPECT_GE(result.utilisation, 0.97);
  EXPECT_LE(result.peak_queue, 3.0 * chunk_bytes);
}

// What the probes cost where nothing changes.
TEST(BudgetController, ProbesCostNextToNothing) {
  const Fabric fabric{12'500, 20, 0};
  BudgetController::Config config;
  Loop loop(config, fabric);
  loop.run(1000);
  const Result with = loop.run(300'000);
  const std::uint64_t probes = loop.controller().probes();
  std::cout << "probes " << probes << " in " << with.us / 1e6 << " s, utilisation "
            << with.utilisation << "\n";
  EXPECT_GE(probes, 2u);
  EXPECT_GE(with.utilisation, 0.999);
}

// A window far too large is cut once for what it was, not again for what it left in the fabric.
TEST(BudgetController, CutsOnceForOneExcess) {
  const Fabric fabric{12'500, 200, 0};
  BudgetController::Config config;
  config.initial_bytes = config.most_bytes;
  Loop loop(config, fabric);
  const Result result = loop.run(600);
  print("begun with 16 MiB", result, enough(fabric));
  EXPECT_GE(result.utilisation, 0.965);  // the first 200 us nothing can come
  loop.run(100);
  EXPECT_LE(loop.run(500).peak_queue, 3.0 * chunk_bytes);
}

// A probe whose chunks nobody timed does not last.
TEST(BudgetController, AProbeEndsUnmeasuredToo) {
  BudgetController controller({});
  Time now{1000};
  for (int i = 0; i < 2; ++i) {
    controller.on_read(now, chunk_bytes, microseconds(20), 2 * chunk_bytes);
    now = now + seconds(2);
  }
  ASSERT_EQ(controller.phase(), BudgetController::Phase::probe);
  EXPECT_EQ(controller.bytes(), 0u);
  bool ended = false;
  for (int i = 0; i < 4; ++i) {
    ASSERT_FALSE(ended);
    ended = controller.on_read(now, chunk_bytes, {}, chunk_bytes);
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(controller.bytes(), controller.window_bytes());
  EXPECT_EQ(controller.base_rtt(), microseconds(20));
}

// One chunk at a time confirms the minimum by itself.
TEST(BudgetController, NeverProbesWithoutLoad) {
  BudgetController controller({});
  Time now{1000};
  for (int i = 0; i < 1000; ++i) {
    now = now + milliseconds(20);
    controller.on_read(now, chunk_bytes, microseconds(20 + i % 2), chunk_bytes);
  }
  EXPECT_EQ(controller.probes(), 0u);
}

// Sizes mixed from a page to a chunk and a tail: small ones are not compared with large ones.
TEST(BudgetController, ComparesLikeWithLike) {
  const std::vector<std::uint32_t> sizes = {4096,   8192,        20'000,  65'536,
                                            98'304, chunk_bytes, 140'000, 160'000};
  const Fabric fabric{12'500, 40, 0};
  const BudgetController::Config config;
  Loop loop(config, fabric);
  loop.run(1000, sizes);
  const Result result = loop.run(4000, sizes);
  print("mixed sizes", result, enough(fabric));
  EXPECT_GE(result.utilisation, 0.95);
  EXPECT_LE(result.peak_queue, 2.0 * static_cast<double>(config.queue_bytes) + 2 * 160'000);
}

TEST(BudgetController, AWindowNobodyFillsDoesNotGrow) {
  const BudgetController::Config config;
  BudgetController controller(config);
  Time now{1000};
  for (int i = 0; i < 1000; ++i) {
    now = now + microseconds(20);
    controller.on_read(now, chunk_bytes, microseconds(20), chunk_bytes);
  }
  EXPECT_EQ(controller.window_bytes(), config.initial_bytes);
  // Nor once it is steady.
  Loop loop(config, {12'500, 100, 0});
  loop.run(500);
  ASSERT_EQ(loop.controller().phase(), BudgetController::Phase::steady);
  std::uint64_t before = 0;
  now = {static_cast<std::int64_t>(loop.now_us() * 1000)};
  for (int i = 0; i < 1000; ++i) {
    now = now + microseconds(120);
    loop.controller().on_read(now, chunk_bytes, microseconds(111), 2 * chunk_bytes);
    if (i == 1) before = loop.controller().window_bytes();  // the round trip begun above is over
  }
  EXPECT_EQ(loop.controller().window_bytes(), before);
}

TEST(BudgetController, IgnoresWhatIsNoMeasure) {
  BudgetController controller({});
  Time now{1000};
  for (int i = 0; i < 100; ++i) {
    now = now + microseconds(20);
    controller.on_limited();
    EXPECT_FALSE(controller.on_read(now, chunk_bytes, {}, chunk_bytes));
  }
  EXPECT_EQ(controller.base_rtt().ns, 0);
}

// Whatever the times are, the window stays within its bounds and something may go.
TEST(BudgetController, StaysWithinItsBounds) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    sim::Random random(seed);
    BudgetController::Config config;
    config.least_bytes = random.between(1, 1 << 20);
    config.most_bytes = config.least_bytes + random.below(1 << 24);
    config.initial_bytes = random.below(1 << 24);
    config.queue_bytes = random.below(1 << 20);
    config.chunk_bytes = static_cast<std::uint32_t>(random.below(1 << 18));
    config.base_age = microseconds(random.between(0, 10'000));
    BudgetController controller(config);
    Time now{1};
    for (int i = 0; i < 1000; ++i) {
      now = now + random.up_to(microseconds(100));
      if (random.chance(500)) controller.on_limited();
      const std::uint64_t before = controller.bytes();
      const bool changed = controller.on_read(now, random.between(0, 1 << 23),
                                              random.up_to(milliseconds(1)), random.below(1 << 25));
      ASSERT_TRUE(changed || controller.bytes() == before);
      ASSERT_GE(controller.window_bytes(), config.least_bytes);
      ASSERT_LE(controller.window_bytes(), config.most_bytes);
    }
  }
}

}  // namespace
}  // namespace weir
