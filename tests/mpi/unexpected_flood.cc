// unexpected_flood: thousands of small messages for receivers that are not looking, more than any
// receive window holds. Nothing may be lost, doubled or reordered, and nobody may give up.
//
//   mpirun -n 4 unexpected_flood [--count 5000] [--bytes 48] [--sleep-ms 300]
//
// Three floods: all ranks to rank 0, received in the reverse order of tags; all ranks to rank 0,
// received from anyone; everyone to everyone. --count is per sender (reverse order costs the
// matching queue count^2 / 2 steps, so many senders share three times the count).

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;
int rank, size, bytes;
unsigned sleep_ms;
enum Flood { reverse = 0, anyone = 1, everyone = 2 };

// Sizes differ a little so that a mixed-up slot shows in the length too.
std::size_t size_of(int i) { return static_cast<std::size_t>(std::max(1, bytes - i % 8)); }
int length_of(int i) { return static_cast<int>(size_of(i)); }
check::Envelope envelope(Flood flood, int src, int dst, int i) {
  return {src, dst, flood == reverse ? i : static_cast<int>(flood), static_cast<std::uint32_t>(i)};
}

// Waits without calling MPI: nothing is received unless the transport does it by itself.
void look_away() { usleep(sleep_ms * 1000); }

void send_all(Flood flood, int to, int count, Bytes& data, std::vector<MPI_Request>& requests) {
  const auto stride = static_cast<std::size_t>(bytes);
  data.resize(stride * static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const check::Envelope e = envelope(flood, rank, to, i);
    unsigned char* at = &data[stride * static_cast<std::size_t>(i)];
    check::fill(at, size_of(i), e);
    MPI_Isend(at, length_of(i), MPI_BYTE, to, e.tag, check::world, &requests.emplace_back());
  }
}

void receive_one(Flood flood, int from, int i, Bytes& in) {
  const check::Envelope e = envelope(flood, from, rank, i);
  MPI_Status status;
  MPI_Recv(in.data(), bytes, MPI_BYTE, from, e.tag, check::world, &status);
  check::verify_status(status, from, e.tag, size_of(i), "flood");
  check::verify(in.data(), size_of(i), e, "flood");
}

void receive_from_anyone(int count, Bytes& in) {
  std::vector<int> next(static_cast<std::size_t>(size), 0);
  for (long left = static_cast<long>(count) * (size - 1); left > 0; --left) {
    MPI_Status status;
    MPI_Recv(in.data(), bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, check::world, &status);
    const int from = status.MPI_SOURCE, i = next[static_cast<std::size_t>(from)]++;
    const check::Envelope e = envelope(anyone, from, rank, i);
    check::verify_status(status, from, e.tag, size_of(i), "flood from anyone");
    check::verify(in.data(), size_of(i), e, "flood from anyone");
  }
}

void to_rank_0(Flood flood, int count) {
  if (rank != 0) {
    Bytes data;
    std::vector<MPI_Request> requests;
    send_all(flood, 0, count, data, requests);
    MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
  } else {
    look_away();
    Bytes in(static_cast<std::size_t>(bytes));
    if (flood == anyone) receive_from_anyone(count, in);
    for (int i = count - 1; flood == reverse && i >= 0; --i)
      for (int from = size - 1; from > 0; --from) receive_one(flood, from, i, in);
  }
  MPI_Barrier(check::world);
}

void everyone_to_everyone(int count) {
  std::vector<Bytes> data(static_cast<std::size_t>(size));
  std::vector<MPI_Request> requests;
  for (int shift = 1; shift < size; ++shift) {
    const int to = (rank + shift) % size;
    send_all(everyone, to, count, data[static_cast<std::size_t>(to)], requests);
  }
  look_away();
  Bytes in(static_cast<std::size_t>(bytes));
  for (int shift = 1; shift < size; ++shift)
    for (int i = 0; i < count; ++i) receive_one(everyone, (rank + shift) % size, i, in);
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  MPI_Barrier(check::world);
}

}  // namespace

MPI_TEST(unexpected_flood) {
  check::Session session(argc, argv, "unexpected_flood");
  const int wanted = static_cast<int>(session.options.number("count", 5000));
  bytes = std::max(1, static_cast<int>(session.options.number("bytes", 48)));
  sleep_ms = static_cast<unsigned>(session.options.number("sleep-ms", 300));
  session.options.done();
  rank = session.rank, size = session.size;
  CHECK(size >= 2, "unexpected_flood needs two ranks");
  const int each = std::min(wanted, 3 * wanted / (size - 1));

  check::phase("all to rank 0, reverse tags"), to_rank_0(reverse, each);
  check::phase("all to rank 0, from anyone"), to_rank_0(anyone, each);
  check::phase("everyone to everyone"), everyone_to_everyone(std::max(1, each / (size - 1)));
  return session.finish();
}
