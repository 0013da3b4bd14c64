#include "tools/between/rounds.h"

#include <algorithm>
#include <numeric>

namespace weir::tools::between {
namespace {

Pair pair_of(std::size_t a, std::size_t b) { return {std::min(a, b), std::max(a, b)}; }

// The hosts, those of a switch side by side.
std::vector<std::size_t> by_switch(const std::vector<std::size_t>& switches) {
  std::vector<std::size_t> hosts(switches.size());
  std::iota(hosts.begin(), hosts.end(), std::size_t{0});
  std::stable_sort(hosts.begin(), hosts.end(),
                   [&](std::size_t a, std::size_t b) { return switches[a] < switches[b]; });
  return hosts;
}

}  // namespace

std::vector<Round> everybody(std::size_t count) {
  // With an odd number, whoever meets the one that does not exist has a rest.
  const std::size_t even = count + count % 2;
  std::vector<Round> rounds;
  for (std::size_t turn = 0; turn + 1 < even; ++turn) {
    Round& round = rounds.emplace_back();
    // The last one stays, the others move one place on.
    const auto at = [&](std::size_t place) { return (place + turn) % (even - 1); };
    if (count == even) round.push_back(pair_of(at(0), even - 1));
    for (std::size_t i = 1; i < even / 2; ++i) {
      round.push_back(pair_of(at(i), at(even - 1 - i)));
    }
  }
  return rounds;
}

std::vector<Round> neighbours(const std::vector<std::size_t>& switches) {
  std::vector<Round> rounds;
  if (switches.size() < 2) return rounds;
  Round& first = rounds.emplace_back();
  std::vector<std::size_t> left;  // the odd ones of their switches
  for (const std::size_t host : by_switch(switches)) {
    left.push_back(host);
    const std::size_t count = left.size();
    if (count < 2 || switches[left[count - 2]] != switches[host]) continue;
    first.push_back(pair_of(left[count - 2], host));
    left.resize(count - 2);
  }
  for (std::size_t i = 0; i + 1 < left.size(); i += 2) {
    first.push_back(pair_of(left[i], left[i + 1]));
  }
  if (left.size() % 2 != 0) {
    const std::size_t last = left.back();
    rounds.push_back({pair_of(first.front().first, last)});
  }
  return rounds;
}

Round across(const std::vector<std::size_t>& switches) {
  const std::vector<std::size_t> hosts = by_switch(switches);
  const std::size_t half = hosts.size() / 2;
  Round round;
  // No switch with less than half of the hosts has both.
  for (std::size_t i = 0; i < half; ++i) {
    if (switches[hosts[i]] == switches[hosts[i + half]]) continue;
    round.push_back(pair_of(hosts[i], hosts[i + half]));
  }
  return round;
}

std::vector<Round> again(const std::vector<std::size_t>& suspects,
                         const std::vector<std::size_t>& well) {
  std::vector<Round> rounds;
  for (std::size_t i = 0; i < suspects.size() && !well.empty(); ++i) {
    if (i % well.size() == 0) rounds.emplace_back();
    rounds.back().push_back(pair_of(suspects[i], well[i % well.size()]));
  }
  return rounds;
}

}  // namespace weir::tools::between
