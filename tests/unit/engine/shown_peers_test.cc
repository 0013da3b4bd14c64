// Which peers get a row where there are more peers than rows.
#include "transport/engine/shown_peers.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace weir {
namespace {

constexpr std::uint32_t rows = 4;

struct World {
  std::vector<PeerRow> peers;
  ShownPeers<rows> shown;
  std::uint32_t asked = 0;

  explicit World(std::uint32_t count) : peers(count) {
    for (std::uint32_t i = 0; i < count; ++i) peers[i].name = {7, i};
  }
  void connect(std::uint32_t i) { peers[i].state = static_cast<std::uint8_t>(PeerState::ready); }
  std::set<std::uint32_t> look() {
    asked = 0;
    std::set<std::uint32_t> ranks;
    const auto found =
        shown.look(static_cast<std::uint32_t>(peers.size()), [this](std::uint32_t i) {
          ++asked;
          return peers[i];
        });
    for (const PeerRow& row : found) {
      EXPECT_EQ(row, peers[row.name.rank]);
      EXPECT_TRUE(ranks.insert(row.name.rank).second);
    }
    return ranks;
  }
};

TEST(ShownPeers, OnlyThoseWithAConnectionAndFreshRows) {
  World world(3);
  EXPECT_TRUE(world.look().empty());
  world.connect(1);
  EXPECT_EQ(world.look(), (std::set<std::uint32_t>{1}));
  world.peers[1].credits = 5;  // `look` compares
  world.connect(2);
  EXPECT_EQ(world.look(), (std::set<std::uint32_t>{1, 2}));
  world.peers[1].state = static_cast<std::uint8_t>(PeerState::idle);
  EXPECT_EQ(world.look(), (std::set<std::uint32_t>{2}));
}

TEST(ShownPeers, OneThatWaitsTakesTheRowOfOneThatDoesNot) {
  World world(6);
  for (std::uint32_t i = 0; i < 6; ++i) world.connect(i);
  EXPECT_EQ(world.look(), (std::set<std::uint32_t>{0, 1, 2, 3}));
  world.peers[0].wait = world.peers[5].wait = PeerRow::Wait::credits;
  EXPECT_EQ(world.look(), (std::set<std::uint32_t>{0, 2, 3, 5}));
  for (PeerRow& peer : world.peers) peer.wait = PeerRow::Wait::tokens;
  const auto all_wait = world.look();
  EXPECT_EQ(world.look(), all_wait);  // no reason to change
}

TEST(ShownPeers, ALookCostsTheSameAmongThousandsAndFindsThemAll) {
  World world(5000);
  world.connect(4321);
  std::uint32_t looks = 0;
  while (world.look().empty()) {
    EXPECT_LE(world.asked, rows + ShownPeers<rows>::further);
    ASSERT_LE(++looks, 5000 / ShownPeers<rows>::further + 1);
  }
  EXPECT_EQ(world.look(), (std::set<std::uint32_t>{4321}));
}

TEST(PeerRow, IsTheSameAfterTheMemory) {
  const PeerRow row{.name = {0xfedcba98, 0x76543210},
                    .state = static_cast<std::uint8_t>(PeerState::failed),
                    .wait = PeerRow::Wait::queue,
                    .frames_sent = 0xffffffff,
                    .frames_received = 1,
                    .frames_pending = 2,
                    .requests_out = 3,
                    .credits = 0xffff,
                    .credits_out = 4,
                    .reads_out = 5,
                    .writes_out = 6};
  EXPECT_EQ(PeerRow::unpack(row.pack()), row);
  PeerRow many = row;
  many.credits = 0x10000;  // more than there is room for: its neighbours stay what they are
  EXPECT_EQ(PeerRow::unpack(many.pack()), row);
}

TEST(PeerRow, AnyWordsMakeOneThatCanBeShown) {
  PeerRow::Words words;
  words.fill(~std::uint64_t{0});
  EXPECT_EQ(PeerRow::unpack(words).wait, PeerRow::last_wait);
}

}  // namespace
}  // namespace weir
