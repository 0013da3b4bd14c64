// Whose processes those of `weir top` are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::tools::top {

// The name of a user, or the number if there is none, or one with characters that could do harm on
// a terminal or in a label.
std::string user_name(std::uint32_t user);

// Whether it is the number of a Slurm job.
bool is_slurm_job(std::string_view text);

// The number of the Slurm job that the process belongs to, by the environment that it was started
// in; "" if there is none, or this user may not see it.
std::string slurm_job(std::uint32_t pid);

}  // namespace weir::tools::top
