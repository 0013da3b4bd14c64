// Several processes with adaptive windows share one read budget and one link for seconds, in which
// each of them probes for minRTT again and again, while the others go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <queue>
#include <tuple>
#include <vector>

#include "rendezvous/scheduler_with_peers.h"

namespace weir {
namespace {

constexpr std::uint32_t read_bytes = 128 << 10;
constexpr std::uint32_t most_readers = 16;

struct SharedLink {
  double bytes_per_us = 1250;  // 10 Gbit/s
  double base_us = 50;
  bool in_turns = true;  // queue pairs take turns, or the first chunk goes first
};

// The processes of a node, and the link through which all their data comes.
class ReadingNode {
 public:
  ReadingNode(std::uint32_t processes, bool shared, const SharedLink& link) : link_(link) {
    Scheduler::Config config;
    config.plan = {.chunk_bytes = read_bytes, .alignment_bytes = 4096};
    config.reads = {.base_age = seconds(1)};
    config.chain_bytes = UINT64_MAX;
    for (std::uint32_t i = 0; i < processes; ++i) {
      pools_.push_back(std::make_unique<PoolMember::Pool>(head_, slots_, PoolMember::most_tokens));
      EXPECT_TRUE(pools_.back()->join({i + 1, 1}, [](ProcessId) { return true; }));
      readers_.push_back(std::make_unique<SchedulerWithPeers>(config));
      if (shared) readers_.back()->join_node(pools_.back().get());
      readers_.back()->open_peer(PeerId{0}, 128);
    }
    waiting_.resize(processes);
  }

  // Plays so many seconds. Returns the bytes that waited for the link, in the mean.
  double play(double length_s) {
    const double begin = now_us_;
    const double end = begin + length_s * 1e6;
    double sum = 0;
    served_bytes_ = 0;
    issue();
    while (!events_.empty() && events_.top().us <= end) {
      const Event event = events_.top();
      events_.pop();
      sum += waiting_bytes_ * (event.us - now_us_);
      now_us_ = event.us;
      take(event);
      issue();
    }
    played_us_ = now_us_ - begin;
    return sum / played_us_;
  }
  // What was used of the link then.
  double used() const { return served_bytes_ / link_.bytes_per_us / played_us_; }
  std::uint64_t largest_window() const {
    std::uint64_t most = 0;
    for (const auto& reader : readers_) most = std::max(most, reader->read_window_bytes());
    return most;
  }
  std::uint64_t probes() const {
    std::uint64_t sum = 0;
    for (const auto& reader : readers_) sum += reader->controller().probes();
    return sum;
  }
  double longest_base_us() const {
    double most = 0;
    for (const auto& reader : readers_) {
      most = std::max(most, static_cast<double>(reader->controller().base_rtt().ns) / 1000);
    }
    return most;
  }

 private:
  struct Read {
    std::uint32_t process;
    TransferId transfer;
    double posted_us;
    std::uint32_t bytes;
    std::uint32_t left;
  };
  enum class What : std::uint8_t { request, slice, data };
  struct Event {
    double us;
    std::uint64_t order;
    What what;
    Read read;
    bool operator<(const Event& other) const {
      return us != other.us ? us > other.us : order > other.order;
    }
  };
  static Time at(double us) { return {static_cast<std::int64_t>(us * 1000)}; }

  void add(double us, What what, const Read& read) { events_.push({us, ++order_, what, read}); }

  void issue() {
    // Who looks first is not always the same.
    first_ = (first_ + 1) % readers_.size();
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      const auto process = static_cast<std::uint32_t>((first_ + i) % readers_.size());
      SchedulerWithPeers& reader = *readers_[process];
      FinishedTransfer finished;
      while (reader.next_finished(finished)) --live_[process];
      while (live_[process] < 2) {
        reader.submit({.peer = PeerId{0}, .local_address = 0x100000, .length_bytes = 4 << 20});
        ++live_[process];
      }
      for (Chunk chunk; reader.next(chunk);) {
        add(now_us_ + link_.base_us / 2, What::request,
            {process, chunk.transfer, now_us_, chunk.length_bytes, chunk.length_bytes});
      }
    }
  }

  void take(const Event& event) {
    Read read = event.read;
    switch (event.what) {
      case What::request:
        waiting_bytes_ += read.bytes;
        waiting_[link_.in_turns ? read.process : 0].push_back(read);
        if (!busy_) serve();
        break;
      case What::slice: {
        busy_ = false;
        auto& queue = waiting_[serving_];
        waiting_bytes_ -= slice_;
        served_bytes_ += slice_;
        if ((queue.front().left -= slice_) == 0) {
          add(now_us_ + link_.base_us / 2, What::data, queue.front());
          queue.pop_front();
        }
        serve();
        break;
      }
      case What::data:
        readers_[read.process]->on_chunk_done(at(now_us_), read.transfer, read.bytes,
                                              at(now_us_) - at(read.posted_us), false);
        break;
    }
  }

  void serve() {
    for (std::size_t i = 1; i <= waiting_.size(); ++i) {
      const std::size_t next = (serving_ + i) % waiting_.size();
      if (waiting_[next].empty()) continue;
      serving_ = next;
      slice_ = std::min(waiting_[next].front().left, 16u << 10);
      busy_ = true;
      add(now_us_ + slice_ / link_.bytes_per_us, What::slice, {});
      return;
    }
  }

  SharedLink link_;
  PoolHead<SharedWord> head_{};
  std::array<PoolSlot<SharedWord>, most_readers> slots_{};
  std::vector<std::unique_ptr<PoolMember::Pool>> pools_;
  std::vector<std::unique_ptr<SchedulerWithPeers>> readers_;
  std::array<int, most_readers> live_{};
  std::priority_queue<Event> events_;
  std::vector<std::deque<Read>> waiting_;  // for the link
  std::size_t first_ = 0;
  std::size_t serving_ = 0;
  std::uint32_t slice_ = 0;
  bool busy_ = false;
  std::uint64_t order_ = 0;
  double waiting_bytes_ = 0;
  double served_bytes_ = 0;
  double now_us_ = 0;
  double played_us_ = 0;
};

// While a process probes, the others' chunks pass its own, so it may take their queue for a longer
// path. The queue stays short all the same: each window bounds what all have under way, so what one
// mistakes for the path is no more than the largest window's queue, and the others' probes see
// less.
class SharedWindow : public testing::TestWithParam<std::tuple<std::uint32_t, bool>> {};

TEST_P(SharedWindow, ProbesBesideOthersDoNotLetTheQueueGrow) {
  const auto [processes, in_turns] = GetParam();
  ReadingNode node(processes, true, {.in_turns = in_turns});
  double first_queue = 0;
  for (int part = 0; part < 3; ++part) {
    const double queue = node.play(4);
    if (part == 0) first_queue = queue;
    EXPECT_LE(queue, 1.25 * first_queue) << part;
    EXPECT_LE(queue, 4 * read_bytes) << part;  // one process alone: two
    EXPECT_LE(node.largest_window(), 8 * read_bytes) << part;
    EXPECT_GE(node.used(), 0.8) << part;
  }
  EXPECT_GE(node.probes(), 4u * processes);
}

INSTANTIATE_TEST_SUITE_P(Some, SharedWindow,
                         testing::Combine(testing::Values(2u, 4u, 8u), testing::Bool()));

// With a budget of its own each of 8 processes may have at least two of the smallest chunks. A
// probe is a few short reads, so it finds little of the others' queue.
TEST(OwnWindow, DoesNotTakeTheQueueOfOthersForThePath) {
  ReadingNode node(8, false, {});
  node.play(2);
  EXPECT_LT(node.play(1), 4 * read_bytes);
  EXPECT_LT(node.longest_base_us(), 100);
  EXPECT_GE(node.used(), 0.95);
}

}  // namespace
}  // namespace weir
