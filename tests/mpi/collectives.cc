// collectives: every collective, blocking and non-blocking, over several types and sizes, on the
// world, a duplicate, halves of it, and an intercommunicator.
//
//   mpirun -n 4 collectives [--largest 40000]     (elements)
//
// Values are small integers that sum exactly in every type, so results are compared for equality.
// Communicators are made with MPI_Comm_dup: MPI_Comm_idup next to non-blocking collectives hangs
// now and then in Open MPI 4.1.4, with any transport.

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"

namespace {

template <class T> MPI_Datatype type_of();
template <> MPI_Datatype type_of<char>() { return MPI_CHAR; }
template <> MPI_Datatype type_of<int>() { return MPI_INT; }
template <> MPI_Datatype type_of<double>() { return MPI_DOUBLE; }

// The one place that knows blocking from non-blocking: same arguments, same checks after it.
template <class Blocking, class Nonblocking, class... Arguments>
void call(bool nonblocking, Blocking now, Nonblocking later, Arguments... arguments) {
  if (!nonblocking) {
    now(arguments...);
    return;
  }
  MPI_Request request;
  later(arguments..., &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Element i of rank r's contribution: 0 to 10, so that char survives a sum over eleven ranks.
template <class T> T value(int r, int i) { return static_cast<T>((r * 3 + i) % 11); }

template <class T> T sum_below(int ranks, int i) {
  T sum = 0;
  for (int r = 0; r < ranks; ++r) sum = static_cast<T>(sum + value<T>(r, i));
  return sum;
}

template <class T>
void expect(const T& got, T expected, const char* what, int peer, int i) {
  CHECK(got == expected, "%s: block of rank %d, element %d: expected %g, got %g", what, peer, i,
        static_cast<double>(expected), static_cast<double>(got));
}

void counted() { check::verified_messages.fetch_add(1, std::memory_order_relaxed); }

// One communicator, one type, one count.
template <class T> class Suite {
 public:
  Suite(MPI_Comm comm, int count, bool nonblocking) : comm_(comm), n_(count), later_(nonblocking) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    for (int r = 0; r < size_; ++r) {
      counts_.push_back(n_ + r % 3);
      starts_.push_back(total_);
      total_ += counts_.back();
    }
  }

  void run() {
    check::phase("barrier"), call(later_, MPI_Barrier, MPI_Ibarrier, comm_);
    for (int root : {0, size_ - 1}) rooted(root);
    reductions();
    gathers();
    exchanges();
  }

 private:
  std::vector<T> mine(int count) const {
    std::vector<T> v(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) v[i] = value<T>(rank_, i);
    return v;
  }
  std::vector<T> blank(int count) const {
    return std::vector<T>(static_cast<std::size_t>(count), static_cast<T>(99));
  }
  void expect_block(const std::vector<T>& v, int start, int count, int peer, int shift,
                    const char* what) const {
    for (int i = 0; i < count; ++i)
      expect(v[static_cast<std::size_t>(start + i)], value<T>(peer, i + shift), what, peer, i);
    counted();
  }
  // Blocks of equal size n, or of the ragged sizes counts_.
  void expect_gathered(const std::vector<T>& v, bool ragged, const char* what) const {
    for (int r = 0; r < size_; ++r)
      expect_block(v, ragged ? starts_[r] : r * n_, ragged ? counts_[r] : n_, r, 0, what);
  }

  void rooted(int root) {
    const bool am_root = rank_ == root;
    check::phase("bcast");
    auto data = am_root ? mine(n_) : blank(n_);
    call(later_, MPI_Bcast, MPI_Ibcast, data.data(), n_, t_, root, comm_);
    expect_block(data, 0, n_, root, 0, "bcast");

    check::phase("reduce");
    auto in = mine(n_), out = blank(n_);
    call(later_, MPI_Reduce, MPI_Ireduce, in.data(), out.data(), n_, t_, MPI_SUM, root, comm_);
    for (int i = 0; am_root && i < n_; ++i)
      expect(out[i], sum_below<T>(size_, i), "reduce", root, i);

    check::phase("gather");
    auto all = blank(n_ * size_);
    call(later_, MPI_Gather, MPI_Igather, in.data(), n_, t_, all.data(), n_, t_, root, comm_);
    if (am_root) expect_gathered(all, false, "gather");
    auto ragged = mine(counts_[rank_]);
    auto all_ragged = blank(total_);
    call(later_, MPI_Gatherv, MPI_Igatherv, ragged.data(), counts_[rank_], t_, all_ragged.data(),
         counts_.data(), starts_.data(), t_, root, comm_);
    if (am_root) expect_gathered(all_ragged, true, "gatherv");

    check::phase("scatter");
    for (int r = 0; r < size_; ++r) {
      for (int i = 0; i < n_; ++i) all[r * n_ + i] = value<T>(root + r, i);
      for (int i = 0; i < counts_[r]; ++i) all_ragged[starts_[r] + i] = value<T>(root + r, i);
    }
    out = blank(n_);
    call(later_, MPI_Scatter, MPI_Iscatter, all.data(), n_, t_, out.data(), n_, t_, root, comm_);
    expect_block(out, 0, n_, root + rank_, 0, "scatter");
    out = blank(counts_[rank_]);
    call(later_, MPI_Scatterv, MPI_Iscatterv, all_ragged.data(), counts_.data(), starts_.data(), t_,
         out.data(), counts_[rank_], t_, root, comm_);
    expect_block(out, 0, counts_[rank_], root + rank_, 0, "scatterv");
  }

  void reductions() {
    check::phase("allreduce");
    auto in = mine(n_), out = blank(n_);
    call(later_, MPI_Allreduce, MPI_Iallreduce, in.data(), out.data(), n_, t_, MPI_SUM, comm_);
    for (int i = 0; i < n_; ++i) expect(out[i], sum_below<T>(size_, i), "allreduce", rank_, i);
    auto place = mine(n_);
    call(later_, MPI_Allreduce, MPI_Iallreduce, MPI_IN_PLACE, place.data(), n_, t_, MPI_SUM, comm_);
    CHECK(place == out, "allreduce in place differs");

    check::phase("scan and exscan");
    call(later_, MPI_Scan, MPI_Iscan, in.data(), out.data(), n_, t_, MPI_SUM, comm_);
    for (int i = 0; i < n_; ++i) expect(out[i], sum_below<T>(rank_ + 1, i), "scan", rank_, i);
    call(later_, MPI_Exscan, MPI_Iexscan, in.data(), out.data(), n_, t_, MPI_SUM, comm_);
    for (int i = 0; rank_ > 0 && i < n_; ++i)
      expect(out[i], sum_below<T>(rank_, i), "exscan", rank_, i);

    check::phase("reduce_scatter");
    auto wide = mine(n_ * size_);
    out = blank(n_);
    call(later_, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, wide.data(), out.data(), n_,
         t_, MPI_SUM, comm_);
    for (int i = 0; i < n_; ++i)
      expect(out[i], sum_below<T>(size_, rank_ * n_ + i), "reduce_scatter_block", rank_, i);
    wide = mine(total_);
    out = blank(counts_[rank_]);
    call(later_, MPI_Reduce_scatter, MPI_Ireduce_scatter, wide.data(), out.data(), counts_.data(),
         t_, MPI_SUM, comm_);
    for (int i = 0; i < counts_[rank_]; ++i)
      expect(out[i], sum_below<T>(size_, starts_[rank_] + i), "reduce_scatter", rank_, i);
    counted();
  }

  void gathers() {
    check::phase("allgather");
    auto in = mine(n_), all = blank(n_ * size_);
    call(later_, MPI_Allgather, MPI_Iallgather, in.data(), n_, t_, all.data(), n_, t_, comm_);
    expect_gathered(all, false, "allgather");
    in = mine(counts_[rank_]), all = blank(total_);
    call(later_, MPI_Allgatherv, MPI_Iallgatherv, in.data(), counts_[rank_], t_, all.data(),
         counts_.data(), starts_.data(), t_, comm_);
    expect_gathered(all, true, "allgatherv");
  }

  void exchanges() {
    check::phase("alltoall");  // the block for rank d starts at element d of value()
    auto out = blank(n_ * size_), in = blank(n_ * size_);
    for (int d = 0; d < size_; ++d)
      for (int i = 0; i < n_; ++i) out[d * n_ + i] = value<T>(rank_, i + d);
    call(later_, MPI_Alltoall, MPI_Ialltoall, out.data(), n_, t_, in.data(), n_, t_, comm_);
    for (int s = 0; s < size_; ++s) expect_block(in, s * n_, n_, s, rank_, "alltoall");

    check::phase("alltoallv and alltoallw");  // every rank sends counts_[d] to rank d
    const int here = counts_[rank_];
    std::vector<int> in_counts(size_, here), in_starts(size_), byte_starts(size_), in_bytes(size_);
    std::vector<MPI_Datatype> types(size_, t_);
    out = blank(total_);
    for (int d = 0; d < size_; ++d) {
      in_starts[d] = d * here;
      in_bytes[d] = d * here * static_cast<int>(sizeof(T));
      byte_starts[d] = starts_[d] * static_cast<int>(sizeof(T));
      for (int i = 0; i < counts_[d]; ++i) out[starts_[d] + i] = value<T>(rank_, i + d);
    }
    in = blank(here * size_);
    call(later_, MPI_Alltoallv, MPI_Ialltoallv, out.data(), counts_.data(), starts_.data(), t_,
         in.data(), in_counts.data(), in_starts.data(), t_, comm_);
    for (int s = 0; s < size_; ++s) expect_block(in, s * here, here, s, rank_, "alltoallv");
    in = blank(here * size_);
    call(later_, MPI_Alltoallw, MPI_Ialltoallw, out.data(), counts_.data(), byte_starts.data(),
         types.data(), in.data(), in_counts.data(), in_bytes.data(), types.data(), comm_);
    for (int s = 0; s < size_; ++s) expect_block(in, s * here, here, s, rank_, "alltoallw");
  }

  MPI_Comm comm_;
  MPI_Datatype t_ = type_of<T>();
  int n_, rank_ = 0, size_ = 0, total_ = 0;
  bool later_;
  std::vector<int> counts_, starts_;
};

// MAXLOC over a struct type, and a derived type with holes through bcast, gather and alltoall.
void special_types(MPI_Comm comm, bool later) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  check::phase("maxloc");
  struct Located {
    double value;
    int index;
  };
  constexpr int kPairs = 100;
  std::vector<Located> in(kPairs), out(kPairs);
  for (int i = 0; i < kPairs; ++i) in[i] = {static_cast<double>((rank + i) % size), rank};
  call(later, MPI_Allreduce, MPI_Iallreduce, in.data(), out.data(), kPairs, MPI_DOUBLE_INT,
       MPI_MAXLOC, comm);
  for (int i = 0; i < kPairs; ++i) {
    const int winner = ((size - 1 - i) % size + size) % size;
    CHECK(out[i].value == size - 1 && out[i].index == winner,
          "maxloc %d: expected %d at %d, got %g at %d", i, size - 1, winner, out[i].value,
          out[i].index);
  }
  check::phase("derived types in collectives");
  MPI_Datatype pairs, holed;  // two ints used, one hole, resized so that they follow each other
  MPI_Type_vector(1, 2, 3, MPI_INT, &pairs);
  MPI_Type_create_resized(pairs, 0, 3 * sizeof(int), &holed);
  MPI_Type_commit(&holed);
  for (int n : {1, 50, 9000}) {
    std::vector<int> data(3 * n, -1), all(3 * n * size, -1), block(3 * n * size, -1);
    for (int i = 0; rank == 0 && i < n; ++i) data[3 * i] = i, data[3 * i + 1] = -7 - i;
    call(later, MPI_Bcast, MPI_Ibcast, data.data(), n, holed, 0, comm);
    for (int i = 0; i < n; ++i)
      CHECK(data[3 * i] == i && data[3 * i + 1] == -7 - i && data[3 * i + 2] == -1,
            "derived bcast: element %d is (%d, %d, hole %d)", i, data[3 * i], data[3 * i + 1],
            data[3 * i + 2]);
    for (int i = 0; i < n; ++i) data[3 * i] = rank;
    call(later, MPI_Allgather, MPI_Iallgather, data.data(), n, holed, all.data(), n, holed, comm);
    call(later, MPI_Alltoall, MPI_Ialltoall, all.data(), n, holed, block.data(), n, holed, comm);
    for (int r = 0; r < size; ++r)
      for (int i = 0; i < n; ++i) {
        const int at = 3 * (r * n + i);
        CHECK(all[at] == r && all[at + 1] == -7 - i && all[at + 2] == -1 && block[at] == rank &&
                  block[at + 1] == -7 - i && block[at + 2] == -1,
              "derived allgather or alltoall: block %d element %d", r, i);
      }
    counted();
  }
  MPI_Type_free(&pairs);
  MPI_Type_free(&holed);
}

// Several non-blocking collectives under way at once on each of two communicators.
void overlapping(MPI_Comm a, MPI_Comm b) {
  check::phase("overlapping non-blocking collectives");
  constexpr int kEach = 6, kCount = 3000;
  std::vector<MPI_Request> requests;
  std::vector<std::vector<int>> in, out;
  in.reserve(2 * kEach), out.reserve(2 * kEach);
  int rank, size;
  MPI_Comm_rank(a, &rank);
  MPI_Comm_size(a, &size);
  for (int i = 0; i < kEach; ++i) {
    for (MPI_Comm comm : {a, b}) {
      in.emplace_back(kCount, rank + i), out.emplace_back(kCount, -1);
      MPI_Iallreduce(in.back().data(), out.back().data(), kCount, MPI_INT, MPI_SUM, comm,
                     &requests.emplace_back());
      MPI_Ibarrier(comm, &requests.emplace_back());
    }
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (std::size_t k = 0; k < out.size(); ++k)
    for (int x : out[k])
      CHECK(x == size * (size - 1) / 2 + size * static_cast<int>(k / 2), "overlapping: got %d", x);
  counted();
}

// Between two halves: what a collective means there is what the other half contributed.
void intercommunicator(int rank, int size) {
  if (size < 2) return;
  const int side = rank % 2;
  MPI_Comm half, inter;
  MPI_Comm_split(check::world, side, rank, &half);
  MPI_Intercomm_create(half, 0, check::world, 1 - side, 3, &inter);
  int here, there, local;
  MPI_Comm_rank(half, &local);
  MPI_Comm_size(half, &here);
  MPI_Comm_remote_size(inter, &there);
  auto base = [](int which) { return 100 * (which + 1); };
  for (int n : {1, 2000, 30000}) {
    check::phase("intercommunicator barrier");
    MPI_Barrier(inter);
    check::phase("intercommunicator bcast");  // from the last of side 0 to all of side 1
    std::vector<int> data(n, side == 0 ? 4711 : 0), sum(n, -1);
    const int root = side == 1 ? there - 1 : local == here - 1 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Bcast(data.data(), n, MPI_INT, root, inter);
    CHECK(data[n - 1] == 4711 && data[0] == 4711, "intercommunicator bcast: got %d", data[0]);
    check::phase("intercommunicator allreduce");
    std::fill(data.begin(), data.end(), base(side) + local);
    MPI_Allreduce(data.data(), sum.data(), n, MPI_INT, MPI_SUM, inter);
    const int expected = there * base(1 - side) + there * (there - 1) / 2;
    for (int x : sum) CHECK(x == expected, "intercommunicator allreduce: %d, not %d", x, expected);
    check::phase("intercommunicator allgather and alltoall");
    std::vector<int> all(n * there, -1), out(n * there), in(n * there, -1);
    MPI_Allgather(data.data(), n, MPI_INT, all.data(), n, MPI_INT, inter);
    for (int r = 0; r < there; ++r)
      for (int i = 0; i < n; ++i) {
        CHECK(all[r * n + i] == base(1 - side) + r, "intercommunicator allgather: from %d", r);
        out[r * n + i] = base(side) + 10 * local + r;
      }
    MPI_Alltoall(out.data(), n, MPI_INT, in.data(), n, MPI_INT, inter);
    for (int r = 0; r < there; ++r)
      for (int i = 0; i < n; ++i)
        CHECK(in[r * n + i] == base(1 - side) + 10 * r + local, "intercommunicator alltoall: %d", r);
    counted();
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

template <class T> void run_suites(const std::vector<MPI_Comm>& comms, int largest) {
  for (MPI_Comm comm : comms)
    for (int count : {0, 1, 17, 1000, largest / 8, largest}) {
      if (count == largest && comm != comms.front()) continue;
      for (bool nonblocking : {false, true}) Suite<T>(comm, count, nonblocking).run();
    }
}

}  // namespace

MPI_TEST(collectives) {
  check::Session session(argc, argv, "collectives");
  const int largest = static_cast<int>(session.options.number("largest", 40000));
  session.options.done();
  CHECK(session.size <= 11, "char sums overflow above 11 ranks");

  MPI_Comm duplicate, split;
  MPI_Comm_dup(check::world, &duplicate);
  MPI_Comm_split(check::world, session.rank % 2, -session.rank, &split);  // in reverse order
  const std::vector<MPI_Comm> comms = {check::world, duplicate, split};
  run_suites<int>(comms, largest);
  run_suites<double>({split}, largest / 4);
  run_suites<char>({duplicate}, largest / 4);
  for (MPI_Comm comm : comms)
    for (bool nonblocking : {false, true}) special_types(comm, nonblocking);
  overlapping(check::world, duplicate);
  intercommunicator(session.rank, session.size);
  MPI_Comm_free(&duplicate);
  MPI_Comm_free(&split);
  return session.finish();
}
