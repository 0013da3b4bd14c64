// registration_bench: what the registration cache costs when a buffer is found, in nanoseconds; and
// what UCX and the rules add to a registration (which itself costs nothing here).
//
//   registration_bench [--benchmark_filter=…]
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "transport/verbs/registration_cache.h"

namespace weir::verbs {
namespace {

constexpr std::size_t page = 4096;

void* enter(void* context, void*, std::size_t, Access, std::uint32_t& lkey, std::uint32_t& rkey) {
  lkey = rkey = 1;
  return context;
}
void remove(void*, void*) {}

struct Buffers {
  explicit Buffers(std::size_t number) : count(number) {
    static int something;
    std::string why;
    RegistrationCache::Options options;
    options.max_regions = 1 << 20;
    cache = RegistrationCache::create({&something, enter, remove}, options, why);
    memory = static_cast<std::byte*>(mmap(nullptr, count * 2 * page, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (cache == nullptr || memory == MAP_FAILED) std::abort();
  }
  ~Buffers() { munmap(memory, count * 2 * page); }

  std::byte* at(std::size_t number) const { return memory + number * 2 * page; }

  std::size_t count;
  std::unique_ptr<RegistrationCache> cache;
  std::byte* memory;
};

// get and put of a buffer that is registered; of `buffers` in turn.
void hit(benchmark::State& state) {
  Buffers buffers(static_cast<std::size_t>(state.range(0)));
  std::size_t next = 0;
  for (auto _ : state) {
    Registration* const found = buffers.cache->get(buffers.at(next), page, Access::local_write);
    benchmark::DoNotOptimize(found->lkey);
    buffers.cache->put(found);
    if (++next == buffers.count) next = 0;
  }
  state.counters["misses"] = static_cast<double>(buffers.cache->counters().misses);
}
BENCHMARK(hit)->ArgName("buffers")->Arg(1)->Arg(64)->Arg(4096);

// A buffer that was unmapped since: invalidated, looked for, registered.
void miss(benchmark::State& state) {
  Buffers buffers(1);
  for (auto _ : state) {
    Registration* const found = buffers.cache->get(buffers.at(0), page, Access::local_write);
    buffers.cache->put(found);
    RegistrationCache::memory_goes_away(buffers.at(0), page);
  }
  state.counters["hits"] = static_cast<double>(buffers.cache->counters().hits);
}
BENCHMARK(miss);

}  // namespace
}  // namespace weir::verbs

BENCHMARK_MAIN();
