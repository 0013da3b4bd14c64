// A process that talks to very many peers with few connections: idle ones end, and are made again
// when they are needed.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tools/sim/engine.h"
#include "tools/sim/random.h"

namespace weir::sim {
namespace {

// Counts what comes from each peer, which numbers its messages.
struct Inbox : Upcalls {
  explicit Inbox(std::vector<std::string>& mistakes) : mistakes(mistakes) {}
  void on_message(const Delivery& delivery) override {
    std::uint32_t number;
    std::memcpy(&number, delivery.payload, sizeof number);
    if (number != next[delivery.peer]++) mistakes.push_back("a message was lost, or came twice");
    ++received;
    if (delivery.last) engine->release(delivery.buffer);
  }
  void on_retired(SendSlot*, bool) override {}
  void on_failure(const Failure&) override { mistakes.push_back("a peer was given up"); }

  Engine* engine = nullptr;
  std::vector<std::string>& mistakes;
  std::map<PeerId, std::uint32_t> next;
  std::uint64_t received = 0;
};

struct Process {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Inbox> inbox;
  std::map<Node, std::uint32_t> sent;
};

Engine::Config config_of(Node node, std::uint32_t connections) {
  Engine::Config config;
  config.core.self = {1, node};
  config.core.buffer_bytes = 512;
  config.core.window = {.initial = 16, .max = 64, .most = 4096};
  config.core.shrink_after = {};
  config.core.queue = {.depth = 16, .control_reserve = 4, .signal_interval = 4};
  config.core.connections_max = connections;
  config.nic.srq_depth = 4096;
  return config;
}

class Job {
 public:
  // The first process keeps so many connections; the others any number.
  Job(std::uint32_t processes, std::uint32_t connections, bool all_limited)
      : fabric_({}, {}, 5), connections_(fabric_) {
    for (Node node = 0; node < processes; ++node) {
      Process process;
      process.engine = std::make_unique<Engine>(
          fabric_, connections_, node, config_of(node, node == 0 || all_limited ? connections : 0));
      process.inbox = std::make_unique<Inbox>(mistakes);
      process.inbox->engine = process.engine.get();
      process.engine->expect_peers(processes);
      processes_.push_back(std::move(process));
    }
  }

  void send(Node from, Node to) {
    Process& process = processes_[from];
    const PeerId peer = process.engine->add_peer({1, to}, to);
    const std::uint32_t number = process.sent[to];
    const Status status = process.engine->send_filled(
        peer, 8, 7, [&](std::byte* at) { std::memcpy(at, &number, sizeof number); });
    if (status != Status::ok) return;
    ++process.sent[to];
    ++sent_;
  }
  void step(Node node) {
    processes_[node].engine->progress(*processes_[node].inbox);
    open_peak = std::max(open_peak, counters(0).connections_open);
  }
  void run(Duration time) { fabric_.run_until(fabric_.events.now() + time); }
  // Until everything has arrived, or nothing more will.
  void finish(Duration turn = milliseconds(2)) {
    const Time end = fabric_.events.now() + seconds(4);
    while (fabric_.events.now() < end && received() < sent_) {
      run(turn);
      for (Node node = 0; node < processes_.size(); ++node) step(node);
    }
    EXPECT_EQ(received(), sent_);
    EXPECT_EQ(fabric_.violations, std::vector<std::string>{});
    EXPECT_EQ(mistakes, std::vector<std::string>{});
  }

  const Counters& counters(Node node) { return processes_[node].engine->core().counters(); }

  std::vector<std::string> mistakes;
  std::uint64_t open_peak = 0;

 private:
  std::uint64_t received() const {
    std::uint64_t all = 0;
    for (const Process& process : processes_) all += process.inbox->received;
    return all;
  }

  Fabric fabric_;
  Connections connections_;
  std::vector<Process> processes_;
  std::uint64_t sent_ = 0;
};

TEST(Places, FiveHundredAndTwelveDoForTenThousandPeers) {
  constexpr Node peers = 10000;
  constexpr std::uint32_t places = 512;
  Job job(peers + 1, places, false);
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto peer = static_cast<Node>(1 + random.below(peers));
    const bool asks = random.chance(500);
    job.send(asks ? 0 : peer, asks ? peer : 0);
    if (i % 16 == 0) job.run(microseconds(200));
    job.step(0);
    job.step(peer);
  }
  job.finish();
  EXPECT_LE(job.open_peak, places + places / 16);
  EXPECT_GT(job.counters(0).connections_parted, peers / 2);
  RecordProperty("open_peak", static_cast<int>(job.open_peak));
  RecordProperty("parted", static_cast<int>(job.counters(0).connections_parted));
  RecordProperty("over", static_cast<int>(job.counters(0).connections_over));
}

TEST(Places, AJobWhereAllTalkToAllGoesOnWithAFew) {
  constexpr Node processes = 48;
  Job job(processes, 6, true);
  Random random(4);
  for (int i = 0; i < 6000; ++i) {
    const auto from = static_cast<Node>(random.below(processes));
    job.send(from, static_cast<Node>((from + 1 + random.below(processes - 1)) % processes));
    job.run(microseconds(20));
    for (Node node = 0; node < processes; ++node) job.step(node);
  }
  job.finish();
  RecordProperty("open_peak", static_cast<int>(job.open_peak));
}

// Requests would wait for each other in a circle if each process had all of its places taken by its
// own.
TEST(Places, RequestsDoNotWaitForEachOther) {
  constexpr Node processes = 16;
  constexpr int rounds = 10;
  Job job(processes, 4, true);
  for (int round = 0; round < rounds; ++round) {
    for (Node from = 0; from < processes; ++from) {
      for (Node shift = 1; shift < processes; ++shift) job.send(from, (from + shift) % processes);
    }
    job.finish(microseconds(50));
  }
  std::uint64_t made = 0;
  std::uint64_t over = 0;
  for (Node node = 0; node < processes; ++node) {
    made += job.counters(node).connections;
    over += job.counters(node).connections_over;
  }
  RecordProperty("made", static_cast<int>(made));
  EXPECT_LE(over * 10, made);
}

}  // namespace
}  // namespace weir::sim
