#include "transport/lane/assembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "transport/lane/train.h"

namespace weir {
namespace {

using Took = Assembly::Took;
constexpr std::uint32_t usual = 1000, most = 4000, room = 8, frame_bytes = 116;

using Bytes = std::vector<std::byte>;

Bytes message_of(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  std::mt19937 random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::vector<Bytes> cars_of(const Bytes& message, std::uint32_t number) {
  const Train train(number, static_cast<std::uint32_t>(message.size()), 65, 14, frame_bytes);
  std::vector<Bytes> cars;
  for (std::uint32_t i = 0; i < train.cars(); ++i) {
    Bytes car(frame_bytes);
    car.resize(train.write_car(i, car.data(), [&](std::byte* to, std::size_t at, std::size_t size) {
      std::copy_n(message.data() + at, size, to);
    }));
    cars.push_back(car);
  }
  return cars;
}

TEST(Assembly, TrainsOfManyPeersInAnyOrder) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Assembly assembly(usual, most, room);
    std::mt19937 random(seed);
    struct Car {
      std::uint32_t from, train;
      Bytes bytes;
    };
    std::vector<Car> all;
    std::vector<Bytes> messages;
    for (std::uint32_t train = 0; train < 60; ++train) {
      messages.push_back(message_of(14 + random() % (most - 14), train));
      const std::uint32_t from = train % 20 * 64;  // all in one chain
      for (Bytes& car : cars_of(messages.back(), train)) all.push_back({from, train, car});
    }
    std::shuffle(all.begin(), all.end(), random);
    std::size_t whole_ones = 0;
    for (const Car& car : all) {
      Assembly::Whole whole;
      const Took took = assembly.take(car.from, car.bytes.data(), car.bytes.size(), whole);
      ASSERT_TRUE(took == Took::part || took == Took::whole);
      if (took == Took::part) continue;
      ++whole_ones;
      EXPECT_EQ(Bytes(whole.bytes, whole.bytes + whole.length_bytes), messages[car.train]);
      EXPECT_EQ(whole.tag, 65);
      EXPECT_EQ(whole.lead_bytes, 14);
      std::fill_n(whole.bytes - room, room, std::byte{1});  // it is the caller's
      assembly.give_back(whole);
    }
    EXPECT_EQ(whole_ones, messages.size()) << "seed " << seed;
    EXPECT_EQ(assembly.bytes(), 0u);
  }
}

TEST(Assembly, RefusesWhatNoCorrectPeerSends) {
  const Bytes message = message_of(250, 1);
  const std::vector<Bytes> good = cars_of(message, 7);
  const auto refused_after = [&](const std::vector<Bytes>& before, const Bytes& car) {
    Assembly assembly(usual, most, room);
    Assembly::Whole whole;
    for (const Bytes& one : before) assembly.take(1, one.data(), one.size(), whole);
    return assembly.take(1, car.data(), car.size(), whole) == Took::bad;
  };
  const auto changed = [&](auto&& change) {
    Bytes car = good[1];
    wire::Car header = *wire::get_car(car.data(), car.size());
    change(header);
    wire::put(car.data(), header);
    return car;
  };
  EXPECT_FALSE(refused_after({good[0]}, good[1]));
  EXPECT_TRUE(refused_after({good[0]}, good[0])) << "twice";
  EXPECT_TRUE(refused_after({good[0]}, changed([](wire::Car& car) { ++car.length_bytes; })));
  EXPECT_TRUE(refused_after({good[0]}, changed([](wire::Car& car) { ++car.tag; })));
  EXPECT_TRUE(refused_after({good[0]}, changed([](wire::Car& car) { ++car.count; })));
  EXPECT_TRUE(refused_after({}, changed([](wire::Car& car) { car.offset = 151; }))) << "beyond";
  EXPECT_TRUE(refused_after({}, changed([](wire::Car& car) { car.offset = 0xffffffff; })));
  EXPECT_TRUE(refused_after({}, changed([](wire::Car& car) { car.number = car.count; })));
  EXPECT_TRUE(refused_after({}, changed([](wire::Car& car) { car.count = 65; })));
  EXPECT_TRUE(refused_after({}, changed([](wire::Car& car) { car.tag = wire::car_tag; })));
  EXPECT_TRUE(refused_after({}, changed([](wire::Car& car) { car.length_bytes = most + 1; })));
  EXPECT_TRUE(refused_after({}, Bytes(wire::car_header_bytes))) << "no payload";
  EXPECT_TRUE(refused_after({}, Bytes(5)));
}

TEST(Assembly, APeerHasFewHalfMessagesAndLosesThemWhenItIsGone) {
  Assembly assembly(usual, most, room);
  Assembly::Whole whole;
  std::uint32_t train = 0;
  const auto begin = [&](std::uint32_t from) {
    const Bytes car = cars_of(message_of(250, 1), train++)[0];
    return assembly.take(from, car.data(), car.size(), whole);
  };
  for (std::size_t i = 0; i < Assembly::most_of_a_peer; ++i) EXPECT_EQ(begin(1), Took::part);
  EXPECT_EQ(begin(1), Took::bad);
  EXPECT_EQ(begin(65), Took::part) << "another peer, in the same chain";
  assembly.forget(1);
  EXPECT_EQ(assembly.bytes(), usual);
  EXPECT_EQ(begin(1), Took::part);
}

}  // namespace
}  // namespace weir
