// initlat: what MPI_Init costs, and the first message to each peer against the second. The
// difference is the price of connecting lazily.
//
//   mpirun -n 4 initlat
//
// No collective runs before the measurement: it would connect peers behind our back. Shifts stop
// at size / 2, where every pair has met once; a pair at exactly size / 2 connects from both sides
// at the same time.

#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "check.h"

namespace {

double now_s() {  // MPI_Wtime may not be used before MPI_Init
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Asks `to` and answers `from`; returns the time until `to` has answered.
double ask(int rank, int to, int from, std::uint32_t seq) {
  unsigned char question[8], answer[8], asked[8];
  MPI_Request requests[2];
  MPI_Irecv(asked, 8, MPI_BYTE, from, 1, check::world, &requests[0]);
  MPI_Irecv(answer, 8, MPI_BYTE, to, 2, check::world, &requests[1]);
  check::fill(question, 8, {rank, to, 1, seq});
  const double start_s = now_s();
  MPI_Send(question, 8, MPI_BYTE, to, 1, check::world);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  check::verify(asked, 8, {from, rank, 1, seq}, "question");
  MPI_Send(asked, 8, MPI_BYTE, from, 2, check::world);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  const double elapsed_s = now_s() - start_s;
  check::verify(answer, 8, {rank, to, 1, seq}, "answer");
  return elapsed_s;
}

// Collective: median and maximum over all ranks' samples, printed by rank 0.
void report(const char* what, std::vector<double> mine, double scale, const char* unit) {
  int rank, size, count = static_cast<int>(mine.size());
  MPI_Comm_rank(check::world, &rank);
  MPI_Comm_size(check::world, &size);
  std::vector<double> all(mine.size() * static_cast<std::size_t>(size));
  MPI_Gather(mine.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, 0, check::world);
  if (rank != 0 || all.empty()) return;
  std::sort(all.begin(), all.end());
  std::printf("%-28s p50 %10.2f %s   max %10.2f %s   (%zu samples)\n", what,
              all[all.size() / 2] * scale, unit, all.back() * scale, unit, all.size());
}

}  // namespace

MPI_TEST(initlat) {
  const double before_s = now_s();
  check::Session session(argc, argv, "initlat");
  const double init_s = now_s() - before_s;
  session.options.done();
  check::phase("first messages");
  std::vector<double> first, second;
  for (int shift = 1; shift <= session.size / 2; ++shift) {
    const int to = (session.rank + shift) % session.size;
    const int from = (session.rank + session.size - shift) % session.size;
    first.push_back(ask(session.rank, to, from, 0));
    second.push_back(ask(session.rank, to, from, 1));
  }
  check::phase("the report");
  report("MPI_Init", {init_s}, 1e3, "ms");
  report("first round trip to a peer", first, 1e6, "us");
  report("second round trip", second, 1e6, "us");
  return session.finish();
}
