// killed_peer: one rank dies by SIGKILL in the middle of traffic. The others must not wait for
// ever: the job has to end, in bounded time, with a code that is not zero. That is judged by
// whoever runs it; the WATCHDOG line of a survivor means that it did not.
//
//   mpirun -n 3 killed_peer [--victim 1] [--messages 200] [--survivors mixed|recv|send|large]
//
//   mixed  survivors go on exchanging with everyone, the dead included
//   recv   survivors block in a receive from the dead, which only the runtime can tell them about
//   send   survivors stream small messages at the dead
//   large  survivors send 4 MiB messages to the dead: a rendezvous nobody answers

#include <mpi.h>

#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;
int rank, size;

// One round of messages with every peer, checked.
void exchange(std::uint32_t round, std::size_t bytes) {
  for (int shift = 1; shift < size; ++shift) {
    const int to = (rank + shift) % size, from = (rank + size - shift) % size;
    Bytes out(bytes), in(bytes);
    check::fill(out.data(), bytes, {rank, to, 1, round});
    MPI_Sendrecv(out.data(), static_cast<int>(bytes), MPI_BYTE, to, 1, in.data(),
                 static_cast<int>(bytes), MPI_BYTE, from, 1, check::world, MPI_STATUS_IGNORE);
    check::verify(in.data(), bytes, {from, rank, 1, round}, "before the kill");
  }
}

[[noreturn]] void die() {
  std::fprintf(stderr, "killed_peer: rank %d kills itself\n", rank);
  MPI_Request pending;  // with a send under way
  static Bytes last(200000);
  MPI_Isend(last.data(), static_cast<int>(last.size()), MPI_BYTE, (rank + 1) % size, 1,
            check::world, &pending);
  raise(SIGKILL);
  std::abort();
}

}  // namespace

MPI_TEST(killed_peer) {
  check::Session session(argc, argv, "killed_peer");
  const int victim = static_cast<int>(session.options.number("victim", 1));
  const auto messages = static_cast<std::uint32_t>(session.options.number("messages", 200));
  const std::string mode = session.options.text("survivors", "mixed");
  session.options.done();
  rank = session.rank, size = session.size;
  CHECK(size >= 2 && victim < size, "killed_peer needs two ranks and a victim among them");

  CHECK(mode == "mixed" || mode == "recv" || mode == "send" || mode == "large",
        "there is no --survivors %s", mode.c_str());

  check::phase("traffic before the kill");
  for (std::uint32_t round = 0; round < messages; ++round) exchange(round, round % 8 ? 100 : 20000);
  if (rank == victim) die();

  Bytes data(mode == "large" ? 4 << 20 : 64);
  const int n = static_cast<int>(data.size());
  check::phase("traffic after the kill");
  if (mode == "recv")
    MPI_Recv(data.data(), n, MPI_BYTE, victim, 77, check::world, MPI_STATUS_IGNORE);
  else if (mode == "send" || mode == "large")
    for (;;) MPI_Send(data.data(), n, MPI_BYTE, victim, 78, check::world);
  else
    for (std::uint32_t round = messages;; ++round) exchange(round, round % 8 ? 100 : 20000);
  check::fail("a receive from dead rank %d completed", victim);
}
