// The registration cache on a real adapter, with data: RDMA reads between two queue pairs of this
// process. Each way in which memory can go away is shown to be seen, and, with the hooks off, to
// matter. Where there is no RDMA device every test fails: it was promised.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "transport/verbs/choose_ports.h"
#include "transport/verbs/registration_cache.h"

namespace weir::verbs {
namespace {

const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
const std::size_t size_bytes = 4 * page;

// Two connected queue pairs on one device.
class Wire {
 public:
  explicit Wire(const Device& device) {
    cq_.reset(ibv_create_cq(device.context(), 16, nullptr, nullptr, 0));
    if (!cq_) throw std::runtime_error("no completion queue");
    for (auto& pair : pairs_) {
      ibv_qp_init_attr wanted{};
      wanted.send_cq = wanted.recv_cq = cq_.get();
      wanted.cap = {.max_send_wr = 4,
                    .max_recv_wr = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
      wanted.qp_type = IBV_QPT_RC;
      pair.reset(ibv_create_qp(device.pd(), &wanted));
      if (!pair) throw std::runtime_error("no queue pair");
    }
    for (int i = 0; i < 2; ++i) connect(device.port(), pairs_[i].get(), pairs_[1 - i]->qp_num);
  }

  // Reads into `to` from `from`. False if that fails.
  bool read(const void* to, std::uint32_t lkey, const void* from, std::uint32_t rkey,
            std::size_t length_bytes) {
    ibv_sge piece{reinterpret_cast<std::uint64_t>(to), static_cast<std::uint32_t>(length_bytes),
                  lkey};
    ibv_send_wr work{}, *bad = nullptr;
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_READ;
    work.send_flags = IBV_SEND_SIGNALED;
    work.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(from);
    work.wr.rdma.rkey = rkey;
    if (ibv_post_send(pairs_[0].get(), &work, &bad) != 0) return false;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    ibv_wc done{};
    while (ibv_poll_cq(cq_.get(), 1, &done) == 0) {
      if (std::chrono::steady_clock::now() > end) return false;
    }
    return done.status == IBV_WC_SUCCESS;
  }

 private:
  static void connect(const PortChoice& port, ibv_qp* pair, std::uint32_t other) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = port.port;
    to.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    int failed = ibv_modify_qp(
        pair, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    to = {};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_1024;
    to.dest_qp_num = other;
    to.max_dest_rd_atomic = 1;
    to.min_rnr_timer = 12;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = port.port;
    to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(port.gid.index);
    to.ah_attr.grh.hop_limit = 64;
    std::copy(port.gid.raw.begin(), port.gid.raw.end(), to.ah_attr.grh.dgid.raw);
    failed |= ibv_modify_qp(pair, &to,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    to = {};
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 16;
    to.retry_cnt = 6;
    to.rnr_retry = 7;
    to.max_rd_atomic = 1;
    failed |= ibv_modify_qp(pair, &to,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    if (failed != 0) throw std::runtime_error("queue pair does not connect");
  }

  std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>> cq_;
  std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>> pairs_[2];
};

Device open_device() {
  std::string why;
  const auto port = choose_port({}, why);
  if (!port) throw std::runtime_error(why);
  auto device = Device::open(*port, why);
  if (!device) throw std::runtime_error(why);
  return std::move(*device);
}

std::byte* map(std::size_t bytes, int protection = PROT_READ | PROT_WRITE, void* at = nullptr) {
  void* const got =
      mmap(at, bytes, protection,
           MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED_NOREPLACE : 0), -1, 0);
  if (got == MAP_FAILED) throw std::runtime_error("mmap");
  return static_cast<std::byte*>(got);
}

void fill(void* at, int value, std::size_t bytes = size_bytes) { std::memset(at, value, bytes); }
bool is_full_of(const void* at, int value, std::size_t bytes = size_bytes) {
  const auto* const from = static_cast<const unsigned char*>(at);
  return std::all_of(from, from + bytes, [&](unsigned char byte) { return byte == value; });
}

struct RegistrationContract : testing::Test {
  Device device = open_device();
  Wire wire{device};
  RegistrationCache::Options options;
  std::unique_ptr<RegistrationCache> cache;

  void open() {
    std::string why;
    cache.reset();
    cache = RegistrationCache::create(device, options, why);
    if (cache == nullptr) throw std::runtime_error(why);
  }
  void SetUp() override { open(); }

  // An RDMA read through the cache, as a transfer does it. False if anything fails.
  bool read(void* to, const void* from, std::size_t bytes = size_bytes) {
    Registration* const source = cache->get(from, bytes, Access::remote_read);
    Registration* const target = cache->get(to, bytes, Access::local_write);
    const bool good = source != nullptr && target != nullptr &&
                      wire.read(to, target->lkey, from, source->rkey, bytes);
    if (source != nullptr) cache->put(source);
    if (target != nullptr) cache->put(target);
    return good;
  }
};

// ---- other pages at the same address ----

// Takes a mapped buffer away and puts other pages in its place.
struct Way {
  const char* name;
  void (*replace)(std::byte* at);
};
constexpr Way ways[] = {
    {"munmap",
     [](std::byte* at) {
       munmap(at, size_bytes);
       map(size_bytes, PROT_READ | PROT_WRITE, at);
     }},
    {"mremap",
     [](std::byte* at) {
       if (mremap(at, size_bytes, 64 * size_bytes, MREMAP_MAYMOVE) == at) {
         throw std::runtime_error("mremap did not move");
       }
       map(size_bytes, PROT_READ | PROT_WRITE, at);
     }},
    {"map_fixed",
     [](std::byte* at) {
       mmap(at, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
     }},
    {"madvise", [](std::byte* at) { madvise(at, size_bytes, MADV_DONTNEED); }},
};

struct Replaced : RegistrationContract, testing::WithParamInterface<Way> {
  // Between two pages of somebody else, so that mremap cannot grow in place.
  std::byte* const room = map(size_bytes + 2 * page);
  std::byte* const buffer = room + page;
  std::byte* const peer = map(size_bytes);

  // What the second read into the buffer leaves there: the peer's new data, if all is well.
  bool arrives_in_new_pages() {
    fill(peer, 0x11);
    fill(buffer, 0);
    EXPECT_TRUE(read(buffer, peer));
    EXPECT_TRUE(is_full_of(buffer, 0x11));
    GetParam().replace(buffer);
    fill(buffer, 0);  // other physical pages, before anything is registered
    fill(peer, 0x22);
    EXPECT_TRUE(read(buffer, peer));
    return is_full_of(buffer, 0x22);
  }

  // What the peer reads from the buffer.
  bool leaves_from_new_pages() {
    fill(buffer, 0x33);
    EXPECT_TRUE(read(peer, buffer));
    EXPECT_TRUE(is_full_of(peer, 0x33));
    GetParam().replace(buffer);
    fill(buffer, 0x44);
    EXPECT_TRUE(read(peer, buffer));
    return is_full_of(peer, 0x44);
  }
};

TEST_P(Replaced, TransfersUseTheNewPages) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(arrives_in_new_pages());
    EXPECT_TRUE(leaves_from_new_pages());
  }
}

// Shows that the test above can fail.
TEST_P(Replaced, WithoutHooksTransfersUseTheOldPages) {
  options.hooks = RegistrationCache::Hooks::none;
  open();
  EXPECT_FALSE(arrives_in_new_pages());
  open();
  EXPECT_FALSE(leaves_from_new_pages());
}

INSTANTIATE_TEST_SUITE_P(By, Replaced, testing::ValuesIn(ways),
                         [](const auto& info) { return info.param.name; });

// Allocations as applications make them; glibc gives the same addresses again and again.
TEST_F(RegistrationContract, HeapBuffersComeAndGo) {
  constexpr std::size_t sizes[] = {100, 5000, 70000, 300000, 3000000};
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  std::byte* const peer = map(8 << 20);
  for (int round = 0; round < 100; ++round) {
    const std::size_t bytes = sizes[round % 5] + static_cast<std::size_t>(round);
    void* volatile buffer = malloc(bytes);
    fill(buffer, 0, bytes);
    fill(peer, round + 1, bytes);
    ASSERT_TRUE(read(buffer, peer, bytes));
    ASSERT_TRUE(is_full_of(buffer, round + 1, bytes));
    buffer = realloc(buffer, 2 * bytes);
    fill(buffer, 0, 2 * bytes);
    fill(peer, round + 101, 2 * bytes);
    ASSERT_TRUE(read(buffer, peer, 2 * bytes));
    ASSERT_TRUE(is_full_of(buffer, round + 101, 2 * bytes));
    free(buffer);
    if (round % 3 == 0) malloc_trim(0);
  }
  EXPECT_GT(cache->counters().invalidations, 0u);
}

// ---- what is in use ----

TEST_F(RegistrationContract, KnowsWhatIsInUse) {
  std::byte* const one = map(size_bytes);
  std::byte* const other = map(size_bytes);
  Registration* const first = cache->get(one, size_bytes, Access::remote_read);
  Registration* const second = cache->get(other, size_bytes, Access::remote_read);
  Registration* const again = cache->get(one, size_bytes, Access::remote_read);
  EXPECT_EQ(cache->in_use(), 2u);
  cache->put(first);
  cache->put(second);
  munmap(one, size_bytes);  // forgotten with its last user
  EXPECT_EQ(cache->in_use(), 1u);
  cache->put(again);
  EXPECT_EQ(cache->in_use(), 0u);
}

// ---- fork ----

TEST_F(RegistrationContract, TransfersSurviveAFork) {
  for (const bool purge : {true, false}) {
    options.purge_on_fork = purge;
    open();
    std::byte* const buffer = map(size_bytes);
    std::byte* const peer = map(size_bytes);
    fill(buffer, 0);
    fill(peer, 0x55);
    Registration* const target = cache->get(buffer, size_bytes, Access::local_write);  // in use
    ASSERT_TRUE(read(peer, buffer));
    fill(peer, 0x55);
    const pid_t child = fork();
    if (child == 0) {
      // Its copy is its own, and is there. It writes, and looks whether the parent's data comes.
      const bool had = is_full_of(buffer, 0);
      fill(buffer, 0x77);
      usleep(300000);
      const bool kept = is_full_of(buffer, 0x77);
      munmap(buffer, size_bytes);
      _exit(had && kept ? 0 : 1);
    }
    usleep(100000);
    fill(buffer, 0x01);  // the first write after a fork: where pages could move
    Registration* const source = cache->get(peer, size_bytes, Access::remote_read);
    EXPECT_TRUE(wire.read(buffer, target->lkey, peer, source->rkey, size_bytes));
    EXPECT_TRUE(is_full_of(buffer, 0x55));
    cache->put(source);
    cache->put(target);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    fill(buffer, 0);
    EXPECT_TRUE(read(buffer, peer));
    EXPECT_TRUE(is_full_of(buffer, 0x55));
  }
}

// ---- memory that must not be written ----

TEST_F(RegistrationContract, ReadOnlyMemoryCanBeRead) {
  std::byte* const constant = map(size_bytes);
  fill(constant, 0x66);
  ASSERT_EQ(mprotect(constant, size_bytes, PROT_READ), 0);
  std::byte* const buffer = map(size_bytes);
  EXPECT_TRUE(read(buffer, constant));
  EXPECT_TRUE(is_full_of(buffer, 0x66));
  EXPECT_EQ(cache->get(constant, size_bytes, Access::local_write), nullptr);
  EXPECT_EQ(errno, EFAULT);
  fill(buffer, 0);
  EXPECT_TRUE(read(buffer, constant));
  EXPECT_TRUE(is_full_of(buffer, 0x66));
}

TEST_F(RegistrationContract, WhatIsNotMappedIsRefused) {
  const auto* const nothing = reinterpret_cast<const void*>(std::uintptr_t{4 * page});
  EXPECT_EQ(cache->get(nothing, page, Access::remote_read), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(cache->counters().regions, 0u);
}

// Verbs want the local right for that, too. [IBTA 11.2.8.1]
TEST_F(RegistrationContract, MemoryForPutsOfPeersIsRegistered) {
  std::byte* const buffer = map(size_bytes);
  Registration* const target = cache->get(buffer, size_bytes, Access::remote_write);
  ASSERT_NE(target, nullptr);
  cache->put(target);
}

// A key lets a peer do no more than was asked for.
TEST_F(RegistrationContract, WhatWasNotForReadingIsNotRead) {
  std::byte* const secret = map(size_bytes);
  std::byte* const buffer = map(size_bytes);
  Registration* const target = cache->get(buffer, size_bytes, Access::local_write);
  Registration* const source = cache->get(secret, size_bytes, Access::local_write);
  EXPECT_FALSE(wire.read(buffer, target->lkey, secret, source->rkey, size_bytes));
  cache->put(source);
  cache->put(target);
}

// ---- the locked-memory limit ----

// A limit for this thread. Before the device is opened: verbs refuses other credentials later.
class LowLimit {
 public:
  explicit LowLimit(std::size_t bytes) {
    getrlimit(RLIMIT_MEMLOCK, &before_);
    rlimit low = before_;
    low.rlim_cur = std::min<rlim_t>(bytes, before_.rlim_max);
    if (setrlimit(RLIMIT_MEMLOCK, &low) != 0) throw std::runtime_error("setrlimit");
    // Root is not bound by it unless it lets go of this.
    if (syscall(SYS_capget, &header_, &had_) != 0) throw std::runtime_error("capget");
    __user_cap_data_struct less[2] = {had_[0], had_[1]};
    less[0].effective &= ~(1u << CAP_IPC_LOCK);
    if (syscall(SYS_capset, &header_, less) != 0) throw std::runtime_error("capset");
  }
  ~LowLimit() {
    syscall(SYS_capset, &header_, had_);
    setrlimit(RLIMIT_MEMLOCK, &before_);
  }

 private:
  rlimit before_{};
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct had_[2]{};
};

constexpr std::size_t limit = 2 << 20;

struct Limited {
  LowLimit low{limit};
};
struct RegistrationLimit : Limited, RegistrationContract {};

TEST_F(RegistrationLimit, UnusedRegistrationsMakeRoom) {
  constexpr std::size_t piece = 256 << 10, pieces = 64;
  std::byte* const memory = map(pieces * 2 * piece);
  std::byte* const peer = map(piece);
  for (std::size_t i = 0; i < pieces; ++i) {
    fill(peer, static_cast<int>(i), piece);
    ASSERT_TRUE(read(memory + i * 2 * piece, peer, piece)) << i << ": " << std::strerror(errno);
    ASSERT_TRUE(is_full_of(memory + i * 2 * piece, static_cast<int>(i), piece));
  }
  EXPECT_GT(cache->counters().evictions, pieces / 2);
  EXPECT_EQ(cache->counters().failures, 0u);
  EXPECT_LE(cache->counters().bytes_peak, limit);

  // More than there can be: refused, and nothing is broken.
  EXPECT_EQ(cache->get(memory, 2 * limit, Access::local_write), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_TRUE(read(memory, peer, piece));

  // All in use: refused, until one is put.
  std::vector<Registration*> held;
  for (std::size_t i = 0; i < pieces; ++i) {
    Registration* const one = cache->get(memory + i * 2 * piece, piece, Access::local_write);
    if (one == nullptr) break;
    held.push_back(one);
  }
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_GE(held.size(), 4u);
  EXPECT_LE(held.size(), limit / piece);
  cache->put(held.back());
  held.back() = cache->get(memory + (pieces - 1) * 2 * piece, piece, Access::local_write);
  EXPECT_NE(held.back(), nullptr);
  for (Registration* const one : held) cache->put(one);
}

}  // namespace
}  // namespace weir::verbs
