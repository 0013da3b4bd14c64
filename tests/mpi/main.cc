// main: the tests as programs, and several of them in one job, for MPI_Init is what most cases took
// longest for.
//
//   mpirun -n 4 ring ...                     one test, named by the program (links to mpi_tests)
//   mpirun -n 4 mpi_tests ring ...           the same
//   mpirun -n 8 mpi_tests --plan FILE [--multiple] [--settle-ms 0]
//
// A line of FILE is a test: NUMBER RANKS NAME [ARGUMENT]..., on the first RANKS ranks, with a
// communicator of its own; --multiple asks for MPI_THREAD_MULTIPLE. The first rank says "begin
// NUMBER" and "end NUMBER SECONDS" around what the test says, and of the transport's counters what
// they are ("counter"), and by how much they grew in the test ("grown"), --settle-ms after its end. A
// test that fails ends the job, as it would end its own.

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

constexpr int kUsage = 2;

const check::Test* find(const std::string& name) {
  for (const check::Test& test : check::tests())
    if (name == test.name) return &test;
  return nullptr;
}

int usage() {
  std::fprintf(stderr, "usage: mpi_tests NAME [ARGUMENT]... | mpi_tests --plan FILE\nNAME:");
  for (const check::Test& test : check::tests()) std::fprintf(stderr, " %s", test.name);
  std::fprintf(stderr, "\n");
  return kUsage;
}

struct Planned {
  std::string number;
  int ranks = 0;
  const check::Test* test = nullptr;
  std::vector<std::string> words;  // as argv
};

// As rank 0 reads it: the others may be on a host that has no such file.
std::string text_for_all(const std::string& path, int rank) {
  std::ostringstream text;
  if (rank == 0) text << std::ifstream(path).rdbuf();
  std::string all = text.str();
  unsigned long size = all.size();
  MPI_Bcast(&size, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
  all.resize(size);
  MPI_Bcast(all.data(), static_cast<int>(size), MPI_CHAR, 0, MPI_COMM_WORLD);
  return all;
}

std::vector<Planned> plan_of(const std::string& text) {
  std::vector<Planned> plan;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Planned& planned = plan.emplace_back();
    std::string word;
    words >> planned.number >> planned.ranks;
    while (words >> word) planned.words.push_back(word);
    planned.test = planned.words.empty() ? nullptr : find(planned.words.front());
    CHECK(planned.test != nullptr, "there is no such test: %s", line.c_str());
  }
  CHECK(!plan.empty(), "there is nothing in the plan");
  return plan;
}

// Without taking a processor from those who have something to do.
void wait_for_all() {
  MPI_Request all;
  MPI_Ibarrier(MPI_COMM_WORLD, &all);
  for (int done = 0; MPI_Test(&all, &done, MPI_STATUS_IGNORE), !done;) usleep(10'000);
}

// Collective in the world of the test.
void print_growth(const Counters::Values& before, const Counters::Values& after) {
  const std::size_t count = std::min(before.size(), after.size());
  std::vector<double> grown(count), low(count), high(count), sum(count);
  for (std::size_t i = 0; i < count; ++i) grown[i] = after[i].second - before[i].second;
  const int n = static_cast<int>(count);
  MPI_Reduce(grown.data(), low.data(), n, MPI_DOUBLE, MPI_MIN, 0, check::world);
  MPI_Reduce(grown.data(), high.data(), n, MPI_DOUBLE, MPI_MAX, 0, check::world);
  MPI_Reduce(grown.data(), sum.data(), n, MPI_DOUBLE, MPI_SUM, 0, check::world);
  if (check::rank != 0) return;
  for (std::size_t i = 0; i < count; ++i)
    std::printf("grown %s min %.0f max %.0f sum %.0f\n", after[i].first.c_str(), low[i], high[i],
                sum[i]);
}

void run(const Planned& planned, Counters& counters, unsigned settle_ms) {
  std::vector<char*> arguments;
  std::vector<std::string> words = planned.words;
  for (std::string& word : words) arguments.push_back(word.data());
  int argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);

  int rank;
  MPI_Comm_rank(check::world, &rank);
  const auto before = counters.read();
  if (rank == 0) std::printf("begin %s\n", planned.number.c_str()), std::fflush(stdout);
  const double begin_s = MPI_Wtime();
  planned.test->run(argc, arguments.data());
  const double took_s = MPI_Wtime() - begin_s;
  check::phase("the counters");
  usleep(settle_ms * 1000);
  const auto after = counters.read();
  counters.print(check::world);
  print_growth(before, after);
  alarm(0);
  if (rank == 0) std::printf("end %s %.2f\n", planned.number.c_str(), took_s), std::fflush(stdout);
}

int run_plan(int argc, char** argv) {
  check::program = "mpi_tests";
  check::Options options(argc, argv);
  const std::string path = options.text("plan", "");
  const bool multiple = options.flag("multiple");
  const auto settle_ms = static_cast<unsigned>(options.number("settle-ms", 0));
  options.done();

  check::one_of_several = true;
  check::start_watchdog(300);
  check::phase("MPI_Init");
  int provided, rank, size;
  const int level = multiple ? MPI_THREAD_MULTIPLE : check::level_of_environment();
  MPI_Init_thread(&argc, &argv, level, &provided);
  alarm(0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  check::rank = rank;
  check::phase("the plan");
  const std::vector<Planned> plan = plan_of(text_for_all(path, rank));
  Counters counters;
  for (const Planned& planned : plan) {
    CHECK(planned.ranks <= size, "%s wants %d ranks of %d", planned.test->name, planned.ranks,
          size);
    const bool takes_part = rank < planned.ranks;
    MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, rank, &check::world);
    if (takes_part) {
      run(planned, counters, settle_ms);
      MPI_Comm_free(&check::world);
    }
    wait_for_all();
  }
  counters.close();
  check::start_watchdog(300);
  check::program = "mpi_tests";
  check::phase("MPI_Finalize");
  MPI_Finalize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* slash = std::strrchr(argv[0], '/');
  if (const check::Test* test = find(slash != nullptr ? slash + 1 : argv[0]))
    return test->run(argc, argv);
  if (argc < 2) return usage();
  if (std::strcmp(argv[1], "--plan") == 0) return run_plan(argc, argv);
  const check::Test* test = find(argv[1]);
  return test != nullptr ? test->run(argc - 1, argv + 1) : usage();
}
