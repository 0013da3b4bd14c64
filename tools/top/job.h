// What jobs are told from each other by.
//
// Values.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace weir::tools::top {

// The number is a short hash of Open MPI's: two jobs on different hosts may have the same one.
struct JobName {
  std::uint64_t job = 0;
  std::uint32_t user = 0;
  std::string slurm_job;  // "": none

  friend auto operator<=>(const JobName&, const JobName&) = default;
};

// The jobs that somebody wants to see or to change; by default all.
struct Wanted {
  std::optional<std::uint64_t> job{};
  std::optional<std::string> slurm_job{};

  bool has(const JobName& name) const {
    return (!job || *job == name.job) && (!slurm_job || *slurm_job == name.slurm_job);
  }
};

}  // namespace weir::tools::top
