// Who is tried with whom, and when: rounds of pairs that share no host, so that all of a round may
// be at work at once.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weir::tools::between {

using Pair = std::pair<std::size_t, std::size_t>;  // numbers of hosts, the smaller first
using Round = std::vector<Pair>;

// Each of `count` hosts with each other one: a tournament by the circle method. As many rounds as
// hosts, one less if their number is even.
std::vector<Round> everybody(std::size_t count);

// Each host with a partner, below its own switch where there is one. `switches`: of each host. Of
// an odd number, the last one has its partner in a second round.
std::vector<Round> neighbours(const std::vector<std::size_t>& switches);

// As many hosts as possible with one of another switch.
Round across(const std::vector<std::size_t>& switches);

// Each of `suspects` with one of `well`, nobody twice in a round.
std::vector<Round> again(const std::vector<std::size_t>& suspects,
                         const std::vector<std::size_t>& well);

}  // namespace weir::tools::between
