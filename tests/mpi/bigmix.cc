// bigmix: large messages between all pairs at the same time, with small ones in between on the
// same tag. The small ones arrive long before the large ones are done, yet may not overtake them
// in matching.
//
//   mpirun -n 4 bigmix [--rounds 2] [--largest 4M] [--small 6]
//
// Above four ranks the largest message is halved, to bound memory (about 2 * n^2 * largest).

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;

// A pair's messages of one round; both ends draw the same plan.
std::vector<std::size_t> plan(int src, int dst, int round, std::size_t largest, int small) {
  check::Random random(check::seed * 1000003 + static_cast<std::uint64_t>(round) * 10007 +
                       static_cast<std::uint64_t>(src) * 101 + static_cast<std::uint64_t>(dst));
  const std::size_t least = std::min<std::size_t>(1 << 20, largest);
  std::vector<std::size_t> sizes;
  for (int i = 0; i < small; ++i) sizes.push_back(random.below(2000));
  const auto span = static_cast<std::uint32_t>(largest - least + 1);
  sizes.insert(sizes.begin() + random.below(static_cast<std::uint32_t>(small) + 1),
               least + random.below(span));
  return sizes;
}

}  // namespace

MPI_TEST(bigmix) {
  check::Session session(argc, argv, "bigmix");
  const int rounds = static_cast<int>(session.options.number("rounds", 2));
  auto largest = static_cast<std::size_t>(session.options.number("largest", 4 << 20));
  const int small = static_cast<int>(session.options.number("small", 6));
  session.options.done();
  const int rank = session.rank, size = session.size;
  if (size > 4) largest /= 2;

  check::phase("the rounds");
  for (int round = 0; round < rounds; ++round) {
    struct Received {
      check::Envelope envelope;
      Bytes data;
    };
    std::vector<Received> received;
    std::vector<Bytes> sent;
    std::vector<MPI_Request> receives, sends;
    auto seq_of = [&](std::size_t i) {
      return static_cast<std::uint32_t>(round) * 1000 + static_cast<std::uint32_t>(i);
    };
    auto post_receives = [&](int from) {
      const auto sizes = plan(from, rank, round, largest, small);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        Received& r = received.emplace_back(Received{{from, rank, 3, seq_of(i)}, Bytes(sizes[i])});
        MPI_Irecv(r.data.data(), static_cast<int>(sizes[i]), MPI_BYTE, from, MPI_ANY_TAG,
                  check::world, &receives.emplace_back());
      }
    };
    // Odd rounds send first, so that everything is unexpected.
    for (int shift = 1; round % 2 == 0 && shift < size; ++shift)
      post_receives((rank + size - shift) % size);
    for (int shift = 1; shift < size; ++shift) {
      const int to = (rank + shift) % size;
      const auto sizes = plan(rank, to, round, largest, small);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        Bytes& data = sent.emplace_back(sizes[i]);
        check::fill(data.data(), data.size(), {rank, to, 3, seq_of(i)});
        MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, to, 3, check::world,
                  &sends.emplace_back());
      }
    }
    for (int shift = 1; round % 2 == 1 && shift < size; ++shift)
      post_receives((rank + size - shift) % size);
    // Whatever completes first is checked first; the buffer tells which message it must be.
    for (std::size_t left = receives.size(); left > 0; --left) {
      int index;
      MPI_Status status;
      MPI_Waitany(static_cast<int>(receives.size()), receives.data(), &index, &status);
      const Received& r = received[static_cast<std::size_t>(index)];
      check::verify_status(status, r.envelope.src, 3, r.data.size(), "bigmix");
      check::verify(r.data.data(), r.data.size(), r.envelope, "bigmix");
    }
    MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
    MPI_Barrier(check::world);  // the next round's messages must not meet these receives
  }
  return session.finish();
}
