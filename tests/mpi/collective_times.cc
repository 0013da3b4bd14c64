// collective_times: how long a collective of all ranks takes, by size.
//
//   mpirun -n 8 collective_times [--sizes 8,1K,64K,1M] [--ms 50] [--counters]
//
// A size is what a rank gives (Allreduce, Bcast), or gives to each other rank (Alltoall). Each
// figure is the time of back-to-back calls for about --ms, of the slowest rank, over their number,
// after as many that count for nothing. The first and the last result of each are checked, outside
// the timing.

#include <mpi.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

using Bytes = std::vector<unsigned char>;

struct Collective {
  const char* name;
  std::function<void()> prepare;  // fills what goes in, and spoils what comes out
  std::function<void()> call;
  std::function<void()> verify;
};

// The same on all ranks: by the slowest of them.
double seconds(const Collective& collective, int calls) {
  MPI_Barrier(check::world);
  const double start_s = MPI_Wtime();
  for (int i = 0; i < calls; ++i) collective.call();
  const double mine = MPI_Wtime() - start_s;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, check::world);
  return slowest;
}

void checked(const Collective& collective) {
  collective.prepare();
  collective.call();
  collective.verify();
}

double microseconds(const Collective& collective, double budget_s) {
  constexpr int least = 3, most = 10000;
  checked(collective);  // connects
  int calls = least;
  double took_s = seconds(collective, calls);
  while (took_s < budget_s && calls < most) {  // meanwhile windows grow
    calls *= 2;
    took_s = seconds(collective, calls);
  }
  calls = std::clamp(static_cast<int>(budget_s / took_s * calls), least, most);
  const double us = seconds(collective, calls) / calls * 1e6;
  checked(collective);
  return us;
}

}  // namespace

MPI_TEST(collective_times) {
  check::Session session(argc, argv, "collective_times");
  const std::vector<long> sizes =
      check::sizes_of(session.options.text("sizes", "8,1K,64K,1M"));
  const double budget_s = static_cast<double>(session.options.number("ms", 50)) / 1e3;
  const bool counters = session.options.flag("counters");
  session.options.done();
  const int rank = session.rank;
  const int ranks = session.size;
  const auto tell = [&](const Collective& collective, long bytes) {
    check::phase(collective.name);
    const double us = microseconds(collective, budget_s);
    if (rank == 0) std::printf("%s %ld B: %.1f us\n", collective.name, bytes, us);
  };

  const auto nothing = [] {};
  tell({"barrier", nothing, [] { MPI_Barrier(check::world); }, nothing}, 0);
  for (const long bytes : sizes) {
    CHECK(bytes >= 8 && bytes % 8 == 0, "--sizes: multiples of 8 bytes");
    const int n = static_cast<int>(bytes);

    std::vector<long> terms(bytes / 8), sums(bytes / 8);
    tell({"allreduce",
          [&] {
            for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = rank + static_cast<long>(i);
            std::fill(sums.begin(), sums.end(), -1);
          },
          [&] {
            MPI_Allreduce(terms.data(), sums.data(), n / 8, MPI_LONG, MPI_SUM, check::world);
          },
          [&] {
            const long all = long{ranks} * (ranks - 1) / 2;
            for (std::size_t i = 0; i < sums.size(); ++i)
              CHECK(sums[i] == all + ranks * static_cast<long>(i), "allreduce of %d B: element %zu",
                    n, i);
          }},
         bytes);

    Bytes data(bytes);
    const check::Envelope from_root{0, 0, n, 0};
    tell({"bcast",
          [&] {
            std::fill(data.begin(), data.end(), 0);
            if (rank == 0) check::fill(data.data(), data.size(), from_root);
          },
          [&] { MPI_Bcast(data.data(), n, MPI_BYTE, 0, check::world); },
          [&] { check::verify(data.data(), data.size(), from_root, "bcast"); }},
         bytes);

    const auto part = [&](Bytes& of, int other) {
      return of.data() + static_cast<std::size_t>(other) * bytes;
    };
    Bytes out(bytes * ranks), in(bytes * ranks);
    tell({"alltoall",
          [&] {
            for (int to = 0; to < ranks; ++to) check::fill(part(out, to), bytes, {rank, to, n, 0});
            std::fill(in.begin(), in.end(), 0);
          },
          [&] {
            MPI_Alltoall(out.data(), n, MPI_BYTE, in.data(), n, MPI_BYTE, check::world);
          },
          [&] {
            for (int from = 0; from < ranks; ++from)
              check::verify(part(in, from), bytes, {from, rank, n, 0}, "alltoall");
          }},
         bytes);
  }
  if (counters) print_counters(check::world);
  return session.finish();
}
