// The contract on real queue pairs: two engines in one process, on the RDMA port that is there.
// Where there is none, every test fails: the fabric was promised.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/contract/contract_suite.h"
#include "transport/engine/engine.h"
#include "transport/verbs/addresses.h"
#include "transport/verbs/choose_ports.h"

namespace weir::contract {
namespace {

class EngineSide : public Side {
 public:
  explicit EngineSide(const Engine::Options& options) {
    std::string why;
    engine_ = Engine::open(options, why);
    if (engine_ == nullptr || !engine_->start(why)) throw std::runtime_error(why);
  }
  ~EngineSide() override { close(); }

  void meet(const EngineSide& other) {
    const PeerName name = other.engine_->options().core.self;
    std::string why;
    if (!engine_->add_peer(name, other.engine_->card(), peer_, why)) throw std::runtime_error(why);
    engine_->expect_peers(1);
  }

  Status send(std::span<const std::byte> payload, std::uint8_t tag, bool waited) override {
    const auto size = static_cast<std::uint32_t>(payload.size());
    if (size > max_payload_bytes()) return Status::too_large;
    const auto fill = [&](std::byte* at) { std::copy(payload.begin(), payload.end(), at); };
    if (!waited) return engine_->send_filled(peer_, size, tag, fill);
    SendSlot* slot = engine_->acquire(size);
    slot->notify = true;
    fill(slot->payload());
    const Status status = engine_->send(peer_, slot, size, tag, false);
    if (status != Status::ok) engine_->discard(slot);
    return status;
  }

  void progress() override {
    if (engine_ != nullptr) engine_->progress(*this);
  }
  bool close() override { return engine_ == nullptr || engine_->close({&peer_, 1}, *this) == 0; }
  void kill() {
    last_counters_ = engine_->counters();
    engine_.reset();
  }

  const Counters& counters() const override {
    if (engine_ != nullptr) last_counters_ = engine_->snapshot();
    return last_counters_;
  }
  std::uint32_t max_payload_bytes() const override { return engine_->max_payload_bytes(); }

  void on_message(const Delivery& message) {
    received.push_back({message.tag, {message.payload, message.payload + message.length_bytes}});
  }
  void on_retired(SendSlot* slot, bool was_delivered) {
    ++(was_delivered ? delivered : undelivered);
    engine_->discard(slot);
  }
  void on_failure(const Failure& failure) { failures.push_back(failure.reason); }
  void on_transfer(const TransferEnd&) {}
  void on_refusal(const Refusal& refusal) { refusals.push_back(refusal); }
  void on_warning(const std::string& what) { ADD_FAILURE() << what; }
  void on_breakdown(const std::string& what) { ADD_FAILURE() << what; }

  std::vector<Refusal> refusals;

 private:
  std::unique_ptr<Engine> engine_;
  mutable Counters last_counters_;
  PeerId peer_ = PeerId::none;
};

class EnginePair : public Pair {
 public:
  explicit EnginePair(const Options& options)
      : left_(engine_options(options, 0)), right_(engine_options(options, 1)) {
    left_.meet(right_);
    right_.meet(left_);
  }

  Side& left() override { return left_; }
  Side& right() override { return right_; }
  void pass(Duration time) override {
    if (time < milliseconds(1)) return;  // the calls themselves take longer
    const timespec wait{time.ns / 1000000000, time.ns % 1000000000};
    nanosleep(&wait, nullptr);
  }
  static Time wall() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return {std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec};
  }
  Time now() const override { return wall(); }
  bool kill_right() override {
    right_.kill();
    return true;
  }

 private:
  static Engine::Options engine_options(const Options& options, std::uint32_t rank) {
    Engine::Options engine;
    engine.core.self = {1, rank};
    engine.core.buffer_bytes = options.buffer_bytes;
    engine.core.window = {.initial = options.window_initial, .max = options.window_max};
    engine.core.pending_frames = options.pending_frames;
    engine.core.shrink_after = options.shrink_after;
    engine.core.rnr_auto = true;
    return engine;
  }

  EngineSide left_;
  EngineSide right_;
};

struct EngineBackend {
  static std::unique_ptr<Pair> make(const Options& options) {
    return std::make_unique<EnginePair>(options);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Rdma, Contract, EngineBackend);

// What only real engines have: a lane to themselves, and threads.

struct Collector {
  void on_message(const Delivery& message) {
    std::uint32_t number;
    std::memcpy(&number, message.payload, sizeof number);
    received.push_back({message.tag, number});
  }
  void on_retired(SendSlot*, bool) {}
  void on_failure(const Failure& failure) { ADD_FAILURE() << to_text(failure.reason); }
  void on_transfer(const TransferEnd&) {}
  void on_refusal(const Refusal& refusal) { refusals.push_back(refusal); }
  void on_warning(const std::string& what) { ADD_FAILURE() << what; }
  void on_breakdown(const std::string& what) { ADD_FAILURE() << what; }

  struct Numbered {
    std::uint8_t tag;
    std::uint32_t number;
  };
  std::vector<Numbered> received;
  std::vector<Refusal> refusals;
};

std::unique_ptr<Engine> open_engine(const Engine::Options& options) {
  std::string why;
  std::unique_ptr<Engine> engine = Engine::open(options, why);
  if (engine == nullptr || !engine->start(why)) throw std::runtime_error(why);
  return engine;
}

std::unique_ptr<Engine> open_engine(std::uint32_t rank) {
  Engine::Options options;
  options.core.self = {1, rank};
  return open_engine(options);
}

bool add(Engine& engine, const Engine& other, PeerId& id) {
  std::string why;
  const bool added = engine.add_peer(other.options().core.self, other.card(), id, why);
  EXPECT_TRUE(added) << why;
  return added;
}

template <typename Handler>
void send_number(Engine& engine, PeerId to, std::uint8_t tag, std::uint32_t number,
                 Handler& collector) {
  const auto fill = [&](std::byte* at) { std::memcpy(at, &number, sizeof number); };
  Status status;
  while ((status = engine.send_filled(to, sizeof number, tag, fill)) != Status::ok) {
    engine.progress(collector);
    if (status == Status::peer_failed) throw std::runtime_error(to_text(status));
  }
}

TEST(Engine, SendsToItself) {
  const std::unique_ptr<Engine> engine = open_engine(0);
  PeerId self;
  ASSERT_TRUE(add(*engine, *engine, self));
  Collector collector;
  for (std::uint32_t i = 0; i < 200; ++i) {
    send_number(*engine, self, 1, i, collector);
    engine->progress(collector);
  }
  const Time deadline = EnginePair::wall() + patience;
  while (collector.received.size() < 200 && EnginePair::wall() < deadline) {
    engine->progress(collector);
  }
  ASSERT_EQ(collector.received.size(), 200u);
  for (std::uint32_t i = 0; i < 200; ++i) EXPECT_EQ(collector.received[i].number, i);
  EXPECT_TRUE(engine->shutdown(collector));
}

// Its own frames and buffers stay where the adapter knows them, also where the kernel does not copy
// pinned pages for a child (tests/adapter).
TEST(Engine, AForkHarmsNoTraffic) {
  const std::unique_ptr<Engine> engine = open_engine(0);
  PeerId self;
  ASSERT_TRUE(add(*engine, *engine, self));
  Collector collector;
  send_number(*engine, self, 1, 0, collector);
  while (collector.received.empty()) engine->progress(collector);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  for (std::uint32_t i = 1; i < 200; ++i) {
    send_number(*engine, self, 1, i, collector);
    engine->progress(collector);
  }
  const Time deadline = EnginePair::wall() + seconds(10);
  while (collector.received.size() < 200 && EnginePair::wall() < deadline) {
    engine->progress(collector);
  }
  ASSERT_EQ(collector.received.size(), 200u);
  for (std::uint32_t i = 0; i < 200; ++i) EXPECT_EQ(collector.received[i].number, i);
  EXPECT_TRUE(engine->shutdown(collector));
}

// The device can post no such frames inline, and says so only when it is asked for a queue pair.
TEST(Engine, InlineSendsAreAsLargeAsTheDeviceCan) {
  Engine::Options options;
  options.core.self = {1, 0};
  options.core.inline_bytes = options.queue_pair.inline_bytes = 64 << 10;
  std::string why;
  const std::unique_ptr<Engine> engine = Engine::open(options, why);
  ASSERT_TRUE(engine != nullptr && engine->start(why)) << why;
  PeerId self;
  ASSERT_TRUE(add(*engine, *engine, self));
  Collector collector;
  for (std::uint32_t i = 0; i < 200; ++i) send_number(*engine, self, 1, i, collector);
  const Time deadline = EnginePair::wall() + patience;
  while (collector.received.size() < 200 && EnginePair::wall() < deadline) {
    engine->progress(collector);
  }
  EXPECT_EQ(collector.received.size(), 200u);
  EXPECT_TRUE(engine->shutdown(collector));
}

// A handler may make progress: what it has in hand stays, though other messages of the same buffer
// are handled meanwhile, and after them more than all buffers hold.
struct Nesting {
  static constexpr std::uint32_t buffers = 8;

  void on_message(const Delivery& message) {
    const std::byte* const payload = message.payload;
    const std::vector<std::byte> before(payload, payload + message.length_bytes);
    // Others are handled without progress, so that each place in a bundle has its turn.
    if (depth < 3 && seen++ % 7 == 3) {
      ++depth;
      const std::uint64_t enough = engine->counters().frames_received + 2 * buffers;
      const Time deadline = EnginePair::wall() + milliseconds(depth == 1 ? 20 : 1);
      do {
        engine->progress(*this);
      } while (engine->counters().frames_received < enough && EnginePair::wall() < deadline);
      --depth;
    }
    if (!std::equal(before.begin(), before.end(), payload)) ++changed;
    ++count;
  }
  void on_retired(SendSlot*, bool) {}
  void on_failure(const Failure& failure) { ADD_FAILURE() << to_text(failure.reason); }
  void on_transfer(const TransferEnd&) {}
  void on_refusal(const Refusal&) {}
  void on_warning(const std::string& what) { ADD_FAILURE() << what; }
  void on_breakdown(const std::string& what) { ADD_FAILURE() << what; }

  Engine* engine = nullptr;
  int depth = 0;
  std::uint32_t seen = 0;
  std::uint32_t count = 0;
  std::uint32_t changed = 0;
};

TEST(Engine, AMessageStaysWholeWhileItsHandlerMakesProgress) {
  constexpr std::uint32_t messages = 6000;
  Engine::Options options;
  options.core.self = {1, 0};
  options.core.buffer_bytes = 512;
  options.core.window = {.initial = Nesting::buffers, .max = Nesting::buffers};
  std::string why;
  const std::unique_ptr<Engine> engine = Engine::open(options, why);
  ASSERT_TRUE(engine != nullptr && engine->start(why)) << why;
  PeerId self;
  ASSERT_TRUE(add(*engine, *engine, self));
  Nesting nesting;
  nesting.engine = engine.get();
  for (std::uint32_t i = 0; i < messages; ++i) send_number(*engine, self, 1, i, nesting);
  const Time deadline = EnginePair::wall() + patience;
  while (nesting.count < messages && EnginePair::wall() < deadline) engine->progress(nesting);
  EXPECT_EQ(nesting.count, messages);
  EXPECT_EQ(nesting.changed, 0u);
  EXPECT_LT(engine->counters().frames_received, messages);  // there were bundles
  EXPECT_TRUE(engine->shutdown(nesting));
  EXPECT_EQ(engine->remains().receive_buffers, 0u);
}

// What a handler throws costs one message, not all that come after it.
struct Throwing : Collector {
  void on_message(const Delivery& message) {
    Collector::on_message(message);
    if (received.size() % 10 == 3) throw std::runtime_error("of a handler");
  }
};

TEST(Engine, AHandlerThatThrowsStopsNobody) {
  constexpr std::uint32_t messages = 200;
  const std::unique_ptr<Engine> engine = open_engine(0);
  PeerId self;
  ASSERT_TRUE(add(*engine, *engine, self));
  Throwing collector;
  int thrown = 0;
  const auto progress = [&] {
    try {
      engine->progress(collector);
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  };
  const auto send = [&](std::uint32_t number) {
    const auto fill = [&](std::byte* at) { std::memcpy(at, &number, sizeof number); };
    while (engine->send_filled(self, sizeof number, 1, fill) != Status::ok) progress();
  };
  for (std::uint32_t i = 0; i < messages; ++i) send(i);
  // Another thread may go on, too.
  const Time deadline = EnginePair::wall() + patience;
  while (collector.received.size() < messages && EnginePair::wall() < deadline) {
    std::thread(progress).join();
  }
  ASSERT_EQ(collector.received.size(), messages);
  for (std::uint32_t i = 0; i < messages; ++i) EXPECT_EQ(collector.received[i].number, i);
  EXPECT_EQ(thrown, static_cast<int>(messages / 10));
  Collector last;
  EXPECT_TRUE(engine->shutdown(last));
  EXPECT_EQ(engine->remains().receive_buffers, 0u);
}

// Peers that do not receive cost no more memory the more of them there are; who is sent something
// for the first time is served all the same; and the memory goes back.
TEST(Engine, FramesThatWaitHaveACapOverAllPeers) {
  constexpr std::uint32_t slow_peers = 4;
  constexpr std::uint64_t cap = 1 << 20;
  Engine::Options options;
  options.core.self = {1, 0};
  options.core.window.max = 16;
  options.core.queue.signal_interval = 1;  // else some frames are retired by a probe, after 10 s
  options.send_bytes = cap;
  const std::unique_ptr<Engine> engine = open_engine(options);
  std::vector<std::unique_ptr<Engine>> slow;
  std::vector<PeerId> peers(slow_peers + 1);
  for (std::uint32_t i = 0; i <= slow_peers; ++i) {
    options.core.self = {1, i + 1};
    slow.push_back(open_engine(options));
    ASSERT_TRUE(add(*engine, *slow[i], peers[i]));
  }

  Collector ours;
  std::vector<std::uint32_t> sent(slow_peers + 1);
  const std::uint32_t size = engine->max_payload_bytes();
  const auto send = [&](std::uint32_t to) {
    const auto fill = [&](std::byte* at) { std::memcpy(at, &sent[to], sizeof sent[to]); };
    const Status status = engine->send_filled(peers[to], size, 1, fill);
    sent[to] += status == Status::ok ? 1 : 0;
    return status;
  };
  // Until nothing moves: they have connected, and given the credits they have.
  Time deadline = EnginePair::wall() + patience;
  for (int in_vain = 0; in_vain < 100 && EnginePair::wall() < deadline; ++in_vain) {
    for (std::uint32_t to = 0; to < slow_peers; ++to) {
      if (send(to) == Status::ok) in_vain = 0;
    }
    engine->progress(ours);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::uint64_t a_frame_each = (slow_peers + 1) * (size + 1024);
  const Counters full = engine->snapshot();
  EXPECT_GT(full.back_pressure, 0u);
  EXPECT_GT(full.send_bytes, cap / 2);
  EXPECT_LE(full.send_bytes, cap + SlotPool::slab_slots * a_frame_each);
  while (sent[slow_peers] < 2 * SlotPool::slab_slots && send(slow_peers) == Status::ok) continue;
  EXPECT_GE(sent[slow_peers], 1u);
  EXPECT_LT(sent[slow_peers], 2 * SlotPool::slab_slots);

  std::vector<Collector> theirs(slow_peers + 1);
  const auto all_there = [&] {
    for (std::uint32_t i = 0; i <= slow_peers; ++i) {
      if (theirs[i].received.size() < sent[i]) return false;
    }
    return true;
  };
  deadline = EnginePair::wall() + patience;
  while (!all_there() && EnginePair::wall() < deadline) {
    engine->progress(ours);
    for (std::uint32_t i = 0; i <= slow_peers; ++i) slow[i]->progress(theirs[i]);
  }
  EXPECT_TRUE(all_there());
  deadline = EnginePair::wall() + patience;
  while (engine->snapshot().send_bytes > cap / 2 && EnginePair::wall() < deadline) {
    engine->progress(ours);
  }
  EXPECT_LE(engine->snapshot().send_bytes, cap / 2);
  EXPECT_TRUE(engine->shutdown(ours));
}

TEST(Engine, ThreadsSendAndProgressAtOnce) {
  constexpr std::uint32_t messages = 2000;
  constexpr std::uint8_t threads = 3;
  struct Counting : Collector {
    void on_message(const Delivery& message) {
      Collector::on_message(message);
      ++count;
    }
    std::atomic<std::uint32_t> count{0};
  };
  struct Process {
    std::unique_ptr<Engine> engine;
    PeerId other = PeerId::none;
    Counting collector;  // handed messages by one thread at a time
  };
  std::array<Process, 2> processes;
  processes[0].engine = open_engine(0);
  processes[1].engine = open_engine(1);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(add(*processes[rank].engine, *processes[1 - rank].engine, processes[rank].other));
  }

  const Time deadline = EnginePair::wall() + patience * 3;
  std::vector<std::thread> workers;
  for (Process& process : processes) {
    for (std::uint8_t tag = 0; tag < threads; ++tag) {
      workers.emplace_back([&process, tag, deadline] {
        Engine& engine = *process.engine;
        for (std::uint32_t i = 0; i < messages; ++i) {
          send_number(engine, process.other, tag, i, process.collector);
          if (i % 5 == 0) engine.progress(process.collector);
        }
        while (EnginePair::wall() < deadline && process.collector.count < messages * threads) {
          engine.progress(process.collector);
        }
      });
    }
  }
  for (std::thread& worker : workers) worker.join();
  for (Process& process : processes) {
    ASSERT_EQ(process.collector.received.size(), std::size_t{messages} * threads);
    std::array<std::uint32_t, threads> next{};
    for (const Collector::Numbered& message : process.collector.received) {
      ASSERT_EQ(message.number, next[message.tag]++);  // each thread's own order is kept
    }
  }
  for (Process& process : processes) EXPECT_TRUE(process.engine->shutdown(process.collector));
}

// An application that calls MPI now and then, a thread that stands in for it, and a peer that sends
// all the time: each message is handed up once, in order, by one of the two.
TEST(Engine, WhoStandsInAndTheApplicationTakeTurns) {
  struct Taker : Collector {
    void on_message(const Delivery& message) {
      Collector::on_message(message);
      ++(std::this_thread::get_id() == application ? by_application : by_stand_in);
      ++count;
    }
    [[nodiscard]] bool by_both() const { return by_application > 0 && by_stand_in > 0; }
    const std::thread::id application = std::this_thread::get_id();
    std::atomic<std::uint32_t> by_application{0};
    std::atomic<std::uint32_t> by_stand_in{0};
    std::atomic<std::uint32_t> count{0};
  } taker;
  Engine::Options options;
  options.core.self = {1, 1};
  options.core.wakes = wire::Wakes::all;
  const auto sender = open_engine(0);
  const auto receiver = open_engine(options);
  PeerId to = PeerId::none;
  PeerId from = PeerId::none;
  ASSERT_TRUE(add(*sender, *receiver, to) && add(*receiver, *sender, from));
  const int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ASSERT_GE(bell, 0);
  receiver->set_bell(bell, *receiver);

  const Time deadline = EnginePair::wall() + patience * 3;
  std::atomic<bool> over{false};
  std::thread stand_in([&] {
    while (!over) {
      pollfd rung{bell, POLLIN, 0};
      std::uint64_t rings = 0;
      if (::poll(&rung, 1, 10) <= 0 || ::read(bell, &rings, sizeof rings) < 0) continue;
      std::uint64_t visits = 0;
      std::uint64_t seen = receiver->visits_when_rung();
      for (; receiver->waits_for_application(visits) && !over; seen = visits) {
        if (visits == seen) receiver->stand_in(taker, visits, [](int count) { return count < 32; });
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
  });
  std::atomic<std::uint32_t> sent{0};
  std::atomic<bool> all_sent{false};
  std::thread source([&] {  // on a busy host until both have had a turn
    Collector nothing;
    for (; (sent < 4000 || !taker.by_both()) && EnginePair::wall() < deadline; ++sent) {
      send_number(*sender, to, 0, sent, nothing);
      if (sent % 10 == 0) sender->progress(nothing);
      if (sent % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    all_sent = true;
    while (!over) sender->progress(nothing);
    EXPECT_TRUE(sender->shutdown(nothing));
  });
  while ((!all_sent || taker.count < sent) && EnginePair::wall() < deadline) {
    for (const Time end = EnginePair::wall() + milliseconds(3); EnginePair::wall() < end;) {
      receiver->progress(taker);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  over = true;
  stand_in.join();
  source.join();
  EXPECT_TRUE(receiver->shutdown(taker));
  ::close(bell);
  ASSERT_EQ(taker.received.size(), sent);
  for (std::uint32_t i = 0; i < sent; ++i) ASSERT_EQ(taker.received[i].number, i);
  EXPECT_GT(taker.by_application, 0u);
  EXPECT_GT(taker.by_stand_in, 0u);
}

// ---- who is none of the job's ----

// A process of its own, with a device and a connection manager but no key.
class Intruder {
 public:
  Intruder() {
    std::string why;
    const auto port = verbs::choose_port({}, why);
    if (!port) throw std::runtime_error(why);
    device_ = verbs::Device::open(*port, why);
    if (device_) connections_ = verbs::Connections::listen(*device_, why);
    if (!connections_) throw std::runtime_error(why);
  }

  // Knocks, while the engine makes no call at all; the result.
  std::optional<wire::Reject> knock(const Engine& engine, const wire::Hello& hello) {
    const auto card = wire::decode_card(engine.card());
    if (!connections_->connect(LaneId{0}, *card, hello, 77)) return std::nullopt;
    const Time deadline = EnginePair::wall() + patience;
    while (EnginePair::wall() < deadline) {
      const auto event = connections_->next();
      if (!event) continue;
      connections_->drop(LaneId{0});
      if (event->kind == verbs::ConnectionEvent::Kind::rejected) return event->reject;
      return std::nullopt;
    }
    return std::nullopt;
  }

  // Asks, and does what it takes for the request to be on its way.
  bool ask(LaneId lane, const wire::Card& card, const wire::Hello& hello) {
    // The kernel takes a second request of one queue pair for a stale connection.
    const auto pair = 77 + static_cast<std::uint32_t>(lane);
    if (!connections_->connect(lane, card, hello, pair)) return false;
    const Time end = EnginePair::wall() + milliseconds(300);
    while (EnginePair::wall() < end) connections_->next();
    return true;
  }

 private:
  std::optional<verbs::Device> device_;
  std::unique_ptr<verbs::Connections> connections_;
};

// A process that gives up a request and asks again costs one queue pair, not two.
TEST(Engine, OfTwoRequestsOfAProcessOnlyTheNewerIsServed) {
  const std::unique_ptr<Engine> engine = open_engine(0);
  PeerId self;
  ASSERT_TRUE(add(*engine, *engine, self));
  Intruder other;
  const auto card = wire::decode_card(engine->card());
  wire::Hello hello{.from = {1, 9},
                    .to = {1, 0},
                    .buffer_bytes = engine->options().core.buffer_bytes,
                    .credits = 2,
                    .control_credits = 2,
                    .key = card->key};
  // The event thread waits for the lock, as it does while it makes queue pairs for others.
  std::atomic<bool> locked{false};
  std::atomic<bool> both_asked{false};
  std::thread holder([&] {
    engine->send_filled(self, 1, 1, [&](std::byte*) {
      locked = true;
      while (!both_asked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  });
  while (!locked) std::this_thread::yield();
  for (const std::uint32_t attempt : {1u, 2u}) {
    hello.attempt = attempt;
    EXPECT_TRUE(other.ask(LaneId{attempt}, *card, hello));
  }
  both_asked = true;
  holder.join();
  const Time deadline = EnginePair::wall() + patience;
  Counters counters = engine->snapshot();
  while (counters.connections_accepted == 0 && EnginePair::wall() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    counters = engine->snapshot();
  }
  EXPECT_EQ(counters.requests_stale, 1u);
  EXPECT_EQ(counters.connections_accepted, 1u);
}

// Five processes that keep two connections each, and all talk to all: idle ones end and come back,
// and every message arrives once and in order.
TEST(Engine, TwoConnectionsDoForFourPeers) {
  constexpr std::uint32_t processes = 5;
  constexpr std::uint32_t rounds = 12;
  std::vector<std::unique_ptr<Engine>> engines;
  std::array<Collector, processes> boxes;
  for (std::uint32_t rank = 0; rank < processes; ++rank) {
    Engine::Options options;
    options.core.self = {1, rank};
    options.core.connections_max = 2;
    engines.push_back(open_engine(options));
  }
  std::array<std::array<PeerId, processes>, processes> peers{};
  for (std::uint32_t from = 0; from < processes; ++from) {
    for (std::uint32_t to = 0; to < processes; ++to) {
      if (from == to) continue;
      ASSERT_TRUE(add(*engines[from], *engines[to], peers[from][to]));
    }
  }
  const auto progress = [&] {
    for (std::uint32_t i = 0; i < processes; ++i) engines[i]->progress(boxes[i]);
  };
  const Time deadline = EnginePair::wall() + patience;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::uint32_t from = 0; from < processes; ++from) {
      const std::uint32_t to = (from + 1 + round % (processes - 1)) % processes;
      const auto tag = static_cast<std::uint8_t>(from);
      send_number(*engines[from], peers[from][to], tag, round / (processes - 1), boxes[from]);
    }
    const std::size_t due = round + 1;
    while (EnginePair::wall() < deadline &&
           std::any_of(boxes.begin(), boxes.end(),
                       [&](const Collector& box) { return box.received.size() < due; })) {
      progress();
    }
  }
  std::uint64_t parted = 0;
  for (std::uint32_t i = 0; i < processes; ++i) {
    ASSERT_EQ(boxes[i].received.size(), rounds);
    std::array<std::uint32_t, processes> next{};
    for (const auto& [tag, number] : boxes[i].received) EXPECT_EQ(number, next[tag]++);
    const Counters counters = engines[i]->snapshot();
    parted += counters.connections_parted;
    // Each may have had to go beyond for a moment, not to keep what it does not use.
    EXPECT_LE(counters.connections_open, 4u);
  }
  EXPECT_GT(parted, processes);
  for (std::uint32_t i = 0; i < processes; ++i) EXPECT_TRUE(engines[i]->shutdown(boxes[i]));
}

// An engine that leaves very many peers, some dead, waits for them all at the same time.
TEST(Engine, PeersThatAreLeftTogetherShareOneDeadline) {
  Engine::Options options;
  options.core.self = {1, 0};
  options.core.window.max = 16;
  options.close_timeout = seconds(2);
  const std::unique_ptr<Engine> engine = open_engine(options);
  constexpr std::uint32_t stuck = 3;
  std::vector<std::unique_ptr<Engine>> others;
  std::vector<PeerId> peers(stuck + 1);
  Collector ours;
  for (std::uint32_t i = 0; i <= stuck; ++i) {
    options.core.self = {1, i + 1};
    others.push_back(open_engine(options));
    ASSERT_TRUE(add(*engine, *others[i], peers[i]));
    // More than there are credits for, except to the last one.
    const auto fill = [](std::byte*) {};
    for (std::uint32_t n = 0; n < (i < stuck ? 100u : 1u); ++n) {
      ASSERT_EQ(engine->send_filled(peers[i], engine->max_payload_bytes(), 1, fill), Status::ok);
    }
  }
  const Time begin = EnginePair::wall();
  EXPECT_EQ(engine->close(peers, ours), stuck);
  EXPECT_LT(EnginePair::wall() - begin, options.close_timeout * 2);
  Collector last;
  EXPECT_TRUE(engine->shutdown(last));
}

// Sends so many messages, each in a frame of its own, which has time to arrive.
void send_frames(Engine& engine, PeerId to, std::uint32_t count, Collector& collector) {
  for (std::uint32_t i = 0; i < count; ++i) {
    send_number(engine, to, 1, i, collector);
    const Time now = EnginePair::wall();
    const auto is_due = [&] {
      const Time later = EnginePair::wall();
      return later >= now + patience ||
             (later >= now + milliseconds(2) && engine.state(to) == PeerState::ready);
    };
    while (!is_due()) engine.progress(collector);
  }
}

// While a receiver computes, its event thread hears that receives run low.
TEST(Engine, TheWindowGrowsForAReceiverThatComputes) {
  Engine::Options options;
  options.core.self = {1, 0};
  options.core.window = {.initial = 16, .max = 64};
  const std::unique_ptr<Engine> receiver = open_engine(options);
  const std::unique_ptr<Engine> sender = open_engine(1);
  PeerId there;
  PeerId here;
  ASSERT_TRUE(add(*sender, *receiver, there) && add(*receiver, *sender, here));
  Collector box;
  send_frames(*sender, there, 10, box);
  const Time deadline = EnginePair::wall() + seconds(20);
  while (receiver->snapshot().srq_limit_events == 0 && EnginePair::wall() < deadline) {
    sender->progress(box);
  }
  EXPECT_GT(receiver->snapshot().srq_limit_events, 0u);
  EXPECT_GT(receiver->snapshot().window, 16u);
}

// Messages of a peer that is given up are in buffers that others need. Some adapters forget what a
// queue pair completed when they destroy it (tests/adapter).
TEST(Engine, AnUnreadPeerThatIsGivenUpTakesNoBuffersAlong) {
  constexpr std::uint32_t buffers = 16;
  constexpr std::uint32_t messages = 10;
  Engine::Options options;
  options.core.self = {1, 0};
  options.core.window = {.initial = buffers, .max = buffers};
  options.core.queue.signal_interval = 1;  // so that a sender hears of each frame
  options.close_timeout = {};
  const std::unique_ptr<Engine> engine = open_engine(options);
  Collector box;
  PeerId here;
  const auto send_some = [&](std::uint32_t rank) {
    options.core.self.rank = rank;
    std::unique_ptr<Engine> sender = open_engine(options);
    PeerId there;
    if (!add(*sender, *engine, there) || !add(*engine, *sender, here)) return sender;
    send_frames(*sender, there, messages, box);
    return sender;
  };
  for (std::uint32_t rank = 1; rank <= buffers; ++rank) {
    const std::unique_ptr<Engine> sender = send_some(rank);
    engine->close({&here, 1}, box);
    for (int i = 0; i < 3; ++i) engine->progress(box);  // what was read goes back
  }

  // There is still a buffer for each, though nobody reads.
  const std::unique_ptr<Engine> last = send_some(buffers + 1);
  const Time deadline = EnginePair::wall() + patience;
  while (last->remains().send_slots > 0 && EnginePair::wall() < deadline) last->progress(box);
  last->progress(box);  // were they given up, it says so
  if (last->remains().send_slots == 0) return;
  const std::uint64_t waited = last->remains().send_slots;
  const std::uint64_t posted = engine->snapshot().receives_posted;
  const Time later = EnginePair::wall() + seconds(2);
  while (EnginePair::wall() < later) engine->progress(box), last->progress(box);
  ADD_FAILURE() << waited << " messages waited, for " << posted
                << " receives. Once these were read, " << last->remains().send_slots << " wait; "
                << last->snapshot().connections_broken << " connections broke";
}

// Asks as other software would.
class Asker {
 public:
  // Asks whoever listens at `to`, with any private data, for a connection to queue pair `number`,
  // which answers so many reads. False if that cannot be asked.
  bool ask(sockaddr_storage to, std::span<const std::byte> data, std::uint8_t reads,
           std::uint32_t number) {
    rdma_cm_id* made = nullptr;
    if (rdma_create_id(channel_.get(), &made, nullptr, RDMA_PS_TCP) != 0) return false;
    id_.reset(made);
    if (rdma_resolve_addr(made, nullptr, reinterpret_cast<sockaddr*>(&to), 2000) != 0 ||
        !comes(RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(made, 2000) != 0 ||
        !comes(RDMA_CM_EVENT_ROUTE_RESOLVED)) {
      return false;
    }
    rdma_conn_param request{};
    request.private_data = data.data();
    request.private_data_len = static_cast<std::uint8_t>(data.size());
    request.responder_resources = reads;
    request.qp_num = number;
    return rdma_connect(made, &request) == 0;
  }
  // Waits for the next event, and says whether it is this one.
  bool comes(rdma_cm_event_type wanted) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_.get(), &event) != 0) return false;
    const bool is_it = event->event == wanted;
    rdma_ack_cm_event(event);
    return is_it;
  }

 private:
  template <typename T, auto destroy>
  using Owned = std::unique_ptr<T, verbs::Destroyer<destroy>>;
  Owned<rdma_event_channel, rdma_destroy_event_channel> channel_{rdma_create_event_channel()};
  Owned<rdma_cm_id, rdma_destroy_id> id_;
};

bool is_refused(const Engine& engine, std::span<const std::byte> data) {
  const auto card = wire::decode_card(engine.card());
  Asker asker;
  return asker.ask(verbs::make_address(card->address, card->port, engine.port().interface), data, 1,
                   99) &&
         asker.comes(RDMA_CM_EVENT_REJECTED);
}

// Two engines that talk, before, between and after the knocks.
struct Talking : testing::Test {
  Talking() : left(open_engine(0)), right(open_engine(1)) {
    add(*left, *right, to_right);
    PeerId to_left;
    add(*right, *left, to_left);
  }
  ~Talking() override {
    left->shutdown(collector);
    right->shutdown(collector);
  }

  void talk() {
    for (std::uint32_t i = 0; i < 20; ++i) send_number(*left, to_right, 1, sent++, collector);
    const Time deadline = EnginePair::wall() + patience;
    while (collector.received.size() < sent && EnginePair::wall() < deadline) {
      left->progress(collector);
      right->progress(collector);
    }
    ASSERT_EQ(collector.received.size(), sent);
  }

  // A hello as the left process would send it, except what the test changes.
  wire::Hello hello() const {
    return {.from = {1, 0},
            .to = {1, 1},
            .buffer_bytes = right->options().core.buffer_bytes,
            .credits = 8,
            .control_credits = 2,
            .key = wire::decode_card(right->card())->key,
            .attempt = UINT64_MAX};
  }

  std::unique_ptr<Engine> left;
  std::unique_ptr<Engine> right;
  PeerId to_right = PeerId::none;
  std::uint32_t sent = 0;
  Collector collector;
  Intruder intruder;
};

TEST_F(Talking, StrangersAreRefusedToldOfAndCostNothing) {
  talk();
  wire::Hello stale = hello();  // of a job before this one: the names fit, the key does not
  stale.key[3] ^= 0xff;
  EXPECT_EQ(intruder.knock(*right, stale), wire::Reject::stranger);
  wire::Hello lost = hello();  // looks for another process, at a port that is now ours
  lost.to = {1, 9};
  EXPECT_EQ(intruder.knock(*right, lost), wire::Reject::stranger);
  wire::Hello future = hello();
  future.protocol_min = future.protocol_max = wire::protocol_max + 1;
  EXPECT_EQ(intruder.knock(*right, future), wire::Reject::version);
  wire::Hello other_size = hello();
  other_size.buffer_bytes /= 2;
  EXPECT_EQ(intruder.knock(*right, other_size), wire::Reject::buffer);
  // It knows everything, and claims to be a process that is connected already.
  EXPECT_EQ(intruder.knock(*right, hello()), wire::Reject::crossed);
  talk();
  EXPECT_EQ(right->counters().requests_refused, 4u);
  ASSERT_EQ(collector.refusals.size(), 4u);
  EXPECT_EQ(collector.refusals[0].reason, wire::Reject::stranger);
  EXPECT_EQ(collector.refusals[0].from, (PeerName{1, 0}));
  EXPECT_NE(collector.refusals[0].address, "unknown");
  EXPECT_TRUE(collector.refusals[0].greeted);
  EXPECT_EQ(collector.refusals[2].reason, wire::Reject::version);
  EXPECT_EQ(right->counters().peer_failures, 0u);
}

// Private data of other software, or none.
TEST_F(Talking, GarbageIsRefused) {
  talk();
  const std::vector<std::byte> junk(56, std::byte{0xa5});
  for (const std::size_t size : {0u, 1u, 8u, 40u, 56u, 0u, 1u, 8u, 40u}) {
    EXPECT_TRUE(is_refused(*right, {junk.data(), size})) << size;
  }
  talk();
  EXPECT_EQ(right->counters().requests_refused, 9u);
  ASSERT_EQ(collector.refusals.size(), 8u) << "nobody reads a hundred of them";
  EXPECT_FALSE(collector.refusals[0].greeted);
  EXPECT_FALSE(collector.refusals[0].last);
  EXPECT_TRUE(collector.refusals[7].last);
}

// ---- what queue pairs are set to ----

struct QueuePairs : testing::Test {
  void SetUp() override {
    std::string why;
    const auto port = verbs::choose_port({}, why);
    ASSERT_TRUE(port) << why;
    device = verbs::Device::open(*port, why);
    ASSERT_TRUE(device) << why;
    queues = verbs::Queues::create(*device, 16, {}, why);
    ASSERT_NE(queues, nullptr) << why;
    for (const LaneId lane : {LaneId{0}, LaneId{1}}) {
      numbers[index(lane)] = queues->create_pair(lane, why);
      ASSERT_NE(numbers[index(lane)], 0u) << why;
    }
  }

  ibv_qp_attr settings(LaneId lane) const {
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(queues->pair(lane), &now,
                           IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_QP_RD_ATOMIC, &init),
              0);
    return now;
  }

  std::optional<verbs::Device> device;
  std::unique_ptr<verbs::Queues> queues;
  std::array<std::uint32_t, 2> numbers{};
};

TEST_F(QueuePairs, ThatAreUpAndThoseToComeGetANewRnrTimer) {
  constexpr std::uint8_t code = 20;  // 10.24 ms
  ASSERT_NE(verbs::QueuePairOptions{}.rnr_timer_code, code);
  ASSERT_TRUE(queues->connect_to_itself(LaneId{0}));
  EXPECT_EQ(settings(LaneId{0}).min_rnr_timer, verbs::QueuePairOptions{}.rnr_timer_code);
  queues->advertise_rnr_timer(code);
  ASSERT_TRUE(queues->connect_to_itself(LaneId{1}));
  EXPECT_EQ(settings(LaneId{1}).min_rnr_timer, code);
  EXPECT_NE(settings(LaneId{0}).min_rnr_timer, code);
  EXPECT_TRUE(queues->adjust_an_rnr_timer());  // of the one that has it
  EXPECT_NE(settings(LaneId{0}).min_rnr_timer, code);
  EXPECT_TRUE(queues->has_old_rnr_timers());
  std::string why;
  ASSERT_NE(queues->create_pair(LaneId{2}, why), 0u) << why;  // is not up, so it takes no timer yet
  queues->advertise_rnr_timer(code);
  EXPECT_TRUE(queues->adjust_an_rnr_timer());
  EXPECT_TRUE(queues->adjust_an_rnr_timer());
  EXPECT_EQ(settings(LaneId{0}).min_rnr_timer, code);
  EXPECT_FALSE(queues->has_old_rnr_timers());
}

// What the fabric's administrator wants holds for the first lane and for one beside it. (Soft-RoCE
// does not tell the service level: tests/adapter.)
TEST_F(QueuePairs, AllTakeTheTrafficClassThatIsSet) {
  std::string why;
  verbs::QueuePairOptions options;
  options.traffic_class = 104;
  options.pkey_index = device->pkey_index(0x7fff, why);
  ASSERT_EQ(options.pkey_index, 0) << why;  // Soft-RoCE has one, 0xffff
  queues = verbs::Queues::create(*device, 16, options, why);
  ASSERT_NE(queues, nullptr) << why;
  const std::uint32_t first = queues->create_pair(LaneId{0}, why);
  const std::uint32_t second = queues->create_second_pair(LaneId{1}, 16, why);
  ASSERT_TRUE(first != 0 && second != 0) << why;
  ASSERT_TRUE(queues->connect_to_itself(LaneId{0}));
  const wire::LaneEnd end{.qp_number = second, .psn = 7};
  ASSERT_TRUE(queues->connect_beside(LaneId{1}, LaneId{0}, end, end, 4));
  for (const LaneId lane : {LaneId{0}, LaneId{1}}) {
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(queues->pair(lane), &now, IBV_QP_AV | IBV_QP_PKEY_INDEX, &init), 0);
    EXPECT_EQ(now.ah_attr.grh.traffic_class, 104) << index(lane);
  }
}

TEST_F(QueuePairs, APartitionThatThePortLacksIsNamed) {
  std::string why;
  EXPECT_FALSE(device->pkey_index(0x8001, why));
  EXPECT_NE(why.find("no partition key 0x8001; it has 0xffff"), std::string::npos) << why;
}

// Up, with a full send queue, or never connected: what a pair had under way is over in a moment.
TEST_F(QueuePairs, ThatAreRetiredCompleteAllTheyHad) {
  for (const bool up : {true, false}) {
    const LaneId lane{up ? 0u : 1u};
    std::uint32_t posted = 0;
    if (up) {
      // To a queue pair that is not there: nothing of it completes before the adapter gives up.
      ASSERT_TRUE(queues->connect_on_port(lane, numbers[0] ^ 0x3ff000));
      WorkRequest probe{.id = 0,
                        .lane = lane,
                        .opcode = Opcode::probe,
                        .signalled = true,
                        .inlined = false,
                        .length_bytes = 0,
                        .lkey = 0,
                        .address = 0};
      while (posted < verbs::QueuePairOptions{}.send_depth) {
        ASSERT_TRUE(queues->post({&probe, 1}));
        probe.id = ++posted;
      }
    }
    const Time start = EnginePair::wall();
    std::uint64_t next = 0;
    const auto poll = [&] {
      return queues->poll(verbs::Queues::poll_most, [&](const Completion& completion) {
        EXPECT_EQ(completion.lane, lane);
        EXPECT_EQ(completion.id, next++);
        EXPECT_NE(completion.status, CompletionStatus::success);
      });
    };
    queues->retire_pair(lane);
    while (!queues->is_flushed() && EnginePair::wall() - start < seconds(5)) poll();
    EXPECT_EQ(next, posted);
    EXPECT_TRUE(queues->is_flushed());
    EXPECT_EQ(poll(), 0) << "the marker is nobody's";
    std::cout << posted << " work requests flushed in " << (EnginePair::wall() - start).ns / 1000
              << " us\n";
    queues->destroy_flushed();
    EXPECT_FALSE(queues->has_retired());
  }
}

// One that answers two reads, and one that answers more than we start.
TEST_F(QueuePairs, StartNoMoreReadsThanThePeersAdapterAnswers) {
  std::string why;
  const auto connections = verbs::Connections::listen(*device, why);
  ASSERT_NE(connections, nullptr) << why;
  connections->attach(queues.get());
  const verbs::PortChoice& port = device->port();
  const sockaddr_storage to =
      verbs::make_address(verbs::address_bytes(port.address), connections->port(), port.interface);
  const std::array answered{std::uint8_t{2}, std::uint8_t{100}};
  std::array<Asker, 2> askers;
  for (std::uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(askers[i].ask(to, wire::encode(wire::Hello{}), answered[i], 99 + i));
    const Time deadline = EnginePair::wall() + patience;
    std::optional<verbs::ConnectionEvent> request;
    while (!request && EnginePair::wall() < deadline) request = connections->next();
    ASSERT_TRUE(request);
    ASSERT_TRUE(connections->accept(request->request, LaneId{i}, {}, numbers[i]));
    EXPECT_EQ(settings(LaneId{i}).qp_state, IBV_QPS_RTS);
    EXPECT_EQ(settings(LaneId{i}).max_rd_atomic,
              std::min(answered[i], device->most_fetches_started()));
  }
}

}  // namespace
}  // namespace weir::contract
