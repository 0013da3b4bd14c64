// table1_orderings: the seven ways two receives can meet two sends [RDRP Table 1], with the
// receives posted before (expected) and after (unexpected) the sends, for every mix of eager,
// medium and large messages; then sends nobody can tell apart, receives longer than the message,
// and receives that are too short.
//
//   mpirun -n 2 table1_orderings [--eager 1000] [--medium 64K] [--large 1M] [--truncate 128]
//                              [--counters]
//
// Each rank sends to its right neighbour and receives from its left. Too short a receive is tried
// with eager messages only: above the eager limit Open MPI 4.1's ob1 itself writes past the
// buffer, with any RDMA transport. Keep --truncate below the transport's eager limit.

#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "pvars.h"
#include "table1.h"

namespace {

using Bytes = std::vector<unsigned char>;
const MPI_Comm& kWorld = check::world;
constexpr int kToken = 9;
static_assert(kAny == MPI_ANY_TAG);
constexpr unsigned char kCanary = 0xc5;
constexpr std::size_t kMargin = 128;

int rank, size, to, from;
std::uint32_t serial;
MPI_Comm announcements;  // a duplicate of the world, out of reach of the receives of any tag

// "My receives are posted" or "my sends are on their way", to one neighbour, from the other.
void token(int tell, int hear) {
  MPI_Sendrecv(nullptr, 0, MPI_BYTE, tell, kToken, nullptr, 0, MPI_BYTE, hear, kToken,
               announcements, MPI_STATUS_IGNORE);
}

void check_message(const Bytes& in, const MPI_Status& status, int tag, std::uint32_t seq,
                   std::size_t bytes, const char* what) {
  check::verify_status(status, from, tag, bytes, what);
  check::verify(in.data(), bytes, {from, rank, tag, seq}, what);
  for (std::size_t i = bytes; i < in.size(); ++i)
    CHECK(in[i] == kCanary, "%s: byte %zu behind a message of %zu bytes was written", what, i,
          bytes);
}

void one_row(const Row& row, bool expected, const std::size_t (&bytes)[2]) {
  const std::uint32_t seq = ++serial;
  const std::size_t room = std::max(bytes[0], bytes[1]) + kMargin;  // every receive is longer
  Bytes out[2], in[2];
  MPI_Request sends[2], receives[2];
  MPI_Status statuses[2];
  auto post_receives = [&] {
    for (int r = 0; r < 2; ++r) {
      in[r].assign(room, kCanary);
      MPI_Irecv(in[r].data(), static_cast<int>(room), MPI_BYTE, from, row.receive[r], kWorld,
                &receives[r]);
    }
  };
  if (expected) post_receives(), token(from, to);
  for (int s = 0; s < 2; ++s) {
    out[s].resize(bytes[s]);
    const int tag = s == 0 ? kTag1 : kTag2;
    check::fill(out[s].data(), bytes[s], {rank, to, tag, seq});
    MPI_Isend(out[s].data(), static_cast<int>(bytes[s]), MPI_BYTE, to, tag, kWorld, &sends[s]);
  }
  if (!expected) {  // probing both tags proves that they are here, and that nobody waited for them
    MPI_Probe(from, kTag2, kWorld, MPI_STATUS_IGNORE);
    MPI_Probe(from, kTag1, kWorld, MPI_STATUS_IGNORE);
    post_receives();
  }
  for (int s = 0; s < 2; ++s) {
    const int r = row.match[s], tag = s == 0 ? kTag1 : kTag2;
    if (r >= 0) {
      MPI_Wait(&receives[r], &statuses[r]);
      check_message(in[r], statuses[r], tag, seq, bytes[s], row.name);
      continue;
    }
    // No match: the second receive must still be waiting though s2 has arrived. Take both back.
    int arrived = 0, cancelled = 0;
    MPI_Probe(from, tag, kWorld, MPI_STATUS_IGNORE);
    MPI_Test(&receives[1], &arrived, &statuses[1]);
    CHECK(!arrived, "%s: the second receive must match nothing, but completed", row.name);
    MPI_Cancel(&receives[1]);
    MPI_Wait(&receives[1], &statuses[1]);
    MPI_Test_cancelled(&statuses[1], &cancelled);
    CHECK(cancelled, "%s: the unmatched receive could not be cancelled", row.name);
    in[1].assign(room, kCanary);
    MPI_Recv(in[1].data(), static_cast<int>(room), MPI_BYTE, from, tag, kWorld, &statuses[1]);
    check_message(in[1], statuses[1], tag, seq, bytes[s], row.name);
  }
  MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
  token(from, to);  // the next row's sends must not meet this row's unmatched receive
}

// Many sends with one envelope, small and large by turns: they may not overtake each other.
void identical(bool expected, std::size_t small, std::size_t large, bool any_tag) {
  constexpr int kCount = 12;
  const std::uint32_t first = serial + 1;
  serial += kCount;
  auto bytes_of = [&](int i) { return i % 3 == 1 ? large : small + static_cast<std::size_t>(i); };
  std::vector<Bytes> out(kCount), in(kCount);
  std::vector<MPI_Request> sends(kCount), receives(kCount);
  auto post = [&](int i) {
    in[i].assign(large + kMargin, kCanary);
    MPI_Irecv(in[i].data(), static_cast<int>(in[i].size()), MPI_BYTE, from, any_tag ? kAny : kTag1,
              kWorld, &receives[i]);
  };
  if (expected) {
    for (int i = 0; i < kCount; ++i) post(i);
    MPI_Barrier(kWorld);  // collectives have a context of their own: no receive here takes them
  }
  for (int i = 0; i < kCount; ++i) {
    out[i].resize(bytes_of(i));
    check::fill(out[i].data(), out[i].size(), {rank, to, kTag1, first + i});
    MPI_Isend(out[i].data(), static_cast<int>(out[i].size()), MPI_BYTE, to, kTag1, kWorld,
              &sends[i]);
  }
  if (!expected) {
    MPI_Barrier(kWorld);
    for (int i = 0; i < kCount; ++i) post(i);
  }
  for (int i = 0; i < kCount; ++i) {
    MPI_Status status;
    MPI_Wait(&receives[i], &status);
    check_message(in[i], status, kTag1, first + i, bytes_of(i), "identical sends");
  }
  MPI_Waitall(kCount, sends.data(), MPI_STATUSES_IGNORE);
}

// Too short a receive: MPI_ERR_TRUNCATE, not one byte past the buffer (a page without access lies
// right behind it), and the next message is not harmed.
void truncation(bool expected, std::size_t sent_bytes, std::size_t room) {
  const std::uint32_t seq = ++serial;
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* pages = static_cast<unsigned char*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0, "no guard page");
  unsigned char* buffer = pages + page - room;
  MPI_Comm comm;
  MPI_Comm_dup(kWorld, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Bytes out(sent_bytes), next(64), in(64);
  check::fill(out.data(), sent_bytes, {rank, to, kTag1, seq});
  check::fill(next.data(), next.size(), {rank, to, kTag2, seq});
  MPI_Request receive, sends[2];
  auto post = [&] {
    MPI_Irecv(buffer, static_cast<int>(room), MPI_BYTE, from, kTag1, comm, &receive);
  };
  if (expected) post(), token(from, to);
  MPI_Isend(out.data(), static_cast<int>(sent_bytes), MPI_BYTE, to, kTag1, comm, &sends[0]);
  MPI_Isend(next.data(), 64, MPI_BYTE, to, kTag2, comm, &sends[1]);
  if (!expected) MPI_Probe(from, kTag2, comm, MPI_STATUS_IGNORE), post();
  MPI_Status status;
  const int code = MPI_Wait(&receive, &status);
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  CHECK(error_class == MPI_ERR_TRUNCATE, "%zu bytes into %zu: error class %d, not MPI_ERR_TRUNCATE",
        sent_bytes, room, error_class);
  MPI_Recv(in.data(), 64, MPI_BYTE, from, kTag2, comm, &status);
  check::verify(in.data(), 64, {from, rank, kTag2, seq}, "the message after a truncated one");
  MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
  MPI_Comm_free(&comm);
  munmap(pages, 2 * page);
}

}  // namespace

MPI_TEST(table1_orderings) {
  check::Session session(argc, argv, "table1_orderings");
  const auto eager = static_cast<std::size_t>(session.options.number("eager", 1000));
  const auto medium = static_cast<std::size_t>(session.options.number("medium", 65536));
  const auto large = static_cast<std::size_t>(session.options.number("large", 1 << 20));
  const auto truncate = static_cast<std::size_t>(session.options.number("truncate", 128));
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  serial = 0;
  Counters counters;
  rank = session.rank, size = session.size;
  to = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Comm_dup(kWorld, &announcements);

  check::phase("Table 1");
  const std::size_t mixes[][2] = {{eager, eager}, {medium, medium}, {eager, large},
                                  {large, eager}, {medium, large},  {eager, medium},
                                  {0, medium}};
  for (const Row& row : kTable1)
    for (bool expected : {true, false})
      for (const auto& mix : mixes) one_row(row, expected, mix);
  check::phase("identical sends");
  for (bool expected : {true, false})
    for (bool any_tag : {false, true}) identical(expected, eager, medium + 1, any_tag);
  check::phase("truncation");
  for (bool expected : {true, false})
    for (std::size_t room : {truncate - 1, truncate / 3, std::size_t{0}})
      truncation(expected, truncate, room);
  MPI_Comm_free(&announcements);
  if (show_counters) counters.print(check::world);
  counters.close();
  return session.finish();
}
