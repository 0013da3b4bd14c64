// msgrate: how many small messages a second. The first half of the ranks each streams to a partner
// in the second half; a window of messages, then one acknowledgement. Every payload is checked.
//
//   mpirun -n 2 msgrate [--bytes 8] [--window 64] [--messages 20000] [--both] [--threads 0]
//                       [--counters]
//
// With --both the partners stream to each other at the same time; with a window of 1, that is an
// exchange, and without --both a message and its answer. With --threads so many threads of a rank
// do all that at once, each on a communicator of its own (MPI_THREAD_MULTIPLE), with --messages
// each. The rate is that of all together.

#include <mpi.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

struct Traffic {
  MPI_Comm comm;
  int partner;
  bool sends, receives;
  int bytes, window;
};

class Stream : Traffic {
 public:
  explicit Stream(const Traffic& traffic) : Traffic(traffic) {}

  void run(int from_round, int to_round) {
    for (int round = from_round; round < to_round; ++round) one(round);
  }

 private:
  using Bytes = std::vector<unsigned char>;

  std::uint64_t serial(int round, int i) const {
    return static_cast<std::uint64_t>(round) * static_cast<unsigned>(window) +
           static_cast<unsigned>(i);
  }
  unsigned char* at(Bytes& in, int i) const {
    return in.data() + static_cast<std::size_t>(bytes) * static_cast<std::size_t>(i);
  }

  void one(int round) {
    requests_.clear();
    for (int i = 0; receives && i < window; ++i)
      MPI_Irecv(at(in_, i), bytes, MPI_BYTE, partner, 1, comm, &requests_.emplace_back());
    for (int i = 0; sends && i < window; ++i) {
      const std::uint64_t number = serial(round, i);
      std::memcpy(at(out_, i), &number, 8);
      MPI_Isend(at(out_, i), bytes, MPI_BYTE, partner, 1, comm, &requests_.emplace_back());
    }
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    for (int i = 0; receives && i < window; ++i) {
      std::uint64_t got, expected = serial(round, i);
      std::memcpy(&got, at(in_, i), 8);
      CHECK(got == expected, "from %d: message %llu where %llu belongs", partner,
            static_cast<unsigned long long>(got), static_cast<unsigned long long>(expected));
      check::verified_messages.fetch_add(1, std::memory_order_relaxed);
    }
    if (sends && receives)
      MPI_Sendrecv(nullptr, 0, MPI_BYTE, partner, 2, nullptr, 0, MPI_BYTE, partner, 2, comm,
                   MPI_STATUS_IGNORE);
    else if (sends)
      MPI_Recv(nullptr, 0, MPI_BYTE, partner, 2, comm, MPI_STATUS_IGNORE);
    else
      MPI_Send(nullptr, 0, MPI_BYTE, partner, 2, comm);
  }

  std::size_t room_ = static_cast<std::size_t>(bytes) * static_cast<std::size_t>(window);
  Bytes out_ = Bytes(sends ? room_ : 0), in_ = Bytes(receives ? room_ : 0);
  std::vector<MPI_Request> requests_;
};

// In threads of their own, unless there is but one stream of a program without threads.
void run_all(std::vector<Stream>& streams, bool in_threads, int from_round, int to_round) {
  if (!in_threads) return streams[0].run(from_round, to_round);
  std::vector<std::thread> threads;
  for (Stream& stream : streams)
    threads.emplace_back([&stream, from_round, to_round] { stream.run(from_round, to_round); });
  for (std::thread& thread : threads) thread.join();
}

int threads_asked(int argc, char** argv) {
  return static_cast<int>(check::Options(argc, argv).number("threads", 0));
}

}  // namespace

MPI_TEST(msgrate) {
  check::Session session(argc, argv, "msgrate",
                         threads_asked(argc, argv) > 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
  const int bytes = std::max(8, static_cast<int>(session.options.number("bytes", 8)));
  const int window = static_cast<int>(session.options.number("window", 64));
  const long messages = session.options.number("messages", 20000);
  const int threads = static_cast<int>(session.options.number("threads", 0));
  const bool both = session.options.flag("both");
  const bool counters = session.options.flag("counters");
  session.options.done();
  const int half = session.size / 2;
  CHECK(half >= 1 && window >= 1, "msgrate needs two ranks, and a window of a message");

  const int rank = session.rank;
  const bool lower = rank < half, idle = rank >= 2 * half;
  const int partner = lower ? rank + half : rank - half;
  const int rounds = static_cast<int>((messages + window - 1) / window);
  const int count = std::max(threads, 1);
  std::vector<MPI_Comm> comms(static_cast<std::size_t>(count), check::world);
  if (threads > 0)
    for (MPI_Comm& comm : comms) MPI_Comm_dup(check::world, &comm);
  std::vector<Stream> streams;
  for (MPI_Comm comm : comms)
    streams.emplace_back(Traffic{comm, partner, lower || both, !lower || both, bytes, window});

  check::phase("warm-up");
  const int warm = std::min(rounds, 4);
  if (!idle) run_all(streams, threads > 0, 0, warm);
  MPI_Barrier(check::world);
  check::phase("the stream");
  const double start_s = MPI_Wtime();
  if (!idle) run_all(streams, threads > 0, warm, warm + rounds);
  const double elapsed_s = MPI_Wtime() - start_s;
  const double mine =
      (lower || both) && !idle ? static_cast<double>(rounds) * window * count / elapsed_s : 0;
  double total = 0;
  MPI_Reduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, 0, check::world);
  if (rank == 0)
    std::printf("msgrate: %d pairs, %d bytes, window %d: %.0f messages/s\n", half, bytes, window,
                total);
  if (threads > 0)
    for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  if (counters) print_counters(check::world);
  return session.finish();
}
