// msgrate: how many small messages a second. The first half of the ranks each streams to a partner
// in the second half; a window of isends, then one acknowledgement. Every payload is checked.
//
//   mpirun -n 2 msgrate [--bytes 8] [--window 64] [--messages 20000] [--counters]

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "pvars.h"

MPI_TEST(msgrate) {
  check::Session session(argc, argv, "msgrate");
  const int bytes = std::max(8, static_cast<int>(session.options.number("bytes", 8)));
  const int window = static_cast<int>(session.options.number("window", 64));
  const long messages = session.options.number("messages", 20000);
  const bool counters = session.options.flag("counters");
  session.options.done();
  const int half = session.size / 2;
  CHECK(half >= 1, "msgrate needs two ranks");

  const int rank = session.rank;
  const bool sender = rank < half, idle = rank >= 2 * half;
  const int partner = sender ? rank + half : rank - half;
  const int rounds = static_cast<int>((messages + window - 1) / window);
  const auto stride = static_cast<std::size_t>(bytes);
  std::vector<unsigned char> buffer(stride * static_cast<std::size_t>(window));
  std::vector<MPI_Request> requests(static_cast<std::size_t>(window));
  auto run = [&](int from_round, int to_round) {
    for (int round = from_round; round < to_round; ++round) {
      for (int i = 0; i < window; ++i) {
        unsigned char* at = buffer.data() + stride * static_cast<std::size_t>(i);
        const std::uint64_t serial = static_cast<std::uint64_t>(round) * window + i;
        if (sender) {
          std::memcpy(at, &serial, 8);
          MPI_Isend(at, bytes, MPI_BYTE, partner, 1, check::world, &requests[i]);
        } else {
          MPI_Irecv(at, bytes, MPI_BYTE, partner, 1, check::world, &requests[i]);
        }
      }
      MPI_Waitall(window, requests.data(), MPI_STATUSES_IGNORE);
      for (int i = 0; !sender && i < window; ++i) {
        std::uint64_t serial, expected = static_cast<std::uint64_t>(round) * window + i;
        std::memcpy(&serial, buffer.data() + stride * static_cast<std::size_t>(i), 8);
        CHECK(serial == expected, "from %d: message %llu where %llu belongs", partner,
              static_cast<unsigned long long>(serial), static_cast<unsigned long long>(expected));
        check::verified_messages.fetch_add(1, std::memory_order_relaxed);
      }
      if (sender)
        MPI_Recv(nullptr, 0, MPI_BYTE, partner, 2, check::world, MPI_STATUS_IGNORE);
      else
        MPI_Send(nullptr, 0, MPI_BYTE, partner, 2, check::world);
    }
  };

  check::phase("warm-up");
  const int warm = std::min(rounds, 4);
  if (!idle) run(0, warm);
  MPI_Barrier(check::world);
  check::phase("the stream");
  const double start_s = MPI_Wtime();
  if (!idle) run(warm, warm + rounds);
  const double elapsed_s = MPI_Wtime() - start_s;
  const double mine = sender ? static_cast<double>(rounds) * window / elapsed_s : 0;
  double total = 0;
  MPI_Reduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, 0, check::world);
  if (rank == 0)
    std::printf("msgrate: %d pairs, %d bytes, window %d: %.0f messages/s\n", half, bytes, window,
                total);
  if (counters) print_counters(check::world);
  return session.finish();
}
