// window_loads: traffic that asks different things of a receive window. [ARWS §4]
//
//   mpirun -n 4 window_loads [--loads alltoall:1K:50,halo:4K:600] [--messages 200] [--gap-ms 20]
//
// A load is a pattern, bytes, and rounds; they run one after the other:
//
// alltoall  MPI_Alltoall, these bytes to each rank
// flood     every rank sends --messages to every other at once
// burst     every rank sends --messages to rank 0 at once; then everybody rests for --gap-ms
// halo      messages to and from the ranks at distance 1 and 2 on a ring
//
// Prints of each what the first round took and what the later ones took (sum and median), and how
// many RNR NAKs the devices of this machine counted in each: growth is paid for at first, or it is
// wrong.

#include <mpi.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <vector>

#include "tests/mpi/check.h"

namespace {

using Bytes = std::vector<unsigned char>;
int rank, size, rounds, messages;
std::size_t bytes;
unsigned gap_ms;

int length() { return static_cast<int>(bytes); }

// NAKs sent by the RDMA devices here; every NAK sent is one received on loopback.
double rnr_naks() {
  namespace fs = std::filesystem;
  double sum = 0;
  std::error_code error;
  for (const auto& device : fs::directory_iterator("/sys/class/infiniband", error)) {
    std::ifstream file(device.path() / "ports/1/hw_counters/send_rnr_err");
    double count = 0;
    if (file >> count) sum += count;
  }
  return sum;
}

// Contents are checked in the first and the last round: the time of the others is the transport's.
bool checked(int round) { return round == 0 || round == rounds - 1; }

void alltoall(int round, Bytes& out, Bytes& in) {
  MPI_Alltoall(out.data(), length(), MPI_BYTE, in.data(), length(), MPI_BYTE, MPI_COMM_WORLD);
  for (int from = 0; checked(round) && from < size; ++from)
    check::verify(&in[static_cast<std::size_t>(from) * bytes], bytes, {from, rank, 1, 0},
                  "alltoall");
}

void burst(int round, Bytes& out, Bytes& in) {
  const auto many = static_cast<std::size_t>(messages);
  std::vector<MPI_Request> requests;
  if (rank == 0) {
    for (int m = 0; m < messages; ++m)
      for (int from = 1; from < size; ++from)
        MPI_Irecv(
            &in[(static_cast<std::size_t>(from) * many + static_cast<std::size_t>(m)) * bytes],
            length(), MPI_BYTE, from, 1, MPI_COMM_WORLD, &requests.emplace_back());
  } else {
    for (int m = 0; m < messages; ++m)
      MPI_Isend(out.data(), length(), MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests.emplace_back());
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (int from = 1; rank == 0 && checked(round) && from < size; ++from)
    for (std::size_t m = 0; m < many; ++m)
      check::verify(&in[(static_cast<std::size_t>(from) * many + m) * bytes], bytes,
                    {from, 0, 1, 0}, "burst");
}

void flood(int round, Bytes& out, Bytes& in) {
  const auto many = static_cast<std::size_t>(messages);
  std::vector<MPI_Request> requests;
  for (std::size_t m = 0; m < many; ++m) {
    for (int shift = 1; shift < size; ++shift) {
      const int to = (rank + shift) % size, from = (rank + size - shift) % size;
      MPI_Irecv(&in[(static_cast<std::size_t>(from) * many + m) * bytes], length(), MPI_BYTE, from,
                1, MPI_COMM_WORLD, &requests.emplace_back());
      MPI_Isend(&out[static_cast<std::size_t>(to) * bytes], length(), MPI_BYTE, to, 1,
                MPI_COMM_WORLD, &requests.emplace_back());
    }
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (int from = 0; checked(round) && from < size; ++from)
    for (std::size_t m = 0; from != rank && m < many; ++m)
      check::verify(&in[(static_cast<std::size_t>(from) * many + m) * bytes], bytes,
                    {from, rank, 1, 0}, "flood");
}

void halo(int round, Bytes& out, Bytes& in) {
  const int distances[] = {1, size - 1, 2, size - 2};
  std::vector<MPI_Request> requests;
  for (int i = 0; i < 4; ++i)
    MPI_Irecv(&in[static_cast<std::size_t>(i) * bytes], length(), MPI_BYTE,
              (rank + size - distances[i]) % size, i, MPI_COMM_WORLD, &requests.emplace_back());
  for (int i = 0; i < 4; ++i) {
    const int to = (rank + distances[i]) % size;
    MPI_Isend(&out[static_cast<std::size_t>(to) * bytes], length(), MPI_BYTE, to, i, MPI_COMM_WORLD,
              &requests.emplace_back());
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  for (int i = 0; checked(round) && i < 4; ++i)
    check::verify(&in[static_cast<std::size_t>(i) * bytes], bytes,
                  {(rank + size - distances[i]) % size, rank, 1, 0}, "halo");
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A load of this name, in the variables above; its rounds, timed and printed.
void run_load(const std::string& pattern) {
  void (*const run)(int, Bytes&, Bytes&) = pattern == "alltoall" ? alltoall
                                           : pattern == "flood"  ? flood
                                           : pattern == "burst"  ? burst
                                           : pattern == "halo"   ? halo
                                                                 : nullptr;
  CHECK(run != nullptr, "no pattern %s", pattern.c_str());
  CHECK(rounds >= 2, "window_loads needs two rounds");

  const auto slots = static_cast<std::size_t>(size);
  const std::size_t each = run == burst || run == flood ? static_cast<std::size_t>(messages) : 1;
  Bytes out(slots * bytes), in(std::max(slots, std::size_t{4}) * each * bytes);
  for (int to = 0; to < size; ++to)
    check::fill(&out[static_cast<std::size_t>(to) * bytes], bytes, {rank, to, 1, 0});

  check::phase("the rounds");
  std::vector<double> took_ms;
  double naks[3] = {rnr_naks(), 0, 0};
  for (int round = 0; round < rounds; ++round) {
    // With the barrier: the others may send before rank 0 has left it.
    const double start_s = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    run(round, out, in);
    took_ms.push_back((MPI_Wtime() - start_s) * 1e3);
    if (run == burst) usleep(gap_ms * 1000);
    if (round == 0) naks[1] = rnr_naks();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  naks[2] = rnr_naks();
  if (rank != 0) return;
  const std::vector<double> later(took_ms.begin() + 1, took_ms.end());
  std::printf("load %s %zu first_ms %.3f later_ms %.3f median_ms %.4f\n", pattern.c_str(), bytes,
              took_ms[0], sum_of(later), median_of(later));
  std::printf("rnr_naks first %.0f later %.0f\n", naks[1] - naks[0], naks[2] - naks[1]);
}

// PATTERN:BYTES:ROUNDS
void run_load_of(const std::string& words) {
  const std::size_t first = words.find(':'), second = words.find(':', first + 1);
  CHECK(first != std::string::npos && second != std::string::npos, "--loads: %s", words.c_str());
  const std::vector<long> size_of = check::sizes_of(words.substr(first + 1, second - first - 1));
  CHECK(size_of.size() == 1 && size_of[0] > 0, "--loads: the bytes of %s", words.c_str());
  bytes = static_cast<std::size_t>(size_of[0]);
  rounds = std::atoi(words.c_str() + second + 1);
  run_load(words.substr(0, first));
}

}  // namespace

int main(int argc, char** argv) {
  check::Session session(argc, argv, "window_loads");
  std::string loads = session.options.text("loads", "alltoall:1K:50");
  messages = static_cast<int>(session.options.number("messages", 200));
  gap_ms = static_cast<unsigned>(session.options.number("gap-ms", 20));
  session.options.done();
  rank = session.rank, size = session.size;
  CHECK(size >= 3, "window_loads needs three ranks");
  for (std::size_t at = 0; at < loads.size();) {
    const std::size_t end = std::min(loads.find(',', at), loads.size());
    run_load_of(loads.substr(at, end - at));
    at = end + 1;
  }
  return session.finish();
}
