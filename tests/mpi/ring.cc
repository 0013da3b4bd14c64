// ring: a token walks round all ranks, and every rank checks it. The first program to try.
//
//   mpirun -n 4 ring [--laps 10] [--bytes 64] [--pause-us 0] [--counters] [--during CMD] [--user UID]
//
// --user: first this becomes the program's user, as in those that give up root's rights.
// --during: rank 0 runs CMD (through the shell) inside the job, before the counters are read.

#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "check.h"
#include "mark.h"
#include "pvars.h"

MPI_TEST(ring) {
  check::Session session(argc, argv, "ring");
  const int laps = static_cast<int>(session.options.number("laps", 10));
  // Rank 0 waits so long before it receives: then what comes round is there, and it need not poll.
  const auto pause_us = static_cast<useconds_t>(session.options.number("pause-us", 0));
  const int bytes = static_cast<int>(session.options.number("bytes", 64));
  const bool counters = session.options.flag("counters");
  const std::string during = session.options.text("during", "");
  const auto user = static_cast<uid_t>(session.options.number("user", 0));
  session.options.done();
  if (user != 0 && setuid(user) != 0) check::fail("setuid failed");
  const int rank = session.rank, size = session.size;
  check::phase("the ring");

  // The token's bytes depend on the lap and on who passes it to whom, so a stale, lost or doubled
  // token cannot go unseen.
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  std::vector<unsigned char> token(bytes);
  const double start_s = MPI_Wtime();
  if (pause_us > 0) MPI_Barrier(check::world);  // connects
  if (rank == 0) mark::begin_series();
  for (int lap = 0; lap < laps; ++lap) {
    const auto seq = static_cast<std::uint32_t>(lap);
    if (rank == 0) {
      check::fill(token.data(), token.size(), {0, next, 7, seq});
      MPI_Request sent;
      {
        const mark::Operation<mark::send> marked;
        MPI_Isend(token.data(), bytes, MPI_BYTE, next, 7, check::world, &sent);
      }
      std::vector<unsigned char> back(bytes);
      if (pause_us > 0) usleep(pause_us);
      {
        const mark::Operation<mark::receive> marked;
        MPI_Recv(back.data(), bytes, MPI_BYTE, previous, 7, check::world, MPI_STATUS_IGNORE);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
      }
      check::verify(back.data(), back.size(), {previous, 0, 7, seq}, "token");
    } else {
      MPI_Recv(token.data(), bytes, MPI_BYTE, previous, 7, check::world, MPI_STATUS_IGNORE);
      check::verify(token.data(), token.size(), {previous, rank, 7, seq}, "token");
      check::fill(token.data(), token.size(), {rank, next, 7, seq});
      MPI_Send(token.data(), bytes, MPI_BYTE, next, 7, check::world);
    }
  }
  const double elapsed_s = MPI_Wtime() - start_s;

  if (rank == 0)
    std::printf("ring: %d laps of %d bytes, %.1f us a hop\n", laps, bytes,
                laps > 0 ? elapsed_s * 1e6 / laps / size : 0.0);
  if (!during.empty()) {
    if (rank == 0) CHECK(std::system(during.c_str()) == 0, "'%s' failed", during.c_str());
    MPI_Barrier(check::world);
  }
  if (counters) print_counters(check::world);
  return session.finish();
}
