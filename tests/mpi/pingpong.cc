// pingpong: latency and bandwidth by message size between the first and the last rank.
//
//   mpirun -n 2 pingpong [--min 1] [--max 1M | --sizes 1,4K] [--ms 100] [--window 16]
//                        [--json FILE] [--counters] [--more]
//
// Latency is half a round trip (median and 99th percentile). Bandwidth comes from a stream of
// --window messages in flight (32 MiB at most), acknowledged once a window. Each measurement of a
// size takes about --ms. The data of the first and last round trip of every size are checked,
// outside the timing. With --more, three columns follow:
//
//   fresh us     half a round trip in pages that no message was in before
//   exchange us  both ranks post a receive, send, and wait
//   both MB/s    a stream each way at once; the sum

#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

constexpr int kTag = 1;
// The trips right after connecting are slow: initlat measures those.
constexpr int kWarmTrips = 100;
constexpr long kWarmBytes = 8192;
constexpr long kMostInFlight = 32 << 20;

// The list; without one, the doublings from smallest to largest.
std::vector<long> sizes_of(const std::string& list, long smallest, long largest) {
  if (!list.empty()) return check::sizes_of(list);
  std::vector<long> sizes;
  for (long bytes = smallest; bytes <= largest; bytes = bytes == 0 ? 1 : bytes * 2)
    sizes.push_back(bytes);
  return sizes;
}

struct Row {
  long bytes;
  double p50_us, p99_us, mb_per_s;
  double fresh_us = 0, exchange_us = 0, both_mb_per_s = 0;
};

using Bytes = std::vector<unsigned char>;

double median(std::vector<double>& of) {
  std::nth_element(of.begin(), of.begin() + of.size() / 2, of.end());
  return of[of.size() / 2];
}

// How often to repeat so that it takes about budget_s, judged by a trial; agreed by both sides.
int repetitions(double trial_s, double budget_s, int low, int high, int other, bool leader) {
  int n = trial_s > 0 ? static_cast<int>(std::min(budget_s / trial_s, 1e6)) : high;
  n = std::clamp(n, low, high);
  if (leader)
    MPI_Send(&n, 1, MPI_INT, other, kTag + 1, check::world);
  else
    MPI_Recv(&n, 1, MPI_INT, other, kTag + 1, check::world, MPI_STATUS_IGNORE);
  return n;
}

double round_trip(const unsigned char* out, unsigned char* in, int bytes, int other, bool leader) {
  const double start_s = MPI_Wtime();
  if (leader) MPI_Send(out, bytes, MPI_BYTE, other, kTag, check::world);
  MPI_Recv(in, bytes, MPI_BYTE, other, kTag, check::world, MPI_STATUS_IGNORE);
  if (!leader) MPI_Send(out, bytes, MPI_BYTE, other, kTag, check::world);
  return MPI_Wtime() - start_s;
}

// Half a round trip, p50. The pages are there before, and go after each batch.
double fresh_us(int bytes, int other, bool leader, int trips) {
  constexpr std::size_t page = 4096, most = kMostInFlight;
  const std::size_t stride = (static_cast<std::size_t>(bytes) + page - 1) / page * page;
  const int batch = static_cast<int>(std::clamp<std::size_t>(most / stride, 1, 64));
  const std::size_t length = stride * static_cast<std::size_t>(batch);
  std::vector<double> half_us;
  while (static_cast<int>(half_us.size()) < trips) {
    void* const mapped = mmap(nullptr, 2 * length, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(mapped != MAP_FAILED, "no memory for fresh pages of %d B", bytes);
    unsigned char* at = static_cast<unsigned char*>(mapped);
    for (int i = 0; i < batch; ++i, at += stride) {
      half_us.push_back(round_trip(at, at + length, bytes, other, leader) * 1e6 / 2);
    }
    munmap(mapped, 2 * length);
  }
  return median(half_us);
}

double exchange_s(const Bytes& out, Bytes& in, int bytes, int other) {
  MPI_Request request;
  const double start_s = MPI_Wtime();
  MPI_Irecv(in.data(), bytes, MPI_BYTE, other, kTag, check::world, &request);
  MPI_Send(out.data(), bytes, MPI_BYTE, other, kTag, check::world);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return MPI_Wtime() - start_s;
}

double both_s(const Bytes& out, Bytes& in, int bytes, int window, int other) {
  std::vector<MPI_Request> requests(2 * window);
  const double start_s = MPI_Wtime();
  for (int i = 0; i < window; ++i) {
    MPI_Irecv(in.data() + static_cast<std::size_t>(i) * bytes, bytes, MPI_BYTE, other, kTag,
              check::world, &requests[i]);
  }
  for (int i = 0; i < window; ++i) {
    MPI_Isend(out.data(), bytes, MPI_BYTE, other, kTag, check::world, &requests[window + i]);
  }
  MPI_Waitall(2 * window, requests.data(), MPI_STATUSES_IGNORE);
  return MPI_Wtime() - start_s;
}

double one_window(Bytes& out, Bytes& in, int bytes, int window, int other, bool leader) {
  std::vector<MPI_Request> requests(window);
  const double start_s = MPI_Wtime();
  for (int i = 0; i < window; ++i) {
    if (leader)
      MPI_Isend(out.data(), bytes, MPI_BYTE, other, kTag, check::world, &requests[i]);
    else  // own room for each message: overlapping receive buffers would be an error
      MPI_Irecv(in.data() + static_cast<std::size_t>(i) * bytes, bytes, MPI_BYTE, other, kTag,
                check::world, &requests[i]);
  }
  MPI_Waitall(window, requests.data(), MPI_STATUSES_IGNORE);
  if (leader)
    MPI_Recv(nullptr, 0, MPI_BYTE, other, kTag + 2, check::world, MPI_STATUS_IGNORE);
  else
    MPI_Send(nullptr, 0, MPI_BYTE, other, kTag + 2, check::world);
  return MPI_Wtime() - start_s;
}

Row measure(long bytes, int rank, int other, bool leader, double budget_s, int most_in_flight,
            bool more) {
  const int n = static_cast<int>(bytes);
  const int window = static_cast<int>(
      std::clamp(kMostInFlight / std::max(bytes, 1L), 1L, static_cast<long>(most_in_flight)));
  Bytes out(n), in(static_cast<std::size_t>(n) * window);
  auto checked_trip = [&](std::uint32_t seq) {
    check::fill(out.data(), out.size(), {rank, other, n, seq});
    std::fill(in.begin(), in.end(), 0);
    const double s = round_trip(out.data(), in.data(), n, other, leader);
    check::verify(in.data(), out.size(), {other, rank, n, seq}, "round trip");
    return s;
  };
  checked_trip(0);  // connects and registers
  for (int i = bytes <= kWarmBytes ? kWarmTrips : 0; i > 0; --i)
    round_trip(out.data(), in.data(), n, other, leader);
  const double trial_s = checked_trip(1);
  const int trips = repetitions(trial_s, budget_s, 5, 2000, other, leader);
  std::vector<double> half_us(trips);
  for (double& us : half_us) us = round_trip(out.data(), in.data(), n, other, leader) * 1e6 / 2;
  checked_trip(2);
  std::sort(half_us.begin(), half_us.end());

  check::fill(out.data(), out.size(), {rank, other, n, 3});
  const double window_s = one_window(out, in, n, window, other, leader);
  for (int i = 0; !leader && i < window; ++i)
    check::verify(in.data() + static_cast<std::size_t>(i) * n, out.size(), {other, rank, n, 3},
                  "stream");
  const int windows = repetitions(window_s, budget_s, 2, 2000, other, leader);
  double stream_s = 0;
  for (int i = 0; i < windows; ++i) stream_s += one_window(out, in, n, window, other, leader);
  const double mb = static_cast<double>(bytes) * window * windows / 1e6;
  Row row{bytes, half_us[trips / 2], half_us[static_cast<std::size_t>(trips * 0.99)],
          mb / stream_s};
  if (!more) return row;

  row.fresh_us = fresh_us(n, other, leader, trips);
  std::vector<double> exchange_us(trips);
  for (double& us : exchange_us) us = exchange_s(out, in, n, other) * 1e6;
  row.exchange_us = median(exchange_us);
  // The receive window of a library may have to grow to it first.
  const int rounds = repetitions(stream_s / windows, 4 * budget_s, 1, 40, other, leader);
  for (int i = 0; i < rounds; ++i) both_s(out, in, n, window, other);
  stream_s = 0;
  for (int i = 0; i < windows; ++i) stream_s += both_s(out, in, n, window, other);
  row.both_mb_per_s = 2 * mb / stream_s;
  checked_trip(4);
  return row;
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  CHECK(file != nullptr, "cannot write %s", path.c_str());
  std::fprintf(file, "[\n");
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::fprintf(file,
                 "  {\"bytes\": %ld, \"p50_us\": %.3f, \"p99_us\": %.3f, \"mb_per_s\": %.3f}%s\n",
                 rows[i].bytes, rows[i].p50_us, rows[i].p99_us, rows[i].mb_per_s,
                 i + 1 < rows.size() ? "," : "");
  std::fprintf(file, "]\n");
  std::fclose(file);
}

}  // namespace

MPI_TEST(pingpong) {
  check::Session session(argc, argv, "pingpong");
  check::Options& options = session.options;
  const long smallest = options.number("min", 1), largest = options.number("max", 1 << 20);
  const std::vector<long> sizes = sizes_of(options.text("sizes", ""), smallest, largest);
  const double budget_s = static_cast<double>(options.number("ms", 100)) / 1e3;
  const int window = static_cast<int>(options.number("window", 16));
  const std::string json = options.text("json", "");
  const bool counters = options.flag("counters"), more = options.flag("more");
  options.done();
  const int rank = session.rank, size = session.size;
  CHECK(size >= 2, "pingpong needs two ranks");
  check::phase("pingpong");

  const bool leader = rank == 0;
  if (leader) {
    std::printf("%10s  %10s  %10s  %12s", "bytes", "p50 us", "p99 us", "MB/s");
    if (more) std::printf("  %10s  %11s  %12s", "fresh us", "exchange us", "both MB/s");
    std::printf("\n");
  }
  std::vector<Row> rows;
  if (leader || rank == size - 1) {
    for (const long bytes : sizes) {
      const Row row = measure(bytes, rank, leader ? size - 1 : 0, leader, budget_s, window, more);
      if (!leader) continue;
      rows.push_back(row);
      std::printf("%10ld  %10.2f  %10.2f  %12.2f", row.bytes, row.p50_us, row.p99_us, row.mb_per_s);
      if (more) {
        std::printf("  %10.2f  %11.2f  %12.2f", row.fresh_us, row.exchange_us, row.both_mb_per_s);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  if (leader && !json.empty()) write_json(json, rows);
  if (counters) print_counters(check::world);
  return session.finish();
}
