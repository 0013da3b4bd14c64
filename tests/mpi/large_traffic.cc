// large_traffic: large messages in the patterns that hurt: all to one, rings, identical ones in
// flight, receives longer than the message, nothing at all in between.
//
//   mpirun -n 4 large_traffic [--rounds 2] [--bytes 4M] [--ring-bytes 9M] [--leave-send]
//                             [--counters]
//
// With --leave-send it ends with sends that nobody receives, for tests of what a transport says.
// No receive is too short for a large message: Open MPI itself then writes past its end.

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr int kTag = 6, kSmallTag = 7;

int rank, size;

int count_of(std::size_t n) { return static_cast<int>(n); }

// All send two to rank 0 at the same time, each followed by an empty and a small one. Received in
// the order of arrival.
void incast(std::size_t bytes, std::uint32_t round) {
  check::phase("all to one");
  constexpr std::uint32_t each = 2;
  if (rank == 0) {
    std::vector<std::uint32_t> next(static_cast<std::size_t>(size), round * each);
    Bytes in(bytes + 1000);
    for (int left = (size - 1) * count_of(each); left > 0; --left) {
      MPI_Status status;
      MPI_Recv(in.data(), count_of(in.size()), MPI_BYTE, MPI_ANY_SOURCE, kTag, check::world,
               &status);
      const int from = status.MPI_SOURCE;
      std::uint32_t& seq = next[static_cast<std::size_t>(from)];
      check::verify_status(status, from, kTag, bytes, "all to one");
      check::verify(in.data(), bytes, {from, 0, kTag, seq++}, "all to one");
      MPI_Recv(in.data(), 100, MPI_BYTE, from, kSmallTag, check::world, &status);
      check::verify_status(status, from, kSmallTag, 0, "an empty one behind");
      MPI_Recv(in.data(), 100, MPI_BYTE, from, kSmallTag, check::world, &status);
      check::verify_status(status, from, kSmallTag, 100, "a small one behind");
      check::verify(in.data(), 100, {from, 0, kSmallTag, seq - 1}, "a small one behind");
    }
    return;
  }
  Bytes out[each];
  Bytes small[each];
  std::vector<MPI_Request> requests;
  for (std::uint32_t i = 0; i < each; ++i) {
    const std::uint32_t seq = round * each + i;
    out[i].resize(bytes), small[i].resize(100);
    check::fill(out[i].data(), bytes, {rank, 0, kTag, seq});
    check::fill(small[i].data(), 100, {rank, 0, kSmallTag, seq});
    MPI_Isend(out[i].data(), count_of(bytes), MPI_BYTE, 0, kTag, check::world,
              &requests.emplace_back());
    MPI_Isend(nullptr, 0, MPI_BYTE, 0, kSmallTag, check::world, &requests.emplace_back());
    MPI_Isend(small[i].data(), 100, MPI_BYTE, 0, kSmallTag, check::world, &requests.emplace_back());
  }
  MPI_Waitall(count_of(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

// The same buffer several times at once, into buffers of their own: expected ones first, then with
// the receives posted late.
void identical(std::size_t bytes, std::uint32_t round) {
  check::phase("identical sends in flight");
  constexpr std::size_t copies = 4;
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  Bytes out(bytes), in[copies];
  check::fill(out.data(), bytes, {rank, right, kTag, round});
  MPI_Request requests[2 * copies];
  const auto receive = [&] {
    for (std::size_t i = 0; i < copies; ++i) {
      in[i].assign(bytes + i * 10, 0);  // longer than the message, except the first
      MPI_Irecv(in[i].data(), count_of(in[i].size()), MPI_BYTE, left, kTag, check::world,
                &requests[i]);
    }
  };
  for (bool late : {false, true}) {
    if (!late) receive();
    MPI_Barrier(check::world);
    for (std::size_t i = 0; i < copies; ++i)
      MPI_Isend(out.data(), count_of(bytes), MPI_BYTE, right, kTag, check::world,
                &requests[copies + i]);
    MPI_Barrier(check::world);
    if (late) receive();
    MPI_Status statuses[2 * copies];
    MPI_Waitall(2 * copies, requests, statuses);
    for (std::size_t i = 0; i < copies; ++i) {
      check::verify_status(statuses[i], left, kTag, bytes, "one of several identical");
      check::verify(in[i].data(), bytes, {left, rank, kTag, round}, "one of several identical");
      for (std::size_t at = bytes; at < in[i].size(); ++at)
        CHECK(in[i][at] == 0, "byte %zu, behind a message of %zu", at, bytes);
    }
  }
}

// More than a device takes in one work request, both ways round, several laps, in place too.
void ring(std::size_t bytes, std::uint32_t round) {
  check::phase("rings");
  Bytes out(bytes), in(bytes);
  for (int step : {1, size - 1}) {
    const int to = (rank + step) % size, from = (rank + size - step) % size;
    check::fill(out.data(), bytes, {rank, to, kTag, round});
    MPI_Status status;
    MPI_Sendrecv(out.data(), count_of(bytes), MPI_BYTE, to, kTag, in.data(), count_of(bytes),
                 MPI_BYTE, from, kTag, check::world, &status);
    check::verify_status(status, from, kTag, bytes, "ring");
    check::verify(in.data(), bytes, {from, rank, kTag, round}, "ring");
    MPI_Sendrecv(nullptr, 0, MPI_BYTE, to, kTag, nullptr, 0, MPI_BYTE, from, kTag, check::world,
                 &status);
    check::verify_status(status, from, kTag, 0, "an empty ring");
  }
  check::fill(in.data(), bytes, {rank, 0, kTag, round + 1000});
  MPI_Sendrecv_replace(in.data(), count_of(bytes), MPI_BYTE, (rank + 1) % size, kTag,
                       (rank + size - 1) % size, kTag, check::world, MPI_STATUS_IGNORE);
  check::verify(in.data(), bytes, {(rank + size - 1) % size, 0, kTag, round + 1000},
                "ring in place");
}

// Too long for its receive, of a size that travels in one piece.
void truncated() {
  check::phase("truncation");
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  Bytes out(128), in(128, 0xa5);
  check::fill(out.data(), out.size(), {rank, right, kTag, 0});
  MPI_Comm_set_errhandler(check::world, MPI_ERRORS_RETURN);
  MPI_Request request;
  MPI_Irecv(in.data(), 50, MPI_BYTE, left, kTag, check::world, &request);
  MPI_Send(out.data(), 128, MPI_BYTE, right, kTag, check::world);
  MPI_Status status;
  const int rc = MPI_Wait(&request, &status);
  int error_class = MPI_SUCCESS;
  MPI_Error_class(rc, &error_class);
  MPI_Comm_set_errhandler(check::world, MPI_ERRORS_ARE_FATAL);
  CHECK(error_class == MPI_ERR_TRUNCATE, "a receive too short ended with class %d", error_class);
  for (std::size_t at = 50; at < in.size(); ++at)
    CHECK(in[at] == 0xa5, "byte %zu, behind a receive of 50", at);
  ++check::verified_messages;
}

}  // namespace

MPI_TEST(large_traffic) {
  check::Session session(argc, argv, "large_traffic");
  const auto rounds = static_cast<std::uint32_t>(session.options.number("rounds", 2));
  const auto bytes = static_cast<std::size_t>(session.options.number("bytes", 4 << 20));
  const auto ring_bytes = static_cast<std::size_t>(session.options.number("ring-bytes", 9 << 20));
  const bool leave_send = session.options.flag("leave-send");
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  rank = session.rank, size = session.size;

  Counters counters;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    incast(bytes, round);
    identical(bytes / 2 + 1, round);
    ring(ring_bytes, round);
    truncated();
    for (std::size_t odd : {std::size_t{131072 - 1}, std::size_t{131072}, std::size_t{131072 + 1}})
      identical(odd, round);
  }

  const Bytes left(1 << 20);
  if (leave_send) {
    MPI_Request never;
    MPI_Isend(left.data(), count_of(left.size()), MPI_BYTE, (rank + 1) % size, kTag, check::world,
              &never);
  }

  if (show_counters) counters.print(check::world);
  counters.close();
  return session.finish();
}
