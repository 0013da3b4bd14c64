// alltoall_mem: rounds of everyone to everyone, to watch what receiving costs in memory.
//
//   mpirun -n 8 alltoall_mem [--rounds 20] [--bytes 1K] [--depth 16] [--prefix btl_weir_] [--tell]
//
// Each round every rank has --depth messages to every peer in flight. At the end: the transport's
// counters and each process's peak resident memory, smallest, largest and sum over the ranks. With
// --tell every rank says when it begins to connect, and when only MPI_Finalize is left.

#include <mpi.h>

#include <vector>

#include "check.h"
#include "pvars.h"
#include "resident.h"

MPI_TEST(alltoall_mem) {
  check::Session session(argc, argv, "alltoall_mem");
  const auto rounds = static_cast<std::uint32_t>(session.options.number("rounds", 20));
  const auto bytes = static_cast<std::size_t>(session.options.number("bytes", 1024));
  const auto depth = static_cast<std::uint32_t>(session.options.number("depth", 16));
  Counters counters(session.options.text("prefix", "btl_weir_"));
  const bool tells = session.options.flag("tell");
  session.options.done();

  const int rank = session.rank, size = session.size;
  const double resident_before_kb = status_kb("VmRSS");
  const std::size_t slots = static_cast<std::size_t>(size) * depth;
  std::vector<unsigned char> out(slots * bytes), in(slots * bytes);
  std::vector<MPI_Request> requests;
  check::phase("the rounds");
  if (tells) std::fprintf(stderr, "alltoall_mem: rank %d connects\n", rank);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    requests.clear();
    for (std::uint32_t d = 0; d < depth; ++d) {
      for (int shift = 1; shift < size; ++shift) {
        const int to = (rank + shift) % size, from = (rank + size - shift) % size;
        const std::uint32_t seq = round * depth + d;
        unsigned char* send = &out[(static_cast<std::size_t>(to) * depth + d) * bytes];
        unsigned char* receive = &in[(static_cast<std::size_t>(from) * depth + d) * bytes];
        check::fill(send, bytes, {rank, to, 1, seq});
        MPI_Request& received = requests.emplace_back();
        MPI_Irecv(receive, static_cast<int>(bytes), MPI_BYTE, from, 1, check::world, &received);
        MPI_Request& sent = requests.emplace_back();
        MPI_Isend(send, static_cast<int>(bytes), MPI_BYTE, to, 1, check::world, &sent);
      }
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (int from = 0; from < size; ++from)
      for (std::uint32_t d = 0; from != rank && d < depth; ++d)
        check::verify(&in[(static_cast<std::size_t>(from) * depth + d) * bytes], bytes,
                      {from, rank, 1, round * depth + d}, "all-to-all");
  }
  check::phase("the report");
  counters.print(check::world);
  counters.close();  // before MPI_Finalize: see pvars.h
  report_kb(check::world, "resident_before_kb", resident_before_kb);
  report_kb(check::world, "resident_peak_kb", status_kb("VmHWM"));
  if (tells) std::fprintf(stderr, "alltoall_mem: rank %d leaves\n", rank);
  return session.finish();
}
