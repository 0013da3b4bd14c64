// The traffic that `weir tune` measures: a plain MPI program.
//
//   mpirun -n 2K weir_tune_load [--ms N] [--random] [--seed N] CORESxOUTSTANDINGxBYTES...
//
// For each point: CORES ranks of the lower half send windows of OUTSTANDING messages of BYTES each
// and wait for the receiver's answer to the last of a window, as in [TOK §3]; one window has been
// answered before the clock starts. To the rank K above, or with --random for every window to a
// random rank of the upper half. One line of JSON a point, from rank 0:
//
//   {"cores": 4, "outstanding": 16, "bytes": 4096, "messages_per_s": 61234.5}

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int data_tag = 1, answer_tag = 2, end_tag = 3;
constexpr long most_outstanding = 4096, most_bytes = 64l << 20;

struct Point {
  int cores = 0, outstanding = 0;
  int bytes = 0;
};

struct Options {
  double seconds = 0.05;
  bool random = false;
  unsigned long seed = 1;
  std::vector<Point> points;
};

int rank, size, half;

[[noreturn]] void refuse(const std::string& what) {
  if (rank == 0) std::fprintf(stderr, "weir_tune_load: %s\n", what.c_str());
  MPI_Finalize();
  std::exit(2);
}

long number(const char* text, const char** end) {
  char* after = nullptr;
  const long value = std::strtol(text, &after, 10);
  if (after == text) refuse(std::string("no number: ") + text);
  *end = after;
  return value;
}

Point parse_point(const char* text) {
  long parts[3];
  const char* at = text;
  for (int i = 0; i < 3; ++i) {
    parts[i] = number(at, &at);
    const bool last = i == 2;
    if (*at++ != (last ? '\0' : 'x')) refuse(std::string("no CORESxOUTSTANDINGxBYTES: ") + text);
  }
  if (parts[0] < 1 || parts[0] > half || parts[1] < 1 || parts[1] > most_outstanding ||
      parts[2] < 0 || parts[2] > most_bytes) {
    refuse(std::string("out of range: ") + text);
  }
  return {static_cast<int>(parts[0]), static_cast<int>(parts[1]), static_cast<int>(parts[2])};
}

Options parse(int argc, char** argv) {
  Options options;
  const char* end = nullptr;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--ms") == 0 && has_value) {
      options.seconds = static_cast<double>(number(argv[++i], &end)) / 1e3;
    } else if (std::strcmp(argv[i], "--seed") == 0 && has_value) {
      options.seed = static_cast<unsigned long>(number(argv[++i], &end));
    } else if (std::strcmp(argv[i], "--random") == 0) {
      options.random = true;
    } else {
      options.points.push_back(parse_point(argv[i]));
    }
  }
  if (options.points.empty()) refuse("no points");
  return options;
}

// One window and its answer.
void send_window(const Point& point, int to, std::vector<char>& memory,
                 std::vector<MPI_Request>& requests) {
  for (MPI_Request& request : requests) {
    MPI_Isend(memory.data(), point.bytes, MPI_CHAR, to, data_tag, MPI_COMM_WORLD, &request);
  }
  MPI_Recv(nullptr, 0, MPI_CHAR, to, answer_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

// Messages a second, of this rank.
double send_all(const Options& options, const Point& point) {
  std::vector<char> memory(static_cast<std::size_t>(point.bytes) + 1, 'w');
  std::vector<MPI_Request> requests(static_cast<std::size_t>(point.outstanding));
  std::mt19937_64 random(options.seed * 1000003 + static_cast<unsigned long>(rank));
  const auto next = [&] {
    if (!options.random) return half + rank;
    return half + static_cast<int>(random() % static_cast<unsigned long>(half));
  };
  send_window(point, next(), memory, requests);
  const double start = MPI_Wtime();
  double now = start;
  long windows = 0;
  do {
    send_window(point, next(), memory, requests);
    ++windows;
    now = MPI_Wtime();
  } while (now - start < options.seconds);
  for (int to = half; to < size; ++to) {
    MPI_Send(nullptr, 0, MPI_CHAR, to, end_tag, MPI_COMM_WORLD);
  }
  return static_cast<double>(windows) * point.outstanding / (now - start);
}

// Until every active sender has said that it is done.
void receive_all(const Point& point) {
  const auto slots = static_cast<std::size_t>(point.outstanding) * 2;
  std::vector<std::vector<char>> memory(
      slots, std::vector<char>(static_cast<std::size_t>(point.bytes) + 1));
  std::vector<MPI_Request> requests(slots + 1);
  const auto post = [&](std::size_t i) {
    MPI_Irecv(memory[i].data(), point.bytes, MPI_CHAR, MPI_ANY_SOURCE, data_tag, MPI_COMM_WORLD,
              &requests[i]);
  };
  const auto await_end = [&] {
    MPI_Irecv(nullptr, 0, MPI_CHAR, MPI_ANY_SOURCE, end_tag, MPI_COMM_WORLD, &requests[slots]);
  };
  for (std::size_t i = 0; i < slots; ++i) post(i);
  await_end();
  std::vector<int> received(static_cast<std::size_t>(half));
  for (int ended = 0; ended < point.cores;) {
    int which = 0;
    MPI_Status status;
    MPI_Waitany(static_cast<int>(requests.size()), requests.data(), &which, &status);
    const auto i = static_cast<std::size_t>(which);
    if (i == slots) {
      if (++ended < point.cores) await_end();
      continue;
    }
    post(i);
    int& count = received[static_cast<std::size_t>(status.MPI_SOURCE)];
    if (++count < point.outstanding) continue;
    count = 0;
    MPI_Send(nullptr, 0, MPI_CHAR, status.MPI_SOURCE, answer_tag, MPI_COMM_WORLD);
  }
  for (std::size_t i = 0; i < slots; ++i) {
    MPI_Cancel(&requests[i]);
    MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  half = size / 2;
  if (size % 2 != 0) refuse("an even number of ranks is needed");
  const Options options = parse(argc, argv);
  for (const Point& point : options.points) {
    MPI_Barrier(MPI_COMM_WORLD);
    double mine = 0;
    if (rank >= half) {
      receive_all(point);
    } else if (rank < point.cores) {
      mine = send_all(options, point);
    }
    double all = 0;
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank != 0) continue;
    std::printf("{\"cores\": %d, \"outstanding\": %d, \"bytes\": %d, \"messages_per_s\": %.1f}\n",
                point.cores, point.outstanding, point.bytes, all);
    std::fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
