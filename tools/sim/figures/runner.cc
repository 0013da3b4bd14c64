#include "tools/sim/figures/runner.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

namespace weir::sim::figures {
namespace {

struct Task {
  std::size_t figure;
  std::size_t point;
  std::uint64_t seed;
  std::size_t row;
  double cost;
};

// Of this thread alone: points run side by side.
double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double peak_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1'024;
}

}  // namespace

unsigned cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1u, static_cast<unsigned>(CPU_COUNT(&set)));
}

std::vector<Results> play(const std::vector<Figure>& figures, unsigned jobs,
                          std::uint64_t first_seed,
                          const std::function<void(const Progress&)>& tell) {
  std::vector<Results> results(figures.size());
  std::vector<Task> tasks;
  double total = 0;
  for (std::size_t f = 0; f < figures.size(); ++f) {
    const std::vector<Point>& points = figures[f].points;
    for (std::size_t p = 0; p < points.size(); ++p) {
      for (std::uint32_t s = 0; s < points[p].seeds; ++s) {
        const std::uint64_t seed = first_seed + s;
        tasks.push_back({f, p, seed, results[f].rows.size(), points[p].cost});
        results[f].rows.push_back({points[p].series, points[p].x, seed, {}});
        total += points[p].cost;
      }
    }
  }
  // The long ones first: at the end no core waits for another's.
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.cost > b.cost; });

  const auto begin = std::chrono::steady_clock::now();
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  double spent = 0;
  Progress progress;
  progress.points = tasks.size();
  const auto work = [&] {
    for (std::size_t i = next++; i < tasks.size(); i = next++) {
      const Task& task = tasks[i];
      Measured& measured = results[task.figure].rows[task.row].measured;
      const double cpu_begin = cpu_seconds();
      try {
        measured = figures[task.figure].points[task.point].play(task.seed);
      } catch (const std::exception& error) {
        measured.violation = error.what();
      }
      measured.cpu_s = cpu_seconds() - cpu_begin;
      measured.peak_mib = peak_mib();
      const std::lock_guard lock(mutex);
      spent += task.cost;
      progress.done += 1;
      progress.figure = figures[task.figure].name;
      progress.elapsed_s =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      progress.left_s = progress.elapsed_s * (total - spent) / spent;
      if (tell) tell(progress);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::max(jobs, 1u); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace weir::sim::figures
