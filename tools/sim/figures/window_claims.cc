#include "tools/sim/figures/window_claims.h"

namespace weir::sim::figures {
namespace {

double of_fixed(const Results& results, const std::string& load, double most, const char* value) {
  return results.mean(load + ", fixed", fixed_window, value) / results.mean(load, most, value);
}

}  // namespace

void add_memory_claims(const Results& results, const std::string& load,
                       std::vector<Claim>& claims) {
  claims.push_back({load + "-memory", load + ": times less memory, W_max 256", "many",
                    of_fixed(results, load, 256, "memory_kib")});
  claims.push_back({load + "-window", load + ": W in the end, W_max 256, mean of the processes",
                    "not stated", results.mean(load, 256, "window")});
}

void add_speed_claims(const Results& results, const std::string& load, const char* time,
                      std::vector<Claim>& claims) {
  for (const std::uint32_t most : {256u, 16u}) {
    const std::string is = std::to_string(most);
    claims.push_back(
        {load + "-speed-" + is, load + ": speed with W_max " + is + ", of the fixed window's",
         most == 16 ? "less than 1 for some" : "about 1", of_fixed(results, load, most, time)});
  }
}

}  // namespace weir::sim::figures
