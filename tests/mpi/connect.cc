// connect: two jobs that know nothing of each other become peers by a port, exchange, and part;
// again and again. One is the server, which opens a port each time (one of Open MPI 5.0 may serve
// only twice), and writes its name to FILE.N.
//
//   ompi-server --no-daemonize -r URI &
//   mpirun --ompi-server file:URI -n 2 connect --serve FILE [--times 3] &
//   mpirun --ompi-server file:URI -n 2 connect --to FILE [--times 3]
//
// Each job goes on exchanging among its own ranks between two connections.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr std::size_t kSizes[] = {8, 0, 4000, 70000, 1 << 20};

// Everyone with everyone of the other group, or of the only one. Servers count from 1000.
void exchange(MPI_Comm comm, int tag, int mine_from, int theirs_from, const char* what) {
  check::phase(what);
  int rank, peers, inter;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_test_inter(comm, &inter);
  inter != 0 ? MPI_Comm_remote_size(comm, &peers) : MPI_Comm_size(comm, &peers);
  for (const std::size_t bytes : kSizes) {
    const auto slots = static_cast<std::size_t>(peers);
    std::vector<std::vector<unsigned char>> out(slots, std::vector<unsigned char>(bytes)), in = out;
    std::vector<MPI_Request> requests;
    for (int peer = 0; peer < peers; ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      check::fill(out[p].data(), bytes, {mine_from + rank, theirs_from + peer, tag, 1});
      MPI_Irecv(in[p].data(), static_cast<int>(bytes), MPI_BYTE, peer, tag, comm,
                &requests.emplace_back());
      MPI_Isend(out[p].data(), static_cast<int>(bytes), MPI_BYTE, peer, tag, comm,
                &requests.emplace_back());
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < peers; ++peer)
      check::verify(in[static_cast<std::size_t>(peer)].data(), bytes,
                    {theirs_from + peer, mine_from + rank, tag, 1}, what);
  }
}

void write_port(const std::string& file, const char* port) {
  const std::string part = file + ".part";
  std::FILE* const out = std::fopen(part.c_str(), "w");
  CHECK(out != nullptr && std::fputs(port, out) >= 0 && std::fclose(out) == 0 &&
            std::rename(part.c_str(), file.c_str()) == 0,
        "cannot write %s", file.c_str());
}

void read_port(const std::string& file, char* port) {
  std::FILE* in;
  while ((in = std::fopen(file.c_str(), "r")) == nullptr) usleep(10'000);
  const char* const read = std::fgets(port, MPI_MAX_PORT_NAME, in);
  std::fclose(in);
  CHECK(read != nullptr, "nothing in %s", file.c_str());
}

}  // namespace

MPI_TEST(connect) {
  check::Session session(argc, argv, "connect");
  const std::string served = session.options.text("serve", "");
  const std::string file = served.empty() ? session.options.text("to", "") : served;
  const long times = session.options.number("times", 3);
  session.options.done();
  CHECK(!file.empty(), "--serve FILE or --to FILE");

  const int mine = served.empty() ? 0 : 1000, theirs = 1000 - mine;
  for (long i = 0; i < times; ++i) {
    char port[MPI_MAX_PORT_NAME] = "";
    check::phase("the port");
    if (!served.empty() && session.rank == 0) {
      MPI_Open_port(MPI_INFO_NULL, port);
      write_port(file + "." + std::to_string(i), port);
    } else if (session.rank == 0) {
      read_port(file + "." + std::to_string(i), port);
    }
    check::phase(served.empty() ? "MPI_Comm_connect" : "MPI_Comm_accept");
    MPI_Comm other;
    if (served.empty())
      MPI_Comm_connect(port, MPI_INFO_NULL, 0, check::world, &other);
    else
      MPI_Comm_accept(port, MPI_INFO_NULL, 0, check::world, &other);
    exchange(other, 5, mine, theirs, "between the jobs");
    check::phase("MPI_Comm_disconnect");
    MPI_Comm_disconnect(&other);
    if (!served.empty() && session.rank == 0) MPI_Close_port(port);
    exchange(check::world, 6, mine, mine, "within a job");
  }
  return session.finish();
}
