#include "transport/verbs/registration_cache.h"

#include <link.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "transport/verbs/blocked_signals.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/ucx.h"

namespace weir::verbs {
namespace {

constexpr Access writing = Access::local_write | Access::remote_write | Access::remote_atomic;

// Unmapped memory stays pinned until the next miss, or until this much of it waits.
constexpr std::size_t max_unreleased_bytes = std::size_t{16} << 20;

// For memory_goes_away: any thread may call it, and it must not load UCX.
std::atomic<void (*)(void*, std::size_t)> forward_to{nullptr};

bool writes(Access access) { return (access & writing) != Access::local_read; }

// The rights in the form that UCX merges. Memory that only our adapter reads needs none.
int protection(Access access) {
  return (includes(access, Access::remote_read) ? PROT_READ : 0) |
         (writes(access) ? PROT_WRITE : 0);
}
Access with_protection(Access access, int protection) {
  if ((protection & PROT_READ) != 0) access = access | Access::remote_read;
  if ((protection & PROT_WRITE) != 0 && !writes(access)) access = access | Access::local_write;
  return access;
}

bool is_exhaustion(int error) { return error == ENOMEM || error == EAGAIN || error == ENOSPC; }

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void add(std::uint64_t& counter, std::uint64_t by = 1) {
  std::atomic_ref(counter).fetch_add(by, std::memory_order_relaxed);
}

struct Range {
  std::uintptr_t start;
  std::size_t length_bytes;
};

// What is registered for a buffer. A buffer within a page gets the whole page, which serves its
// neighbours, too. A larger one gets just its bytes. With whole pages, neighbours in the heap would
// overlap, and UCX would merge and register them anew, larger every time.
Range range_for(std::uintptr_t start, std::size_t length_bytes) {
  const std::size_t page = page_bytes(), in_page = start % page;
  if (in_page + length_bytes <= page) return {start - in_page, page};
  return {start, length_bytes};
}

// The dynamic loader maps and unmaps libraries unseen: by system calls of its own. What it says of
// itself: how often it has loaded or unloaded something, and whether a range touches a library,
// which may go. The program itself, which comes first, does not.
struct Loader {
  Range range{};
  std::uint64_t changes = 0;
  bool is_library = false;

  // Allocates nothing, and waits for no constructor of a library that is being loaded.
  static Loader ask(Range range) {
    Loader loader{range};
    dl_iterate_phdr(note, &loader);
    return loader;
  }

 private:
  static int note(dl_phdr_info* object, std::size_t, void* argument) {
    Loader& loader = *static_cast<Loader*>(argument);
    const bool is_program = loader.changes == 0;
    loader.changes = object->dlpi_adds + object->dlpi_subs;
    for (int i = 0; i < object->dlpi_phnum && !is_program; ++i) {
      const auto& part = object->dlpi_phdr[i];
      const std::uintptr_t start = object->dlpi_addr + part.p_vaddr;
      const bool touches = loader.range.start < start + part.p_memsz &&
                           start < loader.range.start + loader.range.length_bytes;
      if (part.p_type == PT_LOAD && touches) loader.is_library = true;
    }
    return loader.is_library || loader.range.length_bytes == 0 ? 1 : 0;
  }
};

// What UCX allocates for a region. UCX's layout needs `super` first.
struct Entry {
  ucs_rcache_region_t super;
  Registration registration;
  void* handle;  // nullptr: the registration failed with `error`
  int error;
  std::uint64_t last_used;  // by the cache's clock of uses
  std::uint8_t dropped;     // we took it out of the cache
  bool evicted;             // it was dropped to make room
  bool in_library;          // its memory goes with a library
  Entry* previous;          // of all entries with a handle
  Entry* next;
  alignas(std::max_align_t) std::byte completion[64];  // used by UCX in some versions

  Range registered() const {
    return {reinterpret_cast<std::uintptr_t>(registration.address), registration.length_bytes};
  }
};
static_assert(std::is_standard_layout_v<Entry> && std::is_trivially_copyable_v<Entry>);

Entry& entry_of(ucs_rcache_region_t* region) { return *reinterpret_cast<Entry*>(region); }
Entry& entry_of(Registration* registration) {
  return *reinterpret_cast<Entry*>(reinterpret_cast<std::byte*>(registration) -
                                   offsetof(Entry, registration));
}

// References other than the cache's own.
std::uint32_t users(const Entry& entry) {
  const bool in_table = (entry.super.flags & UCS_RCACHE_REGION_FLAG_PGTABLE) != 0;
  return entry.super.refcount - (in_table ? 1 : 0);
}

// One call of ucs_rcache_get, for mem_reg.
struct Request {
  Access access;
  bool look_only = false;
  bool entered = false;  // out: there was a miss
};

// The signatures of UCX's functions differ between 1.13, 1.14 and later: each form has a case here.
template <typename Get>
ucs_status_t call_get(Get* get, ucs_rcache_t* cache, void* address, std::size_t length_bytes,
                      int prot, Request* request, ucs_rcache_region_t** region) {
  if constexpr (std::is_invocable_v<Get*, ucs_rcache_t*, void*, std::size_t, int, void*,
                                    ucs_rcache_region_t**>) {
    return get(cache, address, length_bytes, prot, request, region);
  } else {
    return get(cache, address, length_bytes, UCS_PGT_ADDR_ALIGN, prot, request, region);
  }
}

using Invalidated = void (*)(void*);

void call_invalidate(void (*invalidate)(ucs_rcache_t*, ucs_rcache_region_t*, Invalidated, void*),
                     ucs_rcache_t* cache, Entry& entry) {
  invalidate(
      cache, &entry.super, [](void*) {}, nullptr);
}

template <typename Completion>
void call_invalidate(void (*invalidate)(ucs_rcache_t*, ucs_rcache_region_t*, Completion*),
                     ucs_rcache_t* cache, Entry& entry) {
  static_assert(sizeof(Completion) <= sizeof entry.completion);
  auto* const completion = new (entry.completion) Completion{};
  completion->func = [](void*) {};
  invalidate(cache, &entry.super, completion);
}

template <typename Parameters>
void set_alignment(Parameters& parameters) {
  if constexpr (requires { parameters.max_alignment; }) {
    parameters.alignment = parameters.max_alignment = UCS_PGT_ADDR_ALIGN;
  }
}

template <typename Operations>
void set_merge(Operations& operations) {
  if constexpr (requires { operations.merge; }) {
    operations.merge = [](void*, ucs_rcache_t*, void*, ucs_rcache_region_t*) {};
  }
}

void* enter_verbs(void* context, void* address, std::size_t length_bytes, Access access,
                  std::uint32_t& lkey, std::uint32_t& rkey) {
  int flags = 0;
  // Verbs allow remote writes and atomics only together with local writes.
  if (writes(access)) flags |= IBV_ACCESS_LOCAL_WRITE;
  if (includes(access, Access::remote_read)) flags |= IBV_ACCESS_REMOTE_READ;
  if (includes(access, Access::remote_write)) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (includes(access, Access::remote_atomic)) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  ibv_mr* const mr =
      register_memory(static_cast<ibv_pd*>(context), address, length_bytes, flags);
  if (mr == nullptr) return nullptr;
  lkey = mr->lkey;
  rkey = mr->rkey;
  return mr;
}

void remove_verbs(void*, void* handle) { ibv_dereg_mr(static_cast<ibv_mr*>(handle)); }

// The test of the hooks: each call that takes pages away must raise an event before it does.
struct Expected {
  std::uintptr_t address;
  pthread_t thread;
  bool seen;
};

void note_expected(ucm_event_type_t, ucm_event_t* event, void* argument) {
  auto* const expected = static_cast<Expected*>(argument);
  if (pthread_equal(pthread_self(), expected->thread) == 0) return;
  const auto from = reinterpret_cast<std::uintptr_t>(event->vm_unmapped.address);
  if (expected->address - from < event->vm_unmapped.size) expected->seen = true;
}

// The name of the first call that takes pages away unseen; nullptr if all are seen. `own`: without
// what UCX's hooks alone do not see.
const char* find_blind_spot(const Ucx& ucx, bool own) {
  constexpr int events = UCM_EVENT_VM_UNMAPPED | UCM_EVENT_FLAG_NO_INSTALL;
  constexpr int advice_since_5_18 = 24;  // MADV_DONTNEED_LOCKED; seen before a kernel refuses it
  const std::size_t bytes = page_bytes();
  const auto map = [&](void* at, int flags) {
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  };
  Expected expected{0, pthread_self(), false};
  if (ucx.set_event_handler(events, 0, note_expected, &expected) != UCS_OK) return "anything";
  const auto sees = [&](void* page, auto&& act) {
    expected.address = reinterpret_cast<std::uintptr_t>(page);
    expected.seen = false;
    act();
    return expected.seen;
  };
  const char* blind = nullptr;
  void* page = map(nullptr, 0);
  if (page == MAP_FAILED) {
    blind = "mmap";
  } else if (!sees(page, [&] { madvise(page, bytes, MADV_DONTNEED); })) {
    blind = "madvise";
  } else if (!sees(page, [&] { map(page, MAP_FIXED); })) {
    blind = "mmap with MAP_FIXED";
  } else if (!own && !sees(page, [&] { madvise(page, bytes, advice_since_5_18); })) {
    blind = "newer advice of madvise";
  } else if (!own && !sees(page, [&] {
               mremap(map(nullptr, 0), bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, page);
             })) {
    blind = "mremap onto them";
  } else if (void* moved = MAP_FAILED;
             !sees(page, [&] { moved = mremap(page, bytes, bytes * 2, MREMAP_MAYMOVE); })) {
    blind = "mremap";
  } else if (!sees(moved, [&] { munmap(moved, bytes * 2); })) {
    blind = "munmap";
  }
  ucx.unset_event_handler(UCM_EVENT_VM_UNMAPPED, note_expected, &expected);
  // brk is not tried, because another thread may be using the heap. Other hooks leave brk to UCX,
  // which patches it when loaded, unless its options forbid that.
  if (blind == nullptr && ucx.ucm_options->mmap_hook_mode == UCM_MMAP_HOOK_NONE) blind = "brk";
  return blind;
}

// UCX makes two pipes, an epoll descriptor and a thread. If one cannot be made, UCX aborts.
bool has_room_for_ucx(std::string& why) {
  std::array<int, 6> taken{};
  int error = 0;
  for (int& descriptor : taken) {
    descriptor = ::eventfd(0, EFD_CLOEXEC);
    if (descriptor < 0) error = errno;
  }
  for (const int descriptor : taken) {
    if (descriptor >= 0) ::close(descriptor);
  }
  if (error != 0) {
    why = std::string("no descriptors for UCX's registration cache: ") + std::strerror(error);
    return false;
  }
  try {
    const BlockedSignals blocked;
    std::thread([] {}).join();
  } catch (const std::system_error& problem) {
    why = std::string("no thread for UCX's registration cache: ") + problem.what();
    return false;
  }
  return true;
}

}  // namespace

struct RegistrationCache::State {
  Registrar registrar;
  Options options;
  const Ucx* ucx = nullptr;
  ucs_rcache_t* cache = nullptr;  // nullptr: nothing is kept
  pid_t owner = getpid();
  RegistrationCounters counters;
  std::atomic<std::uint64_t> uses{0};
  // How often the loader had changed something when what is registered of libraries was looked at
  // last; 0: nothing is.
  std::atomic<std::uint64_t> loader_changes{0};

  // Guards the list. Taken after UCX's own, which keeps `enter` to one thread; without UCX, threads
  // that enter at once may exceed a cap by what they enter.
  std::mutex lock;
  Entry* first = nullptr;

  static State& of(void* context) { return *static_cast<State*>(context); }

  // UCX's callbacks. UCX holds its lock.
  static ucs_status_t enter(void* context, ucs_rcache_t*, void* argument,
                            ucs_rcache_region_t* region, std::uint16_t flags) {
    return of(context).enter(*static_cast<Request*>(argument), entry_of(region),
                             (flags & UCS_RCACHE_MEM_REG_HIDE_ERRORS) != 0);
  }
  static void remove(void* context, ucs_rcache_t*, ucs_rcache_region_t* region) {
    of(context).remove(entry_of(region));
  }
  static void dump(void*, ucs_rcache_t*, ucs_rcache_region_t*, char* text, std::size_t room) {
    if (room > 0) text[0] = '\0';
  }

  ucs_status_t enter(Request& request, Entry& entry, bool merged);
  void remove(Entry& entry);
  bool has_free_region() {
    return std::atomic_ref(counters.regions).load(std::memory_order_relaxed) < options.max_regions;
  }
  // 0, or what the region exceeds: ENOSPC, ENOMEM, or E2BIG, for which no room can be made.
  int limit_at(std::size_t length_bytes) {
    const std::uint64_t bytes = std::atomic_ref(counters.bytes).load(std::memory_order_relaxed);
    if (length_bytes > options.max_region_bytes) return E2BIG;
    if (bytes > options.max_bytes || length_bytes > options.max_bytes - bytes) return ENOMEM;
    return has_free_region() ? 0 : ENOSPC;
  }

  Entry* look_up(Range range, Request& request);
  Entry* enter_for_one_use(Range range, Request& request);
  void let_go(Entry& entry);
  void drop(Entry& entry);
  bool make_room(std::size_t length_bytes);
  void note_library(Entry& entry);
  void forget_libraries();
  void release_all();
};

// UCX keeps and counts a region that it could not register. So a failure becomes an entry without a
// handle, and the caller, who gets a reference to it, drops it. Only the failure of a merged region
// is reported to UCX, which then tries the original range.
ucs_status_t RegistrationCache::State::enter(Request& request, Entry& entry, bool merged) {
  auto* const address = reinterpret_cast<std::byte*>(entry.super.super.start);
  const std::size_t length_bytes = entry.super.super.end - entry.super.super.start;
  // UCX adds the rights of regions that it merges with.
  const Access access = with_protection(request.access, entry.super.prot);
  if (request.look_only) {
    entry.error = ENOENT;
    return merged ? UCS_ERR_NO_ELEM : UCS_OK;
  }
  entry.registration = {address, length_bytes, 0, 0, access};
  entry.error = limit_at(length_bytes);
  if (entry.error == 0) {
    errno = 0;
    entry.handle = registrar.enter(registrar.context, address, length_bytes, access,
                                   entry.registration.lkey, entry.registration.rkey);
    if (entry.handle == nullptr) entry.error = errno != 0 ? errno : EIO;
  }
  if (entry.handle == nullptr) return merged ? UCS_ERR_IO_ERROR : UCS_OK;

  request.entered = true;
  std::lock_guard guard(lock);
  entry.next = first;
  if (first != nullptr) first->previous = &entry;
  first = &entry;
  add(counters.regions);
  add(counters.bytes, length_bytes);
  if (counters.bytes > counters.bytes_peak) {
    std::atomic_ref(counters.bytes_peak).store(counters.bytes, std::memory_order_relaxed);
  }
  return UCS_OK;
}

void RegistrationCache::State::remove(Entry& entry) {
  if (entry.handle == nullptr) return;
  registrar.remove(registrar.context, entry.handle);
  std::lock_guard guard(lock);
  (entry.previous != nullptr ? entry.previous->next : first) = entry.next;
  if (entry.next != nullptr) entry.next->previous = entry.previous;
  add(counters.regions, static_cast<std::uint64_t>(-1));
  add(counters.bytes, static_cast<std::uint64_t>(-1) * entry.registration.length_bytes);
  add(entry.evicted ? counters.evictions : counters.invalidations);
}

Entry* RegistrationCache::State::enter_for_one_use(Range range, Request& request) {
  auto entry = std::make_unique<Entry>();
  entry->super.super.start = range.start;
  entry->super.super.end = range.start + range.length_bytes;
  entry->super.prot = static_cast<decltype(entry->super.prot)>(protection(request.access));
  entry->super.refcount = 1;
  enter(request, *entry, false);
  return entry.release();
}

Entry* RegistrationCache::State::look_up(Range range, Request& request) {
  if (cache == nullptr) return enter_for_one_use(range, request);
  ucs_rcache_region_t* region = nullptr;
  const int prot = request.look_only ? 0 : protection(request.access);
  if (call_get(ucx->rcache_get, cache, reinterpret_cast<void*>(range.start), range.length_bytes,
               prot, &request, &region) != UCS_OK) {
    return nullptr;
  }
  return &entry_of(region);
}

// Gives back a reference.
void RegistrationCache::State::let_go(Entry& entry) {
  if (cache != nullptr) return ucx->rcache_region_put(cache, &entry.super);
  remove(entry);
  delete &entry;
}

// Takes the entry out of the cache, and gives back the caller's reference. The registration ends
// with its last user.
void RegistrationCache::State::drop(Entry& entry) {
  if (cache != nullptr && std::atomic_ref(entry.dropped).exchange(1) == 0) {
    call_invalidate(ucx->rcache_region_invalidate, cache, entry);
  }
  let_go(entry);
}

// Gives up unused registrations, the longest unused first, until `length_bytes` are free. At the cap
// of regions it gives up many, because each call looks at all. False if there was none to give up.
bool RegistrationCache::State::make_room(std::size_t length_bytes) {
  struct Unused {
    std::uint64_t last_used;
    Range range;
  };
  std::vector<Unused> unused;
  {
    std::lock_guard guard(lock);
    for (Entry* entry = first; entry != nullptr; entry = entry->next) {
      // Only the cache's own reference. It may change meanwhile: giving it up is safe all the same.
      if (entry->super.refcount != 1 || (entry->super.flags & UCS_RCACHE_REGION_FLAG_PGTABLE) == 0)
        continue;
      // Written without the lock.
      const std::uint64_t last_used =
          std::atomic_ref(entry->last_used).load(std::memory_order_relaxed);
      unused.push_back({last_used, entry->registered()});
    }
  }
  std::sort(unused.begin(), unused.end(),
            [](const Unused& a, const Unused& b) { return a.last_used < b.last_used; });
  const std::size_t least = has_free_region() ? 0 : unused.size() / 16;
  std::size_t given_up = 0, count = 0;
  for (const Unused& old : unused) {
    Request request{Access::local_read, true};
    Entry* const entry = look_up(old.range, request);
    if (entry == nullptr) continue;
    std::atomic_ref(entry->evicted).store(true, std::memory_order_relaxed);
    given_up += old.range.length_bytes;
    drop(*entry);
    if (given_up >= length_bytes && ++count > least) break;
  }
  return given_up > 0;
}

// The caller, who uses the memory, keeps its library loaded meanwhile.
void RegistrationCache::State::note_library(Entry& entry) {
  const Loader loader = Loader::ask(entry.registered());
  if (!loader.is_library) return;
  {
    std::lock_guard guard(lock);
    entry.in_library = true;
  }
  std::uint64_t none = 0;
  loader_changes.compare_exchange_strong(none, loader.changes);
}

// If libraries have come or gone since the last call, what is registered of any is registered anew.
void RegistrationCache::State::forget_libraries() {
  const std::uint64_t now = Loader::ask({}).changes;
  if (loader_changes.load() == now) return;
  std::vector<Range> old;
  {
    std::lock_guard guard(lock);
    for (const Entry* entry = first; entry != nullptr; entry = entry->next) {
      if (entry->in_library) old.push_back(entry->registered());
    }
  }
  for (const Range range : old) {
    Request request{Access::local_read, true};
    if (Entry* const entry = look_up(range, request)) drop(*entry);
  }
  loader_changes.store(now);  // not before others, who then look up, find nothing old
}

// For the destructor: UCX would print a complaint about each region in use to stdout.
void RegistrationCache::State::release_all() {
  for (;;) {
    Entry* used = nullptr;
    std::uint32_t references = 0;
    {
      std::lock_guard guard(lock);
      for (Entry* entry = first; entry != nullptr && used == nullptr; entry = entry->next) {
        references = users(*entry);
        if (references > 0) used = entry;
      }
    }
    if (used == nullptr) return;
    for (; references > 0; --references) let_go(*used);
  }
}

Registrar registrar_of(const Device& device) { return {device.pd(), enter_verbs, remove_verbs}; }

std::unique_ptr<RegistrationCache> RegistrationCache::create(const Registrar& registrar,
                                                             const Options& options,
                                                             std::string& why) {
  static const ucs_rcache_ops_t operations = [] {
    ucs_rcache_ops_t made{};
    made.mem_reg = State::enter;
    made.mem_dereg = State::remove;
    made.dump_region = State::dump;
    set_merge(made);
    return made;
  }();

  auto state = std::make_unique<State>();
  state->registrar = registrar;
  state->options = options;
  state->counters.regions_limit = options.max_regions;
  if (options.unused == Unused::ended) {
    return std::unique_ptr<RegistrationCache>(new RegistrationCache(std::move(state)));
  }
  const Ucx* const ucx = load_ucx(why);
  if (ucx == nullptr || !has_room_for_ucx(why)) return nullptr;
  state->ucx = ucx;

  ucs_rcache_params_t parameters{};
  parameters.region_struct_size = sizeof(Entry);
  set_alignment(parameters);
  parameters.ucm_events = options.hooks == Hooks::none ? 0 : UCM_EVENT_VM_UNMAPPED;
  parameters.ucm_event_priority = 1000;
  parameters.ops = &operations;
  parameters.context = state.get();
  parameters.flags = options.purge_on_fork ? UCS_RCACHE_FLAG_PURGE_ON_FORK : 0;
  parameters.max_regions = ~0ul;  // the caps are ours: UCX checks its own only afterwards
  parameters.max_size = SIZE_MAX;
  parameters.max_unreleased = max_unreleased_bytes;

  forward_to = ucx->vm_munmap;
  if (options.hooks == Hooks::forwarded) ucx->set_external_event(UCM_EVENT_VM_UNMAPPED);
  const ucs_status_t status = [&] {
    const BlockedSignals blocked;  // UCX starts a thread
    return ucx->rcache_create(&parameters, "weir", nullptr, &state->cache);
  }();
  if (status != UCS_OK) {
    why = std::string("UCX's registration cache is not available: ") + ucx->status_string(status) +
          "; another library's memory hooks may be in the way, or UCX_MEM_EVENTS is off";
    return nullptr;
  }
  std::unique_ptr<RegistrationCache> cache(new RegistrationCache(std::move(state)));
  if (options.hooks != Hooks::none) {
    if (const char* const blind = find_blind_spot(*ucx, options.hooks == Hooks::own)) {
      why = std::string("memory given back by ") + blind +
            " would not be seen: other memory hooks are in the way";
      return nullptr;
    }
  }
  return cache;
}

std::unique_ptr<RegistrationCache> RegistrationCache::create(const Device& device, Options options,
                                                             std::string& why) {
  options.purge_on_fork = options.purge_on_fork && ibv_is_fork_initialized() != IBV_FORK_UNNEEDED;
  const ibv_device_attr& limits = device.limits();
  if (limits.max_mr > 0) {  // the rest is for buffers of our own, and for others
    const auto all = static_cast<std::size_t>(limits.max_mr);
    const std::size_t share = (all - all / 8) / std::max<std::size_t>(options.sharers, 1);
    options.max_regions = std::min(options.max_regions, std::max<std::size_t>(share, 1));
  }
  if (limits.max_mr_size > 0) {
    options.max_region_bytes = std::min<std::size_t>(options.max_region_bytes, limits.max_mr_size);
  }
  return create(registrar_of(device), options, why);
}

RegistrationCache::RegistrationCache(std::unique_ptr<State> state) : state_(std::move(state)) {}

RegistrationCache::~RegistrationCache() {
  if (getpid() != state_->owner) {
    // In a forked child, UCX would take the parent's descriptor out of the epoll set they share.
    static_cast<void>(state_.release());
    return;
  }
  state_->release_all();
  if (state_->cache != nullptr) state_->ucx->rcache_destroy(state_->cache);
}

std::uint64_t RegistrationCache::in_use() const {
  std::lock_guard guard(state_->lock);
  std::uint64_t count = 0;
  for (const Entry* entry = state_->first; entry != nullptr; entry = entry->next) {
    if (users(*entry) > 0) ++count;
  }
  return count;
}

Registration* RegistrationCache::get(const void* address, std::size_t length_bytes, Access access) {
  State& state = *state_;
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  const Range needed = range_for(start, length_bytes);
  Range range = needed;
  int error = ENOMEM;
  if (length_bytes == 0 || length_bytes > UINTPTR_MAX - page_bytes() - start) {
    errno = EINVAL;
    return nullptr;
  }
  if (state.loader_changes.load(std::memory_order_relaxed) != 0) [[unlikely]]
    state.forget_libraries();
  Request request{access};
  while (length_bytes <= std::min(state.options.max_bytes, state.options.max_region_bytes)) {
    Entry* const entry = state.look_up(range, request);
    if (entry == nullptr) {
      error = ENOMEM;
      break;
    }
    if (entry->handle != nullptr && includes(entry->registration.access, access)) [[likely]] {
      add(request.entered ? state.counters.misses : state.counters.hits);
      if (request.entered && state.cache != nullptr) [[unlikely]]
        state.note_library(*entry);
      return &entry->registration;
    }
    if (entry->handle != nullptr) {
      // Fewer rights than asked for: register the same range again with both rights. Otherwise the
      // two uses would replace each other's registration in turn.
      request.access = access | entry->registration.access;
      range = entry->registered();
      state.drop(*entry);
      continue;
    }
    error = entry->error;
    state.drop(*entry);
    if (is_exhaustion(error)) {
      if (error != ENOSPC || state.has_free_region()) error = ENOMEM;
      if (range.length_bytes > needed.length_bytes) {
        range = needed;
      } else if (!state.make_room(needed.length_bytes)) {
        break;
      }
    } else if (request.access != access) {
      request.access = access;  // the earlier rights are refused now, or for part of the range
      range = needed;
    } else {
      break;
    }
  }
  add(state.counters.failures);
  if (is_exhaustion(error)) add(state.counters.limited);
  errno = error;
  return nullptr;
}

void RegistrationCache::put(Registration* registration) {
  Entry& entry = entry_of(registration);
  const std::uint64_t now = state_->uses.load(std::memory_order_relaxed) + 1;
  state_->uses.store(now, std::memory_order_relaxed);
  std::atomic_ref(entry.last_used).store(now, std::memory_order_relaxed);
  state_->let_go(entry);
}

const RegistrationCounters& RegistrationCache::counters() const { return state_->counters; }

void RegistrationCache::memory_goes_away(void* address, std::size_t length_bytes) {
  // Pages go as a whole.
  const std::size_t page = page_bytes();
  const std::size_t whole_bytes = (length_bytes + page - 1) / page * page;
  if (auto* const forward = forward_to.load(std::memory_order_acquire)) {
    forward(address, whole_bytes);
  }
}

}  // namespace weir::verbs
