// persistent: what MPI-4 adds to operations that start and end: MPI_Isendrecv and
// MPI_Isendrecv_replace, and persistent collectives, several of them under way at once, started
// again and again with other data.
//
//   mpirun -n 4 persistent [--rounds 3] [--largest 300000]

#include <mpi.h>

#include <numeric>
#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;
int rank, size;

// A ring to the right, and at the same time one to the left that gives away what it is to receive
// into.
void sendrecv(std::size_t bytes, std::uint32_t round) {
  check::phase("MPI_Isendrecv");
  constexpr int kRight = 3, kLeft = 4;
  const int right = (rank + 1) % size, left = (rank + size - 1) % size, n = static_cast<int>(bytes);
  Bytes out(bytes), in(bytes), swapped(bytes);
  check::fill(out.data(), bytes, {rank, right, kRight, round});
  check::fill(swapped.data(), bytes, {rank, left, kLeft, round});
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Isendrecv(out.data(), n, MPI_BYTE, right, kRight, in.data(), n, MPI_BYTE, left, kRight,
                check::world, &requests[0]);
  MPI_Isendrecv_replace(swapped.data(), n, MPI_BYTE, left, kLeft, right, kLeft, check::world,
                        &requests[1]);
  MPI_Waitall(2, requests, statuses);
  check::verify(in.data(), bytes, {left, rank, kRight, round}, "MPI_Isendrecv");
  check::verify(swapped.data(), bytes, {right, rank, kLeft, round}, "MPI_Isendrecv_replace");
}

// Made once, and then started, filled and verified each round.
class Collectives {
 public:
  explicit Collectives(std::size_t bytes)
      : bytes_(bytes),
        root_(size - 1),
        bcast_(bytes),
        mine_(bytes),
        all_(bytes * ranks()),
        out_(bytes * ranks()),
        in_(bytes * ranks()),
        addends_(bytes / 8 + 1),
        sums_(addends_.size()) {
    const int n = static_cast<int>(bytes), words = static_cast<int>(addends_.size());
    MPI_Comm_dup(check::world, &comm_);
    MPI_Bcast_init(bcast_.data(), n, MPI_BYTE, root_, comm_, MPI_INFO_NULL, next());
    MPI_Allreduce_init(addends_.data(), sums_.data(), words, MPI_UNSIGNED_LONG, MPI_SUM, comm_,
                       MPI_INFO_NULL, next());
    MPI_Allgather_init(mine_.data(), n, MPI_BYTE, all_.data(), n, MPI_BYTE, comm_, MPI_INFO_NULL,
                       next());
    MPI_Alltoall_init(out_.data(), n, MPI_BYTE, in_.data(), n, MPI_BYTE, comm_, MPI_INFO_NULL,
                      next());
    MPI_Barrier_init(comm_, MPI_INFO_NULL, next());
  }
  ~Collectives() {
    for (MPI_Request& request : requests_) MPI_Request_free(&request);
    MPI_Comm_free(&comm_);
  }

  void run(std::uint32_t round) {
    check::phase("persistent collectives");
    check::fill(bcast_.data(), bytes_, {rank == root_ ? root_ : 1000 + rank, 0, kBcast, round});
    check::fill(mine_.data(), bytes_, {rank, 0, kGather, round});
    for (int peer = 0; peer < size; ++peer)
      check::fill(slot(out_, peer), bytes_, {rank, peer, kAll, round});
    for (std::size_t i = 0; i < addends_.size(); ++i) addends_[i] = addend(rank, i, round);
    MPI_Startall(static_cast<int>(requests_.size()), requests_.data());
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    check::verify(bcast_.data(), bytes_, {root_, 0, kBcast, round}, "MPI_Bcast_init");
    for (int peer = 0; peer < size; ++peer) {
      check::verify(slot(all_, peer), bytes_, {peer, 0, kGather, round}, "MPI_Allgather_init");
      check::verify(slot(in_, peer), bytes_, {peer, rank, kAll, round}, "MPI_Alltoall_init");
    }
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      unsigned long sum = 0;
      for (int peer = 0; peer < size; ++peer) sum += addend(peer, i, round);
      CHECK(sums_[i] == sum, "MPI_Allreduce_init: element %zu of %zu is %lu, not %lu", i,
            sums_.size(), sums_[i], sum);
    }
  }

 private:
  static constexpr int kBcast = 5, kGather = 6, kAll = 7;

  static std::size_t ranks() { return static_cast<std::size_t>(size); }
  static unsigned long addend(int of, std::size_t i, std::uint32_t round) {
    return check::word_at(static_cast<unsigned>(of) + 1, i + round);
  }
  unsigned char* slot(Bytes& of, int peer) {
    return of.data() + bytes_ * static_cast<std::size_t>(peer);
  }
  MPI_Request* next() { return &requests_[made_++]; }

  std::size_t bytes_;
  int root_;
  Bytes bcast_, mine_, all_, out_, in_;
  std::vector<unsigned long> addends_, sums_;
  MPI_Comm comm_;
  std::vector<MPI_Request> requests_ = std::vector<MPI_Request>(5);
  std::size_t made_ = 0;
};

}  // namespace

MPI_TEST(persistent) {
  check::Session session(argc, argv, "persistent");
  const auto rounds = static_cast<std::uint32_t>(session.options.number("rounds", 3));
  const auto largest = static_cast<std::size_t>(session.options.number("largest", 300000));
  session.options.done();
  rank = session.rank, size = session.size;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{8}, std::size_t{5000}, std::size_t{70000}, largest}) {
    if (bytes > largest) continue;
    Collectives collectives(bytes);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      sendrecv(bytes, round);
      collectives.run(round);
    }
  }
  return session.finish();
}
