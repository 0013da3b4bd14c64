// Registers the application's memory with the adapter and keeps it registered until the application
// returns the memory to the system. Uses UCX's registration cache and memory hooks, with weir's
// caps and rights.
//
// Thread rule: any thread may call get, put and counters without a lock. A miss takes as long as
// pinning the pages, so do not hold the engine's lock during a call. UCX's own thread may end
// registrations of unmapped memory. A forked child must not use the cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/access.h"
#include "transport/verbs/device.h"

namespace weir::verbs {

// X as in base/counters.h
#define WEIR_REGISTRATION_COUNTERS(X)                                                           \
  X(hits, "times", sum, "Buffers that were already registered")                                 \
  X(misses, "times", sum, "Buffers that had to be registered")                                  \
  X(failures, "times", sum, "Buffers that could not be registered")                             \
  X(limited, "times", sum, "Of these, those refused by a limit: bytes, regions, or their size") \
  X(evictions, "regions", sum,                                                                  \
    "Unused registrations given up for new ones at a cap or memory limit")                      \
  X(invalidations, "regions", sum, "Registrations ended by an unmap, a merge or wider rights")  \
  X(regions, "regions", now, "Registrations now")                                               \
  X(regions_limit, "regions", now, "Most registrations: our share of what the adapter has")     \
  X(bytes, "bytes", now, "Registered application memory now")                                   \
  X(bytes_peak, "bytes", most, "Most registered application memory so far")

// Each counter is written atomically, and may be read at any time by plain loads.
struct RegistrationCounters {
#define WEIR_X(name, unit, kind, help) std::uint64_t name = 0;
  WEIR_REGISTRATION_COUNTERS(WEIR_X)
#undef WEIR_X
};

// Memory registered as one piece: at least the bytes asked for.
struct Registration {
  std::byte* address;
  std::size_t length_bytes;
  std::uint32_t lkey;
  std::uint32_t rkey;
  Access access;
};

// How memory is registered: by verbs, or by a test.
struct Registrar {
  void* context;
  // Returns a handle and the keys; on failure nullptr, with errno set.
  void* (*enter)(void* context, void* address, std::size_t length_bytes, Access access,
                 std::uint32_t& lkey, std::uint32_t& rkey);
  void (*remove)(void* context, void* handle);
};

// `device` must outlive the result.
Registrar registrar_of(const Device& device);

class RegistrationCache {
 public:
  // How the cache learns that memory goes away.
  enum class Hooks : std::uint8_t {
    own,        // UCX patches munmap and the like; misses some advice, and mremap onto memory
    forwarded,  // another component has, and calls memory_goes_away (transport/btl/memory_hooks.h)
    none,       // not at all: only tests, to show the effect
  };

  // What happens to a registration after its use.
  enum class Unused : std::uint8_t {
    kept,   // for the next use of the memory, while the hooks see that it stays
    ended,  // needs neither hooks nor UCX, and each use pins the pages anew
  };

  struct Options {
    // Of registrations, used and unused together. On a device at most a fair share of what it has.
    std::size_t max_bytes = SIZE_MAX;
    std::size_t max_regions = SIZE_MAX;
    std::size_t max_region_bytes = SIZE_MAX;  // of one
    std::size_t sharers = 1;  // caches that use this device, of all the node's processes
    Hooks hooks = Hooks::own;
    Unused unused = Unused::kept;
    // End unused registrations before a fork, for the reason of `survive_forks` (memory.h).
    bool purge_on_fork = true;
  };

  // Tests on a page of its own that the hooks see memory go away. If they do not: nullptr, and the
  // reason in `why`; then no registration may be kept. With Unused::ended there always is one.
  static std::unique_ptr<RegistrationCache> create(const Registrar& registrar,
                                                   const Options& options, std::string& why);
  // The same on `device`, within its limits; purges before a fork only where the kernel needs it.
  static std::unique_ptr<RegistrationCache> create(const Device& device, Options options,
                                                   std::string& why);
  ~RegistrationCache();  // ends all registrations, those in use too

  RegistrationCache(const RegistrationCache&) = delete;
  RegistrationCache& operator=(const RegistrationCache&) = delete;

  // A registration that covers these bytes with at least these rights, in use until `put`. If there
  // can be none: nullptr with errno set, and the caller copies instead. ENOMEM: at the cap of bytes
  // or the locked-memory limit, with nothing unused to give up; ENOSPC: so at the cap of regions.
  // EFAULT and the like: memory that cannot be registered so.
  Registration* get(const void* address, std::size_t length_bytes, Access access);

  void put(Registration* registration);

  const RegistrationCounters& counters() const;

  // How many registrations are in use. Walks all of them.
  std::uint64_t in_use() const;

  // With Hooks::forwarded: this memory is about to be unmapped. Allocates nothing.
  static void memory_goes_away(void* address, std::size_t length_bytes);

 private:
  struct State;
  explicit RegistrationCache(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace weir::verbs
