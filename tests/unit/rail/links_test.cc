// Over which rail a frame goes, by what is known of the rails.
#include "transport/rail/links.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace weir {
namespace {

// Nobody to exchange anything with.
struct NoWays {
  std::optional<std::uint32_t> hold(std::size_t, Handover::Hold) { return std::nullopt; }
  std::optional<std::uint32_t> received_before_end(std::size_t) { return std::nullopt; }
  bool give_away(std::size_t, std::uint32_t) { return false; }
  void let_go(std::size_t) {}
  bool send(std::size_t, const HandoverMessage&) { return false; }
};

struct LinksTest : ::testing::Test {
  void hear(std::size_t rail, LinkNews::Kind kind) {
    links.on_news(rail, LinkNews{.kind = kind}, NoWays{});
  }
  // The rails that are tried, until `taker` takes the frame.
  std::vector<std::size_t> tried(std::size_t taker, std::size_t turn = 0) {
    std::vector<std::size_t> rails;
    links.send(3, turn, [&](std::size_t rail) {
      rails.push_back(rail);
      return rail == taker ? Status::ok : Status::elsewhere;
    });
    return rails;
  }

  using Rails = std::vector<std::size_t>;
  using Kind = LinkNews::Kind;
  Links links;
};

TEST_F(LinksTest, TheFirstRailMakesItsConnectionForAFrame) {
  EXPECT_EQ(tried(0), Rails({0}));
  EXPECT_EQ(tried(9), Rails({0, 1, 2})) << "the others if that takes none";
}

TEST_F(LinksTest, RailsWithAConnectionComeFirstAndThoseThatBrokeLast) {
  hear(0, Kind::up);
  hear(2, Kind::up);
  EXPECT_EQ(tried(9), Rails({0, 2, 1}));
  EXPECT_EQ(tried(9, 2), Rails({2, 0, 1})) << "in turn";
  hear(0, Kind::down);
  EXPECT_EQ(tried(9), Rails({2, 0, 1}));
  hear(0, Kind::out);
  hear(0, Kind::waited);
  EXPECT_EQ(tried(9), Rails({2, 0, 1})) << "it is not back yet";
  hear(0, Kind::up);
  EXPECT_EQ(tried(9), Rails({0, 2, 1}));
}

TEST_F(LinksTest, OneThatWasGivenUpIsLostUntilItIsThereAgain) {
  hear(0, Kind::up);
  hear(0, Kind::over);
  EXPECT_TRUE(links.is_lost(0));
  EXPECT_TRUE(links.is_down(0));
  hear(0, Kind::up);
  EXPECT_FALSE(links.is_lost(0));
  EXPECT_FALSE(links.is_down(0));
}

TEST_F(LinksTest, OneThatPartedIsNeitherThereNorBroken) {
  for (const Kind before : {Kind::up, Kind::down}) {
    hear(0, before);
    hear(0, Kind::parted);
    EXPECT_FALSE(links.is_up(0));
    EXPECT_FALSE(links.is_down(0));
    EXPECT_EQ(tried(0), Rails({0}));
  }
}

TEST_F(LinksTest, WhatCarriedFramesIsToldOnce) {
  hear(1, Kind::up);
  tried(1);
  EXPECT_TRUE(links.take_carried(1));
  EXPECT_FALSE(links.take_carried(1));
  EXPECT_FALSE(links.take_carried(0));
}

}  // namespace
}  // namespace weir
