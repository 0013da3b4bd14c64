// spawn: processes born during the run become peers. The parents spawn children, exchange with
// them over the intercommunicator and, merged, over an intracommunicator, and part; twice.
//
//   mpirun -n 2 --oversubscribe spawn [--children 2] [--generations 2] [--here]
//
// --here keeps the children on the first rank's host. The same binary is the child, told by --child.

#include <mpi.h>

#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr std::size_t kSizes[] = {8, 0, 4000, 70000, 1 << 20};

// Everyone to everyone of the other group (or of the only one), both ways at once.
void exchange(MPI_Comm comm, int tag, bool inter, bool child) {
  int rank, size, peers;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  peers = size;
  if (inter) MPI_Comm_remote_size(comm, &peers);
  // Ranks of the two groups overlap; children count from 1000 so that no two payloads are equal.
  const int me = inter && child ? 1000 + rank : rank, base = inter && !child ? 1000 : 0;
  for (std::size_t bytes : kSizes) {
    const auto seq = static_cast<std::uint32_t>(bytes);
    const auto slots = static_cast<std::size_t>(peers);
    std::vector<Bytes> out(slots, Bytes(bytes)), in(slots, Bytes(bytes));
    std::vector<MPI_Request> requests(2 * slots);
    for (std::size_t p = 0; p < slots; ++p) {
      const int peer = static_cast<int>(p);
      check::fill(out[p].data(), bytes, {me, base + peer, tag, seq});
      MPI_Irecv(in[p].data(), static_cast<int>(bytes), MPI_BYTE, peer, tag, comm, &requests[2 * p]);
      MPI_Isend(out[p].data(), static_cast<int>(bytes), MPI_BYTE, peer, tag, comm,
                &requests[2 * p + 1]);
    }
    MPI_Waitall(static_cast<int>(2 * slots), requests.data(), MPI_STATUSES_IGNORE);
    for (std::size_t p = 0; p < slots; ++p)
      check::verify(in[p].data(), bytes, {base + static_cast<int>(p), me, tag, seq},
                    inter ? "between parents and children" : "in the merged world");
  }
}

void live_together(MPI_Comm other, bool child) {
  check::phase("traffic between parents and children");
  exchange(other, 5, true, child);
  MPI_Comm merged;
  MPI_Intercomm_merge(other, child ? 1 : 0, &merged);
  check::phase("traffic in the merged world");
  exchange(merged, 6, false, child);
  int rank, size, one = 1, sum = 0;
  MPI_Comm_rank(merged, &rank);
  MPI_Comm_size(merged, &size);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
  CHECK(sum == size, "merged allreduce: %d of %d", sum, size);
  check::phase("parting");
  MPI_Comm_free(&merged);
  MPI_Comm_disconnect(&other);
}

}  // namespace

MPI_TEST(spawn) {
  check::Session session(argc, argv, "spawn");
  const int children = static_cast<int>(session.options.number("children", 2));
  const int generations = static_cast<int>(session.options.number("generations", 2));
  const bool here = session.options.flag("here");
  const bool child = session.options.flag("child");
  session.options.done();

  if (child) {
    MPI_Comm parents;
    MPI_Comm_get_parent(&parents);
    CHECK(parents != MPI_COMM_NULL, "--child is for spawned processes only");
    live_together(parents, true);
    check::phase("a child's MPI_Finalize");
    MPI_Finalize();
    return 0;
  }
  MPI_Info where;
  MPI_Info_create(&where);
  char host[MPI_MAX_PROCESSOR_NAME];
  int length;
  MPI_Get_processor_name(host, &length);
  if (here) MPI_Info_set(where, "host", host);
  for (int generation = 0; generation < generations; ++generation) {
    check::phase("MPI_Comm_spawn");
    const std::string seed = std::to_string(check::seed), limit = std::to_string(check::limit_s);
    std::vector<std::string> words = {"--child", "--seed", seed, "--timeout", limit};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    MPI_Comm other;
    std::vector<int> codes(static_cast<std::size_t>(children), -1);
    MPI_Comm_spawn(argv[0], arguments.data(), children, where, 0, check::world, &other,
                   codes.data());
    for (int code : codes) CHECK(code == MPI_SUCCESS, "a child did not start: code %d", code);
    live_together(other, false);
  }
  MPI_Info_free(&where);
  return session.finish();
}
