// Gets that are divided among rails, with rails that lose what they have.
#include "transport/rail/divisions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "tests/unit/rail/units.h"

namespace weir {
namespace {

using Next = Divisions::Next;
constexpr std::uint64_t least = 65536;
const Time now = Time{} + seconds(1);

TransferRequest get(std::uint64_t bytes, std::uint64_t token) {
  return {
      .remote_address = 1 << 30, .local_address = 1 << 20, .length_bytes = bytes, .token = token};
}

TEST(Divisions, TheLastPartEndsTheWhole) {
  Divisions divisions;
  const auto parts = divisions.begin(now, get(MiB, 7), {RailLoad{1, 0}, {1, 0}}, least);
  ASSERT_NE(parts[0], nullptr);
  ASSERT_NE(parts[1], nullptr);
  EXPECT_EQ(parts[0]->request().length_bytes, MiB / 2);
  EXPECT_EQ(parts[1]->request().local_address, (1 << 20) + MiB / 2);
  EXPECT_EQ(parts[1]->request().remote_address, (1 << 30) + MiB / 2);
  EXPECT_EQ(divisions.end(now, *parts[1], true, 0).next, Next::going);
  const auto outcome = divisions.end(now, *parts[0], true, 0);
  EXPECT_EQ(outcome.next, Next::over);
  EXPECT_EQ(outcome.token, 7u);
  EXPECT_TRUE(outcome.ok);
  EXPECT_EQ(divisions.parts_out(), 0u);
}

TEST(Divisions, WhatAFurtherRailLosesGoesOverTheFirst) {
  Divisions divisions;
  const auto parts = divisions.begin(now, get(MiB, 7), {RailLoad{1, 0}, {1, 0}}, least);
  EXPECT_EQ(divisions.end(now, *parts[1], false, 0).next, Next::again);
  EXPECT_EQ(parts[1]->rail(), 0u);
  EXPECT_EQ(divisions.meter(0).waiting_bytes(), MiB);
  EXPECT_EQ(divisions.meter(1).waiting_bytes(), 0u);
  EXPECT_EQ(divisions.end(now, *parts[0], true, 0).next, Next::going);
  EXPECT_TRUE(divisions.end(now, *parts[1], true, 0).ok);
}

TEST(Divisions, WhatTheFirstRailLosesGoesOverAnother) {
  Divisions divisions;
  const auto parts =
      divisions.begin(now, get(MiB, 7), {RailLoad{1, 0}, {1, 0}}, least, {RailKey{}, {5, 6}});
  EXPECT_TRUE(parts[0]->may_use(1));
  EXPECT_FALSE(parts[0]->may_use(2));
  EXPECT_TRUE(parts[0]->request().movable);
  EXPECT_EQ(divisions.end(now, *parts[0], false, 1).next, Next::again);
  EXPECT_EQ(parts[0]->rail(), 1u);
  EXPECT_EQ(parts[0]->request().lkey, 5u);
  EXPECT_EQ(parts[0]->request().rkey, 6u);
  EXPECT_EQ(divisions.end(now, *parts[1], true, 0).next, Next::going);
  EXPECT_TRUE(divisions.end(now, *parts[0], true, 0).ok);
}

TEST(Divisions, NobodyWaitsAtTheEnd) {
  Divisions divisions;
  const auto parts = divisions.begin(now, get(MiB, 7), {RailLoad{}, {1, 0}}, least);
  EXPECT_EQ(parts[0], nullptr);
  const auto outcome = divisions.end(now, *parts[1], false, std::nullopt);
  EXPECT_EQ(outcome.next, Next::over);
  EXPECT_FALSE(outcome.ok);
}

// Every byte comes once, every whole ends once, whatever is lost and in whatever order parts end.
TEST(Divisions, EveryByteComesOnceWhateverIsLost) {
  struct Message {
    std::map<std::uint64_t, std::uint64_t> came;  // from and length
    std::uint64_t length = 0;
    int ends = 0;
    bool ok = false;
    bool lost = false;  // the first rail lost something
  };
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    Divisions divisions;
    std::vector<Message> messages(1 + random() % 30);
    std::vector<Divisions::Part*> under_way;
    std::size_t next = 0;
    Time at = now;
    while (next < messages.size() || !under_way.empty()) {
      at = at + microseconds(static_cast<std::int64_t>(random() % 1000));
      if (next < messages.size() && (under_way.empty() || random() % 2 == 0)) {
        Message& message = messages[next];
        message.length = 1 + random() % (8 * MiB);
        RailLoads loads;
        for (RailLoad& load : loads) load.rate = static_cast<double>(random() % 4);
        for (auto* part : divisions.begin(at, get(message.length, next), loads, least)) {
          if (part != nullptr) under_way.push_back(part);
        }
        ++next;
        continue;
      }
      const std::size_t which = random() % under_way.size();
      Divisions::Part& part = *under_way[which];
      const TransferRequest request = part.request();
      const std::size_t rail = part.rail();
      const bool ok = random() % 100 >= (rail == 0 ? 2u : 25u);
      Message& message = messages[request.token];
      const std::uint64_t from = request.local_address - (1 << 20);
      EXPECT_EQ(request.remote_address - (1 << 30), from);
      if (ok) {
        EXPECT_TRUE(message.came.emplace(from, request.length_bytes).second);
      }
      // Sometimes nobody waits for it.
      const bool waits = random() % 20 != 0;
      message.lost = message.lost || (!ok && !waits);
      const auto other = waits ? std::optional<std::size_t>(random() % most_rails) : std::nullopt;
      const auto outcome = divisions.end(at, part, ok, other);
      EXPECT_EQ(outcome.next == Next::again, !ok && waits);
      if (outcome.next == Next::again) {
        EXPECT_EQ(part.rail(), *other);
      }
      if (outcome.next == Next::again) continue;
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
      if (outcome.next != Next::over) continue;
      EXPECT_EQ(outcome.token, request.token);
      ++message.ends;
      message.ok = outcome.ok;
    }
    for (const Message& message : messages) {
      ASSERT_EQ(message.ends, 1) << "seed " << seed;
      ASSERT_EQ(message.ok, !message.lost) << "seed " << seed;
      if (!message.ok) continue;
      std::uint64_t end = 0;
      for (const auto& [from, length] : message.came) {
        ASSERT_EQ(from, end) << "seed " << seed;
        end += length;
      }
      ASSERT_EQ(end, message.length) << "seed " << seed;
    }
    EXPECT_EQ(divisions.parts_out(), 0u);
    for (std::size_t rail = 0; rail < most_rails; ++rail) {
      EXPECT_EQ(divisions.meter(rail).waiting_bytes(), 0u);
    }
  }
}

// ---- reads before and behind the parts of windows ----

constexpr std::uint8_t all_fenced = 0b1110;

TransferRequest write(std::uint64_t bytes, std::uint64_t token) {
  TransferRequest request = get(bytes, token);
  request.kind = TransferKind::put;
  request.opcode = Opcode::write;
  return request;
}

const RailKeys some_keys{RailKey{}, {5, 6}, {7, 8}, {9, 10}};

TEST(Divisions, APutOverAFurtherRailGoesInThreeSteps) {
  Divisions divisions;
  const auto parts = divisions.begin(now, write(MiB, 7), {RailLoad{1, 0}, {1, 0}}, least, some_keys,
                                     {all_fenced, true});
  EXPECT_EQ(parts[0]->step(), Divisions::Step::bytes);
  EXPECT_FALSE(Divisions::go_on(*parts[0]));
  Divisions::Part& part = *parts[1];
  EXPECT_EQ(part.step(), Divisions::Step::ahead);
  EXPECT_EQ(part.over(), 0u);
  TransferRequest step = part.request();
  EXPECT_EQ(step.opcode, Opcode::read);
  EXPECT_EQ(step.kind, TransferKind::get);
  EXPECT_EQ(step.length_bytes, 1u);
  EXPECT_EQ(step.rkey, 0u) << "the first rail's";
  ASSERT_TRUE(Divisions::go_on(part));
  step = part.request();
  EXPECT_EQ(step.opcode, Opcode::write);
  EXPECT_EQ(step.rkey, 6u);
  EXPECT_EQ(step.length_bytes, MiB / 2);
  ASSERT_TRUE(Divisions::go_on(part));
  EXPECT_EQ(part.over(), 1u);
  step = part.request();
  EXPECT_EQ(step.opcode, Opcode::read);
  EXPECT_EQ(step.rkey, 6u);
  EXPECT_EQ(step.remote_address, (1 << 30) + MiB - 1);
  EXPECT_FALSE(Divisions::go_on(part));
  EXPECT_EQ(divisions.end(now, part, true, 0).next, Next::going);
  EXPECT_EQ(divisions.end(now, *parts[0], true, 0).next, Next::over);
}

TEST(Divisions, AllStepsAreDoneAgainOverAnotherRail) {
  Divisions divisions;
  const auto parts = divisions.begin(now, write(MiB, 7), {RailLoad{}, {1, 0}}, least, some_keys,
                                     {all_fenced, true});
  Divisions::Part& part = *parts[1];
  Divisions::go_on(part);
  Divisions::go_on(part);
  EXPECT_EQ(divisions.end(now, part, false, 2, true).next, Next::again);
  EXPECT_EQ(part.step(), Divisions::Step::ahead);
  EXPECT_EQ(divisions.meter(2).waiting_bytes(), MiB);
  EXPECT_EQ(divisions.end(now, part, false, 3, false).next, Next::again);
  EXPECT_EQ(part.step(), Divisions::Step::bytes) << "the first rail is broken";
  EXPECT_EQ(divisions.end(now, part, false, 0, true).next, Next::again);
  EXPECT_EQ(part.step(), Divisions::Step::bytes) << "the first rail needs no reads";
  EXPECT_FALSE(Divisions::go_on(part));
  EXPECT_TRUE(divisions.end(now, part, true, 0).ok);
  for (std::size_t rail = 0; rail < most_rails; ++rail) {
    EXPECT_EQ(divisions.meter(rail).waiting_bytes(), 0u);
  }
}

// The target's memory, and adapters that have acknowledged writes before they are there. Each has
// its own way to memory, on which order is kept; a read goes that way, too, and so does a message.
class Target {
 public:
  explicit Target(std::uint64_t seed) : random_(seed) {}

  void write(std::size_t adapter, std::uint64_t from, std::uint64_t bytes, int value) {
    on_the_way_[adapter].push_back({from, bytes, value});
  }
  std::vector<int> read(std::size_t adapter, std::uint64_t from, std::uint64_t bytes) {
    land(adapter, on_the_way_[adapter].size());
    return {memory.begin() + static_cast<std::ptrdiff_t>(from),
            memory.begin() + static_cast<std::ptrdiff_t>(from + bytes)};
  }
  void some_time_passes() {
    const std::size_t adapter = random_() % on_the_way_.size();
    if (!on_the_way_[adapter].empty()) land(adapter, random_() % 2);
  }

  std::vector<int> memory = std::vector<int>(64);

 private:
  struct Write {
    std::uint64_t from, bytes;
    int value;
  };
  void land(std::size_t adapter, std::size_t count) {
    std::deque<Write>& writes = on_the_way_[adapter];
    for (; count > 0; --count) {
      const Write write = writes.front();
      writes.pop_front();
      std::fill_n(memory.begin() + static_cast<std::ptrdiff_t>(write.from), write.bytes,
                  write.value);
    }
  }
  std::mt19937_64 random_;
  std::array<std::deque<Write>, most_rails> on_the_way_;
};

// Puts, gets and messages one after the other, of two processes that tell each other by messages:
// what was put is there for whoever hears of it, and stays until something else is put.
int wrong_bytes(std::uint64_t seed, std::uint8_t fenced) {
  std::mt19937_64 random(seed);
  Target target(seed);
  Divisions divisions;
  std::vector<int> expected = target.memory;
  int wrong = 0;
  for (int value = 1; value <= 40; ++value) {
    const std::uint64_t from = random() % 64;
    const std::uint64_t bytes = 1 + random() % (64 - from);
    const bool puts = random() % 2 == 0;
    TransferRequest request = puts ? write(bytes, 1) : get(bytes, 1);
    request.remote_address = request.local_address = from;
    RailLoads loads{};
    for (RailLoad& load : loads) load.rate = static_cast<double>(random() % 3);
    std::vector<Divisions::Part*> under_way;
    for (auto* part : divisions.begin(now, request, loads, 1, some_keys, {fenced, true})) {
      if (part != nullptr) under_way.push_back(part);
    }
    while (!under_way.empty()) {
      target.some_time_passes();
      const std::size_t which = random() % under_way.size();
      Divisions::Part& part = *under_way[which];
      const TransferRequest step = part.request();
      if (step.opcode == Opcode::write) {
        target.write(part.over(), step.remote_address, step.length_bytes, value);
      } else {
        const auto got = target.read(part.over(), step.remote_address, step.length_bytes);
        const auto at = expected.begin() + static_cast<std::ptrdiff_t>(step.remote_address);
        if (part.step() == Divisions::Step::bytes)
          wrong += std::equal(got.begin(), got.end(), at) ? 0 : 1;
      }
      if (random() % 8 == 0) {  // lost, once both ends have let go of the connection
        const std::size_t adapter = part.over();
        target.read(adapter, 0, 1);
        divisions.end(now, part, false, random() % most_rails);
      } else if (!Divisions::go_on(part)) {
        divisions.end(now, part, true, 0);
        under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
    if (puts) std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(from), bytes, value);
    if (random() % 2 == 0) wrong += target.read(0, 0, 64) == expected ? 0 : 1;  // a message came
  }
  return wrong;
}

TEST(Divisions, WhatWasPutIsThereForWhoeverHearsOfIt) {
  int without = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    EXPECT_EQ(wrong_bytes(seed, all_fenced), 0) << "seed " << seed;
    without += wrong_bytes(seed, 0) > 0 ? 1 : 0;
  }
  EXPECT_GT(without, 100) << "these adapters need no reads";
}

}  // namespace
}  // namespace weir
