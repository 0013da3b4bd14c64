// The connector's table, row by row. That each event has a rule in each state, and one, is checked
// when it is compiled.
#include "transport/core/connector_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/core/rig.h"
#include "tests/unit/core/rooms.h"

namespace weir {
namespace {

// What the explorer cannot take is taken by some test in this program, if all of them ran; and what
// nobody can cause, by none.
class EveryRuleIsTaken : public testing::Environment {
  void TearDown() override {
    if (testing::GTEST_FLAG(filter) != "*") return;
    for (std::size_t i = 0; i < connection_table::count; ++i) {
      const ConnectionRule& rule = connection_table::rules[i];
      const bool taken = rig::rules_taken()[i];
      const std::string text = std::string(to_text(rule.event)) + ": " + to_text(rule.action);
      if (rule.action == ConnectionAction::impossible) {
        EXPECT_FALSE(taken) << text;
      } else if (rule.reach == ConnectionRule::Reach::unit) {
        EXPECT_TRUE(taken) << "no test takes rule " << i << ", " << text;
      }
    }
  }
};
const auto* const every_rule = testing::AddGlobalTestEnvironment(new EveryRuleIsTaken);

TEST(ConnectorTable, HasEachEventAndActionByItsName) {
  std::set<std::string> events;
  std::set<std::string> actions;
  std::set<std::string> states;
  for (const ConnectionRule& rule : connection_table::rules) {
    events.insert(to_text(rule.event));
    actions.insert(to_text(rule.action));
  }
  for (unsigned i = 0; i < peer_states; ++i) states.insert(name_of(static_cast<PeerState>(i)));
  EXPECT_EQ(events.size(), connection_events);
  EXPECT_EQ(actions.size(), static_cast<std::size_t>(ConnectionAction::finish) + 1);
  EXPECT_EQ(states.size(), peer_states);
  EXPECT_STREQ(to_text(ConnectionEvent::fail), "fail");
  EXPECT_STREQ(to_text(ConnectionAction::finish), "finish");
  EXPECT_STREQ(name_of(PeerState::left), "left");
}

// A lane that may have carried frames is fenced by whatever ends it, and what is being fenced is
// not touched.
TEST(ConnectorTable, WhatIsBeingFencedEndsOnce) {
  using enum ConnectionAction;
  const std::set<ConnectionAction> harmless = {ignore,          impossible,       out_of_turn,
                                               refuse_crossed,  refuse_closing,   refuse_over,
                                               note_failure,    hold_once_fenced, leave_once_fenced,
                                               ask_once_fenced, stay_in_vain};
  for (std::size_t event = 0; event < connection_events; ++event) {
    const auto which = static_cast<ConnectionEvent>(event);
    if (which == ConnectionEvent::fenced || which == ConnectionEvent::fenced_in_doubt) continue;
    for (unsigned state = 0; state < peer_states; ++state) {
      if (!any_broken.has(static_cast<PeerState>(state))) continue;
      const std::uint8_t rule = connection_table::rule_of[event][state];
      EXPECT_EQ(harmless.count(connection_table::rules[rule].action), 1u) << to_text(which);
    }
  }
}

// ---- what comes late, twice or out of turn ----

using rig::other;
using rig::Rooms;

// Sessions outlast their connections.
CoreConfig lasting() {
  CoreConfig config = rig::small_config();
  config.resumes = config.among_rails = true;
  return config;
}

wire::Hello hello_from(const Rooms& rooms, PeerName name, std::uint64_t attempt) {
  return {.from = name,
          .to = rooms.config.self,
          .buffer_bytes = rooms.config.buffer_bytes,
          .credits = 4,
          .control_credits = 2,
          .key = rooms.config.key,
          .attempt = attempt};
}

// The lane broke, and is not fenced yet.
Peer& break_lane(Rooms& rooms) {
  Peer& peer = rooms.connect(other, 4);
  rooms.connector.on_lane_error(rooms.now, peer.connection.lane(), rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::broken_ask);
  return peer;
}

void carry_out_fence(Rooms& rooms, Peer& peer) {
  const Lane& lane = rooms.lanes[peer.connection.lane()];
  rooms.lanes.close_fenced(
      peer.connection.lane(), [](SendSlot*) {}, [](const RdmaInFlight&) {});
  rooms.connector.on_fenced(rooms.now, peer, lane, true, rooms.out);
}

TEST(ConnectorLate, NewsOfAnAttemptThatIsSettledIsLeft) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 4);
  const LaneId lane = peer.connection.lane();
  Connector& connector = rooms.connector;
  connector.on_answer(rooms.now, lane, hello_from(rooms, other, 1), rooms.out);
  for (const auto reason : {wire::Reject::crossed, wire::Reject::closing, wire::Reject::over}) {
    connector.on_rejected(rooms.now, lane, reason, rooms.out);
  }
  connector.on_connect_failed(rooms.now, lane, FailReason::no_resources, rooms.out);
  EXPECT_TRUE(peer.connection.is_ready());
  EXPECT_TRUE(rooms.out.failures.empty());
}

TEST(ConnectorLate, ARefusalForGoodIsFinal) {
  Rooms rooms;
  Peer& peer = rooms.add(other);
  rooms.connector.connect(rooms.now, peer, rooms.out);
  rooms.connector.on_rejected(rooms.now, peer.connection.lane(), wire::Reject::version, rooms.out);
  ASSERT_EQ(rooms.out.failures.size(), 1u);
  EXPECT_EQ(rooms.out.failures[0].reason, FailReason::rejected_version);
  rooms.connector.on_goodbye(rooms.now, peer, rooms.out);  // of a frame that confirmed in vain
  EXPECT_EQ(peer.connection.state(), PeerState::failed);
}

TEST(ConnectorLate, AnAcceptanceThatIsDisconnectedIsFenced) {
  Rooms rooms;
  Peer& peer = rooms.add(other);
  rooms.connector.on_request(rooms.now, RequestId{1}, hello_from(rooms, other, 1), rooms.out);
  rooms.connector.on_disconnected(rooms.now, peer.connection.lane(), rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::broken_end);
  carry_out_fence(rooms, peer);
  EXPECT_EQ(peer.connection.state(), PeerState::closed);
}

TEST(ConnectorLate, WhoBeginsAnewIsToldThatWeTakeUpASession) {
  Rooms rooms(lasting());
  Peer& peer = break_lane(rooms);
  carry_out_fence(rooms, peer);
  rooms.take_connects();
  rooms.connector.on_request(rooms.now, RequestId{1}, hello_from(rooms, other, 1), rooms.out);
  const auto connects = rooms.take_connects();
  ASSERT_EQ(connects.size(), 1u);
  EXPECT_EQ(connects[0].reason, wire::Reject::crossed);
}

TEST(ConnectorLate, AHoldIsForOnceItIsFenced) {
  Rooms rooms(lasting());
  Peer& peer = break_lane(rooms);
  EXPECT_TRUE(rooms.connector.hold(rooms.now, peer, false, rooms.out));
  rooms.connector.let_go(rooms.now, peer, rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::broken_ask);
  EXPECT_TRUE(rooms.connector.hold(rooms.now, peer, false, rooms.out));
  carry_out_fence(rooms, peer);
  EXPECT_EQ(peer.connection.state(), PeerState::held);
  rooms.now = rooms.now + rooms.config.attempt_timeout / 2;
  EXPECT_TRUE(rooms.connector.hold(rooms.now, peer, false, rooms.out));
  EXPECT_EQ(rooms.connector.next_deadline(), rooms.now + rooms.config.attempt_timeout);
}

TEST(ConnectorLate, WhatIsAbandonedWhileItIsFencedEndsThen) {
  Rooms rooms(lasting());
  Peer& peer = break_lane(rooms);
  rooms.connector.abandon(rooms.now, peer, rooms.out);
  rooms.connector.fail(rooms.now, peer, FailReason::bad_frame, rooms.out);
  carry_out_fence(rooms, peer);
  EXPECT_EQ(peer.connection.state(), PeerState::closed);
  EXPECT_TRUE(rooms.out.failures.empty());
}

TEST(ConnectorLate, AGoodbyeWaitsForASlot) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 4);
  while (rooms.sender.send_stay(peer, rooms.out)) continue;
  const auto stays = rooms.take_work();
  rooms.connector.close(rooms.now, peer, rooms.out);
  rooms.connector.close(rooms.now, peer, rooms.out);
  rooms.connector.go_on_ending(rooms.now, peer, rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::closing);
  for (const WorkRequest& work : stays) rooms.retire(work);
  rooms.connector.go_on_ending(rooms.now, peer, rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::said);
  rooms.connector.fail(rooms.now, peer, FailReason::stalled, rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::closed);
  EXPECT_TRUE(rooms.out.failures.empty());
}

TEST(ConnectorLate, WhoLeavesWhileAConnectionPartsWaitsForThat) {
  Rooms rooms;
  Peer& peer = rooms.connect(other, 4);
  EXPECT_TRUE(rooms.connector.on_part(rooms.now, peer, rooms.out));
  EXPECT_EQ(peer.connection.state(), PeerState::parted);
  rooms.connector.close(rooms.now, peer, rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::parted);
  for (const WorkRequest& work : rooms.take_work()) rooms.retire(work);
  rooms.connector.close(rooms.now, peer, rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::idle);
}

// A port that goes down, or a receive that fails, as well as a send.
TEST(ConnectorLate, NothingThatBreaksAfterTheGoodbyeIsAFailure) {
  Rooms rooms(lasting());
  Peer& peer = rooms.connect(other, 4);
  rooms.connector.on_goodbye(rooms.now, peer, rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::left);
  const Failure why{peer.id, FailReason::port_down, CompletionStatus::success, {}, {}};
  rooms.connector.on_lane_lost(rooms.now, peer, why, rooms.out);
  EXPECT_EQ(peer.connection.state(), PeerState::closed);
  EXPECT_TRUE(rooms.out.failures.empty());
}

}  // namespace
}  // namespace weir
