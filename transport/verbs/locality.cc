#include "transport/verbs/locality.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>

namespace weir::verbs {
namespace {

constexpr unsigned most_cpus = 1u << 16;  // more than any machine has

Cpus both(const Cpus& a, const Cpus& b) {
  Cpus common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return common;
}

// The indices of the adapters that are near the most CPUs of `own`.
std::vector<std::size_t> nearest_ones(const std::vector<Cpus>& near, const Cpus& own) {
  std::vector<std::size_t> equal;
  std::size_t most = 0;
  for (std::size_t i = 0; i < near.size(); ++i) {
    const std::size_t common = both(near[i], own).size();
    if (common > most) equal.clear();
    most = std::max(most, common);
    if (common == most) equal.push_back(i);
  }
  return equal;
}

// The first CPU of each core that some of the CPUs are of.
Cpus cores_with(const Cpus& cpus, const Cores& cores) {
  std::set<unsigned> found;
  for (const unsigned cpu : cpus) found.insert(cpu < cores.size() ? cores[cpu] : cpu);
  return {found.begin(), found.end()};
}

// Which of `ways` this process takes, so that each gets as many processes. A process bound to some
// of the cores near the adapters goes by its position among these cores: the CPUs of a core may be
// far apart in the kernel's count. All others go by turns. If a process has only a part of the
// machine, the processes of the other parts may have the next turns.
std::size_t share(const Cpus& near, const Place& place, std::size_t ways) {
  const Cpus mine = cores_with(both(place.own, near), place.cores);
  const Cpus all = cores_with(near, place.cores);
  if (!mine.empty() && mine.size() < all.size()) {
    const auto at = std::lower_bound(all.begin(), all.end(), mine.front()) - all.begin();
    return static_cast<std::size_t>(at) * ways / all.size();
  }
  const auto parts =
      place.own.empty() ? 1 : std::max<std::size_t>(1, place.online / place.own.size());
  return place.turn / parts % ways;
}

}  // namespace

Cpus cpus_in(const std::string& list) {
  std::istringstream text(list);
  Cpus cpus;
  for (std::string part; std::getline(text, part, ',');) {
    std::istringstream range(part);
    unsigned first = 0;
    if (!(range >> first)) return {};
    unsigned last = first;
    char dash = 0;
    if (range >> dash && (dash != '-' || !(range >> last) || last < first)) return {};
    if (range >> dash) return {};
    if (last >= most_cpus) return {};
    for (unsigned cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

Cores cores_of_machine(unsigned cpus, const std::string& root) {
  std::ifstream smt(root + "/smt/active");
  if (char active = '0'; !(smt >> active) || active == '0') return {};
  Cores cores(std::min(cpus, most_cpus));
  std::iota(cores.begin(), cores.end(), 0);
  for (unsigned cpu = 0; cpu < cores.size(); ++cpu) {
    if (cores[cpu] != cpu) continue;
    std::ifstream file(root + "/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    std::string list;
    std::getline(file, list);
    for (const unsigned sibling : cpus_in(list)) {
      if (sibling > cpu && sibling < cores.size()) cores[sibling] = cpu;
    }
  }
  return cores;
}

Cpus own_cpus() {
  cpu_set_t set;
  Cpus cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

Cpus cpus_near(const std::string& device, const std::string& root) {
  std::ifstream file(root + "/" + device + "/device/local_cpulist");
  std::string list;
  return std::getline(file, list) ? cpus_in(list) : Cpus{};
}

std::size_t nearest(const std::vector<Cpus>& near, const Place& place) {
  const std::vector<std::size_t> equal = nearest_ones(near, place.own);
  return equal[share(near[equal.front()], place, equal.size())];
}

std::vector<std::size_t> one_or_two(const std::vector<Cpus>& near, const Place& place,
                                    std::size_t processes) {
  const std::vector<std::size_t> equal = nearest_ones(near, place.own);
  if (near.size() < 2 * processes || equal.size() < 2) return {nearest(near, place)};
  const std::size_t pair = share(near[equal.front()], place, equal.size() / 2);
  return {equal[2 * pair], equal[2 * pair + 1]};
}

}  // namespace weir::verbs
