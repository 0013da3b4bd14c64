// The cache's own rules and UCX's hooks, with registrations that are only counted: no device. The
// same on a real one, with data: tests/contract/registration_contract.cc.
#include "transport/verbs/registration_cache.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weir::verbs {
namespace {

const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
constexpr std::size_t granule = 16;  // registrations begin and end at multiples of it

// Registers in a book. Like an adapter it has a limit and reads protections, when told to.
struct Book {
  struct Line {
    std::uintptr_t address;
    std::size_t length_bytes;
    Access access;
  };
  std::mutex lock;
  std::map<std::uint32_t, Line> lines;  // by key
  std::uint32_t entered = 0, removed = 0, refused = 0;
  std::size_t limit_bytes = SIZE_MAX, bytes = 0;
  std::uintptr_t read_only = 0;  // a page that must not be written
  int refuse_with = 0;

  Registrar registrar() { return {this, enter, remove}; }

  static void* enter(void* context, void* address, std::size_t length_bytes, Access access,
                     std::uint32_t& lkey, std::uint32_t& rkey) {
    Book& book = *static_cast<Book*>(context);
    std::lock_guard guard(book.lock);
    const auto from = reinterpret_cast<std::uintptr_t>(address);
    const bool writes =
        (access & (Access::local_write | Access::remote_write | Access::remote_atomic)) !=
        Access::local_read;
    errno = 0;
    if (book.refuse_with != 0) errno = book.refuse_with;
    if (writes && book.read_only - from < length_bytes) errno = EFAULT;
    if (book.bytes + length_bytes > book.limit_bytes) errno = ENOMEM;
    if (errno != 0) {
      ++book.refused;
      return nullptr;
    }
    lkey = ++book.entered;
    rkey = lkey + 1000000;
    book.bytes += length_bytes;
    book.lines[lkey] = {from, length_bytes, access};
    return reinterpret_cast<void*>(std::uintptr_t{lkey});
  }
  static void remove(void* context, void* handle) {
    Book& book = *static_cast<Book*>(context);
    std::lock_guard guard(book.lock);
    const auto found =
        book.lines.find(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(handle)));
    ASSERT_NE(found, book.lines.end()) << "removed twice";
    book.bytes -= found->second.length_bytes;
    book.lines.erase(found);
    ++book.removed;
  }
};

struct Registrations : testing::Test {
  Book book;
  std::unique_ptr<RegistrationCache> cache;
  RegistrationCache::Options options;

  void open() {
    std::string why;
    cache = RegistrationCache::create(book.registrar(), options, why);
    ASSERT_NE(cache, nullptr) << why;
  }
  void SetUp() override { open(); }
  void TearDown() override {
    cache.reset();
    EXPECT_TRUE(book.lines.empty());
    EXPECT_EQ(book.entered, book.removed);
  }

  // Uses the bytes once; the key they had, 0 if none.
  std::uint32_t use(const void* address, std::size_t length_bytes,
                    Access access = Access::local_write) {
    Registration* const registration = cache->get(address, length_bytes, access);
    if (registration == nullptr) return 0;
    const std::uint32_t key = registration->lkey;
    {
      std::lock_guard guard(book.lock);
      const auto line = book.lines.find(key);
      EXPECT_NE(line, book.lines.end()) << "a registration that ended";
      const auto from = reinterpret_cast<std::uintptr_t>(address);
      EXPECT_LE(line->second.address, from);
      EXPECT_GE(line->second.address + line->second.length_bytes, from + length_bytes);
      EXPECT_TRUE(includes(line->second.access, access));
      EXPECT_EQ(registration->rkey, key + 1000000);
    }
    cache->put(registration);
    return key;
  }

  // The next use finds nothing of the last one.
  void expect_forgotten(void* address, std::uint32_t old_key) {
    void* const again = mmap(address, page, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(again, address);
    EXPECT_NE(use(address, page), old_key);
    EXPECT_EQ(book.lines.count(old_key), 0u);
    munmap(again, page);
  }
};

std::byte* map(std::size_t bytes, int protection = PROT_READ | PROT_WRITE) {
  void* const at = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(at, MAP_FAILED);
  return static_cast<std::byte*>(at);
}

TEST_F(Registrations, AreFoundAgain) {
  std::byte* const at = map(4 * page);
  const std::uint32_t key = use(at + 10, 3 * page);
  EXPECT_EQ(use(at + 10, 3 * page), key);
  EXPECT_EQ(use(at + page, 5), key);
  EXPECT_EQ(cache->counters().misses, 1u);
  EXPECT_EQ(cache->counters().hits, 2u);
  EXPECT_EQ(cache->counters().bytes, 3 * page + granule);
  EXPECT_EQ(cache->counters().regions, 1u);
  munmap(at, 4 * page);
}

TEST_F(Registrations, NothingIsRefused) {
  EXPECT_EQ(cache->get(&book, 0, Access::local_read), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cache->get(&book, SIZE_MAX, Access::local_read), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// ---- memory that goes away ----

TEST_F(Registrations, EndWithMunmap) {
  std::byte* const at = map(page);
  const std::uint32_t key = use(at, page);
  munmap(at, page);
  expect_forgotten(at, key);
  EXPECT_GE(cache->counters().invalidations, 1u);
}

TEST_F(Registrations, EndWithMunmapOfAPart) {
  std::byte* const at = map(4 * page);
  const std::uint32_t key = use(at, 4 * page);
  munmap(at + 2 * page, page);
  expect_forgotten(at + 2 * page, key);
  munmap(at, 4 * page);
}

TEST_F(Registrations, EndWithMremap) {
  std::byte* const at = map(page);
  const std::uint32_t key = use(at, page);
  void* const moved = mremap(at, page, 1000 * page, MREMAP_MAYMOVE);
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_NE(use(moved, page), key);
  EXPECT_EQ(book.lines.count(key), 0u);
  munmap(moved, 1000 * page);
}

TEST_F(Registrations, EndWithMapFixed) {
  std::byte* const at = map(page);
  const std::uint32_t key = use(at, page);
  ASSERT_NE(mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), MAP_FAILED);
  EXPECT_NE(use(at, page, Access::remote_read), key);
  EXPECT_EQ(book.lines.count(key), 0u);
  munmap(at, page);
}

TEST_F(Registrations, EndWithMadvise) {
  for (const int advice : {MADV_DONTNEED, MADV_FREE}) {
    std::byte* const at = map(page);
    const std::uint32_t key = use(at, page);
    ASSERT_EQ(madvise(at, page, advice), 0);
    EXPECT_NE(use(at, page), key);
    munmap(at, page);
  }
}

TEST_F(Registrations, EndWithShmdt) {
  const int id = shmget(IPC_PRIVATE, page, IPC_CREAT | 0600);
  ASSERT_GE(id, 0);
  void* const at = shmat(id, nullptr, 0);
  shmctl(id, IPC_RMID, nullptr);
  const std::uint32_t key = use(at, page);
  shmdt(at);
  expect_forgotten(at, key);
}

TEST_F(Registrations, EndWithFreeAndRealloc) {
  constexpr std::size_t large = 64 << 20;  // never from the heap
  void* volatile buffer = malloc(large);
  const std::uint32_t key = use(buffer, large);
  buffer = realloc(buffer, 4 * large);
  const std::uint32_t second = use(buffer, large);
  EXPECT_NE(second, key);
  free(buffer);
  buffer = malloc(4 * large);  // usually the same place
  EXPECT_NE(use(buffer, large), second);
  free(buffer);
}

TEST_F(Registrations, EndWithTheTopOfTheHeap) {
  constexpr std::size_t bytes = 8 << 20;
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  void* volatile buffer = malloc(bytes);
  const auto* const before = static_cast<std::byte*>(sbrk(0));
  const std::uint32_t key = use(static_cast<std::byte*>(buffer) + bytes - page, page);
  free(buffer);
  malloc_trim(0);
  ASSERT_LT(static_cast<std::byte*>(sbrk(0)), before);
  buffer = malloc(bytes);
  EXPECT_NE(use(static_cast<std::byte*>(buffer) + bytes - page, page), key);
  free(buffer);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
}

// The loader unmaps by system calls of its own, which no hooks see.
TEST_F(Registrations, EndWithTheirLibrary) {
  const void* last = nullptr;
  std::uint32_t key = 0;
  int again = 0;
  for (const char* path : {WEIR_BLOCKS, WEIR_BLOCKS}) {
    void* const library = dlopen(path, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    const void* const block = dlsym(library, "block");
    const std::uint32_t old = std::exchange(key, use(block, 100 * page));
    EXPECT_EQ(use(block, 100 * page), key) << "while it is there";
    if (block == std::exchange(last, block)) {
      EXPECT_NE(key, old);
      ++again;
    }
    dlclose(library);
  }
  EXPECT_GT(again, 0) << "each was loaded at another address";
}

TEST_F(Registrations, InUseOutliveTheirMemory) {
  std::byte* const at = map(page);
  Registration* const old = cache->get(at, page, Access::local_write);
  ASSERT_NE(old, nullptr);
  munmap(at, page);
  std::byte* const again = map(page);
  const std::uint32_t key = use(again, page);
  EXPECT_NE(key, old->lkey);
  EXPECT_EQ(book.lines.count(old->lkey), 1u);
  cache->put(old);
  EXPECT_EQ(book.lines.size(), 1u);
  munmap(again, page);
}

// Without a call to the cache, much unmapped memory is let go by UCX's thread.
TEST_F(Registrations, AreLetGoWithoutAnyCall) {
  constexpr std::size_t bytes = 4 << 20;
  for (int i = 0; i < 32; ++i) {
    std::byte* const at = map(bytes);
    use(at, bytes);
    munmap(at, bytes);
  }
  std::vector<std::byte*> kept;
  for (int i = 0; i < 32; ++i) use(kept.emplace_back(map(bytes)), bytes);
  for (std::byte* const at : kept) munmap(at, bytes);
  for (int i = 0; i < 1000; ++i) {
    {
      std::lock_guard guard(book.lock);
      if (book.bytes <= std::size_t{32} << 20) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << "unmapped memory stays registered";
}

// That the tests above can fail.
TEST_F(Registrations, WithoutHooksAreStale) {
  cache.reset();
  options.hooks = RegistrationCache::Hooks::none;
  open();
  std::byte* const at = map(page);
  const std::uint32_t key = use(at, page);
  munmap(at, page);
  ASSERT_EQ(mmap(at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            at);
  EXPECT_EQ(use(at, page), key);
  munmap(at, page);
}

// ---- nothing is kept ----

struct SingleUses : Registrations {
  void SetUp() override {
    options.unused = RegistrationCache::Unused::ended;
    options.hooks = RegistrationCache::Hooks::none;  // which would be stale if anything were kept
    options.max_bytes = 4 * page;
    open();
  }
};

TEST_F(SingleUses, EndAtOnce) {
  std::byte* const at = map(2 * page);
  const std::uint32_t key = use(at + 100, page);
  EXPECT_NE(key, 0u);
  EXPECT_TRUE(book.lines.empty());
  EXPECT_NE(use(at + 100, page, Access::remote_read), key);
  EXPECT_EQ(cache->counters().regions, 0u);
  EXPECT_EQ(cache->counters().misses, 2u);
  munmap(at, 2 * page);
}

TEST_F(SingleUses, ShareNothing) {
  std::byte* const at = map(page);
  Registration* const one = cache->get(at, page, Access::local_write);
  Registration* const other = cache->get(at, page, Access::remote_read);
  ASSERT_TRUE(one != nullptr && other != nullptr);
  EXPECT_EQ(cache->in_use(), 2u);
  EXPECT_EQ(one->access, Access::local_write);
  cache->put(one);
  EXPECT_EQ(book.lines.count(other->lkey), 1u);
  cache->put(other);
  EXPECT_TRUE(book.lines.empty());
  munmap(at, page);
}

TEST_F(SingleUses, HaveTheSameLimits) {
  std::byte* const at = map(4 * page);
  Registration* const most = cache->get(at, 4 * page, Access::local_write);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(cache->get(at, page, Access::local_write), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  cache->put(most);
  book.refuse_with = EFAULT;
  EXPECT_EQ(cache->get(at, page, Access::local_write), nullptr);
  EXPECT_EQ(errno, EFAULT);
  book.refuse_with = 0;
  EXPECT_NE(cache->get(at, page, Access::local_write), nullptr);  // ended by the cache
  munmap(at, 4 * page);
}

// ---- overlap and rights ----

TEST_F(Registrations, ThatOverlapBecomeOne) {
  std::byte* const at = map(4 * page);
  Registration* const lower = cache->get(at, 2 * page, Access::local_write);
  const std::uint32_t upper = use(at + page, 3 * page);
  EXPECT_NE(upper, lower->lkey);
  EXPECT_EQ(use(at, 4 * page), upper);
  EXPECT_EQ(book.lines.count(lower->lkey), 1u);  // its user may still be at it
  cache->put(lower);
  EXPECT_EQ(book.lines.size(), 1u);
  munmap(at, 4 * page);
}

TEST_F(Registrations, HaveTheRightsAskedForOnly) {
  std::byte* const at = map(page);
  Registration* registration = cache->get(at, page, Access::remote_read);
  EXPECT_EQ(registration->access, Access::remote_read);
  cache->put(registration);
  munmap(at, page);
}

TEST_F(Registrations, AreWidenedOnceAndStay) {
  std::byte* const at = map(page);
  const std::uint32_t narrow = use(at, page, Access::remote_read);
  const std::uint32_t wide = use(at, page, Access::local_write);
  EXPECT_NE(wide, narrow);
  std::uint32_t widest = use(at, page, Access::remote_read);
  widest = use(at, page, Access::remote_write | Access::remote_atomic);
  const std::uint32_t entered = book.entered;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(use(at, page, Access::remote_read), widest);
    EXPECT_EQ(use(at, page, Access::local_write), widest);
    EXPECT_EQ(use(at, page, Access::remote_atomic), widest);
  }
  EXPECT_EQ(book.entered, entered);
  EXPECT_EQ(book.lines.size(), 1u);
  munmap(at, page);
}

TEST_F(Registrations, AreWidenedAsAWhole) {
  std::byte* const at = map(4 * page);
  for (int i = 0; i < 10; ++i) {
    use(at, 4 * page, Access::local_write);
    use(at + page, page, Access::remote_atomic);
  }
  EXPECT_EQ(book.entered, 2u);
  munmap(at, 4 * page);
}

// Neighbours that overlap become one; what is sent from some and received into others, in any order
// and several at a time, is soon registered once and for all.
TEST_F(Registrations, OfNeighboursWithOtherRightsSettle) {
  constexpr std::size_t buffers = 8, in_flight = 3;
  const std::size_t bytes = page + 1;
  std::byte* const at = map(buffers * bytes);
  std::deque<Registration*> used;
  const auto use_all = [&] {
    for (std::size_t i = 0; i < buffers; ++i) {
      const std::size_t which = i * 5 % buffers;
      used.push_back(cache->get(at + which * bytes, bytes,
                                which < 4 ? Access::remote_read : Access::local_write));
      ASSERT_NE(used.back(), nullptr);
      if (used.size() <= in_flight) continue;
      cache->put(used.front());
      used.pop_front();
    }
  };
  for (int i = 0; i < 3; ++i) use_all();
  const std::uint32_t entered = book.entered;
  for (int i = 0; i < 10; ++i) use_all();
  EXPECT_EQ(book.entered, entered);
  for (Registration* const registration : used) cache->put(registration);
  EXPECT_EQ(book.lines.size(), 1u);
  munmap(at, buffers * bytes);
}

// As malloc cuts them: each is registered once, whatever their order.
TEST_F(Registrations, OfNeighboursOnOnePageStayApart) {
  constexpr std::size_t buffers = 8;
  const std::size_t bytes = 3 * page + granule;
  std::byte* const at = map(buffers * bytes);
  for (std::size_t i = 0; i < 3 * buffers; ++i) use(at + i * 5 % buffers * bytes, bytes);
  EXPECT_EQ(book.entered, buffers);
  EXPECT_EQ(cache->counters().bytes_peak, buffers * bytes);
  munmap(at, buffers * bytes);
}

TEST_F(Registrations, OfSmallNeighboursAreOne) {
  std::byte* const at = map(page);
  const std::uint32_t key = use(at + 24, 8);
  for (std::size_t i = 0; i + 50 <= page; i += 100) EXPECT_EQ(use(at + i, 50), key);
  munmap(at, page);
}

// The wider right is not available for all of the memory: the part that has it gets it.
TEST_F(Registrations, AreNotWidenedWhereThatIsNotAllowed) {
  std::byte* const at = map(2 * page);
  ASSERT_EQ(mprotect(at, page, PROT_READ), 0);
  book.read_only = reinterpret_cast<std::uintptr_t>(at);
  EXPECT_NE(use(at, 2 * page, Access::remote_read), 0u);
  EXPECT_NE(use(at + page, page, Access::remote_write), 0u);
  EXPECT_NE(use(at + page, page, Access::local_write), 0u);
  EXPECT_NE(use(at, page, Access::remote_read), 0u);
  munmap(at, 2 * page);
}

TEST_F(Registrations, OfReadOnlyMemory) {
  std::byte* const at = map(2 * page);
  ASSERT_EQ(mprotect(at, page, PROT_READ), 0);
  book.read_only = reinterpret_cast<std::uintptr_t>(at);
  EXPECT_NE(use(at, page, Access::remote_read), 0u);
  EXPECT_EQ(cache->get(at, page, Access::local_write), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_NE(use(at, page, Access::remote_read), 0u);
  // A neighbour that may be written does not drag it along.
  EXPECT_NE(use(at + page, page, Access::local_write), 0u);
  EXPECT_NE(use(at, 2 * page, Access::remote_read), 0u);
  EXPECT_NE(use(at, page, Access::remote_read), 0u);
  EXPECT_NE(use(at + page, page, Access::local_write), 0u);
  munmap(at, 2 * page);
}

// ---- limits ----

TEST_F(Registrations, AtTheCapTheLongestUnusedGoes) {
  cache.reset();
  options.max_regions = 3;
  open();
  std::byte* const at = map(16 * page);
  const std::uint32_t a = use(at, page), b = use(at + 2 * page, page), c = use(at + 4 * page, page);
  EXPECT_EQ(use(at, page), a);
  const std::uint32_t d = use(at + 6 * page, page);
  EXPECT_EQ(book.lines.size(), 3u);
  EXPECT_EQ(book.lines.count(b), 0u);
  EXPECT_EQ(use(at, page), a);
  EXPECT_EQ(use(at + 4 * page, page), c);
  EXPECT_EQ(use(at + 6 * page, page), d);
  EXPECT_EQ(cache->counters().evictions, 1u);
  EXPECT_EQ(cache->counters().invalidations, 0u);
  munmap(at, 16 * page);
}

// As many as there is memory for: windows are in use from their beginning to their end.
TEST_F(Registrations, AreNotLimitedByANumberOfTheirOwn) {
  constexpr std::size_t count = 10000;
  std::byte* const at = map(2 * count * page);
  std::vector<Registration*> held;
  for (std::size_t i = 0; i < count; ++i) {
    held.push_back(cache->get(at + 2 * i * page, page, Access::all));
    ASSERT_NE(held.back(), nullptr) << i;
  }
  for (Registration* const one : held) cache->put(one);
  EXPECT_EQ(cache->counters().regions, count);
  munmap(at, 2 * count * page);
}

TEST_F(Registrations, AtTheCapOfRegionsManyGoAtATime) {
  cache.reset();
  options.max_regions = 64;
  open();
  std::byte* const at = map(400 * page);
  for (std::size_t i = 0; i < 65; ++i) EXPECT_NE(use(at + 2 * i * page, page), 0u);
  EXPECT_EQ(cache->counters().evictions, 5u);
  EXPECT_EQ(cache->counters().regions_limit, 64u);
  std::vector<Registration*> held;
  for (std::size_t i = 0; i < 64; ++i)
    held.push_back(cache->get(at + (200 + 2 * i) * page, page, Access::local_write));
  EXPECT_EQ(cache->get(at, page, Access::local_write), nullptr);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(cache->counters().limited, 1u);
  for (Registration* const one : held) cache->put(one);
  munmap(at, 400 * page);
}

TEST_F(Registrations, AreAtMostAsLongAsTheAdapterTakes) {
  cache.reset();
  options.max_region_bytes = 4 * page;
  open();
  std::byte* const at = map(16 * page);
  const std::uint32_t first = use(at, 4 * page);
  EXPECT_NE(first, 0u);
  EXPECT_EQ(cache->get(at, 5 * page, Access::local_write), nullptr);
  // They overlap, and would be too long as one.
  EXPECT_NE(use(at + 2 * page, 4 * page), 0u);
  EXPECT_NE(use(at, 4 * page), 0u);
  EXPECT_EQ(cache->counters().limited, 1u);
  EXPECT_LE(cache->counters().bytes_peak, 16 * page);
  munmap(at, 16 * page);
}

TEST_F(Registrations, WhatIsInUseIsNotGivenUp) {
  cache.reset();
  options.max_bytes = 4 * page;
  open();
  std::byte* const at = map(16 * page);
  Registration* const held = cache->get(at, 2 * page, Access::local_write);
  EXPECT_NE(use(at + 4 * page, 2 * page), 0u);
  EXPECT_NE(use(at + 8 * page, 2 * page), 0u);  // instead of the last
  EXPECT_EQ(cache->get(at + 10 * page, 3 * page, Access::local_write), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(cache->counters().bytes, 2 * page);
  EXPECT_EQ(use(at, 2 * page), held->lkey);
  cache->put(held);
  EXPECT_NE(use(at + 10 * page, 3 * page), 0u);
  EXPECT_EQ(cache->counters().bytes_peak, 4 * page);
  munmap(at, 16 * page);
}

TEST_F(Registrations, WhatCanNeverFitCostsNothing) {
  cache.reset();
  options.max_bytes = 4 * page;
  open();
  std::byte* const at = map(16 * page);
  const std::uint32_t key = use(at, page);
  EXPECT_EQ(cache->get(at + 2 * page, 5 * page, Access::local_write), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(use(at, page), key);
  munmap(at, 16 * page);
}

TEST_F(Registrations, MakeRoomAtTheSystemsLimit) {
  book.limit_bytes = 8 * page;
  std::byte* const at = map(64 * page);
  for (std::size_t i = 0; i < 64; i += 4) EXPECT_NE(use(at + i * page, 3 * page), 0u);
  EXPECT_GT(cache->counters().evictions, 10u);
  EXPECT_EQ(cache->counters().failures, 0u);
  EXPECT_EQ(cache->get(at, 20 * page, Access::local_write), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(cache->counters().regions, 0u);
  EXPECT_EQ(cache->counters().bytes, 0u);
  for (std::size_t i = 0; i < 64; i += 4) EXPECT_NE(use(at + i * page, 3 * page), 0u);
  munmap(at, 64 * page);
}

TEST_F(Registrations, AFailureIsNotRemembered) {
  std::byte* const at = map(4 * page);
  for (const int error : {EFAULT, EINVAL, EIO}) {
    book.refuse_with = error;
    EXPECT_EQ(cache->get(at, page, Access::local_write), nullptr);
    EXPECT_EQ(errno, error);
  }
  book.refuse_with = 0;
  EXPECT_NE(use(at, page), 0u);
  EXPECT_EQ(cache->counters().failures, 3u);
  EXPECT_EQ(book.refused, 3u);
  munmap(at, 4 * page);
}

// ---- processes and threads ----

TEST_F(Registrations, BeforeAForkTheUnusedGo) {
  std::byte* const at = map(4 * page);
  const std::uint32_t unused = use(at, page);
  Registration* const held = cache->get(at + 2 * page, page, Access::local_write);
  const pid_t child = fork();
  if (child == 0) {
    munmap(at, page);
    cache.reset();
    // What is the parent's must stay.
    _exit(book.removed == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(book.lines.count(unused), 0u);
  EXPECT_EQ(book.lines.count(held->lkey), 1u);
  cache->put(held);
  EXPECT_NE(use(at, page), 0u);
  munmap(at, 4 * page);
}

TEST_F(Registrations, StayAtAForkThatNeedsNoCare) {
  cache.reset();
  options.purge_on_fork = false;
  open();
  std::byte* const at = map(page);
  const std::uint32_t key = use(at, page);
  const pid_t child = fork();
  if (child == 0) {
    cache.reset();
    _exit(book.removed == 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(use(at, page), key);
  munmap(at, page);
}

TEST_F(Registrations, ThreadsGetPutAndUnmapAtOnce) {
  cache.reset();
  options.max_regions = 8;
  open();
  std::byte* const shared = map(32 * page);
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::uint32_t random = number + 1;
      for (int i = 0; i < 3000; ++i) {
        random = random * 1664525 + 1013904223;
        if (random >> 30 == 0) {
          std::byte* const own = map(2 * page);
          use(own, 2 * page);
          munmap(own, 2 * page);
        } else {
          const std::size_t first = (random >> 20) % 30;
          use(shared + first * page, page + (random >> 16) % page,
              (random >> 29 & 1) != 0 ? Access::remote_read : Access::local_write);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache->counters().regions, 8u);
  EXPECT_EQ(cache->counters().hits + cache->counters().misses + cache->counters().failures, 12000u);
  munmap(shared, 32 * page);
}

TEST_F(Registrations, EndWithTheCacheInUseOrNot) {
  std::byte* const at = map(4 * page);
  use(at, page);
  EXPECT_NE(cache->get(at + 2 * page, page, Access::local_write), nullptr);
  Registration* const gone = cache->get(at + 3 * page, page, Access::local_write);
  EXPECT_NE(gone, nullptr);
  munmap(at, 4 * page);
  testing::internal::CaptureStdout();
  cache.reset();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace weir::verbs
