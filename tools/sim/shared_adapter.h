// One adapter that the processes of a host share, and what too many requests do to it: a declared
// model, not a measurement. [TOK §4] saw throughput fall with the requests that a node has in its
// adapter, and could not look inside.
//
//   * Requests and their answers are served one after the other, in `serve` each.
//   * `contexts` of them fit into its cache; one that comes when it is full drives out another one,
//     whichever. Whoever finds his gone waits `miss` for it.
//   * A context is a request's, made when it comes and over with its answer.
//
// So a request takes 2 * serve while no more are outstanding than there are contexts; the more there are, the
// nearer to 2 * serve + miss. Two numbers of [TOK §4] set it, of InfiniBand: more than 20 active
// cores are too many (contexts = 20), and in the limit throughput is a quarter (miss = 6 * serve).
// `serve` is the unit of all times.
//
// What a peer asks for needs no context here: a model of who sends too much at once, not of who is
// sent to.
//
// Single-threaded; the numbers drawn are a function of the seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "tools/sim/random.h"

namespace weir::sim {

class SharedAdapter {
 public:
  struct Config {
    std::uint32_t contexts = 0;  // 0: there is no such adapter, each process has its own
    Duration serve{100};
    Duration miss{600};
  };

  SharedAdapter(const Config& config, std::uint64_t seed) : config_(config), random_(seed) {}

  // A request that needs this context comes at `now`. Returns when it leaves.
  Time begin(Time now, std::uint64_t context) {
    if (at_.count(context) == 0) load(context);
    return serve(now, true);
  }

  // Its answer comes at `now`. Returns when it is dealt with; never before an earlier one.
  Time end(Time now, std::uint64_t context) {
    const auto found = at_.find(context);
    const bool there = found != at_.end();
    if (there) drop(found->second);
    return serve(now, there);
  }

 private:
  Time serve(Time now, bool there) {
    const Duration work{config_.serve.ns + (there ? 0 : config_.miss.ns)};
    return busy_until_ = std::max(busy_until_, now) + work;
  }

  void load(std::uint64_t context) {
    if (cached_.size() >= config_.contexts) drop(random_.below(cached_.size()));
    at_[context] = cached_.size();
    cached_.push_back(context);
  }

  void drop(std::size_t place) {
    at_.erase(cached_[place]);
    if (place + 1 != cached_.size()) {
      cached_[place] = cached_.back();
      at_[cached_[place]] = place;
    }
    cached_.pop_back();
  }

  Config config_;
  Random random_;
  Time busy_until_{};
  std::vector<std::uint64_t> cached_;
  std::unordered_map<std::uint64_t, std::size_t> at_;
};

}  // namespace weir::sim
