// Segments: made once, shared by key, removed by the last or after the dead, and bad ones refused.
#include "flowctl/shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "flowctl/shm/process.h"
#include "flowctl/shm/view.h"

namespace weir {
namespace {

namespace fs = std::filesystem;
using ::testing::Test;

class SegmentTest : public Test {
 protected:
  SegmentTest() {
    char name[] = "/dev/shm/weir-test.XXXXXX";
    directory_ = ::mkdtemp(name);
    options_.directory = directory_;
    options_.device = "mlx5_0";
    options_.tokens = 8;
  }
  ~SegmentTest() override { fs::remove_all(directory_); }

  std::unique_ptr<Segment> open() { return Segment::open(options_, reason_); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), {}));
  }
  // A process that opens the segment, takes so many tokens and stays; killed by the caller.
  pid_t process_with(std::uint32_t tokens) {
    int ready[2];
    if (::pipe(ready) != 0) return -1;
    const pid_t pid = ::fork();
    if (pid == 0) {
      const auto segment = open();
      TokenPool<SharedWord>::Ticket ticket;
      char ok = segment != nullptr && segment->pool().try_take(tokens, ticket) ? 1 : 0;
      if (::write(ready[1], &ok, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char ok = 0;
    EXPECT_EQ(::read(ready[0], &ok, 1), 1);
    EXPECT_EQ(ok, 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return pid;
  }
  static void kill(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  void expect_refused(const char* because) {
    EXPECT_EQ(open(), nullptr);
    EXPECT_NE(reason_.find(because), std::string::npos) << reason_;
  }
  // The path it has, left behind by a killed process.
  std::string leave_one_behind() {
    kill(process_with(1));
    EXPECT_EQ(files(), 1u);
    return fs::directory_iterator(options_.directory)->path();
  }
  static void write_at(const std::string& path, off_t at, const void* data, std::size_t bytes) {
    const int fd = ::open(path.c_str(), O_RDWR);
    EXPECT_EQ(::pwrite(fd, data, bytes, at), static_cast<ssize_t>(bytes));
    ::close(fd);
  }

  std::string directory_;  // ours, whatever the options say
  SegmentOptions options_;
  std::string reason_;
};

// The last two leave at the same time: one of them has to see that nobody is left.
TEST_F(SegmentTest, IsRemovedWhenTheLastLeaveTogether) {
  for (int round = 0; round < 300; ++round) {
    std::array<std::unique_ptr<Segment>, 2> segments{open(), open()};
    ASSERT_TRUE(segments[0] != nullptr && segments[1] != nullptr) << reason_;
    std::atomic<int> ready{0};
    std::array<std::thread, 2> leaving;
    for (std::size_t i = 0; i < 2; ++i) {
      leaving[i] = std::thread([&, i] {
        ++ready;
        while (ready.load() < 2) continue;
        segments[i].reset();
      });
    }
    for (std::thread& thread : leaving) thread.join();
    ASSERT_EQ(files(), 0u) << "round " << round;
  }
}

TEST_F(SegmentTest, SharedByKeyAndRemovedByTheLast) {
  auto a = open();
  ASSERT_NE(a, nullptr) << reason_;
  struct stat found {};
  ASSERT_EQ(::stat(a->path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  auto b = open();
  ASSERT_NE(b, nullptr) << reason_;
  TokenPool<SharedWord>::Ticket ticket;
  EXPECT_TRUE(a->pool().try_take(3, ticket));
  EXPECT_EQ(b->pool().asked(), 3u);
  EXPECT_EQ(files(), 1u);
  a.reset();
  EXPECT_EQ(files(), 1u);
  b.reset();
  EXPECT_EQ(files(), 0u);
}

TEST_F(SegmentTest, PrivateByKey) {
  auto all = open();
  options_.sharers = "job 1";
  auto one = open();
  options_.sharers = "job 2";
  auto two = open();
  options_.port = 2;
  auto other_port = open();
  ASSERT_TRUE(all && one && two && other_port) << reason_;
  EXPECT_EQ(files(), 4u);
}

// Start times shown in one time namespace are wrong in another, so those in it cannot judge who
// lives.
TEST_F(SegmentTest, PrivateByTimeNamespace) {
  const auto segment = open();
  ASSERT_NE(segment, nullptr);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    if (::unshare(0x80) != 0) ::_exit(2);  // CLONE_NEWTIME, for its children
    const pid_t child = ::fork();
    if (child == 0) {
      const auto other = open();
      ::_exit(other != nullptr && other->path() != segment->path() ? 0 : 1);
    }
    int status = 0;
    ::_exit(::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  }
  int status = 0;
  ::waitpid(parent, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "no time namespaces here";
  EXPECT_EQ(status, 0);
}

TEST_F(SegmentTest, OtherConstantsAreRefusedWhileItIsInUse) {
  auto segment = open();
  options_.tokens = 9;
  expect_refused("in use with 8 tokens");
  segment.reset();
  EXPECT_NE(open(), nullptr);
}

TEST_F(SegmentTest, GoesOnAfterAKill) {
  const pid_t other = process_with(8);
  auto segment = open();
  ASSERT_NE(segment, nullptr) << reason_;
  TokenPool<SharedWord>::Ticket ticket;
  EXPECT_FALSE(segment->pool().try_take(2, ticket));
  kill(other);
  EXPECT_FALSE(segment->pool().recheck(ticket));
  EXPECT_EQ(segment->pool().reap(process_alive), 8u);
  EXPECT_TRUE(segment->pool().recheck(ticket));
}

TEST_F(SegmentTest, StaleOnesAreRemoved) {
  kill(process_with(1));
  options_.sharers = "another job";
  const pid_t living = process_with(1);
  EXPECT_EQ(files(), 2u);
  EXPECT_EQ(remove_stale_segments(options_.directory), 1u);
  EXPECT_EQ(files(), 1u);
  kill(living);
  EXPECT_EQ(remove_stale_segments(options_.directory), 1u);
  EXPECT_EQ(files(), 0u);
}

// Of another build only this is known: a process in the segment holds its lock.
TEST_F(SegmentTest, StaleOnesOfOtherLayoutsAreRemoved) {
  struct {
    std::size_t at;
    std::uint32_t value;
    bool known;
  } const others[] = {{offsetof(SegmentHeader, version), 4, true},
                      {offsetof(SegmentHeader, version), 1000, true},
                      {offsetof(SegmentHeader, layout_bytes), 4096, true},
                      {offsetof(SegmentHeader, version), 3, false},
                      {offsetof(SegmentHeader, magic), 7, false},
                      {offsetof(SegmentHeader, tokens), 7, false}};
  for (const auto& other : others) {
    const pid_t living = process_with(1);
    const std::string path = fs::directory_iterator(options_.directory)->path();
    write_at(path, static_cast<off_t>(other.at), &other.value, sizeof other.value);
    EXPECT_EQ(remove_stale_segments(options_.directory), 0u);
    kill(living);
    EXPECT_EQ(remove_stale_segments(options_.directory), other.known ? 1u : 0u);
    EXPECT_EQ(files(), other.known ? 0u : 1u);
    fs::remove(path);
  }
}

TEST_F(SegmentTest, StaleOneOfOtherConstantsIsReplaced) {
  leave_one_behind();
  options_.tokens = 100;
  auto segment = open();
  ASSERT_NE(segment, nullptr) << reason_;
  EXPECT_EQ(segment->pool().tokens(), 100u);
}

// Killed between closing the gate and removing the file.
TEST_F(SegmentTest, AnInterruptedRemovalIsFinished) {
  const std::string path = leave_one_behind();
  const std::uint64_t dead = lease::taken(0, {lease::pid_mask, 1});
  write_at(path, offsetof(NodeState, header) + offsetof(SegmentHeader, gate), &dead, sizeof dead);
  auto segment = open();
  ASSERT_NE(segment, nullptr) << reason_;
  EXPECT_TRUE(lease::free(segment->state().header.gate.load()));
}

TEST_F(SegmentTest, AnInterruptedRemovalDoesNotTakeItFromTheLiving) {
  const pid_t living = process_with(3);
  const std::string path = fs::directory_iterator(options_.directory)->path();
  const std::uint64_t dead = lease::taken(0, {lease::pid_mask, 1});
  write_at(path, offsetof(NodeState, header) + offsetof(SegmentHeader, gate), &dead, sizeof dead);
  auto segment = open();
  ASSERT_NE(segment, nullptr) << reason_;
  EXPECT_EQ(segment->pool().asked(), 3u);
  kill(living);
}

// Its remover died after the unlink, and another segment has the path now.
TEST_F(SegmentTest, OneWithoutANameTakesNobodyElsesAway) {
  auto old = open();
  ASSERT_NE(old, nullptr) << reason_;
  for (const auto& file : fs::directory_iterator(directory_)) fs::remove(file);
  const auto fresh = open();
  ASSERT_NE(fresh, nullptr) << reason_;
  old.reset();
  EXPECT_EQ(files(), 1u);
}

// Whoever owns a segment may cut it while root looks at it.
TEST_F(SegmentTest, AViewSurvivesThatTheFileIsCut) {
  const auto segment = open();
  ASSERT_NE(segment, nullptr) << reason_;
  segment->board().rank.store(5);
  segment->board().shown_at.store(1);
  const std::string path = segment->path() + "-cut";
  fs::copy_file(segment->path(), path);
  const auto views = SegmentView::all(options_.directory);
  ASSERT_EQ(views.size(), 2u);
  fs::resize_file(path, 0);
  EXPECT_EQ(views[1].path(), path);
  EXPECT_EQ(views[1].look().members.at(0).rank, 5u);
  EXPECT_EQ(SegmentView::all(options_.directory).size(), 1u);
}

// Its texts reach a terminal, a path of /sys and labels of Prometheus.
TEST_F(SegmentTest, AViewShowsNoTextsThatDoHarm) {
  for (const char* device : {"\x1b[2Jrxe0", "..", "rxe0\"} 1\nx", "rxe 0", ""}) {
    options_.device = device;
    const auto segment = open();
    ASSERT_NE(segment, nullptr) << reason_;
    EXPECT_TRUE(SegmentView::all(options_.directory).empty()) << device;
  }
  options_.device = "rxe0";
  options_.sharers = "job \x1b[2J";
  const auto other = open();
  ASSERT_NE(other, nullptr) << reason_;
  EXPECT_TRUE(SegmentView::all(options_.directory).empty());
  options_.sharers = "job 7";
  const auto good = open();
  ASSERT_NE(good, nullptr) << reason_;
  ASSERT_EQ(SegmentView::all(options_.directory).size(), 1u);
  EXPECT_EQ(SegmentView::all(options_.directory)[0].look().sharers, "job 7");

  const std::string named = good->path() + "\x1b[2J";
  fs::copy_file(good->path(), named);
  EXPECT_EQ(SegmentView::all(options_.directory).size(), 1u);
  fs::remove(named);
}

TEST_F(SegmentTest, DamagedOnesAreRefused) {
  const std::string path = leave_one_behind();
  for (const std::size_t at : {offsetof(SegmentHeader, magic), offsetof(SegmentHeader, version),
                               offsetof(SegmentHeader, layout_bytes),
                               offsetof(SegmentHeader, tokens), offsetof(SegmentHeader, key)}) {
    const std::string copy = path + ".copy";
    fs::copy_file(path, copy);
    const char bad = 0x55;
    write_at(path, static_cast<off_t>(at), &bad, 1);
    expect_refused("damaged or not weir's");
    fs::rename(copy, path);
  }
  EXPECT_EQ(remove_stale_segments(options_.directory), 1u);
}

TEST_F(SegmentTest, WrongSizesAreRefused) {
  const std::string path = leave_one_behind();
  fs::resize_file(path, 100);
  expect_refused("100 bytes instead of");
  fs::resize_file(path, 0);
  expect_refused("0 bytes instead of");
  EXPECT_EQ(remove_stale_segments(options_.directory), 0u);  // not known to be ours
}

TEST_F(SegmentTest, ForeignOnesAreRefused) {
  const std::string path = leave_one_behind();
  fs::permissions(path, fs::perms(0644));
  expect_refused("open to other users");
  if (::geteuid() == 0) {
    fs::permissions(path, fs::perms(0600));
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    expect_refused("belongs to another user (12345)");
  }
  fs::rename(path, path + ".away");
  fs::create_symlink(path + ".away", path);
  expect_refused("symbolic links");
  fs::remove(path);
  fs::create_directory(path);
  expect_refused("directory");
}

TEST_F(SegmentTest, NoSharedMemory) {
  options_.directory += "/none";
  expect_refused("cannot make a file in");
  options_.directory = "/proc";
  expect_refused("cannot make a file in /proc");
}

// As a profiler does it.
TEST_F(SegmentTest, IsMadeAmongSignals) {
  options_.cell_bytes = 64 << 10;
  options_.tasks = 16;
  struct sigaction on_signal {
  }, before{};
  on_signal.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGALRM, &on_signal, &before), 0);
  const itimerval often{{0, 200}, {0, 200}}, never{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  for (int i = 0; i < 20; ++i) EXPECT_NE(open(), nullptr) << reason_;
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
}

// By `ulimit -f`: a longer file would end the process by a signal.
TEST_F(SegmentTest, IsNotMadeWhereFilesMustBeShorter) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit few{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &few), 0);
  expect_refused("File too large");
  ::setrlimit(RLIMIT_FSIZE, &before);
}

TEST_F(SegmentTest, ImpossibleOptionsAreRefused) {
  options_.tokens = 0;
  expect_refused("not possible");
  options_.tokens = 1;
  options_.servers = NodeState::most_servers + 1;
  expect_refused("not possible");
  options_.servers = 0;
  options_.device = std::string(200, 'x');
  expect_refused("too long");
}

TEST_F(SegmentTest, CellsAreBehindTheRestAndOfThoseWhoAskForThem) {
  const auto plain = open();
  ASSERT_NE(plain, nullptr) << reason_;
  EXPECT_FALSE(plain->has_cells());
  options_.sharers = "proxy of job 7";
  options_.servers = 2;
  options_.cell_bytes = 1024;
  options_.tasks = 1;
  const auto first = open();
  ASSERT_NE(first, nullptr) << reason_;
  EXPECT_EQ(files(), 2u);
  EXPECT_TRUE(first->has_cells());
  const ProxyGround ground = first->proxy();
  const std::size_t before = static_cast<std::size_t>(
      ground.cells - reinterpret_cast<const std::byte*>(&first->state()));
  EXPECT_GE(before, sizeof(NodeState));
  EXPECT_EQ(before % (64 << 10), 0u);  // a page, on any machine
  EXPECT_EQ(fs::file_size(first->path()), before + 1024 * proxy_depth);
  EXPECT_EQ(ground.tokens.size(), 2u);
  std::memset(ground.cells, 0x5a, 1024 * proxy_depth);
  const auto second = open();
  ASSERT_NE(second, nullptr) << reason_;
  EXPECT_FALSE(second->has_cells());  // there is room for one task
  EXPECT_EQ(second->proxy().cells[1024 * proxy_depth - 1], std::byte{0x5a});
  options_.cell_bytes = 2048;
  expect_refused("other cells");
  options_.cell_bytes = 2049;
  expect_refused("not possible");
}

// So that they are in the memory that is near to it.
TEST_F(SegmentTest, AProcessGetsTheMemoryOfItsCellsWhenItComes) {
  options_.cell_bytes = 64 << 10;
  options_.tasks = 3;
  const std::size_t share = proxy_depth * std::size_t{64 << 10};
  std::vector<std::unique_ptr<Segment>> members;
  for (std::size_t count = 1; count <= 3; ++count) {
    members.push_back(open());
    ASSERT_NE(members.back(), nullptr) << reason_;
    struct stat about {};
    ASSERT_EQ(::stat(members.back()->path().c_str(), &about), 0);
    EXPECT_GE(static_cast<std::size_t>(about.st_blocks) * 512, sizeof(NodeState) + count * share);
    EXPECT_EQ(about.st_blocks * 512 < about.st_size, count < 3);
  }
}

// Two processes, each of which takes the pool for 3.
TEST_F(SegmentTest, AViewTellsTokensHeldFromThoseWaitedFor) {
  const auto node = open();
  ASSERT_NE(node, nullptr) << reason_;
  NodeState& state = node->state();
  TokenPool<SharedWord> other(state.pool, state.slots, options_.tokens);
  ASSERT_TRUE(other.join(
      {.pid = static_cast<std::uint32_t>(::getppid()), .start_ticks = this_process()->start_ticks},
      [](ProcessId) { return true; }));
  state.boards[node->slot()].tokens.store(3);
  state.boards[node->slot()].show(1, Counters{});
  const auto expect = [&](std::uint64_t held, std::uint64_t waited_for) {
    const NodeView view = SegmentView::all(options_.directory).at(0).look();
    ASSERT_EQ(view.members.size(), 1u);  // the other has not shown itself
    EXPECT_EQ(view.members[0].tokens_held, held);
    EXPECT_EQ(view.members[0].tokens_waited_for, waited_for);
  };
  expect(0, 0);
  TokenPool<SharedWord>::Ticket theirs, ours, next;
  ASSERT_TRUE(other.try_take(2, theirs, 3));
  ASSERT_TRUE(node->pool().try_take(1, ours, 3));
  expect(1, 0);
  ASSERT_FALSE(node->pool().try_take(2, next, 3));
  expect(1, 2);
  other.give(1);
  expect(1, 2);
  other.give(1);
  expect(3, 0);  // granted, though nobody has looked
  ASSERT_TRUE(node->pool().recheck(next, 3));
  node->pool().give(3);
  expect(0, 0);
  other.leave();
}

TEST_F(SegmentTest, AViewShowsTimesAndPeers) {
  const auto node = open();
  ASSERT_NE(node, nullptr) << reason_;
  Board& board = node->board();
  ReadTimes times;
  times.add(microseconds(30));
  board.show(times);
  std::vector<PeerRow> rows(Board::most_peers + 1);
  for (std::uint32_t i = 0; i < rows.size(); ++i) rows[i] = {.name = {7, i}, .credits = i};
  board.show(rows);
  board.show(1, Counters{});
  rows.pop_back();  // there is no room for it
  const auto look = [&] { return SegmentView::all(options_.directory).at(0).look().members.at(0); };
  EXPECT_EQ(look().read_times, times);
  EXPECT_EQ(look().peers, rows);
  board.peer_count.store(~std::uint64_t{0});  // whatever another process wrote
  EXPECT_EQ(look().peers, rows);
  board.show(std::span<const PeerRow>());
  EXPECT_TRUE(look().peers.empty());
}

class OrderTest : public SegmentTest {
 protected:
  OrderTest() {
    node_ = open();
    node_->board().show(Caps{256, 1 << 20, -1, 1 << 20, 64});
    node_->board().show(1, Counters{});
  }
  MemberView look() const {
    return SegmentView::all(options_.directory).at(0).look().members.at(0);
  }
  std::optional<CapsOrder> found() const { return node_->board().new_order(node_->lease()); }
  std::optional<std::uint64_t> order(const MemberView& member, const Caps& caps) {
    return order_caps(node_->path(), member, caps, reason_);
  }

  std::unique_ptr<Segment> node_;
};

TEST_F(OrderTest, IsSeenOnceByTheProcessThatItIsFor) {
  const MemberView member = look();
  EXPECT_EQ(member.caps, (Caps{256, 1 << 20, -1, 1 << 20, 64}));
  EXPECT_FALSE(found());
  const Caps wanted{16, 1 << 20, 1, 1 << 20, 8};
  const auto mark = order(member, wanted);
  ASSERT_TRUE(mark) << reason_;
  ASSERT_TRUE(found());
  EXPECT_EQ(found()->caps, wanted);
  EXPECT_EQ(found()->mark, *mark);
  node_->board().order_seen.store(~*mark);  // refused
  EXPECT_FALSE(found());
  node_->board().order_seen.store(*mark);
  EXPECT_FALSE(found());
  EXPECT_EQ(look().order_seen, *mark);
  EXPECT_NE(order(member, wanted), mark);  // the same again is another order
  EXPECT_TRUE(found());
}

TEST_F(OrderTest, ForAnEarlierOwnerOfTheSlotHasNoEffect) {
  MemberView member = look();
  member.lease ^= std::uint64_t{1} << lease::generation_shift;
  ASSERT_TRUE(order(member, {})) << reason_;
  EXPECT_FALSE(found());
}

// Whatever another process writes: only a whole order is one.
TEST_F(OrderTest, HalfOfOneHasNoEffect) {
  ASSERT_TRUE(order(look(), {1, 2, 3, 4, 5})) << reason_;
  for (SharedWord& word : node_->board().order) {
    const std::uint64_t good = word.load();
    for (const std::uint64_t bad : {good + 1, std::uint64_t{0}, ~good}) {
      word.store(bad);
      if (bad != good) {
        EXPECT_FALSE(found());
      }
    }
    word.store(good);
    EXPECT_TRUE(found());
  }
}

TEST_F(OrderTest, GoesIntoNoFileThatIsNoSegment) {
  const MemberView member = look();
  const std::string path = std::string(directory_) + "/weir-other";
  std::ofstream(path) << std::string(sizeof(NodeState), 'x');
  EXPECT_FALSE(order_caps(path, member, {}, reason_));
  EXPECT_NE(reason_, "");
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, std::string(sizeof(NodeState), 'x'));
  fs::create_symlink(node_->path(), path + "2");
  reason_.clear();
  EXPECT_FALSE(order_caps(path + "2", member, {}, reason_));
  reason_.clear();
  EXPECT_FALSE(order_caps(path + "3", member, {}, reason_));
}

TEST_F(SegmentTest, ThoseThatOnlyShowThemselvesDoNotCountAsSharers) {
  const auto count = [&] { return processes_of(7, options_.directory); };
  options_.sharers = SegmentOptions::nothing_shared;
  const auto alone = open();
  ASSERT_NE(alone, nullptr) << reason_;
  alone->board().job.store(7);
  alone->board().show(1, Counters{});
  EXPECT_EQ(SegmentView::all(options_.directory).at(0).look().sharers, "nothing shared");
  EXPECT_EQ(count(), 0u);
  options_.sharers = "";
  const auto node = open();
  ASSERT_NE(node, nullptr) << reason_;
  node->board().job.store(7);
  node->board().show(1, Counters{});
  EXPECT_EQ(count(), 1u);
}

// What a look from outside shows of a member of the node that is in a proxy, too.
TEST_F(SegmentTest, AViewOfAProxy) {
  const auto node = open();
  ASSERT_NE(node, nullptr) << reason_;
  node->board().show(1, Counters{});
  options_.sharers = "proxy of job 7";
  options_.servers = options_.tasks = 1;
  options_.cell_bytes = 64;
  const auto segment = open();
  ASSERT_NE(segment, nullptr) << reason_;
  Proxy proxy;
  proxy.join(segment->proxy(), segment->slot(), segment->self());
  const auto look = [&] {
    NodeView view = SegmentView::all(options_.directory).at(0).look();
    SegmentView::proxies(options_.directory).at(0).add_to(view);
    EXPECT_EQ(view.members.size(), 1u);
    return view.members.at(0);
  };
  EXPECT_TRUE(look().in_proxy);
  EXPECT_EQ(look().server.pid, 0u);
  const std::byte message[16]{};
  ASSERT_TRUE(proxy.submit({1, 2}, 3, 4, message, sizeof message));
  ASSERT_TRUE(proxy.submit({1, 2}, 3, 4, message, sizeof message));
  ASSERT_TRUE(proxy.try_serve());
  Proxy::Work work;
  ASSERT_TRUE(proxy.take(0, work));
  EXPECT_EQ(look().server, segment->self());
  EXPECT_EQ(look().proxy_waiting, 1u);
  EXPECT_EQ(look().proxy_taken, 1u);
}

TEST_F(SegmentTest, AForkedChildTakesNothingAway) {
  auto segment = open();
  ASSERT_NE(segment, nullptr) << reason_;
  const pid_t child = ::fork();
  if (child == 0) {
    segment.reset();
    ::_exit(0);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files(), 1u);
  EXPECT_FALSE(lease::free(segment->state().slots[segment->pool().slot()].lease.load()));
}

// Many that come and go at once: everyone gets in, and nothing is left.
TEST_F(SegmentTest, ComingAndGoing) {
  constexpr int processes = 4;
  pid_t pids[processes];
  for (pid_t& pid : pids) {
    pid = ::fork();
    if (pid != 0) continue;
    for (int i = 0; i < 40; ++i) {
      const auto segment = open();
      if (segment == nullptr) ::_exit(1);
      TokenPool<SharedWord>::Ticket ticket;
      if (segment->pool().try_take(1, ticket)) segment->pool().give(1);
    }
    ::_exit(0);
  }
  for (const pid_t pid : pids) {
    int status = 1;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_LE(files(), 1u);
  remove_stale_segments(options_.directory);
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace weir
