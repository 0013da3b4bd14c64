// Frames and puts that go over another rail when theirs breaks: two processes with sessions as the
// core keeps them, over rails that break at either end at any moment.
#include "transport/rail/handover.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace weir {
namespace {

// What is sent: a message of the application with a number, or one of the handover.
struct Message {
  int number = -1;
  HandoverMessage handover{};
};

// Two processes. A session's frames are numbered; what a connection has under way is delivered in
// order while both ends believe in it, and lost when one of them breaks it. A message of the handover
// is a control frame: it is not sent again. But what was put may arrive as long as the target's end is
// there, however long the other one has been gone. Each process puts one value after the other, the
// next one when the last one is acknowledged.
class World {
 public:
  World(std::uint32_t seed, std::size_t rails) : random_(seed), count_(rails) {
    for (std::size_t who : {0u, 1u}) ends_[who].handover.set_first(who == 0);
    for (std::size_t rail = 0; rail < count_; ++rail) resume(rail);
  }

  void step() {
    const std::size_t who = draw(2);
    const std::size_t rail = draw(count_);
    switch (draw(14)) {
      case 0: case 1: case 2: return send(who);
      case 3: return break_end(who, rail);
      case 4: return resume(rail);
      case 5: return begin_put(who);
      case 6: return land_one();
      case 7: return wait(who, rail);
      default: return deliver(who, rail);
    }
  }

  // All rails work from now on.
  void settle() {
    for (int i = 0; i < 2000; ++i) {
      for (std::size_t rail = 0; rail < count_; ++rail) {
        const bool half = end(0, rail).up != end(1, rail).up;
        if (half) break_end(end(0, rail).up ? 0 : 1, rail);
        resume(rail);
        deliver(0, rail);
        deliver(1, rail);
        land_one();
        if (i % 50 == 0) wait(draw(2), rail);
      }
    }
  }

  void check() {
    for (std::size_t who : {0u, 1u}) {
      EXPECT_EQ(ends_[who].sent, static_cast<int>(ends_[1 - who].got.size())) << "from " << who;
      for (std::size_t rail = 0; rail < count_; ++rail) {
        EXPECT_TRUE(end(who, rail).up) << who << " " << rail;
        EXPECT_FALSE(end(who, rail).held);
      }
      EXPECT_EQ(ends_[who].put.stage, Put::Stage::none) << "a put of " << who << " never ends";
    }
  }
  int moved() const { return moved_; }
  int puts_moved() const { return puts_moved_; }

 private:
  struct Session {
    bool up = false;
    int connection = 0;
    bool held = false;
    bool moved = false;
    std::deque<Message> unsure;   // posted, and not known to have arrived
    std::deque<Message> pending;  // not posted
    std::uint32_t next = 0;       // the number of the next one to be posted
    std::uint32_t received = 0;
    std::size_t under_way = 0;    // of the unsure ones, by the connection
  };
  struct Put {
    enum class Stage { none, waits, under_way, in_doubt } stage = Stage::none;
    std::size_t rail = 0;
    int value = 0;
    int acknowledged = 0;
  };
  struct Packet {
    std::size_t from, rail;
    int connection;
    int value;
  };
  struct End {
    Handover handover;
    Put put;
    std::array<Session, most_rails> sessions;
    int sent = 0;
    std::set<int> got;
    std::deque<std::pair<LinkNews::Kind, std::size_t>> news;
  };

  struct Ways {
    World& world;
    std::size_t who;

    std::optional<std::uint32_t> hold(std::size_t rail, Handover::Hold how) {
      Session& session = world.end(who, rail);
      if (session.up && how == Handover::Hold::if_broken) return std::nullopt;
      if (session.up) world.cut(who, rail);
      session.held = true;
      return session.received;
    }
    std::optional<std::uint32_t> received_before_end(std::size_t) { return std::nullopt; }
    bool give_away(std::size_t rail, std::uint32_t received) {
      Session& session = world.end(who, rail);
      if (!session.held) return false;
      world.learn(session, received);
      session.moved = true;
      ++world.moved_;
      Put& put = world.ends_[who].put;
      if (put.stage == Put::Stage::in_doubt && put.rail == rail) {
        ++world.puts_moved_;
        world.put_over(who, world.first_up(who));
      }
      while (!session.pending.empty()) {
        const Message message = session.pending.front();
        session.pending.pop_front();
        EXPECT_TRUE(message.number < 0 || world.post(who, message));
      }
      return true;
    }
    void let_go(std::size_t rail) { world.end(who, rail).held = false; }
    bool send(std::size_t over, const HandoverMessage& message) {
      Session& session = world.end(who, over);
      if (!session.up || world.draw(16) == 0) return false;
      session.pending.push_back({-1, message});
      world.flush(session);
      return true;
    }
  };

  std::size_t draw(std::size_t below) { return random_() % below; }
  Session& end(std::size_t who, std::size_t rail) { return ends_[who].sessions[rail]; }

  void flush(Session& session) {
    if (!session.up) return;
    for (; !session.pending.empty(); session.pending.pop_front()) {
      session.unsure.push_back(session.pending.front());
      ++session.next;
      ++session.under_way;
    }
  }

  // Over the first rail that takes it.
  bool post(std::size_t who, const Message& message) {
    for (bool up : {true, false}) {
      for (std::size_t rail = 0; rail < count_; ++rail) {
        Session& session = end(who, rail);
        if (session.up != up || (!up && session.moved)) continue;
        session.pending.push_back(message);
        flush(session);
        return true;
      }
    }
    return false;
  }

  void send(std::size_t who) {
    ASSERT_TRUE(post(who, {ends_[who].sent, {}}));
    ++ends_[who].sent;
  }

  void deliver(std::size_t who, std::size_t rail) {
    while (!ends_[who].news.empty() && draw(4) != 0) tell(who);
    Session& from = end(1 - who, rail);
    Session& to = end(who, rail);
    if (!from.up || !to.up || from.under_way == 0) return;
    const Message message = from.unsure[from.unsure.size() - from.under_way];
    --from.under_way;
    ++to.received;
    // Sometimes the acknowledgement comes at once.
    if (from.under_way + 1 == from.unsure.size() && draw(2) == 0) from.unsure.pop_front();
    if (message.number < 0) {
      ends_[who].handover.on_message(message.handover, rail, Ways{*this, who});
    } else {
      EXPECT_TRUE(ends_[who].got.insert(message.number).second) << message.number << " came twice";
    }
  }

  // ---- puts ----

  void begin_put(std::size_t who) {
    Put& put = ends_[who].put;
    if (put.stage != Put::Stage::none) return;
    ++put.value;
    put_over(who, first_up(who));
  }
  std::size_t first_up(std::size_t who) {
    std::size_t rail = 0;
    while (rail < count_ && !end(who, rail).up) ++rail;
    return rail;
  }
  // Waits for one, if that is none.
  void put_over(std::size_t who, std::size_t rail) {
    Put& put = ends_[who].put;
    put.stage = rail < count_ ? Put::Stage::under_way : Put::Stage::waits;
    put.rail = rail;
    if (rail < count_) packets_.push_back({who, rail, end(who, rail).connection, put.value});
  }
  void land_one() {
    if (packets_.empty()) return;
    const std::size_t which = draw(packets_.size());
    const Packet packet = packets_[which];
    packets_.erase(packets_.begin() + static_cast<std::ptrdiff_t>(which));
    const Session& there = end(1 - packet.from, packet.rail);
    if (!there.up || there.connection != packet.connection) return;
    Put& put = ends_[packet.from].put;
    EXPECT_GT(packet.value, put.acknowledged) << "a late packet overwrites what came after";
    const Session& here = end(packet.from, packet.rail);
    if (!here.up || here.connection != packet.connection) return;
    put.acknowledged = packet.value;
    put.stage = Put::Stage::none;
  }

  void tell(std::size_t who) {
    const auto [news, rail] = ends_[who].news.front();
    ends_[who].news.pop_front();
    ends_[who].handover.on_news(rail, news, Ways{*this, who});
  }

  // So long as an attempt at a connection takes.
  void wait(std::size_t who, std::size_t rail) {
    Session& session = end(who, rail);
    if (session.up) return;
    const bool was_held = std::exchange(session.held, false);
    ends_[who].news.emplace_back(was_held ? LinkNews::Kind::waited : LinkNews::Kind::out, rail);
  }

  // The peer's end still believes in the connection.
  void cut(std::size_t who, std::size_t rail) {
    Session& session = end(who, rail);
    session.up = false;
    session.under_way = 0;
    end(1 - who, rail).under_way = 0;
    Put& put = ends_[who].put;
    if (put.stage == Put::Stage::under_way && put.rail == rail) put.stage = Put::Stage::in_doubt;
    ends_[who].news.emplace_back(LinkNews::Kind::down, rail);
  }
  void break_end(std::size_t who, std::size_t rail) {
    if (end(who, rail).up) cut(who, rail);
  }

  void learn(Session& session, std::uint32_t received) {
    const auto in_doubt = static_cast<std::uint32_t>(session.unsure.size());
    const std::uint32_t arrived = received - (session.next - in_doubt);
    ASSERT_LE(arrived, in_doubt);
    session.unsure.erase(session.unsure.begin(), session.unsure.begin() + arrived);
    for (; !session.unsure.empty(); session.unsure.pop_back()) {
      if (session.unsure.back().number >= 0) session.pending.push_front(session.unsure.back());
    }
    session.next = received;
  }

  void resume(std::size_t rail) {
    Session& a = end(0, rail);
    Session& b = end(1, rail);
    if (a.up || b.up || a.held || b.held) return;
    learn(a, b.received);
    learn(b, a.received);
    for (std::size_t who : {0u, 1u}) {
      Session& session = end(who, rail);
      session.up = true;
      session.moved = false;
      session.under_way = 0;
      ++session.connection;
      ends_[who].news.emplace_back(LinkNews::Kind::up, rail);
      flush(session);
      const Put& put = ends_[who].put;
      const bool its = put.stage == Put::Stage::in_doubt && put.rail == rail;
      if (its || put.stage == Put::Stage::waits) put_over(who, rail);
    }
  }

  std::mt19937 random_;
  std::size_t count_;
  std::array<End, 2> ends_;
  std::vector<Packet> packets_;
  int moved_ = 0;
  int puts_moved_ = 0;
};

TEST(Handover, EveryFrameArrivesOnceWhateverBreaksAndNoPutComesLate) {
  int moved = 0;
  int puts_moved = 0;
  for (std::uint32_t seed = 0; seed < 10000; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, 2 + seed % 3);
    for (int i = 0; i < 400; ++i) world.step();
    world.settle();
    world.check();
    moved += world.moved();
    puts_moved += world.puts_moved();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(moved, 10000);
  EXPECT_GT(puts_moved, 1000);
}

// One whose sessions are empty, and whose messages wait until somebody takes them.
struct Asker {
  std::optional<std::uint32_t> hold(std::size_t, Handover::Hold) { return 0; }
  std::optional<std::uint32_t> received_before_end(std::size_t) { return std::nullopt; }
  bool give_away(std::size_t, std::uint32_t) { return gave = true; }
  void let_go(std::size_t) {}
  bool send(std::size_t, const HandoverMessage& message) {
    sent.push_back(message);
    return true;
  }

  Handover handover{};
  bool gave = false;
  std::deque<HandoverMessage> sent{};
};

TEST(Handover, OfTwoThatAskAtTheSameTimeOneAnswers) {
  std::array<Asker, 2> both;
  both[0].handover.set_first(true);
  for (Asker& one : both) {
    for (std::size_t rail : {0u, 1u}) one.handover.on_news(rail, LinkNews::Kind::up, one);
    one.handover.on_news(0, LinkNews::Kind::down, one);
    ASSERT_EQ(one.sent.size(), 1u);
  }
  while (!both[0].sent.empty() || !both[1].sent.empty()) {
    for (std::size_t who : {0u, 1u}) {
      std::deque<HandoverMessage>& sent = both[who].sent;
      if (sent.empty()) continue;
      const HandoverMessage message = sent.front();
      sent.pop_front();
      both[1 - who].handover.on_message(message, 1, both[1 - who]);
    }
  }
  EXPECT_TRUE(both[0].gave && both[1].gave);
}

}  // namespace
}  // namespace weir
