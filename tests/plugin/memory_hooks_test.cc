// In a process of Open MPI's: does the registration cache see memory go away? UCX's hooks alone do,
// until Open MPI's are opened; with Open MPI's passed on, always.
//
// usage: memory_hooks_test own | forwarded | late
//   own        UCX alone; then Open MPI's hooks are opened, which must make it blind (or weir need
//              not bother), and a cache made then must refuse, passed on or not
//   forwarded  what the BTL does; another user of UCX's hooks must go on seeing all
//   late       Open MPI's hooks are opened first, by somebody else, whom loading UCX would blind; of
//              an Open MPI that is linked with UCX, which was there before then, nobody is blinded
#include "transport/btl/memory_hooks.h"

#include <malloc.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "transport/btl/compat.h"
#include "transport/verbs/registration_cache.h"
#include "transport/verbs/ucx.h"

namespace {

using weir::Access;
using weir::verbs::Registration;
using weir::verbs::RegistrationCache;

const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
int failures = 0;

void expect(bool good, const std::string& what) {
  std::printf("  %s %s\n", good ? "ok  " : "FAIL", what.c_str());
  if (!good) ++failures;
}

std::uint32_t next_key = 0;
void* enter(void*, void*, std::size_t, Access, std::uint32_t& lkey, std::uint32_t& rkey) {
  lkey = rkey = ++next_key;
  return &next_key;
}
void remove(void*, void*) {}

std::unique_ptr<RegistrationCache> make(RegistrationCache::Hooks hooks, std::string& why) {
  RegistrationCache::Options options;
  options.hooks = hooks;
  return RegistrationCache::create({nullptr, enter, remove}, options, why);
}

std::uint32_t use(RegistrationCache& cache, void* at) {
  Registration* const registration = cache.get(at, page, Access::remote_read);
  if (registration == nullptr) return 0;
  const std::uint32_t key = registration->lkey;
  cache.put(registration);
  return key;
}

// Volatile, for compilers know that free() changes no variable.
volatile int open_mpi_events = 0;
void count_release(void*, std::size_t, void*, bool) { open_mpi_events = open_mpi_events + 1; }

volatile int other_events = 0;  // of another user of UCX in this process
void count_event(ucm_event_type_t, ucm_event_t*, void*) { other_events = other_events + 1; }

// For each way: is the registration forgotten, and was the other user told?
// `weir_must_see`: also what neither UCX's hooks nor Open MPI's see.
void try_all(RegistrationCache& cache, bool expected, bool open_mpi_must_see,
             bool weir_must_see = false) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  const auto map = [] {
    return static_cast<std::byte*>(mmap(nullptr, page, PROT_READ | PROT_WRITE, flags, -1, 0));
  };
  const auto check = [&](const std::string& name, void* at, auto&& replace) {
    const std::uint32_t before = use(cache, at);
    const int events = other_events;
    open_mpi_events = 0;
    replace();
    const bool told = open_mpi_events > 0;
    const bool seen = use(cache, at) != before;
    expect(seen == expected, name + (seen ? " is seen" : " is not seen"));
    if (open_mpi_must_see) expect(told, name + ", by Open MPI's hooks");
    if (expected) expect(other_events > events, name + ", by other users of UCX too");
  };
  std::byte* at = map();
  const auto again = [&] { mmap(at, page, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0); };
  check("munmap", at, [&] { munmap(at, page); });
  at = map();
  check("mremap", at, [&] { mremap(at, page, 1000 * page, MREMAP_MAYMOVE); });
  at = map();
  check("madvise", at, [&] { madvise(at, page, MADV_DONTNEED); });
  if (weir_must_see) {
    constexpr int guard_install = 102, nobody_knows = 1000;
    for (const int advice :
         {MADV_FREE, MADV_REMOVE, MADV_DONTNEED_LOCKED, guard_install, nobody_knows})
      check("advice " + std::to_string(advice), at, [&] { madvise(at, page, advice); });
    check("mremap onto it", at,
          [&] { mremap(map(), page, page, MREMAP_MAYMOVE | MREMAP_FIXED, at); });
    check("MREMAP_DONTUNMAP", at,
          [&] { mremap(at, page, page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr); });
    at = static_cast<std::byte*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, flags, -1, 0));
    check("the end of a page", at + page / 2, [&] { madvise(at, 8, MADV_DONTNEED); });
    const std::uint32_t key = use(cache, at);
    madvise(at, page, MADV_DONTFORK);
    madvise(at, page, MADV_WILLNEED);
    expect(use(cache, at) == key, "harmless advice ends nothing");
  }
  at = map();
  check("mmap with MAP_FIXED", at, again);
  const int id = shmget(IPC_PRIVATE, page, IPC_CREAT | 0600);
  auto* const shared = static_cast<std::byte*>(shmat(id, nullptr, 0));
  shmctl(id, IPC_RMID, nullptr);
  check("shmdt", shared, [&] { shmdt(shared); });
  constexpr std::size_t large = 64 << 20;
  void* volatile buffer = malloc(large);
  check("free", buffer, [&] { free(buffer); });
}

// The top of the heap, which Open MPI's hooks do not see and UCX's always do.
void try_heap(RegistrationCache& cache) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  constexpr std::size_t bytes = 8 << 20;
  void* volatile buffer = malloc(bytes);
  std::byte* const last = static_cast<std::byte*>(buffer) + bytes - page;
  const std::uint32_t before = use(cache, last);
  auto* const top = static_cast<std::byte*>(sbrk(0));
  free(buffer);
  malloc_trim(0);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  if (static_cast<std::byte*>(sbrk(0)) >= top) {
    std::printf("  the heap does not shrink here\n");
    return;
  }
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  buffer = malloc(bytes);
  expect(use(cache, last) != before, "a smaller heap is seen");
  free(buffer);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count == 2 ? arguments[1] : "";
  MPI_Init(&count, &arguments);
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  std::string why;
  const auto open_open_mpi = [] {
    expect(mca_base_framework_open(&opal_memory_base_framework,
                                   static_cast<mca_base_open_flag_t>(0)) == OPAL_SUCCESS,
           "Open MPI's hooks open");
    opal_mem_hooks_register_release(count_release, nullptr);  // refused before
  };
  const bool linked_with_ucx = weir::verbs::is_ucx_loaded();
  if (mode == "late") {
    open_open_mpi();
    const bool opened = weir::btl::open_memory_hooks(why);
    if (linked_with_ucx) {
      expect(opened, "UCX was there first: Open MPI's hooks are passed on");
      weir::btl::close_memory_hooks();
    } else {
      expect(!opened, "weir keeps away: " + why);
      expect(!weir::verbs::is_ucx_loaded(), "UCX is not loaded");
    }
    why.clear();
  }
  const weir::verbs::Ucx* const ucx = weir::verbs::load_ucx(why);
  expect(ucx != nullptr, "UCX " + why);
  ucx->set_event_handler(UCM_EVENT_VM_UNMAPPED | UCM_EVENT_FLAG_NO_INSTALL, 1, count_event,
                         nullptr);
  if (mode == "own") {
    auto cache = make(RegistrationCache::Hooks::own, why);
    expect(cache != nullptr, "UCX's hooks are there " + why);
    if (cache != nullptr) {
      try_all(*cache, true, false);
      try_heap(*cache);
      open_open_mpi();
      try_all(*cache, false, true);
      cache.reset();
      cache = make(RegistrationCache::Hooks::own, why);
      expect(cache == nullptr, "a cache that would be blind is refused: " + why);
      // UCX tries no hooks but its own: that nobody passes events on, weir finds out.
      why.clear();
      cache = make(RegistrationCache::Hooks::forwarded, why);
      expect(cache == nullptr && why.find("would not be seen") != std::string::npos,
             "so is one that nobody passes events on to: " + why);
    }
  } else if (mode == "forwarded") {
    for (int round = 0; round < 2; ++round) {
      expect(weir::btl::open_memory_hooks(why), "Open MPI's hooks are passed on");
      if (mode == "forwarded" && round == 0) {
        opal_mem_hooks_register_release(count_release, nullptr);
      }
      auto cache = make(RegistrationCache::Hooks::forwarded, why);
      expect(cache != nullptr, "a cache " + why);
      if (cache == nullptr) break;
      try_all(*cache, true, true, true);
      try_heap(*cache);
      cache.reset();
      weir::btl::close_memory_hooks();
    }
  } else if (mode == "late") {
    // Why it must: UCX was loaded above, for this.
    open_mpi_events = 0;
    munmap(mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), page);
    if (!linked_with_ucx) {
      expect(open_mpi_events == 0, "loading UCX has made Open MPI's hooks blind");
    }
    // With UCX there, whoever loaded it, they can be passed on; and UCX itself sees the rest.
    expect(weir::btl::open_memory_hooks(why), "Open MPI's hooks are passed on");
    auto cache = make(RegistrationCache::Hooks::forwarded, why);
    expect(cache != nullptr, "a cache " + why);
    if (cache != nullptr) {
      try_all(*cache, true, linked_with_ucx);
      try_heap(*cache);
    }
    cache.reset();
    weir::btl::close_memory_hooks();
  } else {
    std::fprintf(stderr, "usage: memory_hooks_test own | forwarded | late\n");
    return 2;
  }
  ucx->unset_event_handler(UCM_EVENT_VM_UNMAPPED, count_event, nullptr);
  opal_mem_hooks_unregister_release(count_release);
  MPI_Finalize();
  std::printf("memory_hooks_test %s: %s\n", mode.c_str(), failures == 0 ? "ok" : "failed");
  return failures == 0 ? 0 : 1;
}
