// rma_sync: the ways to synchronise one-sided operations, each with what it promises: fence;
// post/start/complete/wait and test; exclusive and shared locks; lock_all; the four flushes.
//
//   mpirun -n 4 rma_sync [--window create|allocate] [--rounds 3] [--largest 300000] [--counters]
//
// Every rank's window: a slot for each rank to put into, and one that all read from.

#include <mpi.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "check.h"
#include "pvars.h"
#include "window.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr int kPut = 1, kGet = 2, kMessage = 3;

int rank, size;
std::string kind;

int count_of(std::size_t bytes) { return static_cast<int>(bytes); }

MPI_Group group_of(const std::vector<int>& ranks) {
  MPI_Group world, group;
  MPI_Comm_group(check::world, &world);
  MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group);
  MPI_Group_free(&world);
  return group;
}

// Everyone puts to and gets from everyone, itself too. `around` is called once, with what to do.
class Exchange {
 public:
  Exchange(std::size_t bytes, std::uint32_t seq)
      : bytes_(bytes), seq_(seq), window_(kind, bytes * static_cast<std::size_t>(size + 1)) {
    check::fill(window_.at(bytes_ * static_cast<std::size_t>(size)), bytes_,
                {rank, -1, kGet, seq_});
    out_.resize(static_cast<std::size_t>(size), Bytes(bytes_));
    in_.resize(static_cast<std::size_t>(size), Bytes(bytes_));
    for (int to = 0; to < size; ++to)
      check::fill(out_[index(to)].data(), bytes_, {rank, to, kPut, seq_});
    MPI_Barrier(check::world);
  }

  MPI_Win window() const { return window_; }
  static std::size_t index(int of) { return static_cast<std::size_t>(of); }

  void put(int to) {
    MPI_Put(out_[index(to)].data(), count_of(bytes_), MPI_BYTE, to, slot(rank), count_of(bytes_),
            MPI_BYTE, window_);
  }
  void get(int from) {
    MPI_Get(in_[index(from)].data(), count_of(bytes_), MPI_BYTE, from, slot(size), count_of(bytes_),
            MPI_BYTE, window_);
  }
  void scribble(int to) { std::memset(out_[index(to)].data(), 0xee, bytes_); }

  void verify_get(int from, const char* what) const {
    check::verify(in_[index(from)].data(), bytes_, {from, -1, kGet, seq_}, what);
  }
  void verify_put(int from, const char* what) const {
    check::verify(window_.at(bytes_ * index(from)), bytes_, {from, rank, kPut, seq_}, what);
  }

 private:
  MPI_Aint slot(int of) const { return static_cast<MPI_Aint>(bytes_ * index(of)); }

  std::size_t bytes_;
  std::uint32_t seq_;
  Window window_;
  std::vector<Bytes> out_, in_;
};

void fence(std::size_t bytes, std::uint32_t seq) {
  check::phase("fence");
  Exchange e(bytes, seq);
  MPI_Win_fence(MPI_MODE_NOPRECEDE, e.window());
  for (int to = 0; to < size; ++to) e.put(to);
  MPI_Win_fence(0, e.window());
  for (int from = 0; from < size; ++from) {
    e.verify_put(from, "fence, put");
    e.get(from);
  }
  MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOSUCCEED, e.window());
  for (int from = 0; from < size; ++from) e.verify_get(from, "fence, get");
}

// Even ranks are origins of odd ones, then the other way round, then all of all.
void post_start(std::size_t bytes, std::uint32_t seq, bool polling) {
  check::phase("post, start, complete, wait");
  for (int pattern = 0; pattern < 3; ++pattern) {
    const auto is_origin = [&](int r) { return pattern == 2 || r % 2 == pattern; };
    const auto is_target = [&](int r) { return pattern == 2 || r % 2 != pattern; };
    std::vector<int> origins, targets;
    for (int r = 0; r < size; ++r) {
      if (is_origin(r)) origins.push_back(r);
      if (is_target(r)) targets.push_back(r);
    }
    Exchange e(bytes, seq);
    MPI_Group origin_group = group_of(origins), target_group = group_of(targets);
    if (is_target(rank)) MPI_Win_post(origin_group, 0, e.window());
    if (is_origin(rank)) {
      MPI_Win_start(target_group, 0, e.window());
      for (int to : targets) e.put(to), e.get(to);
      MPI_Win_complete(e.window());
      for (int from : targets) e.verify_get(from, "start, get");
    }
    if (is_target(rank)) {
      int done = 0;
      while (polling && !done) MPI_Win_test(e.window(), &done);
      if (!polling) MPI_Win_wait(e.window());
      for (int from : origins) e.verify_put(from, "post, put");
    }
    MPI_Group_free(&origin_group);
    MPI_Group_free(&target_group);
  }
}

void lock_each(std::size_t bytes, std::uint32_t seq, int type) {
  check::phase(type == MPI_LOCK_SHARED ? "shared lock" : "exclusive lock");
  Exchange e(bytes, seq);
  for (int shift = 0; shift < size; ++shift) {
    const int to = (rank + shift) % size;
    MPI_Win_lock(type, to, 0, e.window());
    e.put(to);
    e.get(to);
    MPI_Win_unlock(to, e.window());
    e.verify_get(to, "lock, get");
    e.scribble(to);  // complete here, so no longer needed
  }
  MPI_Barrier(check::world);
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, e.window());
  for (int from = 0; from < size; ++from) e.verify_put(from, "lock, put");
  MPI_Win_unlock(rank, e.window());
  MPI_Barrier(check::world);
}

// A counter that is not updated atomically: only the lock makes the sum right.
void lock_excludes(int rounds) {
  check::phase("the locked counter");
  Window window(kind, 64);
  for (int i = 0; i < rounds; ++i) {
    const int to = (rank + i) % size;
    std::int64_t value = -1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, window);
    MPI_Get(&value, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, window);
    MPI_Win_flush(to, window);
    ++value;
    MPI_Put(&value, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, window);
    MPI_Win_unlock(to, window);
  }
  MPI_Barrier(check::world);
  std::int64_t mine = 0, all = 0;
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
  std::memcpy(&mine, window.at(0), sizeof mine);
  MPI_Win_unlock(rank, window);
  MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, check::world);
  CHECK(all == std::int64_t{rounds} * size, "the counters add up to %lld, not %lld",
        static_cast<long long>(all), static_cast<long long>(rounds) * size);
  check::verified_messages += static_cast<std::uint64_t>(rounds);
}

// After a flush the data is there, and the target may be told by a message.
void flushes(std::size_t bytes, std::uint32_t seq, bool all) {
  check::phase(all ? "flush_all, flush_local_all" : "flush, flush_local");
  Exchange e(bytes, seq);
  MPI_Win_lock_all(0, e.window());
  const auto flush = [&](int to) {
    if (all)
      MPI_Win_flush_all(e.window());
    else
      MPI_Win_flush(to, e.window());
  };
  const auto flush_local = [&](int to) {
    if (all)
      MPI_Win_flush_local_all(e.window());
    else
      MPI_Win_flush_local(to, e.window());
  };
  int token = 0;
  MPI_Request told;
  for (int shift = 0; shift < size; ++shift) {
    const int to = (rank + shift) % size, from = (rank + size - shift) % size;
    e.put(to);
    e.get(to);
    flush_local(to);
    e.verify_get(to, "flush_local, get");
    e.scribble(to);  // the buffer is ours again, wherever the data is
    flush(to);
    MPI_Isend(&token, 1, MPI_INT, to, kMessage, check::world, &told);
    MPI_Recv(&token, 1, MPI_INT, from, kMessage, check::world, MPI_STATUS_IGNORE);
    MPI_Win_sync(e.window());
    e.verify_put(from, "flush, put");
    MPI_Wait(&told, MPI_STATUS_IGNORE);
  }
  MPI_Win_unlock_all(e.window());
  MPI_Barrier(check::world);
}

// Data, flush, then a flag: whoever sees the flag sees the data. The target only looks at memory,
// and calls MPI_Win_sync.
void flagged(std::size_t bytes, std::uint32_t rounds) {
  check::phase("data before flag");
  const std::size_t flag_at = (bytes + 7) / 8 * 8;
  Window window(kind, flag_at + 8);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  Bytes out(bytes);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    check::fill(out.data(), bytes, {rank, to, kPut, round});
    MPI_Put(out.data(), count_of(bytes), MPI_BYTE, to, 0, count_of(bytes), MPI_BYTE, window);
    MPI_Win_flush(to, window);
    std::uint64_t flag = round;
    MPI_Put(&flag, 1, MPI_UINT64_T, to, static_cast<MPI_Aint>(flag_at), 1, MPI_UINT64_T, window);
    MPI_Win_flush(to, window);
    auto* const seen = reinterpret_cast<volatile std::uint64_t*>(window.at(flag_at));
    while (*seen != round) MPI_Win_sync(window);
    MPI_Win_sync(window);
    check::verify(window.at(0), bytes, {from, rank, kPut, round}, "data before flag");
    MPI_Barrier(check::world);
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(check::world);
}

}  // namespace

MPI_TEST(rma_sync) {
  check::Session session(argc, argv, "rma_sync");
  kind = session.options.text("window", "create");
  const auto rounds = static_cast<std::uint32_t>(session.options.number("rounds", 3));
  const auto largest = static_cast<std::size_t>(session.options.number("largest", 300000));
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  rank = session.rank, size = session.size;

  Counters counters;
  std::uint32_t seq = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::size_t bytes : {std::size_t{8}, std::size_t{4099}, largest}) {
      fence(bytes, seq++);
      post_start(bytes, seq++, round % 2 != 0);
      lock_each(bytes, seq++, MPI_LOCK_EXCLUSIVE);
      lock_each(bytes, seq++, MPI_LOCK_SHARED);
      flushes(bytes, seq++, false);
      flushes(bytes, seq++, true);
      flagged(bytes, 3);
    }
    lock_excludes(20);
  }

  if (show_counters) counters.print(check::world);
  counters.close();
  return session.finish();
}
