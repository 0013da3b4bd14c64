// RDMA on real queue pairs: two pairs of one process, connected as processes are, and one that is
// connected to itself. That work requests become the right `ibv_*` calls, and that the adapter does
// with them what the simulated one does.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "transport/verbs/addresses.h"
#include "transport/verbs/choose_ports.h"
#include "transport/verbs/connections.h"
#include "transport/verbs/device.h"
#include "transport/verbs/queues.h"

namespace weir::verbs {
namespace {

using Clock = std::chrono::steady_clock;
using Statuses = std::vector<CompletionStatus>;
using enum CompletionStatus;

constexpr std::chrono::seconds patience{20};
constexpr LaneId left{0};
constexpr LaneId right{1};

Device open_device() {
  std::string why;
  const auto port = choose_port({}, why);
  if (!port) throw std::runtime_error(why);
  std::optional<Device> device = Device::open(*port, why);
  if (!device) throw std::runtime_error(why);
  return std::move(*device);
}

// Registered with all rights that peers can have, or with fewer.
class Memory {
 public:
  Memory(const Device& device, std::size_t bytes,
         int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                      IBV_ACCESS_REMOTE_ATOMIC)
      : words(bytes / 8), mr_(ibv_reg_mr(device.pd(), words.data(), bytes, access)) {
    if (!mr_) throw std::runtime_error(std::string("ibv_reg_mr: ") + std::strerror(errno));
  }
  std::uint64_t address(std::size_t word = 0) const {
    return reinterpret_cast<std::uint64_t>(words.data() + word);
  }
  std::uint32_t lkey() const { return mr_->lkey; }
  std::uint32_t rkey() const { return mr_->rkey; }

  std::vector<std::uint64_t> words;

 private:
  std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>> mr_;
};

class RdmaTest : public testing::Test {
 protected:
  RdmaTest() : device(open_device()), ours(device, memory_bytes), theirs(device, memory_bytes) {
    std::string why;
    queues = Queues::create(device, 16, {}, why);
    if (queues == nullptr) throw std::runtime_error(why);
    for (std::size_t i = 0; i < theirs.words.size(); ++i) theirs.words[i] = 1000 + i;
  }

  std::uint32_t make_pair(LaneId lane) {
    std::string why;
    const std::uint32_t number = queues->create_pair(lane, why);
    if (number == 0) throw std::runtime_error(why);
    return number;
  }

  // Of who listens at this port of our own address.
  wire::Card card_of(std::uint16_t port) const {
    return {.port = port, .address = address_bytes(device.port().address)};
  }

  WorkRequest work(Opcode opcode, std::uint32_t bytes) {
    return {next_id++,   left,           opcode,           true,         false, bytes,
            ours.lkey(), ours.address(), theirs.address(), theirs.rkey()};
  }
  void post(const WorkRequest& request) { ASSERT_TRUE(queues->post({&request, 1})); }

  void post_receive() {
    const ReceivePost receive{BufferId{0}, 4096, ours.lkey(), ours.address(1024)};
    ASSERT_TRUE(queues->post({&receive, 1}));
  }

  // The next so many completions, or those that come in time.
  std::vector<Completion> wait(std::size_t count, Clock::duration time = patience) {
    std::vector<Completion> done;
    const Clock::time_point deadline = Clock::now() + time;
    while (done.size() < count && Clock::now() < deadline) {
      std::array<Completion, 16> some;
      const int polled = queues->poll(some);
      if (polled < 0) throw std::runtime_error("the completion queue is broken");
      done.insert(done.end(), some.begin(), some.begin() + polled);
    }
    return done;
  }
  Statuses statuses(std::size_t count) {
    Statuses out;
    for (const Completion& completion : wait(count)) out.push_back(completion.status);
    return out;
  }
  ibv_qp_attr settings(LaneId lane) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(
        ibv_query_qp(queues->pair(lane), &attributes,
                     IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init),
        0);
    return attributes;
  }

  static constexpr std::size_t memory_bytes = 1 << 18;
  const wire::Hello hello{.from = {1, 0}, .to = {1, 1}, .buffer_bytes = 4096};

  Device device;
  Memory ours;
  Memory theirs;
  std::unique_ptr<Queues> queues;
  std::uint64_t next_id = 0;
};

// Left and right, by the connection manager.
class RdmaPairTest : public RdmaTest {
 protected:
  RdmaPairTest() {
    std::string why;
    connections = Connections::listen(device, why);
    if (connections == nullptr) throw std::runtime_error(why);
    connections->attach(queues.get());
    if (!connections->connect(left, card_of(connections->port()), hello, make_pair(left))) {
      throw std::runtime_error("cannot connect");
    }
    const std::uint32_t other = make_pair(right);
    bool answered = false;
    bool established = false;
    const Clock::time_point deadline = Clock::now() + patience;
    while (!(answered && established)) {
      if (Clock::now() > deadline) throw std::runtime_error("the connection takes too long");
      const auto event = connections->next();
      if (!event) continue;
      using Kind = ConnectionEvent::Kind;
      if (event->kind == Kind::request) {
        if (!connections->accept(event->request, right, hello, other)) {
          throw std::runtime_error("the connection cannot be accepted");
        }
      } else if (event->kind == Kind::answer) {
        answered = true;
      } else if (event->kind == Kind::established) {
        established = true;
      } else {
        throw std::runtime_error("the connection failed");
      }
    }
  }
  ~RdmaPairTest() override {
    connections->drop(left);
    connections->drop(right);
  }

  // Whatever right posts is flushed.
  void expect_right_is_broken() {
    WorkRequest request = work(Opcode::write, 0);
    request.lane = right;
    post(request);
    const auto done = wait(1);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].lane, right);
    EXPECT_EQ(done[0].status, wr_flush_err);
  }

  // What is posted behind it is flushed, and no memory changes.
  void expect_a_bad_key_breaks_both_ends(Opcode opcode) {
    WorkRequest bad = work(opcode, 8);
    bad.rkey ^= 0xff;
    bad.operand = 1;
    post(bad);
    post(work(Opcode::read, 8));
    EXPECT_EQ(statuses(2), (Statuses{rem_access_err, wr_flush_err}));
    EXPECT_EQ(ours.words[0], 0u);
    EXPECT_EQ(theirs.words[0], 1000u);
    expect_right_is_broken();
  }

  std::unique_ptr<Connections> connections;
};

TEST_F(RdmaPairTest, Reads) {
  WorkRequest request = work(Opcode::read, 100000);
  request.address = ours.address(3);
  request.remote_address = theirs.address(5);
  post(request);
  const auto done = wait(1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, success);
  EXPECT_EQ(done[0].opcode, Opcode::send);
  EXPECT_EQ(done[0].lane, left);
  EXPECT_EQ(done[0].id, request.id);
  EXPECT_EQ(ours.words[2], 0u);
  for (std::size_t i = 0; i < 12500; ++i) ASSERT_EQ(ours.words[3 + i], 1005 + i);
  EXPECT_EQ(ours.words[12503], 0u);
}

TEST_F(RdmaPairTest, Writes) {
  for (std::size_t i = 0; i < ours.words.size(); ++i) ours.words[i] = 7 * i;
  WorkRequest request = work(Opcode::write, 100000);
  request.address = ours.address(3);
  request.remote_address = theirs.address(5);
  post(request);
  EXPECT_EQ(statuses(1), Statuses{success});
  EXPECT_EQ(theirs.words[4], 1004u);
  for (std::size_t i = 0; i < 12500; ++i) ASSERT_EQ(theirs.words[5 + i], 7 * (3 + i));
  EXPECT_EQ(theirs.words[12505], 1000u + 12505);
}

TEST_F(RdmaPairTest, WritesInline) {
  std::array<std::uint64_t, 2> values{11, 22};
  WorkRequest request = work(Opcode::write, sizeof values);
  request.inlined = true;
  request.lkey = 0;
  request.address = reinterpret_cast<std::uint64_t>(values.data());
  post(request);
  values = {};
  EXPECT_EQ(statuses(1), Statuses{success});
  EXPECT_EQ(theirs.words[0], 11u);
  EXPECT_EQ(theirs.words[1], 22u);
}

TEST_F(RdmaPairTest, FetchesAndAdds) {
  WorkRequest request = work(Opcode::fetch_add, 8);
  request.remote_address = theirs.address(2);
  request.operand = std::uint64_t{5} << 32;
  post(request);
  EXPECT_EQ(statuses(1), Statuses{success});
  EXPECT_EQ(ours.words[0], 1002u);
  EXPECT_EQ(theirs.words[2], 1002 + (std::uint64_t{5} << 32));
}

TEST_F(RdmaPairTest, ComparesAndSwaps) {
  WorkRequest request = work(Opcode::compare_swap, 8);
  request.compare = 1000;
  request.operand = 42;
  post(request);
  request = work(Opcode::compare_swap, 8);  // no longer equal
  request.address = ours.address(1);
  request.compare = 1000;
  request.operand = 43;
  post(request);
  EXPECT_EQ(statuses(2), (Statuses{success, success}));
  EXPECT_EQ(ours.words[0], 1000u);
  EXPECT_EQ(ours.words[1], 42u);
  EXPECT_EQ(theirs.words[0], 42u);
}

TEST_F(RdmaPairTest, ZeroBytesNeedNoKey) {
  for (const Opcode opcode : {Opcode::read, Opcode::write, Opcode::probe}) {
    WorkRequest request = work(opcode, 0);
    request.lkey = request.rkey = 0;
    request.address = request.remote_address = 0;
    post(request);
  }
  EXPECT_EQ(statuses(3), (Statuses{success, success, success}));
  EXPECT_EQ(theirs.words[0], 1000u);
}

// One chain of everything, each depending on the one before it.
TEST_F(RdmaPairTest, AChainIsExecutedInOrder) {
  std::vector<WorkRequest> chain;
  for (std::size_t i = 0; i < 16; ++i) {
    ours.words[100 + i] = 50 * i;
    WorkRequest write = work(Opcode::write, 8);
    write.address = ours.address(100 + i);
    WorkRequest add = work(Opcode::fetch_add, 8);
    add.address = ours.address(200 + i);
    add.operand = 1;
    WorkRequest read = work(Opcode::read, 8);
    read.address = ours.address(300 + i);
    for (WorkRequest* request : {&write, &add, &read}) {
      request->signalled = i == 15;
      request->remote_address = theirs.address(i);
      chain.push_back(*request);
    }
  }
  ASSERT_TRUE(queues->post(chain));
  EXPECT_EQ(statuses(3), (Statuses{success, success, success}));
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(ours.words[200 + i], 50 * i);
    EXPECT_EQ(ours.words[300 + i], 50 * i + 1);
    EXPECT_EQ(theirs.words[i], 50 * i + 1);
  }
}

// More than are handed to the adapter at a time.
TEST_F(RdmaPairTest, AChainMayBeAsLongAsTheQueue) {
  std::vector<WorkRequest> chain(QueuePairOptions{}.send_depth, work(Opcode::write, 8));
  for (std::size_t i = 0; i < chain.size(); ++i) chain[i].id = WorkId{i};
  ASSERT_TRUE(queues->post(chain));
  EXPECT_EQ(statuses(chain.size()), Statuses(chain.size(), success));
}

// However long no receive is there.
TEST_F(RdmaPairTest, ASendWaitsForAReceive) {
  post(work(Opcode::send, 8));
  EXPECT_EQ(wait(1, std::chrono::milliseconds(200)).size(), 0u);
  post_receive();
  EXPECT_EQ(statuses(2), (Statuses{success, success}));
}

TEST_F(RdmaPairTest, SolicitedFramesWakeWhoListensEachTime) {
  const auto wakes = [this] {
    pollfd event{.fd = queues->event_fd(), .events = POLLIN, .revents = 0};
    const bool woken = ::poll(&event, 1, 5000) == 1;
    queues->take_events();
    return woken;
  };
  for (int i = 0; i < 3; ++i) {
    post_receive();
    WorkRequest frame = work(Opcode::send, 8);
    frame.solicited = true;
    post(frame);
    EXPECT_TRUE(wakes()) << i;
    EXPECT_EQ(statuses(2), (Statuses{success, success}));
  }
}

// What a peer sends to it finds nobody.
TEST_F(RdmaPairTest, ARetiredPairTakesNothingAnyMore) {
  queues->retire_pair(right);
  post(work(Opcode::write, 8));
  for (const Completion& done : wait(1, std::chrono::milliseconds(200))) {
    EXPECT_NE(done.status, success);
  }
  queues->destroy_flushed();
}

// A second lane: the two ends only know each other's numbers, and the path of the first.
TEST_F(RdmaPairTest, APairBesideTheFirstWorksOffAChainOfReads) {
  constexpr LaneId left_bulk{2};
  constexpr LaneId right_bulk{3};
  constexpr std::size_t reads = 60;
  std::string why;
  const wire::LaneEnd here{
      .qp_number = queues->create_second_pair(left_bulk, reads, why), .psn = 0xfffffe, .reads = 16};
  const wire::LaneEnd there{
      .qp_number = queues->create_second_pair(right_bulk, 1, why), .psn = 5, .reads = 16};
  ASSERT_TRUE(queues->connect_beside(left_bulk, left, here, there, 4));
  ASSERT_TRUE(queues->connect_beside(right_bulk, right, there, here, 16));
  EXPECT_EQ(settings(left_bulk).max_rd_atomic, 4);

  std::vector<WorkRequest> chain;
  constexpr std::size_t words = 512;
  for (std::size_t i = 0; i < reads; ++i) {
    WorkRequest read = work(Opcode::read, words * 8);
    read.lane = left_bulk;
    read.address = ours.address(i * words);
    read.remote_address = theirs.address(i * words);
    read.signalled = i == reads - 1;
    chain.push_back(read);
  }
  ASSERT_TRUE(queues->post(chain));
  const auto done = wait(1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, success);
  EXPECT_EQ(done[0].lane, left_bulk);
  EXPECT_EQ(done[0].id, chain.back().id);
  for (std::size_t i = 0; i < reads * words; ++i) ASSERT_EQ(ours.words[i], 1000 + i);
}

TEST_F(RdmaPairTest, NoPairIsMadeBesideOneThatIsNotThere) {
  const wire::LaneEnd end{.qp_number = make_pair(LaneId{2}), .psn = 1, .reads = 1};
  EXPECT_FALSE(queues->connect_beside(LaneId{2}, LaneId{7}, end, end, 1));
  EXPECT_FALSE(queues->connect_beside(LaneId{7}, left, end, end, 1));
}

TEST_F(RdmaPairTest, WritingWithABadKeyBreaksBothEnds) {
  expect_a_bad_key_breaks_both_ends(Opcode::write);
}

TEST_F(RdmaPairTest, ReadingWithABadKeyBreaksBothEnds) {
  expect_a_bad_key_breaks_both_ends(Opcode::read);
}

TEST_F(RdmaPairTest, AnAtomicWithABadKeyBreaksBothEnds) {
  expect_a_bad_key_breaks_both_ends(Opcode::fetch_add);
}

TEST_F(RdmaPairTest, PastTheEndOfTheMemoryIsRefused) {
  WorkRequest request = work(Opcode::write, 16);
  request.remote_address = theirs.address(theirs.words.size() - 1);
  post(request);
  EXPECT_EQ(statuses(1), Statuses{rem_access_err});
  expect_right_is_broken();
}

TEST_F(RdmaPairTest, MemoryRegisteredForReadingIsNotWritten) {
  Memory readable(device, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  readable.words[0] = 77;
  for (const Opcode opcode : {Opcode::read, Opcode::write}) {
    WorkRequest request = work(opcode, 8);
    request.remote_address = readable.address();
    request.rkey = readable.rkey();
    if (opcode == Opcode::write) request.address = ours.address(1);
    post(request);
  }
  EXPECT_EQ(statuses(2), (Statuses{success, rem_access_err}));
  EXPECT_EQ(ours.words[0], 77u);
  EXPECT_EQ(readable.words[0], 77u);
}

TEST_F(RdmaPairTest, AnUnalignedAtomicIsRefusedWhenPosted) {
  WorkRequest request = work(Opcode::fetch_add, 8);
  request.remote_address += 4;
  if (queues->post({&request, 1})) {  // other adapters notice later
    EXPECT_NE(statuses(1), Statuses{success});
  }
  EXPECT_EQ(theirs.words[0], 1000u);
}

TEST_F(RdmaPairTest, ManyFetchesShareTheBound) {
  const ibv_qp_attr at_left = settings(left);
  EXPECT_EQ(at_left.max_rd_atomic, device.most_fetches_started());
  EXPECT_EQ(at_left.max_dest_rd_atomic, device.most_fetches_answered());
  for (std::size_t i = 0; i < 64; ++i) {
    WorkRequest request = work(i % 2 == 0 ? Opcode::read : Opcode::fetch_add, 8);
    request.operand = 1;
    request.address = ours.address(i);
    post(request);
  }
  EXPECT_EQ(statuses(64), Statuses(64, success));
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(ours.words[i], 1000 + i / 2);
}

// Listens, and refuses whoever asks without a word of weir's, as the connection manager does.
class Refuser {
 public:
  explicit Refuser(const PortChoice& port) {
    rdma_cm_id* made = nullptr;
    sockaddr_storage here = make_address(address_bytes(port.address), 0, port.interface);
    if (channel_ == nullptr || rdma_create_id(channel_.get(), &made, nullptr, RDMA_PS_TCP) != 0) {
      throw std::runtime_error("no connection manager");
    }
    listener_.reset(made);
    if (rdma_bind_addr(made, reinterpret_cast<sockaddr*>(&here)) != 0 ||
        rdma_listen(made, 1) != 0) {
      throw std::runtime_error("cannot listen");
    }
  }
  std::uint16_t port() const { return ntohs(rdma_get_src_port(listener_.get())); }
  void serve() {
    pollfd asked{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    rdma_cm_event* event = nullptr;
    if (::poll(&asked, 1, 1) != 1 || rdma_get_cm_event(channel_.get(), &event) != 0) return;
    const Id request(event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : nullptr);
    if (request != nullptr) rdma_reject(request.get(), nullptr, 0);
    rdma_ack_cm_event(event);
  }

 private:
  using Channel = std::unique_ptr<rdma_event_channel, Destroyer<rdma_destroy_event_channel>>;
  using Id = std::unique_ptr<rdma_cm_id, Destroyer<rdma_destroy_id>>;
  const Channel channel_{rdma_create_event_channel()};
  Id listener_;
};

class Asking : public RdmaTest {
 protected:
  // What comes of a request to this port.
  std::optional<ConnectionEvent> ask(std::uint16_t port, Refuser* refuser = nullptr) {
    std::string why;
    const auto connections = Connections::listen(device, why);
    if (connections == nullptr) throw std::runtime_error(why);
    connections->attach(queues.get());
    EXPECT_TRUE(connections->connect(left, card_of(port), hello, make_pair(left)));
    std::optional<ConnectionEvent> news;
    const Clock::time_point deadline = Clock::now() + patience;
    while (!news && Clock::now() < deadline) {
      news = connections->next();
      if (refuser != nullptr) refuser->serve();
    }
    connections->drop(left);
    return news;
  }
};

// The connection manager's own refusals pass: of a stale connection, say.
TEST_F(Asking, ARefusalWithoutWordsIsNotForGood) {
  Refuser refuser(device.port());
  const auto news = ask(refuser.port(), &refuser);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->kind, ConnectionEvent::Kind::rejected);
}

TEST_F(Asking, WhereNobodyListensIsToldAtOnce) {
  const std::uint16_t port = Refuser(device.port()).port();
  const auto news = ask(port);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->kind, ConnectionEvent::Kind::failed);
  EXPECT_EQ(news->reason, FailReason::connect_refused);
}

TEST_F(RdmaPairTest, ThatThePeerIsGoneIsTold) {
  connections->drop(right);
  std::optional<ConnectionEvent> news;
  const Clock::time_point deadline = Clock::now() + patience;
  while (!news && Clock::now() < deadline) news = connections->next();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->kind, ConnectionEvent::Kind::disconnected);
  EXPECT_EQ(news->lane, left);
}

// Whoever comes and goes leaves no room taken behind.
TEST_F(RdmaTest, PairsThatOneCompletionQueueHasNoRoomForGetAnother) {
  const auto most = static_cast<std::uint32_t>(device.limits().max_cqe);
  const std::uint32_t pairs = most / QueuePairOptions{}.send_depth + 1;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    make_pair(left);
    queues->retire_pair(left);
    queues->destroy_flushed();
  }
  EXPECT_EQ(queues->completion_queues(), 1u);
  for (std::uint32_t i = 0; i < pairs; ++i) make_pair(LaneId{i});
  EXPECT_EQ(queues->completion_queues(), 2u);
  for (const LaneId lane : {LaneId{0}, LaneId{pairs - 1}}) {
    ASSERT_TRUE(queues->connect_to_itself(lane));
    WorkRequest write = work(Opcode::write, 8);
    write.lane = lane;
    post(write);
    const std::vector<Completion> done = wait(1);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, success);
    EXPECT_EQ(done[0].lane, lane);
  }
}

TEST_F(RdmaTest, APairConnectedToItselfHasTheSameBound) {
  make_pair(left);
  ASSERT_TRUE(queues->connect_to_itself(left));
  const ibv_qp_attr set = settings(left);
  EXPECT_EQ(set.max_rd_atomic,
            std::min(device.most_fetches_started(), device.most_fetches_answered()));
  EXPECT_EQ(set.max_dest_rd_atomic, device.most_fetches_answered());
  EXPECT_GT(set.max_rd_atomic, 1);
  for (std::size_t i = 0; i < 64; ++i) {
    WorkRequest request = work(i % 2 == 0 ? Opcode::read : Opcode::fetch_add, 8);
    request.operand = 1;
    request.address = ours.address(i);
    post(request);
  }
  EXPECT_EQ(statuses(64), Statuses(64, success));
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(ours.words[i], 1000 + i / 2);
}

}  // namespace
}  // namespace weir::verbs
