// Gets that are divided among rails, with rails that lose what they have.
#include "transport/rail/divisions.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/unit/rail/units.h"

namespace weir {
namespace {

using Next = Divisions::Next;
constexpr std::uint64_t least = 65536;
const Time now = Time{} + seconds(1);

TransferRequest get(std::uint64_t bytes, std::uint64_t token) {
  return {.remote_address = 1 << 30, .local_address = 1 << 20, .length_bytes = bytes, .token = token};
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

}  // namespace
}  // namespace weir
