#include "transport/engine/cpus.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "transport/verbs/locality.h"

namespace weir {
namespace {

constexpr const char* groups = "/sys/fs/cgroup";

void lower(double& cpus, double limit) {
  if (limit > 0) cpus = std::min(cpus, limit);
}

// Applies the limits of one group, from the files of either version.
void lower_by_group(const std::string& group, double& cpus) {
  double quota = 0;
  double period = 0;
  if (std::ifstream(group + "/cpu.max") >> quota >> period && period > 0) {  // not "max 100000"
    lower(cpus, quota / period);
  }
  if (std::ifstream(group + "/cpu.cfs_quota_us") >> quota &&
      std::ifstream(group + "/cpu.cfs_period_us") >> period && period > 0) {  // no limit: -1
    lower(cpus, quota / period);
  }
  for (const char* name : {"/cpuset.cpus.effective", "/cpuset.effective_cpus"}) {
    std::ifstream file(group + name);
    if (std::string list; std::getline(file, list))
      lower(cpus, static_cast<double>(verbs::cpus_in(list).size()));
  }
}

}  // namespace

int usable_cpus(const std::string& root) {
  double cpus = get_nprocs();
  // "0::/user.slice" (version 2) or "4:cpu,cpuacct:/docker/1f": reads this folder and those above
  // it. In a container the path may be the host's, and only the top may exist.
  std::ifstream memberships(root + "/proc/self/cgroup");
  for (std::string line; std::getline(memberships, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string top = root + groups + (controllers.empty() ? "" : "/" + controllers);
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      lower_by_group(top + path, cpus);
      if (path.find('/') == std::string::npos) break;
    }
  }
  return std::max(1, static_cast<int>(std::ceil(cpus)));
}

}  // namespace weir
