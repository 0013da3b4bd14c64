#include <time.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "tools/sim/figures/figure.h"

namespace weir::sim::figures {
namespace {

// Of this thread alone: points run side by side.
double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

std::vector<Results> play(
    const std::vector<Figure>& figures, unsigned jobs, std::uint64_t first_seed,
    const std::function<void(std::size_t done, std::size_t of)>& tell,
    const std::function<network::Measured(const network::Scenario&, std::uint64_t)>& run) {
  struct Task {
    const Point* point;
    Results* results;
    std::size_t row;
  };
  std::vector<Results> results(figures.size());
  std::vector<Task> tasks;
  for (std::size_t f = 0; f < figures.size(); ++f) {
    for (const Point& point : figures[f].points) {
      for (std::uint32_t s = 0; s < point.seeds; ++s) {
        tasks.push_back({&point, &results[f], results[f].rows.size()});
        results[f].rows.push_back({point.series, point.x, first_seed + s, {}});
      }
    }
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t done = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < tasks.size(); i = next++) {
      Results::Row& row = tasks[i].results->rows[tasks[i].row];
      const double begin = cpu_seconds();
      try {
        row.measured = run(tasks[i].point->scenario, row.seed);
      } catch (const std::exception& error) {
        row.measured.violation = error.what();
      }
      row.measured.cpu_s = cpu_seconds() - begin;
      const std::lock_guard lock(mutex);
      if (tell) tell(++done, tasks.size());
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 1; i < jobs; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return results;
}

}  // namespace weir::sim::figures
