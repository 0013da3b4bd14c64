#include "tools/between/odd.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tools/between/differences.h"

namespace weir::tools::between {
namespace {

using doctor::Verdict;

// A cable that is well has none, or so few in years.
constexpr std::uint64_t many_errors = 10;
constexpr std::size_t most_reasons = 4;

constexpr double hop_us = 1;

bool is_measured(const Way& way) {
  return way.latency_us && way.to_bytes_per_second && way.from_bytes_per_second;
}

double best_quarter(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  const auto at = numbers.begin() + static_cast<std::ptrdiff_t>((numbers.size() - 1) / 4);
  std::nth_element(numbers.begin(), at, numbers.end());
  return *at;
}

using WaysOf = std::map<std::string, std::vector<const Way*>>;

WaysOf by_host(const std::vector<Way>& ways) {
  WaysOf all;
  for (const Way& way : ways) {
    all[way.from].push_back(&way);
    all[way.to].push_back(&way);
  }
  return all;
}

const std::string& other_end(const Way& way, const std::string& host) {
  return way.from == host ? way.to : way.from;
}

// Of its bad ways the mildest, which has no other odd host at its end. One to a host that is lost
// says least.
const Way& typical_way(const std::string& host, const std::vector<const Way*>& ways,
                       const Good& good, const std::set<std::string>& lost) {
  constexpr double failed = 1e9;
  const auto weight = [&](const Way* way) {
    if (!is_bad(*way, good)) return 3 * failed;
    return slowness(*way, good)
        .value_or(lost.contains(other_end(*way, host)) ? 2 * failed : failed);
  };
  return **std::min_element(ways.begin(), ways.end(),
                            [&](const Way* a, const Way* b) { return weight(a) < weight(b); });
}

// What is bad about it, in words.
std::string slow_text(const std::string& host, const Way& way, const Good& good) {
  if (!slowness(way, good)) {
    const auto failure =
        std::find_if(way.findings.begin(), way.findings.end(),
                     [](const Finding& one) { return one.verdict == Verdict::fail; });
    return failure == way.findings.end() ? "nothing could be measured" : failure->text;
  }
  const std::string& peer = other_end(way, host);
  if (*way.latency_us > odd_factor * good.latency_us) {
    return fmt::format("{:.1f} us to {}, where good ways take {:.1f}", *way.latency_us, peer,
                       good.latency_us);
  }
  return fmt::format("{} with {}, where good ways have {}",
                     rate_text(std::min(*way.to_bytes_per_second, *way.from_bytes_per_second)),
                     peer, rate_text(good.bytes_per_second));
}

// The counters that rose on its ways, its own first, by how much they tell.
std::vector<Rise> rises_of(const std::string& host, const std::vector<const Way*>& ways, bool own) {
  std::map<std::string, Rise> sums;
  for (const Way* way : ways) {
    const bool first = (way->from == host) == own;
    for (const Rise& rise : first ? way->rose_from : way->rose_to) {
      auto [entry, is_new] = sums.try_emplace(rise.name, rise);
      if (!is_new) entry->second.by += rise.by;
    }
  }
  std::vector<Rise> all;
  for (const auto& [name, rise] : sums) all.push_back(rise);
  const auto weight = [](const Rise& rise) {
    constexpr Trouble order[] = {Trouble::cable, Trouble::drop,       Trouble::repeat,
                                 Trouble::pause, Trouble::congestion, Trouble::rnr};
    return std::find(std::begin(order), std::end(order), rise.trouble) - std::begin(order);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Rise& a, const Rise& b) { return weight(a) < weight(b); });
  return all;
}

// For each host, what a part of it has that most others do not have.
std::map<std::string, std::vector<std::string>> rare_hardware(const std::vector<Tested>& hosts) {
  const auto known = answered(hosts);
  std::map<std::string, std::vector<std::string>> rare;
  for (const Difference& found : hardware_differences(known)) {
    const Same& most = found.values.front();
    if (most.hosts.size() * 2 <= known.size()) continue;
    for (std::size_t i = 1; i < found.values.size(); ++i) {
      for (const auto& [host, where] : found.values[i].hosts) {
        rare[host].push_back(fmt::format("its {} is {}, of most others {}", found.key,
                                         found.values[i].value, most.value));
      }
    }
  }
  return rare;
}

// The usual number of each error of cables.
Counters usual_errors(const std::vector<Tested>& hosts) {
  std::map<std::string, std::vector<double>> all;
  for (const Tested& host : hosts) {
    if (!host.facts) continue;
    for (const auto& [name, value] : cable_errors(host.facts->counters)) {
      all[name].push_back(static_cast<double>(value));
    }
  }
  Counters usual;
  for (const auto& [name, values] : all) {
    usual[name] = static_cast<std::uint64_t>(median_of(values));
  }
  return usual;
}

std::vector<std::size_t> of_ways(const std::vector<Tested>& hosts, const std::vector<Way>& ways,
                                 bool bad) {
  const Good good = good_of(ways);
  const WaysOf all = by_host(ways);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto own = all.find(hosts[i].name);
    if (own == all.end() || !hosts[i].facts || !hosts[i].why_lost.empty()) continue;
    const bool any_bad = std::any_of(own->second.begin(), own->second.end(),
                                     [&](const Way* way) { return is_bad(*way, good); });
    if (any_bad == bad) found.push_back(i);
  }
  return found;
}

}  // namespace

std::vector<std::pair<std::string, Facts>> answered(const std::vector<Tested>& hosts) {
  std::vector<std::pair<std::string, Facts>> all;
  for (const Tested& host : hosts) {
    if (host.facts) all.emplace_back(host.name, *host.facts);
  }
  return all;
}

std::string rate_text(double bytes_per_second) {
  return fmt::format("{:.{}f} GB/s", bytes_per_second / 1e9, bytes_per_second < 1e9 ? 3 : 1);
}

Good good_of(const std::vector<Way>& ways) {
  std::vector<double> latencies;
  std::vector<double> speeds;
  for (const Way& way : ways) {
    if (!is_measured(way)) continue;
    latencies.push_back(*way.latency_us);
    speeds.push_back(-std::min(*way.to_bytes_per_second, *way.from_bytes_per_second));
  }
  return {best_quarter(latencies), -best_quarter(speeds)};
}

std::optional<double> slowness(const Way& way, const Good& good) {
  if (!is_measured(way)) return {};
  // Another switch on the way costs less than that.
  const double latency_us = *way.latency_us - good.latency_us < hop_us ? 0 : *way.latency_us;
  return std::max({1.0, latency_us / good.latency_us,
                   good.bytes_per_second / *way.to_bytes_per_second,
                   good.bytes_per_second / *way.from_bytes_per_second});
}

bool is_bad(const Way& way, const Good& good) {
  return slowness(way, good).value_or(2 * odd_factor) > odd_factor;
}

std::vector<std::size_t> suspects(const std::vector<Tested>& hosts, const std::vector<Way>& ways) {
  return of_ways(hosts, ways, true);
}

std::vector<std::size_t> well(const std::vector<Tested>& hosts, const std::vector<Way>& ways) {
  return of_ways(hosts, ways, false);
}

std::vector<Odd> odd_hosts(const std::vector<Tested>& hosts, const std::vector<Way>& ways) {
  constexpr const char* name = "odd host";
  const Good good = good_of(ways);
  const WaysOf all = by_host(ways);
  const auto rare = rare_hardware(hosts);
  const Counters usual = usual_errors(hosts);
  std::set<std::string> lost;
  for (const Tested& host : hosts) {
    if (!host.why_lost.empty()) lost.insert(host.name);
  }
  std::vector<Odd> odd;
  for (const Tested& host : hosts) {
    if (!host.why_lost.empty()) {
      odd.push_back({host.name, doctor::fail(name, "it does not answer: " + host.why_lost,
                                             "see that weir doctor --peer " + host.name +
                                                 " succeeds; look at its console")});
      continue;
    }
    if (!host.facts) continue;
    std::vector<std::string> reasons;
    std::string fix;
    const auto because = [&](const std::string& text, const char* remedy) {
      if (reasons.size() < most_reasons) reasons.push_back(text);
      if (fix.empty()) fix = remedy;
    };
    const auto found = all.find(host.name);
    const std::vector<const Way*> own =
        found == all.end() ? std::vector<const Way*>{} : found->second;
    const auto bad = static_cast<std::size_t>(
        std::count_if(own.begin(), own.end(), [&](const Way* way) { return is_bad(*way, good); }));
    const bool slow = own.size() > 1 && bad * 2 > own.size();
    const Way* const typical = slow ? &typical_way(host.name, own, good, lost) : nullptr;
    if (slow) {
      reasons.push_back(fmt::format("{} of its {} ways are bad: {}", bad, own.size(),
                                    slow_text(host.name, *typical, good)));
    }
    constexpr const char* cable =
        "clean and reseat the cable and its plugs, or replace it; look at its port of the switch";
    for (const auto& [counter, value] : cable_errors(host.facts->counters)) {
      if (value < many_errors || value <= 10 * usual.at(counter)) continue;
      because(fmt::format("{} {} since its port came up, {} as usual", value, words_of(counter),
                          usual.at(counter)),
              cable);
    }
    if (slow) {
      for (const bool its_own : {true, false}) {
        const std::vector<const Way*> at_peers{typical};
        for (const Rise& rise : rises_of(host.name, its_own ? own : at_peers, its_own)) {
          because(fmt::format("{}{} {} ({})", its_own ? "" : "at its peer ", rise.by, rise.words,
                              rise.name),
                  rise.trouble == Trouble::cable
                      ? cable
                      : "look at the drop counters of its port of the switch, and at PFC and ECN");
        }
      }
    }
    if (!host.facts->slow_slot.empty()) {
      because("its adapter " + host.facts->slow_slot,
              "reseat the adapter, or use a slot with all its lanes (lspci -vv: LnkSta)");
    }
    // What is rare is no trouble by itself; what is slow may be so because of it.
    if (const auto parts = rare.find(host.name); slow && parts != rare.end()) {
      for (const std::string& part : parts->second) {
        because(part, "give it what the others have");
      }
    }
    if (reasons.empty()) continue;
    if (fix.empty()) {
      fix =
          "compare it with a good host: weir doctor there, other programs, its port of the switch";
    }
    std::string text;
    for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
    odd.push_back({host.name, doctor::warn(name, text, fix)});
  }
  return odd;
}

}  // namespace weir::tools::between
