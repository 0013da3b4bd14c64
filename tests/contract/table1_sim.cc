// The seven orderings of Table 1 [RDRP] on the simulated fabric: as little of MPI as they need,
// over weir. Short messages travel in frames; of long ones the receiver hears where they are, and
// gets them once a receive has met them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tests/mpi/table1.h"
#include "tools/sim/engine.h"

namespace weir::contract {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t eager_bytes = 1000;
constexpr std::size_t margin = 128;
constexpr std::byte canary{0xc5};
constexpr std::uint32_t chunk = 16 << 10;

class Process : public sim::Upcalls {
 public:
  struct Receive {
    int tag;
    std::size_t room;
    Bytes buffer;  // and a margin behind it
    int met = -1;  // the tag of the message
    std::uint64_t length = 0;
    bool done = false;
  };

  Process(sim::Fabric& fabric, sim::Connections& connections, sim::Node node)
      : engine_(fabric, connections, node, config(node)) {
    peer_ = engine_.add_peer({1, 1 - node}, 1 - node);
    engine_.expect_peers(1);
  }

  // `content` has to stay where it is.
  void send(int tag, const Bytes& content) {
    Header header{Header::Kind::eager, tag, content.size(), 0, 0};
    if (content.size() <= eager_bytes) {
      ++sends_;
      return post(header, content.data(), content.size());
    }
    header.kind = Header::Kind::announced;
    header.address = reinterpret_cast<std::uint64_t>(content.data());
    header.rkey =
        engine_.nic().register_memory(header.address, content.size(), Access::remote_read);
    post(header, nullptr, 0);
  }

  Receive& receive(int tag, std::size_t room) {
    Receive& receive = receives_.emplace_back(Receive{tag, room, Bytes(room + margin, canary)});
    const auto found = std::find_if(unexpected_.begin(), unexpected_.end(),
                                    [&](const auto& one) { return fits(receive, one.header.tag); });
    if (found == unexpected_.end()) {
      posted_.push_back(&receive);
    } else {
      const Message message = std::move(*found);
      unexpected_.erase(found);
      meet(receive, message.header, message.content.data());
    }
    return receive;
  }

  void progress() { engine_.progress(*this); }
  std::size_t sends() const { return sends_; }  // that are over for the sender
  std::size_t unexpected() const { return unexpected_.size(); }
  const Core& core() const { return engine_.core(); }

  void on_message(const Delivery& delivery) override {
    Header header;
    std::memcpy(&header, delivery.payload, sizeof header);
    const std::byte* const content = delivery.payload + sizeof header;
    if (header.kind == Header::Kind::fetched) {
      engine_.nic().deregister_memory(header.rkey);
      ++sends_;
    } else {
      const auto found = std::find_if(posted_.begin(), posted_.end(),
                                      [&](const Receive* one) { return fits(*one, header.tag); });
      if (found == posted_.end()) {
        const std::size_t inside = header.kind == Header::Kind::eager ? header.length : 0;
        unexpected_.push_back({header, Bytes(content, content + inside)});
      } else {
        Receive& receive = **found;
        posted_.erase(found);
        meet(receive, header, content);
      }
    }
    if (delivery.last) engine_.release(delivery.buffer);
  }
  void on_retired(SendSlot* slot, bool) override { engine_.discard(slot); }
  void on_failure(const Failure&) override { ADD_FAILURE() << "a peer was given up"; }
  void on_transfer(const TransferEnd& end) override {
    EXPECT_TRUE(end.ok);
    Fetch& fetch = fetches_.at(end.token);
    EXPECT_FALSE(fetch.receive->done);
    fetch.receive->done = true;
    post({Header::Kind::fetched, 0, 0, 0, fetch.rkey}, nullptr, 0);
  }

 private:
  struct Header {
    enum class Kind : std::uint32_t { eager, announced, fetched } kind;
    int tag;
    std::uint64_t length;
    std::uint64_t address;
    std::uint32_t rkey;
  };
  struct Message {
    Header header;
    Bytes content;
  };
  struct Fetch {
    Receive* receive;
    std::uint32_t rkey;
  };

  static sim::Engine::Config config(sim::Node node) {
    sim::Engine::Config config;
    config.core.self = {1, node};
    config.core.buffer_bytes = 2048;
    config.core.transfers.plan = {.chunk_bytes = chunk, .max_message_bytes = chunk + 1000};
    return config;
  }

  static bool fits(const Receive& receive, int tag) {
    return receive.tag == kAny || receive.tag == tag;
  }

  void post(const Header& header, const std::byte* content, std::size_t bytes) {
    const auto size = static_cast<std::uint32_t>(sizeof header + bytes);
    SendSlot* const slot = engine_.acquire(size);
    std::memcpy(slot->payload(), &header, sizeof header);
    if (bytes > 0) std::memcpy(slot->payload() + sizeof header, content, bytes);
    ASSERT_EQ(engine_.send(peer_, slot, size, 1, true), Status::ok);
  }

  // A receive that is too short takes as much as it has room for.
  void meet(Receive& receive, const Header& header, const std::byte* content) {
    receive.met = header.tag;
    receive.length = header.length;
    const std::size_t bytes = std::min<std::size_t>(header.length, receive.room);
    if (header.kind == Header::Kind::eager) {
      if (bytes > 0) std::memcpy(receive.buffer.data(), content, bytes);
      receive.done = true;
      return;
    }
    fetches_.push_back({&receive, header.rkey});
    engine_.transfer({.kind = TransferKind::get,
                      .peer = peer_,
                      .remote_address = header.address,
                      .local_address = reinterpret_cast<std::uint64_t>(receive.buffer.data()),
                      .length_bytes = bytes,
                      .rkey = header.rkey,
                      .token = fetches_.size() - 1});
  }

  sim::Engine engine_;
  PeerId peer_;
  std::deque<Receive> receives_;
  std::deque<Receive*> posted_;
  std::deque<Message> unexpected_;
  std::deque<Fetch> fetches_;  // by token
  std::size_t sends_ = 0;
};

// A sender and a receiver in a world of their own.
class Table1 {
 public:
  ~Table1() {
    for (const std::string& text : fabric_.violations) ADD_FAILURE() << text;
    for (const Process* process : {&sender, &receiver}) {
      EXPECT_TRUE(process->core().conserved());
      EXPECT_FALSE(process->core().has_transfers());
    }
  }

  template <typename Done>
  void run_until(Done&& done) {
    const Time deadline = fabric_.events.now() + seconds(5);
    while (!done()) {
      ASSERT_LT(fabric_.events.now(), deadline);
      sender.progress();
      receiver.progress();
      fabric_.events.run_until(fabric_.events.now() + microseconds(1));
    }
  }

  // The next message: any content.
  const Bytes& send(int tag, std::size_t length) {
    Bytes content(length);
    std::uint64_t state = sent_.size() * 0x9e3779b97f4a7c15ull + length;
    for (std::byte& byte : content) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      byte = static_cast<std::byte>(state >> 56);
    }
    sender.send(tag, sent_.emplace_back(std::move(content)));
    return sent_.back();
  }

  // All that was sent has been taken, or lies in frames.
  void finish() {
    run_until([&] { return sender.sends() == sent_.size(); });
  }

  static void expect(const Process::Receive& receive, int tag, const Bytes& content) {
    EXPECT_TRUE(receive.done);
    EXPECT_EQ(receive.met, tag);
    EXPECT_EQ(receive.length, content.size());
    const auto taken = static_cast<std::ptrdiff_t>(std::min(content.size(), receive.room));
    EXPECT_TRUE(std::equal(content.begin(), content.begin() + taken, receive.buffer.begin()));
    EXPECT_TRUE(std::all_of(receive.buffer.begin() + taken, receive.buffer.end(),
                            [](std::byte byte) { return byte == canary; }));
  }

 private:
  sim::Fabric fabric_{{}, {}, 1};
  sim::Connections connections_{fabric_};
  std::deque<Bytes> sent_;

 public:
  Process sender{fabric_, connections_, 0};
  Process receiver{fabric_, connections_, 1};
};

// Nothing; in a frame; whole chunks; not whole ones; longer than the longest work request.
constexpr std::size_t lengths[] = {0, eager_bytes, 2 * chunk, 2 * chunk + 1, 10 * chunk - 7};

void one_row(const Row& row, bool expected, std::size_t first, std::size_t second) {
  SCOPED_TRACE(std::string(row.name) + (expected ? ", expected, " : ", unexpected, ") +
               std::to_string(first) + " and " + std::to_string(second) + " bytes");
  Table1 world;
  const std::size_t room = std::max(first, second) + margin;  // every receive is longer
  Process::Receive* receives[2];
  const auto post_receives = [&] {
    for (int r : {0, 1}) receives[r] = &world.receiver.receive(row.receive[r], room);
  };
  if (expected) post_receives();
  const Bytes* const sent[2] = {&world.send(kTag1, first), &world.send(kTag2, second)};
  if (!expected) {
    world.run_until([&] { return world.receiver.unexpected() == 2; });
    post_receives();
  }
  for (int s : {0, 1}) {
    const int tag = s == 0 ? kTag1 : kTag2;
    const Process::Receive* receive = nullptr;
    if (row.match[s] >= 0) {
      receive = receives[row.match[s]];
    } else {  // the second receive waits for something else
      world.run_until([&] { return world.receiver.unexpected() == 1; });
      EXPECT_EQ(receives[1]->met, -1);
      receive = &world.receiver.receive(tag, room);
    }
    world.run_until([&] { return receive->done; });
    world.expect(*receive, tag, *sent[s]);
  }
  world.finish();
}

TEST(Table1Sim, SendsMeetReceivesInMpisOrder) {
  for (const Row& row : kTable1) {
    for (const bool expected : {true, false}) {
      for (const std::size_t first : lengths) {
        for (const std::size_t second : lengths) one_row(row, expected, first, second);
      }
    }
  }
}

// Many with one envelope, short and long by turns: none overtakes another.
TEST(Table1Sim, IdenticalSendsKeepTheirOrder) {
  constexpr std::size_t count = 20;
  for (const bool expected : {true, false}) {
    for (const int tag : {kTag1, kAny}) {
      Table1 world;
      std::vector<Process::Receive*> receives;
      const auto post_receives = [&] {
        for (std::size_t i = 0; i < count; ++i) {
          receives.push_back(&world.receiver.receive(tag, lengths[4] + margin));
        }
      };
      if (expected) post_receives();
      std::vector<const Bytes*> sent;
      for (std::size_t i = 0; i < count; ++i) sent.push_back(&world.send(kTag1, lengths[i % 5]));
      if (!expected) {
        world.run_until([&] { return world.receiver.unexpected() == count; });
        post_receives();
      }
      world.finish();
      for (std::size_t i = 0; i < count; ++i) world.expect(*receives[i], kTag1, *sent[i]);
    }
  }
}

// What is too long is cut off: not one byte lands behind the buffer.
TEST(Table1Sim, ShortReceivesTakeWhatTheyHaveRoomFor) {
  for (const bool expected : {true, false}) {
    for (const std::size_t length : lengths) {
      for (const std::size_t room :
           {std::size_t{0}, length / 3, length - std::min<std::size_t>(1, length)}) {
        Table1 world;
        Process::Receive* receive = nullptr;
        if (expected) receive = &world.receiver.receive(kTag1, room);
        const Bytes& sent = world.send(kTag1, length);
        if (!expected) {
          world.run_until([&] { return world.receiver.unexpected() == 1; });
          receive = &world.receiver.receive(kTag1, room);
        }
        world.run_until([&] { return receive->done; });
        world.expect(*receive, kTag1, sent);
        world.finish();
      }
    }
  }
}

}  // namespace
}  // namespace weir::contract
