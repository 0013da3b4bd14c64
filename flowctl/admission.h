// Whether a request may reach the adapter now: combines the mechanisms of [TOK §7]. One for each
// process and port.
//
//   admit ─┬─ below the thresholds ──▶ straight through
//          ├─ with a pool ───────────▶ tokens, or a ticket that waits
//          └─ without one ───────────▶ a delay, if the last request was too recent
//
// Whatever the policy, a pace may be set: then every request waits for its turn in that first.
//
// While a ticket or a delay is pending, all requests of the process wait behind it. The caller has
// to check now and then whether it is `over`: the tokens come from another process, which notifies
// nobody.
//
// The thresholds need the node's work under way, which takes reading two words of each process's
// slot: that is done for every 16th request.
//
// Pure; the caller serialises.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/now.h"
#include "base/time.h"
#include "flowctl/pace.h"
#include "flowctl/rate_limiter.h"
#include "flowctl/shared/pool_member.h"
#include "flowctl/shared/token_pool.h"
#include "flowctl/thresholds.h"

namespace weir {

class Admission {
 public:
  enum class Policy : std::uint8_t {
    off,         // everything goes straight through
    thresholds,  // Algorithm 1 decides when to limit
    always,      // everything is limited
  };

  struct Config {
    Policy policy = Policy::off;
    std::uint32_t tokens = 64;  // of the node; how many of them this process uses
    TokenCost cost;
    Thresholds thresholds;
    RateLimiter rate;
    std::uint64_t bytes_per_second = 0;  // most that this process lets go; 0: no limit
  };

  struct Counts {
    std::uint64_t counted = 0;      // requests that took tokens
    std::uint64_t token_waits = 0;  // tickets that were not granted at once
    std::uint64_t rate_waits = 0;   // requests that came too soon
  };

  explicit Admission(const Config& config) : config_(config) {
    pace_.limit(config.bytes_per_second);
  }

  // The node's pool; without a pool, limits are by rate.
  void join(PoolMember::Pool* pool) { member_.join(pool); }

  // How many of the node's tokens this process uses, from here on.
  void limit_tokens(std::uint32_t tokens) { config_.tokens = tokens; }

  // Another pace from here on. What waits for the old one goes with the next look.
  void limit_pace(std::uint64_t bytes_per_second) {
    pace_.limit(bytes_per_second);
    if (delayed_until_ != none) delayed_until_ = Time{};
  }

  // The node's work under way counts.
  bool on() const { return config_.policy != Policy::off; }
  // A request may have to wait.
  bool limits() const { return on() || pace_.on(); }
  // True: a request of `bytes` may go, and counts as gone; give `tokens` back when it is complete.
  // False: it waits.
  bool admit(const Now& now, std::uint64_t bytes, std::uint16_t& tokens) {
    if (!over(now)) return false;
    if (pace_.on() && now < pace_.next()) return delay_until(pace_.next());
    if (on() && !admit_to_node(now, bytes, tokens)) return false;
    if (pace_.on()) pace_.went(now, bytes);
    return true;
  }

  // Whether a request of `bytes` may go without further steps: nothing is pending, and no threshold
  // is reached.
  bool passes(std::uint64_t bytes) {
    if (config_.policy != Policy::thresholds || pace_.on()) return false;
    if (waiting() || member_.in_hand() > 0) return false;
    return decide(bytes) == Thresholds::Admission::straight_through;
  }

  void give(std::uint32_t tokens) { member_.give(tokens); }

  // A ticket or a delay is pending, by what the last check found.
  bool waiting() const { return member_.waiting() || delayed_until_ != none; }
  // The ticket or delay is over, or there was none. The next request gets what was waited for.
  bool over(const Now& now) {
    if (delayed_until_ != none && now < delayed_until_) return false;
    delayed_until_ = none;
    return !member_.joined() || member_.look(config_.tokens);
  }
  // There is no next request. Repeat the call while something is pending.
  void decline() {
    delayed_until_ = none;
    if (member_.joined()) member_.decline(config_.tokens);
  }

  // Call from time to time while something is pending (PoolMember::look_at_all).
  void look_at_all() { member_.look_at_all(); }
  // Likewise (PoolMember::excuse).
  std::uint64_t excuse() { return member_.waiting() ? member_.excuse() : 0; }
  // The process has `requests` requests in the adapter. A plain store.
  void set_active(std::uint64_t requests) {
    active_ = requests;
    if (member_.joined()) member_.pool()->set_active(requests);
  }

  // How often a ticket or a delay had to be waited for. A request whose `admit` changes this waits.
  std::uint64_t waits() const { return counts_.token_waits + counts_.rate_waits; }

  const PoolMember& member() const { return member_; }
  const Counts& counts() const { return counts_; }

 private:
  static constexpr std::uint32_t requests_per_look = 16;
  static constexpr Time none{INT64_MIN};

  bool delay_until(Time time) {
    delayed_until_ = time;
    ++counts_.rate_waits;
    return false;
  }

  bool admit_to_node(const Now& now, std::uint64_t bytes, std::uint16_t& tokens) {
    if (member_.in_hand() > 0) return count(bytes, tokens);
    switch (decide(bytes)) {
      case Thresholds::Admission::straight_through: return true;
      case Thresholds::Admission::count_limit: return count(bytes, tokens);
      case Thresholds::Admission::rate_limit: break;
    }
    if (!config_.rate.may_inject(now, bytes)) return delay_until(config_.rate.next(bytes));
    config_.rate.injected(now);
    return true;
  }

  Thresholds::Admission decide(std::uint64_t bytes) {
    if (config_.policy == Policy::always) {
      return member_.joined() ? Thresholds::Admission::count_limit
                              : Thresholds::Admission::rate_limit;
    }
    if (!member_.joined()) {
      load_ = {1, active_};
    } else if (looks_++ % requests_per_look == 0) {
      load_ = member_.pool()->load();
    }
    // This process is active now, whatever the last look found.
    return config_.thresholds.admission(bytes, std::max(load_.active_cores, 1u),
                                        std::max(load_.active_node_msgs, active_), active_,
                                        member_.joined());
  }

  bool count(std::uint64_t bytes, std::uint16_t& tokens) {
    if (!member_.ensure(config_.cost.tokens(bytes), config_.tokens)) {
      ++counts_.token_waits;
      return false;
    }
    tokens = member_.commit();
    ++counts_.counted;
    return true;
  }

  Config config_;
  Pace pace_;
  PoolMember member_;
  Time delayed_until_ = none;
  std::uint64_t active_ = 0;
  NodeLoad load_;
  std::uint32_t looks_ = 0;
  Counts counts_;
};

}  // namespace weir
