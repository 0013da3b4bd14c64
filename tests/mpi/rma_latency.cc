// rma_latency: one-sided operations one after the other, each with its flush: it is over at the
// target then. The target is in a barrier.
//
//   mpirun -n 2 rma_latency [--sizes 8,4K] [--count 500] [--burst 0] [--counters]
//
// Put and get of every size, and a fetch-and-add and a compare-and-swap of 8 bytes. Median and 99th
// percentile, after some warm ones. With --burst N, as many puts of 4 bytes to different places
// before that, between two fences; the median of some rounds. What was written and fetched is
// checked outside the timing.

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "mark.h"
#include "pvars.h"
#include "window.h"

namespace {

constexpr int kWarm = 50;
constexpr int kBurstRounds = 5;
constexpr MPI_Aint kCounterAt = 0, kSwapAt = 8, kDataAt = 4096;

int target, count;

template <mark::Kind kind, typename Operation>
void measure(const char* what, long bytes, MPI_Win win, Operation&& operation) {
  std::vector<double> us;
  for (int i = 0; i < kWarm + count; ++i) {
    const double start_s = MPI_Wtime();
    {
      const mark::Operation<kind> marked;
      operation(i);
      MPI_Win_flush(target, win);
    }
    if (i >= kWarm) us.push_back((MPI_Wtime() - start_s) * 1e6);
  }
  std::sort(us.begin(), us.end());
  std::printf("%-16s %8ld B  p50 %8.2f us  p99 %8.2f us\n", what, bytes, us[us.size() / 2],
              us[us.size() * 99 / 100]);
  std::fflush(stdout);
}

void put_and_get(MPI_Win win, long bytes) {
  const int n = static_cast<int>(bytes);
  unsigned char *out, *in;
  MPI_Alloc_mem(n, MPI_INFO_NULL, &out);
  MPI_Alloc_mem(n, MPI_INFO_NULL, &in);
  const check::Envelope envelope{0, target, n, 0};
  check::fill(out, static_cast<std::size_t>(n), envelope);
  measure<mark::put>("put and flush", bytes, win,
          [&](int) { MPI_Put(out, n, MPI_BYTE, target, kDataAt, n, MPI_BYTE, win); });
  std::fill(in, in + n, static_cast<unsigned char>(0));
  measure<mark::get>("get and flush", bytes, win,
          [&](int) { MPI_Get(in, n, MPI_BYTE, target, kDataAt, n, MPI_BYTE, win); });
  check::verify(in, static_cast<std::size_t>(n), envelope, "what was put, fetched again");
  MPI_Free_mem(out);
  MPI_Free_mem(in);
}

void atomics(MPI_Win win) {
  const std::uint64_t one = 1;
  std::uint64_t before = 0;
  measure<mark::fetch_add>("fetch-and-add", 8, win, [&](int i) {
    CHECK(i == 0 || before == static_cast<std::uint64_t>(i) - 1, "the counter was %llu before",
          static_cast<unsigned long long>(before));
    MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, target, kCounterAt, MPI_SUM, win);
  });
  std::uint64_t expected = 0, next = 0, found = 0;
  measure<mark::compare_swap>("compare-and-swap", 8, win, [&](int i) {
    CHECK(i == 0 || found == expected, "swapped %llu", static_cast<unsigned long long>(found));
    expected = static_cast<std::uint64_t>(i), next = expected + 1;
    MPI_Compare_and_swap(&next, &expected, &found, MPI_UINT64_T, target, kSwapAt, win);
  });
}

void burst(int rank, int puts) {
  Window window("create", static_cast<std::size_t>(puts) * sizeof(int));
  std::vector<int> out(static_cast<std::size_t>(puts));
  std::vector<double> ms;
  for (int round = 0; round < 1 + kBurstRounds; ++round) {
    for (int i = 0; i < puts; ++i) out[i] = i * 7 + round;
    MPI_Win_fence(0, window);
    const double start_s = MPI_Wtime();
    for (int i = 0; rank == 0 && i < puts; ++i)
      MPI_Put(&out[i], 4, MPI_BYTE, target, i * MPI_Aint{4}, 4, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    if (round > 0) ms.push_back((MPI_Wtime() - start_s) * 1e3);
    const int* const in = reinterpret_cast<const int*>(window.at(0));
    for (int i = 0; rank == target && i < puts; ++i)
      CHECK(in[i] == out[i], "put %d of round %d has %d", i, round, in[i]);
  }
  std::sort(ms.begin(), ms.end());
  if (rank == 0) std::printf("%d puts of 4 B and a fence: %.1f ms\n", puts, ms[ms.size() / 2]);
}

}  // namespace

MPI_TEST(rma_latency) {
  check::Session session(argc, argv, "rma_latency");
  const std::vector<long> sizes = check::sizes_of(session.options.text("sizes", "8,4K"));
  count = static_cast<int>(session.options.number("count", 500));
  const int puts = static_cast<int>(session.options.number("burst", 0));
  const bool counters = session.options.flag("counters");
  session.options.done();
  CHECK(session.size >= 2 && count > 0, "rma_latency needs two ranks");
  target = session.size - 1;
  if (puts > 0) {
    check::phase("a burst of puts");
    burst(session.rank, puts);
  }
  {
    check::phase("put, get, atomics");
    const long largest = *std::max_element(sizes.begin(), sizes.end());
    Window window("create", static_cast<std::size_t>(kDataAt + largest));
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    if (session.rank == 0) {
      mark::begin_series();
      for (const long bytes : sizes) put_and_get(window, bytes);
      atomics(window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(check::world);
  }
  if (counters) print_counters(check::world);
  return session.finish();
}
