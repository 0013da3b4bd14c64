#include "tools/perf/measure.h"

#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace weir::tools::perf {
namespace {

using doctor::Clock;
using doctor::milliseconds;

class Run {
 public:
  Run(Way& way, const Measure& what)
      : way_(way), what_(what), received_before_(way.received), moved_(way.moved()) {}

  std::optional<Figures> run() {
    way_.begin(what_.bytes, what_.operation == Operation::send && what_.kind == Kind::latency,
               what_.check);
    if (what_.operation != Operation::send)
      return what_.kind == Kind::latency ? one_by_one() : many();
    // So that both ends are there when the clock starts.
    way_.greet();
    if (!until([&] { return way_.greeted >= way_.greetings; })) return {};
    std::optional<Figures> figures = what_.kind == Kind::latency ? pingpong() : messages();
    if (!figures || !until([&] { return way_.settled(); })) return {};
    return figures;
  }

  const std::string& why() const { return why_; }

 private:
  // False: it never will be.
  template <typename Done>
  bool until(Done done) {
    for (std::uint32_t polls = 1;; ++polls) {
      if (!way_.why.empty()) {
        why_ = way_.why;
        return false;
      }
      if (done()) return true;
      way_.poll();
      if (what_.yields && polls % 64 == 0) sched_yield();
      if (polls % 4096 == 0 && !goes_on()) return false;
    }
  }

  bool goes_on() {
    const auto now = Clock::now();
    if (now - looked_ < milliseconds(100)) return true;
    looked_ = now;
    if (const std::uint64_t moved = way_.moved(); moved != moved_) {
      moved_ = moved;
      silent_since_ = now;
    }
    if (now - silent_since_ > what_.silence) {
      why_ = fmt::format("nothing has moved for {} s",
                         std::chrono::duration_cast<std::chrono::seconds>(what_.silence).count());
      return false;
    }
    pollfd input{STDIN_FILENO, POLLRDHUP, 0};
    if (::poll(&input, 1, 0) == 1 && (input.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0) {
      why_ = "nobody waits for the result any more";
      return false;
    }
    return true;
  }

  // Not timed: what is done for the first time, and caches that are cold.
  std::uint32_t warm() const { return std::min(what_.count / 8, 20u); }

  std::optional<Figures> pingpong() {
    std::vector<double> times;
    times.reserve(what_.count);
    const std::uint32_t rounds = what_.count + warm();
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const auto start = Clock::now();
      if (what_.first && !until([&] { return way_.send(); })) return {};
      if (!until([&] { return way_.received > received_before_ + round; })) return {};
      if (!what_.first && !until([&] { return way_.send(); })) return {};
      if (round >= warm()) times.push_back(doctor::ms_since(start) * 1000 / 2);
    }
    way_.finish();
    return figures_of(times);
  }

  std::optional<Figures> one_by_one() {
    std::vector<double> times;
    times.reserve(what_.count);
    const std::uint32_t rounds = what_.count + warm();
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const auto start = Clock::now();
      if (!until([&] { return way_.start(what_.operation); })) return {};
      if (!until([&] { return way_.ended == way_.started; })) return {};
      if (round >= warm()) times.push_back(doctor::ms_since(start) * 1000);
    }
    return figures_of(times);
  }

  std::optional<Figures> many() {
    const std::uint64_t last = way_.started + what_.count;
    const auto start = Clock::now();
    if (!until([&] {
          while (way_.started < last && way_.started - way_.ended < way_.window() &&
                 way_.start(what_.operation)) {
          }
          return way_.ended == last;
        })) {
      return {};
    }
    return Figures{.seconds = doctor::ms_since(start) / 1000};
  }

  std::optional<Figures> messages() {
    const bool both = what_.kind == Kind::both;
    const std::uint64_t last_sent = way_.sent + (both || what_.first ? what_.count : 0);
    const std::uint64_t last_received = received_before_ + (both || !what_.first ? what_.count : 0);
    const auto start = Clock::now();
    if (!until([&] {
          while (way_.sent < last_sent && way_.sent - way_.acknowledged < way_.window() &&
                 way_.send()) {
          }
          if (way_.received == last_received && !told_) {
            told_ = true;
            way_.finish();
          }
          return way_.received >= last_received && way_.acknowledged >= last_sent;
        })) {
      return {};
    }
    return Figures{.seconds = doctor::ms_since(start) / 1000};
  }

  static Figures figures_of(std::vector<double>& times) {
    const auto at = [&](double part) {
      const auto place = times.begin() + static_cast<std::ptrdiff_t>(
                                             part * static_cast<double>(times.size() - 1) + 0.5);
      std::nth_element(times.begin(), place, times.end());
      return *place;
    };
    return {.us = at(0.5), .us_99 = at(0.99)};
  }

  Way& way_;
  const Measure& what_;
  std::string why_;
  const std::uint64_t received_before_;  // the first message may come while we are greeted
  bool told_ = false;
  std::uint64_t moved_;
  Clock::time_point looked_ = Clock::now();
  Clock::time_point silent_since_ = looked_;
};

}  // namespace

std::optional<Figures> measure(Way& way, const Measure& what, std::string& why) {
  Run run(way, what);
  std::optional<Figures> figures = run.run();
  if (!figures) why = run.why();
  return figures;
}

}  // namespace weir::tools::perf
