// incast: all ranks send large messages to rank 0, as fast as it reads them, for tests in which jobs
// get in each other's way.
//
//   mpirun -n 9 incast [--seconds 10] [--size 1M] [--window 4] [--nap 200]
//
// Each sender has --window messages under way. Nobody spins: who has nothing to do sleeps for --nap
// us, so that what limits a job is its adapter, and not the CPU of its neighbours. Every byte is
// checked. Ten times a second rank 0 prints when it is, by the system's monotonic clock, and what
// came since the last time:
//
//   incast: at 123.456 s 152.3 MB/s
//
// SIGUSR2 is to a sender as if --seconds were over.

#include <mpi.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <vector>

#include "check.h"

namespace {

constexpr int kData = 1;
constexpr double report_every_s = 0.1;
std::atomic<bool> told_to_end;

double monotonic_s() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Messages between a sender and rank 0, a few at a time. Empty ones are the end, one for each slot.
class Line {
 public:
  Line(int from, std::size_t bytes, std::size_t window)
      : from_(from), slots_(window, std::vector<unsigned char>(bytes)), requests_(window) {
    for (std::size_t i = 0; i < window; ++i) post();
  }

  // Looks whether the oldest message is over; if so, `bytes` is its length, and the next one goes.
  // At the end the sender says so, and posts nothing more.
  bool step(bool is_over, int& bytes) {
    if (sends() && is_over && !told_) {
      told_ = true;
      for (std::size_t i = 0; i < slots_.size(); ++i)
        MPI_Send(nullptr, 0, MPI_BYTE, 0, kData, check::world);
    }
    int flag = 0;
    MPI_Status status;
    if (!goes_on()) return false;
    MPI_Test(&requests_[ended_ % slots_.size()], &flag, &status);
    if (flag == 0) return false;
    if (!sends()) {
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      auto& slot = slots_[ended_ % slots_.size()];
      if (bytes > 0) check::verify(slot.data(), slot.size(), envelope(ended_), "incast");
    }
    ++ended_;
    if (sends() ? !told_ : bytes > 0) post();
    return true;
  }
  bool goes_on() const { return ended_ < begun_; }

 private:
  bool sends() const { return check::rank == from_; }
  check::Envelope envelope(std::uint32_t number) const { return {from_, 0, kData, number}; }
  void post() {
    auto& slot = slots_[begun_ % slots_.size()];
    const int bytes = static_cast<int>(slot.size());
    MPI_Request* const request = &requests_[begun_ % slots_.size()];
    if (sends()) {
      check::fill(slot.data(), slot.size(), envelope(begun_));
      MPI_Isend(slot.data(), bytes, MPI_BYTE, 0, kData, check::world, request);
    } else {
      MPI_Irecv(slot.data(), bytes, MPI_BYTE, from_, kData, check::world, request);
    }
    ++begun_;
  }

  int from_;
  std::vector<std::vector<unsigned char>> slots_;
  std::vector<MPI_Request> requests_;
  std::uint32_t begun_ = 0, ended_ = 0;
  bool told_ = false;
};

}  // namespace

MPI_TEST(incast) {
  check::Session session(argc, argv, "incast");
  const auto seconds = static_cast<double>(session.options.number("seconds", 10));
  const auto bytes = static_cast<std::size_t>(session.options.number("size", 1 << 20));
  const auto window = static_cast<std::size_t>(session.options.number("window", 4));
  const auto nap_us = static_cast<useconds_t>(session.options.number("nap", 200));
  session.options.done();
  CHECK(session.size >= 2 && bytes > 0 && window > 0, "incast wants two ranks, and messages");
  told_to_end = false;
  signal(SIGUSR2, [](int) { told_to_end = true; });
  MPI_Barrier(check::world);
  std::fprintf(stderr, "incast: rank %d ready, pid %d\n", session.rank, getpid());

  check::phase("traffic");
  std::vector<Line> lines;
  const bool receives = session.rank == 0;
  for (int from = receives ? 1 : session.rank; from < (receives ? session.size : session.rank + 1); ++from)
    lines.emplace_back(from, bytes, window);
  const double begin = monotonic_s();
  double reported = begin, came = 0;
  for (bool goes_on = true; goes_on;) {
    const double now = monotonic_s();
    bool moved = false;
    goes_on = false;
    for (Line& line : lines) {
      int got = 0;
      moved = line.step(told_to_end || now - begin >= seconds, got) || moved;
      came += got;
      goes_on = goes_on || line.goes_on();
    }
    if (receives && now - reported >= report_every_s) {
      std::printf("incast: at %.3f s %.1f MB/s\n", now, came / (now - reported) / 1e6);
      std::fflush(stdout);
      reported = now;
      came = 0;
    }
    if (!moved) usleep(nap_us);
  }
  return session.finish();
}
