// rma_passive: transfers against a target that makes no MPI call, from the first one on. [OVL §5.2,
// §7.1.1, Codes 1 to 3]: put, compute, flush; the transfer should be over when the computation is.
//
//   mpirun -n 2 rma_passive [--bytes 4M] [--compute-ms 1000] [--repeat 3] [--measure] [--counters]
//
// The last rank is the target. It sleeps from before the first transfer until after the last, and
// looks at its memory only by loads. The first transfers are those that overlap: what a transfer
// takes alone is measured later, against the same sleeping target.
//
// Fails if anything had to wait for the target to wake, or if more than half of a transfer that
// takes its time (300 ms alone, and not more than the computation) comes on top of the computation.
// With --measure neither is a failure.

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "pvars.h"
#include "window.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr int kPut = 1, kGet = 2;

int rank, size, target;
double compute_s;
bool judges;

void compute() { usleep(static_cast<useconds_t>(compute_s * 1e6)); }

struct Times {
  double call_s, rest_s, total_s;  // the put itself, the flush, all with the computation
};

// `finish` ends what `start` began.
template <typename Start, typename Finish>
Times measure(Start&& start, Finish&& finish, bool computing) {
  const double begin = MPI_Wtime();
  start();
  const double called = MPI_Wtime();
  if (computing) compute();
  const double computed = MPI_Wtime();
  finish();
  const double end = MPI_Wtime();
  return {called - begin, end - computed, end - begin};
}

void judge(const char* what, int which, const Times& times, double alone_s) {
  const double extra_s = times.total_s - compute_s;
  const double share = 100 * std::clamp(1 - extra_s / std::min(alone_s, compute_s), 0.0, 1.0);
  std::printf(
      "rma_passive: %s %d: call %.1f ms, end %.1f ms after %.0f ms of computing; alone "
      "%.1f ms; overlap %.0f %%\n",
      what, which, times.call_s * 1e3, times.rest_s * 1e3, compute_s * 1e3, alone_s * 1e3, share);
  if (judges && alone_s > 0.3 && alone_s < compute_s)
    CHECK(extra_s < alone_s / 2, "%s %d: %.0f ms on top of the computation, %.0f ms alone", what,
          which, extra_s * 1e3, alone_s * 1e3);
  ++check::verified_messages;
}

// Returns how long all of it took.
double origin(MPI_Win win, std::size_t bytes, int repeat) {
  const double begin = MPI_Wtime();
  const auto n = static_cast<int>(bytes);
  const MPI_Aint readable = n;
  std::vector<Bytes> out(static_cast<std::size_t>(repeat), Bytes(bytes));
  Bytes in(bytes);
  for (std::size_t i = 0; i < out.size(); ++i)
    check::fill(out[i].data(), bytes, {0, target, kPut, static_cast<std::uint32_t>(i)});
  const auto flush = [&] { MPI_Win_flush(target, win); };
  const auto put = [&](std::size_t i) {
    return [&, i] { MPI_Put(out[i].data(), n, MPI_BYTE, target, 0, n, MPI_BYTE, win); };
  };
  const auto get = [&] { MPI_Get(in.data(), n, MPI_BYTE, target, readable, n, MPI_BYTE, win); };

  std::vector<Times> puts, gets;
  double put_alone_s = 1e9, get_alone_s = 1e9;
  MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
  check::phase("Code 2: put, compute, flush");
  for (std::size_t i = 0; i < out.size(); ++i) puts.push_back(measure(put(i), flush, true));
  check::phase("get, compute, flush");
  for (int i = 0; i < repeat; ++i) {
    gets.push_back(measure(get, flush, true));
    check::verify(in.data(), bytes, {target, 0, kGet, 0}, "get");
  }
  check::phase("alone");
  for (int i = 0; i < repeat; ++i) {
    put_alone_s = std::min(put_alone_s, measure(put(out.size() - 1), flush, false).total_s);
    get_alone_s = std::min(get_alone_s, measure(get, flush, false).total_s);
  }
  MPI_Win_unlock_all(win);

  // A lock that has to be asked for, each time.
  check::phase("Code 1: lock, put, compute, unlock");
  const Times locked = measure(
      [&] {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        put(out.size() - 1)();
      },
      [&] { MPI_Win_unlock(target, win); }, true);

  // The last, for in some libraries only these wait until the target wakes.
  check::phase("atomics");
  MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
  const std::int64_t one = 1;
  std::int64_t seen = -1;
  const MPI_Aint counter = 2 * readable;
  double atomic_s = 1e9, first_atomic_s = 0;
  for (int i = 0; i < 10; ++i) {
    const auto add = [&] {
      MPI_Fetch_and_op(&one, &seen, MPI_INT64_T, target, counter, MPI_SUM, win);
    };
    const double took_s = measure(add, flush, false).total_s;
    if (i == 0) first_atomic_s = took_s;
    atomic_s = std::min(atomic_s, took_s);
    CHECK(seen == i, "fetched %lld, not %d", static_cast<long long>(seen), i);
  }
  MPI_Win_unlock_all(win);
  const double took_s = MPI_Wtime() - begin;

  for (int i = 0; i < repeat; ++i)
    judge("put", i + 1, puts[static_cast<std::size_t>(i)], put_alone_s);
  for (int i = 0; i < repeat; ++i)
    judge("get", i + 1, gets[static_cast<std::size_t>(i)], get_alone_s);
  judge("lock, put, unlock", 1, locked, put_alone_s);
  std::printf("rma_passive: fetch and add: %.3f ms, the first %.3f ms\n", atomic_s * 1e3,
              first_atomic_s * 1e3);
  return took_s;
}

}  // namespace

MPI_TEST(rma_passive) {
  check::Session session(argc, argv, "rma_passive");
  const auto bytes = static_cast<std::size_t>(session.options.number("bytes", 4 << 20));
  compute_s = static_cast<double>(session.options.number("compute-ms", 1000)) / 1e3;
  const int repeat = static_cast<int>(session.options.number("repeat", 3));
  judges = !session.options.flag("measure");
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  rank = session.rank, size = session.size, target = size - 1;
  CHECK(size > 1, "two ranks are needed");

  {
    Window window("create", 2 * bytes + 8);
    check::fill(window.at(bytes), bytes, {target, 0, kGet, 0});
    MPI_Barrier(check::world);
    // Twice what the computations take; a transfer that waits for the target waits until then.
    const double sleep_s = 2 * compute_s * (2 * repeat + 1) + 2;
    double took_s = 0;
    if (rank == 0) {
      took_s = origin(window, bytes, repeat);
      std::printf("rma_passive: all of it in %.1f s of the %.1f s that the target slept\n", took_s,
                  sleep_s);
      CHECK(!judges || took_s < sleep_s - 0.2, "it took %.1f s: something waited for the target",
            took_s);
    } else if (rank == target) {
      check::phase("the target's sleep");
      MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
      const double begin = MPI_Wtime();
      while (MPI_Wtime() - begin < sleep_s) usleep(100000);
      MPI_Win_unlock_all(window);
    }
    MPI_Barrier(check::world);
    if (rank == target) {
      check::verify(window.at(0), bytes, {0, target, kPut, static_cast<std::uint32_t>(repeat) - 1},
                    "the last put");
    }
    MPI_Barrier(check::world);
  }

  if (show_counters) print_counters(check::world);
  return session.finish();
}
