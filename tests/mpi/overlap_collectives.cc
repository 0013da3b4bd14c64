// overlap_collectives: non-blocking collectives beside computation without MPI calls. [OVL §4]
//
//   mpirun -n 4 overlap_collectives [--bytes 256K] [--compute-ms 500] [--repeat 3] [--sleep]
//                                   [--counters]
//   mpirun -n 4 overlap_collectives --demand [--bytes 256K] [--repeat 3]
//
// Every rank starts the operation, computes, and waits. The overlap is IMB-NBC's: what the
// operation does not add to the computation, of the shorter of the two, on the slowest rank.
// --bytes is what a rank has of the result; of Ialltoall and Iallgather, for each rank.
//
// With --demand every rank computes until its result is there and the others have theirs, so that a
// round that nobody begins is never over. They tell each other by plain stores to shared memory:
// all ranks have to be on one node.

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

using Word = std::uint32_t;

struct Operation {
  const char* name;
  bool for_each;  // the result has a part for each rank
  void (*start)(Word* in, Word* out, int words, MPI_Request* request);
  Word (*expected)(int from, int at);  // the word at that place of the part from that rank
  Word (*own)(int to, int at);
};

Word sequence;

Word word_of(int from, int to, int at) {
  return static_cast<Word>(check::mix((std::uint64_t{sequence} << 32) ^
                                      (static_cast<std::uint64_t>(from) << 48) ^
                                      (static_cast<std::uint64_t>(to) << 40) ^
                                      static_cast<std::uint64_t>(at)));
}

Word to_me(int from, int at) { return word_of(from, check::rank, at); }
Word from_me(int to, int at) { return word_of(check::rank, to, at); }
Word to_all(int from, int at) { return word_of(from, 0, at); }
Word mine(int, int at) { return word_of(check::rank, 0, at); }
Word of_root(int, int at) { return word_of(0, 0, at); }
Word sum_of_all(int, int at) {
  int size;
  MPI_Comm_size(check::world, &size);
  Word sum = 0;
  for (int from = 0; from < size; ++from) sum += word_of(from, 0, at);
  return sum;
}

const Operation kOperations[] = {
    {"Ialltoall", true,
     [](Word* in, Word* out, int words, MPI_Request* request) {
       MPI_Ialltoall(in, words, MPI_UINT32_T, out, words, MPI_UINT32_T, check::world, request);
     },
     to_me, from_me},
    {"Iallgather", true,
     [](Word* in, Word* out, int words, MPI_Request* request) {
       MPI_Iallgather(in, words, MPI_UINT32_T, out, words, MPI_UINT32_T, check::world, request);
     },
     to_all, mine},
    {"Ibcast", false,
     [](Word* in, Word* out, int words, MPI_Request* request) {
       if (check::rank == 0) std::copy(in, in + words, out);
       MPI_Ibcast(out, words, MPI_UINT32_T, 0, check::world, request);
     },
     of_root, mine},
    {"Iallreduce", false,
     [](Word* in, Word* out, int words, MPI_Request* request) {
       MPI_Iallreduce(in, out, words, MPI_UINT32_T, MPI_SUM, check::world, request);
     },
     sum_of_all, mine},
};

// What the ranks know of each other without MPI.
using Flag = std::atomic<Word>;  // so many of its results were there

class Bench {
 public:
  Bench(int size, int words) : size_(size), words_(words) {
    const auto all = static_cast<std::size_t>(size) * static_cast<std::size_t>(words);
    in_.resize(all);
    out_.resize(all);
    expected_.resize(all);
    void* own = nullptr;
    MPI_Win_allocate_shared(sizeof(Flag), sizeof(Flag), MPI_INFO_NULL, check::world, &own, &win_);
    new (own) Flag{};
    for (int r = 0; r < size; ++r) {
      MPI_Aint bytes;
      int unit;
      void* at = nullptr;
      MPI_Win_shared_query(win_, r, &bytes, &unit, &at);
      flags_.push_back(static_cast<Flag*>(at));
    }
    MPI_Barrier(check::world);
  }
  ~Bench() { MPI_Win_free(&win_); }

  // Returns how long this rank took.
  template <typename Work>
  double run(const Operation& the, Work&& work) {
    check::phase(the.name);
    ++sequence;
    const int parts = the.for_each ? size_ : 1;
    for (int part = 0; part < parts; ++part) {
      for (int at = 0; at < words_; ++at) {
        const std::size_t i = index(part, at);
        in_[i] = the.own(part, at);
        expected_[i] = the.expected(part, at);
        out_[i] = ~expected_[i];
      }
    }
    words_of_result_ = index(parts, 0);
    MPI_Barrier(check::world);
    const double begin = MPI_Wtime();
    MPI_Request request;
    the.start(in_.data(), out_.data(), words_, &request);
    work();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    const double took = MPI_Wtime() - begin;
    CHECK(is_there(), "%s: word %zu is %08x, not %08x", the.name, there_,
          static_cast<unsigned>(out_[there_]), static_cast<unsigned>(expected_[there_]));
    check::verified_messages += static_cast<std::uint64_t>(parts);
    check::verified_bytes += words_of_result_ * sizeof(Word);
    return took;
  }

  void demand(const Operation& the) {
    run(the, [&] {
      there_ = 0;
      while (!is_there()) usleep(1000);
      flags_[static_cast<std::size_t>(check::rank)]->store(sequence);
      for (const Flag* flag : flags_)
        while (flag->load() < sequence) usleep(100);
    });
  }

 private:
  std::size_t index(int part, int at) const {
    return static_cast<std::size_t>(part) * static_cast<std::size_t>(words_) +
           static_cast<std::size_t>(at);
  }
  // What came meanwhile is read past the compiler's eyes; MPI_Wait follows in any case.
  bool is_there() {
    const volatile Word* const out = out_.data();
    for (there_ = 0; there_ < words_of_result_; ++there_)
      if (out[there_] != expected_[there_]) return false;
    return true;
  }

  int size_, words_;
  std::vector<Word> in_, out_, expected_;
  std::size_t words_of_result_ = 0;
  std::size_t there_ = 0;  // so many words of the result are right
  MPI_Win win_{};
  std::vector<Flag*> flags_;
};

void compute(double seconds, bool sleeps) {
  if (sleeps) {
    usleep(static_cast<useconds_t>(seconds * 1e6));
    return;
  }
  const double begin = MPI_Wtime();
  volatile double sum = 0;
  while (MPI_Wtime() - begin < seconds)
    for (int i = 0; i < 1000; ++i) sum = sum + i;
}

double median_of_slowest(std::vector<double> mine) {
  std::vector<double> most(mine.size());
  MPI_Allreduce(mine.data(), most.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_MAX,
                check::world);
  std::sort(most.begin(), most.end());
  return most[most.size() / 2];
}

}  // namespace

MPI_TEST(overlap_collectives) {
  check::Session session(argc, argv, "overlap_collectives");
  const long bytes = session.options.number("bytes", 256 << 10);
  const double compute_s = static_cast<double>(session.options.number("compute-ms", 500)) / 1e3;
  const long repeat = session.options.number("repeat", 3);
  const bool demands = session.options.flag("demand");
  const bool sleeps = session.options.flag("sleep");
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  CHECK(bytes > 0 && bytes % 4 == 0, "--bytes is a multiple of 4");
  sequence = 0;

  {
    Bench bench(session.size, static_cast<int>(bytes / 4));
    for (const Operation& the : kOperations) {
      if (demands) {
        for (long i = 0; i < repeat; ++i) bench.demand(the);
        continue;
      }
      std::vector<double> alone, beside;
      for (long i = 0; i < repeat; ++i) alone.push_back(bench.run(the, [] {}));
      for (long i = 0; i < repeat; ++i)
        beside.push_back(bench.run(the, [&] { compute(compute_s, sleeps); }));
      const double pure = median_of_slowest(alone), total = median_of_slowest(beside);
      const double share =
          100 * std::clamp((pure + compute_s - total) / std::min(pure, compute_s), 0.0, 1.0);
      if (session.rank == 0) {
        std::printf("overlap_collectives: %s of %ld KiB, %d ranks, alone %.1f ms, overlap %.0f %% "
                    "(%.1f ms on top)\n",
                    the.name, bytes >> 10, session.size, 1e3 * pure, share,
                    1e3 * (total - compute_s));
        std::fflush(stdout);
      }
    }
  }
  if (show_counters) print_counters(check::world);
  return session.finish();
}
