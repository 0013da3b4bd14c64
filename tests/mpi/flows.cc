// flows: bandwidth of streams of large messages, from each rank of the lower half to its partner in
// the upper half; with --both in the other direction too, at the same time, after the first.
//
//   mpirun -n 2 flows [--sizes 64K,1M] [--window 16] [--in-flight 32M] [--settle-ms 100]
//                     [--ms 300] [--both] [--counters]
//
// A flow has --window messages under way, fewer (but two) if they were more than --in-flight bytes,
// and posts the next when the oldest is over: unless --window is 1 it never drains while it is
// timed. All flows begin together; --settle-ms later each counts what it receives for --ms, to the
// next message. None ends before all have counted. The last data of every buffer are checked
// afterwards.

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

constexpr int kData = 1, kStop = 2;

int rank, size, partner;
double settle_s, measure_s;

using Buffers = std::vector<std::vector<unsigned char>>;

check::Envelope envelope(int from, int to, std::size_t slot) {
  return {from, to, kData, static_cast<std::uint32_t>(slot)};
}

bool is_over(MPI_Request& request, MPI_Status* status = MPI_STATUS_IGNORE) {
  int flag = 0;
  MPI_Test(&request, &flag, status);
  return flag != 0;
}

// Sends until it is told to stop; as many empty messages then as receives are waiting for one.
class Sender {
 public:
  Sender(std::size_t bytes, std::size_t window)
      : slots_(window, std::vector<unsigned char>(bytes)), requests_(window), ends_(window) {
    for (std::size_t i = 0; i < window; ++i)
      check::fill(slots_[i].data(), bytes, envelope(rank, partner, i));
  }

  void start() {
    MPI_Irecv(nullptr, 0, MPI_BYTE, partner, kStop, check::world, &stop_);
    for (std::size_t i = 0; i < slots_.size(); ++i) post(i);
  }

  // False when all is over.
  bool step() {
    if (!stopped_ && is_over(stop_)) {
      stopped_ = true;
      for (MPI_Request& end : ends_)
        MPI_Isend(nullptr, 0, MPI_BYTE, partner, kData, check::world, &end);
    }
    if (stopped_) {
      int all = 0, ends = 0;
      const int count = static_cast<int>(requests_.size());
      MPI_Testall(count, requests_.data(), &all, MPI_STATUSES_IGNORE);
      MPI_Testall(count, ends_.data(), &ends, MPI_STATUSES_IGNORE);
      return all == 0 || ends == 0;
    }
    if (is_over(requests_[oldest_])) {
      post(oldest_);
      oldest_ = (oldest_ + 1) % slots_.size();
    }
    return true;
  }

 private:
  void post(std::size_t i) {
    MPI_Isend(slots_[i].data(), static_cast<int>(slots_[i].size()), MPI_BYTE, partner, kData,
              check::world, &requests_[i]);
  }

  Buffers slots_;
  std::vector<MPI_Request> requests_, ends_;
  MPI_Request stop_ = MPI_REQUEST_NULL;
  std::size_t oldest_ = 0;
  bool stopped_ = false;
};

class Receiver {
 public:
  Receiver(std::size_t bytes, std::size_t window)
      : slots_(window, std::vector<unsigned char>(bytes)), requests_(window) {}

  void start() {
    begun_s_ = MPI_Wtime();
    for (std::size_t i = 0; i < slots_.size(); ++i) post(i);
  }

  // False when all is over. `others_counted`: nobody needs this flow any more.
  bool step(bool others_counted) {
    if (counted() && others_counted && !told_) {
      MPI_Send(nullptr, 0, MPI_BYTE, partner, kStop, check::world);
      told_ = true;
    }
    MPI_Status status;
    if (!is_over(requests_[oldest_], &status)) return true;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (count > 0) {
      note_one();
      post(oldest_);
    } else {
      ++ended_;
    }
    oldest_ = (oldest_ + 1) % slots_.size();
    return ended_ < slots_.size();
  }

  bool counted() const { return end_s_ > 0; }

  double mb_per_s() const {
    return static_cast<double>(slots_[0].size()) * number_ / (end_s_ - start_s_) / 1e6;
  }

  void verify() const {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      check::verify(slots_[i].data(), slots_[i].size(), envelope(partner, rank, i), "flow");
  }

 private:
  void post(std::size_t i) {
    MPI_Irecv(slots_[i].data(), static_cast<int>(slots_[i].size()), MPI_BYTE, partner, kData,
              check::world, &requests_[i]);
  }

  void note_one() {
    const double now_s = MPI_Wtime();
    if (counted()) return;
    if (start_s_ > 0) ++number_;
    if (start_s_ > 0 && now_s >= start_s_ + measure_s) end_s_ = now_s;
    if (start_s_ == 0 && now_s >= begun_s_ + settle_s) start_s_ = now_s;
  }

  Buffers slots_;
  std::vector<MPI_Request> requests_;
  std::size_t oldest_ = 0, ended_ = 0;
  int number_ = 0;
  double begun_s_ = 0, start_s_ = 0, end_s_ = 0;
  bool told_ = false;
};

// What this rank received, in MB/s; 0 if nothing was sent to it.
double run(std::size_t bytes, std::size_t window, bool both) {
  const bool lower = rank < size / 2;
  const bool sends = lower || both, receives = !lower || both;
  auto sender = sends ? std::make_unique<Sender>(bytes, window) : nullptr;
  auto receiver = receives ? std::make_unique<Receiver>(bytes, window) : nullptr;
  MPI_Barrier(check::world);
  if (receiver) receiver->start();
  if (sender) sender->start();

  MPI_Request everybody = MPI_REQUEST_NULL;
  bool counted = false, others_counted = false;
  for (bool sending = sends, receiving = receives; sending || receiving || !others_counted;) {
    if (!counted && (!receiver || receiver->counted())) {
      MPI_Ibarrier(check::world, &everybody);
      counted = true;
    }
    if (counted && !others_counted) others_counted = is_over(everybody);
    if (receiving) receiving = receiver->step(others_counted);
    if (sending) sending = sender->step();
  }
  if (receiver) receiver->verify();
  return receiver ? receiver->mb_per_s() : 0;
}

void print(const char* which, std::size_t bytes, std::size_t window, double mine) {
  std::vector<double> all(static_cast<std::size_t>(size));
  MPI_Gather(&mine, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, 0, check::world);
  for (int to = 0; rank == 0 && to < size; ++to) {
    if (all[static_cast<std::size_t>(to)] == 0) continue;
    std::printf("%-9s %10zu B, %2zu under way, %d -> %d: %.2f MB/s\n", which, bytes, window,
                (to + size / 2) % size, to, all[static_cast<std::size_t>(to)]);
  }
  std::fflush(stdout);
}

}  // namespace

MPI_TEST(flows) {
  check::Session session(argc, argv, "flows");
  rank = session.rank, size = session.size;
  const std::vector<long> sizes = check::sizes_of(session.options.text("sizes", "1M"));
  const long window = session.options.number("window", 16);
  const long in_flight = session.options.number("in-flight", 32 << 20);
  settle_s = static_cast<double>(session.options.number("settle-ms", 100)) / 1e3;
  measure_s = static_cast<double>(session.options.number("ms", 300)) / 1e3;
  const bool both = session.options.flag("both");
  const bool counters = session.options.flag("counters");
  session.options.done();
  CHECK(size % 2 == 0, "flows needs an even number of ranks");
  partner = (rank + size / 2) % size;

  check::phase("the flows");
  for (const long bytes : sizes) {
    CHECK(bytes > 0 && window > 0, "flows are of messages with bytes, one at a time at least");
    const auto n = static_cast<std::size_t>(bytes);
    const auto w =
        static_cast<std::size_t>(std::clamp(in_flight / bytes, std::min(2l, window), window));
    print("one way", n, w, run(n, w, false));
    if (both) print("both ways", n, w, run(n, w, true));
  }
  if (counters) print_counters(check::world);
  return session.finish();
}
