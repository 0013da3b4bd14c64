// threads: MPI_THREAD_MULTIPLE. Several threads of each rank talk at the same time, each on a
// communicator of its own, with derived types, too, and all on a shared one, where the tag tells
// the threads apart.
//
//   mpirun -n 2 threads [--threads 4] [--rounds 60] [--flood 400]
//
// No thread probes: probing with threads is flaky in Open MPI 4.1.4 with any transport.

#include <mpi.h>

#include <thread>
#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr std::size_t kSizes[] = {8, 0, 1000, 64, 5000, 70000, 1, 16384, 300000, 24};
int rank, size;

int tag_of(int thread, int kind) { return thread * 10 + kind; }

// A ping to the right neighbour and back, while answering the left one.
void ping_pong(MPI_Comm comm, int thread, int kind, std::uint32_t rounds) {
  const int tag = tag_of(thread, kind);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const std::size_t bytes = kSizes[(round + static_cast<unsigned>(thread)) % 10];
    const int n = static_cast<int>(bytes);
    Bytes out(bytes), in(bytes), back(bytes);
    check::fill(out.data(), bytes, {rank, to, tag, round});
    MPI_Request requests[2];
    MPI_Irecv(in.data(), n, MPI_BYTE, from, tag, comm, &requests[0]);
    MPI_Irecv(back.data(), n, MPI_BYTE, to, tag + 1, comm, &requests[1]);
    MPI_Send(out.data(), n, MPI_BYTE, to, tag, comm);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    check::verify(in.data(), bytes, {from, rank, tag, round}, "threaded ping");
    MPI_Send(in.data(), n, MPI_BYTE, from, tag + 1, comm);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    check::verify(back.data(), bytes, {rank, to, tag, round}, "threaded pong");
  }
}

// Everything sent before anything is received, to every peer; received from any source.
void flood(MPI_Comm comm, int thread, int kind, std::uint32_t count) {
  const int tag = tag_of(thread, kind);
  constexpr std::size_t kBytes = 40;
  const std::uint32_t each = size > 1 ? count / static_cast<std::uint32_t>(size - 1) : 0;
  std::vector<Bytes> data;
  std::vector<MPI_Request> sends;
  data.reserve(static_cast<std::size_t>(each) * static_cast<std::size_t>(size));
  for (std::uint32_t seq = 0; seq < each; ++seq) {
    for (int shift = 1; shift < size; ++shift) {
      const int to = (rank + shift) % size;
      Bytes& out = data.emplace_back(kBytes);
      check::fill(out.data(), kBytes, {rank, to, tag, seq});
      MPI_Isend(out.data(), kBytes, MPI_BYTE, to, tag, comm, &sends.emplace_back());
    }
  }
  std::vector<std::uint32_t> next(static_cast<std::size_t>(size), 0);
  for (std::size_t left = sends.size(); left > 0; --left) {
    Bytes in(kBytes);
    MPI_Status status;
    MPI_Recv(in.data(), kBytes, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &status);
    const int from = status.MPI_SOURCE;
    check::verify(in.data(), kBytes, {from, rank, tag, next[static_cast<std::size_t>(from)]++},
                  "threaded flood");
  }
  MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
}

// Columns of a matrix, of a type of this thread alone, to rows of the right neighbour; and back
// from its rows, as they are in memory.
void derived(MPI_Comm comm, int thread, int kind, int columns, int rows) {
  const int tag = tag_of(thread, kind);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  const auto bytes = static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows);
  MPI_Datatype column, matrix;
  MPI_Type_vector(rows, 1, columns, MPI_BYTE, &column);
  MPI_Type_create_hvector(columns, 1, 1, column, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Type_free(&column);
  Bytes out(bytes), in(bytes), back(bytes), turned(bytes);
  check::fill(out.data(), bytes, {rank, to, tag, 0});
  MPI_Request requests[2];
  MPI_Irecv(in.data(), static_cast<int>(bytes), MPI_BYTE, from, tag, comm, &requests[0]);
  MPI_Irecv(back.data(), 1, matrix, to, tag + 1, comm, &requests[1]);
  MPI_Send(out.data(), 1, matrix, to, tag, comm);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::size_t column_of = i / static_cast<std::size_t>(rows),
                      row_of = i % static_cast<std::size_t>(rows);
    turned[row_of * static_cast<std::size_t>(columns) + column_of] = in[i];
  }
  check::verify(turned.data(), bytes, {from, rank, tag, 0}, "threaded columns");
  MPI_Send(in.data(), static_cast<int>(bytes), MPI_BYTE, from, tag + 1, comm);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  check::verify(back.data(), bytes, {rank, to, tag, 0}, "threaded columns that came back");
  MPI_Type_free(&matrix);
}

}  // namespace

MPI_TEST(threads) {
  check::Session session(argc, argv, "threads", MPI_THREAD_MULTIPLE);
  const int threads = static_cast<int>(session.options.number("threads", 4));
  const auto rounds = static_cast<std::uint32_t>(session.options.number("rounds", 60));
  const auto count = static_cast<std::uint32_t>(session.options.number("flood", 400));
  session.options.done();
  rank = session.rank, size = session.size;

  MPI_Comm shared;
  std::vector<MPI_Comm> own(static_cast<std::size_t>(threads));
  MPI_Comm_dup(check::world, &shared);
  for (MPI_Comm& comm : own) MPI_Comm_dup(check::world, &comm);

  check::phase("the threads");
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      ping_pong(own[static_cast<std::size_t>(t)], t, 0, rounds);
      flood(own[static_cast<std::size_t>(t)], t, 2, count);
      for (int round = 0; round < 3; ++round) {
        derived(own[static_cast<std::size_t>(t)], t, 8, 3 + t, 40);
        derived(own[static_cast<std::size_t>(t)], t, 8, 200 + t, 500);
      }
      ping_pong(shared, t, 4, rounds);
      flood(shared, t, 6, count);
      // Collectives on one's own communicator, against the other threads' traffic.
      for (int round = 0; round < 5; ++round) {
        int mine = rank + t + round, sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, own[static_cast<std::size_t>(t)]);
        CHECK(sum == size * (size - 1) / 2 + size * (t + round), "thread %d: allreduce gave %d", t,
              sum);
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  for (MPI_Comm& comm : own) MPI_Comm_free(&comm);
  MPI_Comm_free(&shared);
  return session.finish();
}
