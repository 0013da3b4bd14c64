// What a process says of a peer, and of what its frames wait for.
#include "base/peer_row.h"
#include "tests/unit/core/rig.h"

namespace weir::rig {
namespace {

TEST(CoreRow, SaysWhatTheFramesOfAPeerWaitFor) {
  Rig rig;
  const PeerId peer = rig.core.add_peer(other);
  const auto row = [&] { return rig.core.row(peer); };
  EXPECT_EQ(row().name, other);
  EXPECT_EQ(row().state, static_cast<std::uint8_t>(PeerState::idle));
  EXPECT_EQ(row().wait, PeerRow::Wait::nothing);

  ASSERT_EQ(rig.send(peer, 200), Status::ok);
  EXPECT_EQ(row().state, static_cast<std::uint8_t>(PeerState::connecting));
  EXPECT_EQ(row().wait, PeerRow::Wait::connection);
  EXPECT_EQ(row().frames_pending, 1u);

  const auto connects = rig.take_connects();
  ASSERT_EQ(connects.size(), 1u);
  rig.core.on_answer(rig.now, connects[0].lane, rig.answer(connects[0], 2), rig.out);
  rig.settle();
  EXPECT_EQ(row().state, static_cast<std::uint8_t>(PeerState::ready));
  EXPECT_EQ(row().wait, PeerRow::Wait::nothing);
  EXPECT_EQ(row().frames_sent, 1u);
  EXPECT_EQ(row().requests_out, 1u);
  EXPECT_EQ(row().credits, 1u);
  EXPECT_EQ(row().credits_out, rig.core.standing(peer).credits_out);

  // Large ones, that share no frame.
  for (int i = 0; i < 3; ++i) ASSERT_EQ(rig.send(peer, 600), Status::ok);
  rig.pump();
  EXPECT_EQ(row().credits, 0u);
  EXPECT_EQ(row().wait, PeerRow::Wait::credits);
  EXPECT_EQ(row().frames_pending, 2u);
  EXPECT_EQ(row().frames_sent, 2u);
}

}  // namespace
}  // namespace weir::rig
