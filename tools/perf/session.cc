#include "tools/perf/session.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "tools/between/facts.h"

namespace weir::tools::perf {
namespace {

using between::Host;
using between::Json;
using between::number_in;
using between::text_in;
using doctor::Clock;
using doctor::milliseconds;

constexpr milliseconds open_limit{60000};  // queues, and registering memory
constexpr milliseconds meet_limit{30000};
constexpr milliseconds close_limit{20000};
// When one end has failed: for what the other one has seen, say how it was ended.
constexpr milliseconds second_word{2000};
// Beyond what the ends wait themselves, so that their reason is heard.
constexpr milliseconds margin{10000};
constexpr std::uint64_t trial_count = 16;
constexpr std::uint64_t most_count = 1'000'000;
constexpr std::uint64_t atomic_bytes = 8;
constexpr std::array<const char*, 2> ways{"weir", "verbs"};

double seconds_until(Clock::time_point end) {
  return std::max(0.0, std::chrono::duration<double>(end - Clock::now()).count());
}

}  // namespace

Session::Session(Host& first, Host& second, const Plan& plan)
    : first_(first), second_(second), plan_(plan) {}

std::optional<Session::Answers> Session::ask(Json first, Json second, milliseconds limit,
                                             std::string& why) {
  std::vector<Host*> asked{&first_};
  first_.ask(first);
  if (!second.is_null()) {
    second_.ask(second);
    asked.push_back(&second_);
  }
  Answers answers;
  const auto end = Clock::now() + limit;
  while (!asked.empty()) {
    Host* host =
        Host::first_to_answer(asked, std::chrono::duration_cast<milliseconds>(end - Clock::now()));
    if (host == nullptr) host = asked.back();
    std::string reason;
    auto said = host->answer(milliseconds(0), reason);
    if (!said) {
      why = fmt::format("{}: {}", host->name(), reason);
      std::erase(asked, host);
      if (!asked.empty() && Host::first_to_answer(asked, second_word) != nullptr &&
          !asked.front()->answer(milliseconds(0), reason)) {
        why += fmt::format("; {}: {}", asked.front()->name(), reason);
      }
      return {};
    }
    (host == &first_ ? answers.first : answers.second) = std::move(*said);
    std::erase(asked, host);
  }
  return answers;
}

bool Session::meet(const Json& first_question, const Json& second_question,
                   std::chrono::seconds limit, std::string& why) {
  const auto facts = ask(first_question, second_question, limit, why);
  if (!facts) return false;
  const between::Facts here = between::facts_of(facts->first);
  const between::Facts there = between::facts_of(facts->second);
  for (const auto& [host, of] : {std::pair(&first_, &here), std::pair(&second_, &there)}) {
    if (of->port) continue;
    why = fmt::format("{}: {}", host->name(),
                      of->why_no_port.empty() ? "it names no port" : of->why_no_port);
    return false;
  }
  same_host_ = here.host == there.host;
  about.here = here.host + " " + here.port->name;
  about.there = there.host + " " + there.port->name;

  const auto job = static_cast<std::uint32_t>(Clock::now().time_since_epoch().count());
  Json open{{"do", "perf open"}, {"job", job}, {"largest", plan_.to_bytes}, {"first", 1u}};
  Json open_second = open;
  open_second["first"] = 0u;
  auto cards = ask(open, open_second, open_limit, why);
  if (!cards) return false;
  about.atomics = between::count_in(cards->first, "atomics") != 0 &&
                  between::count_in(cards->second, "atomics") != 0;
  const auto meeting = [&](const Json& card, bool first) {
    return Json{{"do", "perf meet"},
                {"job", job},
                {"first", first ? 1u : 0u},
                {"same_host", same_host_ ? 1u : 0u},
                {"engine", text_in(card, "engine", 4096)},
                {"pair", text_in(card, "pair", 4096)},
                {"address", between::count_in(card, "address")},
                {"key", between::count_in(card, "key")}};
  };
  return ask(meeting(cards->second, true), meeting(cards->first, false), meet_limit, why)
      .has_value();
}

bool Session::has(const Test& test, std::uint64_t bytes) const {
  if (!plan_.only.empty() &&
      std::find(plan_.only.begin(), plan_.only.end(), test.operation) == plan_.only.end()) {
    return false;
  }
  return !test.is_add() || (about.atomics && bytes == atomic_bytes);
}

std::size_t Session::measurements() const {
  std::size_t count = 0;
  for (std::uint64_t bytes = plan_.from_bytes; bytes <= plan_.to_bytes; bytes *= 2) {
    for (const Test& test : tests) count += has(test, bytes) ? 1 : 0;
  }
  return count * ways.size() * plan_.repeats;
}

void Session::show(unsigned number, const Test& test, std::uint64_t bytes) const {
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\r\x1b[Krepeat {} of {}: {}, {}; {:.0f} s left", number + 1, plan_.repeats,
             test.text(), size_text(bytes), seconds_until(end_));
  std::fflush(stderr);
}

std::optional<Sample> Session::measure(const Test& test, std::uint64_t bytes, std::size_t over,
                                       std::uint64_t count, std::string& why) {
  Json first{{"do", "perf run"},
             {"over", ways[over]},
             {"operation", test.operation},
             {"kind", test.kind},
             {"bytes", bytes},
             {"count", count},
             {"first", 1u},
             {"check", plan_.check ? 1u : 0u},
             {"same_host", same_host_ ? 1u : 0u}};
  Json second;
  if (test.is_send()) second = first;
  if (test.is_send()) second["first"] = 0u;
  // Ends that do nothing else give up by themselves.
  const double expected = seconds_each_[&test - tests][over] * static_cast<double>(count);
  const milliseconds limit =
      plan_.silence + margin + milliseconds(static_cast<std::int64_t>(expected * 20e3));
  auto said = ask(first, second, limit, why);
  if (said && plan_.check && test.operation == std::string("put")) {
    const Json verify{{"do", "perf verify"},
                      {"bytes", bytes},
                      {"started_before", between::count_in(said->first, "started_before")},
                      {"started", between::count_in(said->first, "started")}};
    second_.ask(verify);
    std::string reason;
    if (!second_.answer(margin, reason)) {
      why = fmt::format("{}: {}", second_.name(), reason);
      said.reset();
    }
  }
  if (!said) {
    why = fmt::format("{} of {} over {}: {}", test.text(), size_text(bytes), ways[over], why);
    return {};
  }
  const Json& from = said->first;
  Sample sample{.us = number_in(from, "us"), .us_99 = number_in(from, "us_99")};
  double seconds = number_in(from, "seconds");
  if (test.is_both()) seconds = std::max(seconds, number_in(said->second, "seconds"));
  if (!test.is_latency() && seconds > 0) {
    sample.per_second = static_cast<double>(count) * (test.is_both() ? 2 : 1) / seconds;
  }
  const double each = test.is_latency() ? sample.us * (test.is_send() ? 2e-6 : 1e-6)
                                        : seconds / static_cast<double>(count);
  if (!(each > 0)) {
    why = fmt::format("{} says no time", first_.name());
    return {};
  }
  seconds_each_[&test - tests][over] = each;
  return sample;
}

// As many operations as its share of the time allows.
std::optional<Sample> Session::take(const Test& test, std::uint64_t bytes, std::size_t over,
                                    std::string& why) {
  double& each = seconds_each_[&test - tests][over];
  if (each == 0 && !measure(test, bytes, over, trial_count, why)) return {};
  const double share = seconds_until(end_) / static_cast<double>(std::max<std::size_t>(left_, 1));
  if (left_ > 0) --left_;
  const auto count =
      static_cast<std::uint64_t>(std::clamp(share / each, 1.0, static_cast<double>(most_count)));
  return measure(test, bytes, over, count, why);
}

bool Session::repeat(unsigned number, std::string& why) {
  for (std::uint64_t bytes = plan_.from_bytes; bytes <= plan_.to_bytes; bytes *= 2) {
    for (const Test& test : tests) {
      if (!has(test, bytes)) continue;
      if (number > 0 && Clock::now() >= end_) return true;
      show(number, test, bytes);
      std::array<Sample, 2> samples;
      for (std::size_t turn = 0; turn < ways.size(); ++turn) {
        const std::size_t over = (turn + number) % ways.size();
        const auto sample = take(test, bytes, over, why);
        if (!sample) return false;
        samples[over] = *sample;
      }
      results.add(test, bytes, samples[0], samples[1]);
    }
  }
  return true;
}

bool Session::run(const Json& first_question, const Json& second_question,
                  std::chrono::seconds first_limit, std::string& why) {
  const auto start = Clock::now();
  bool good = meet(first_question, second_question, first_limit, why);
  end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(plan_.time);
  left_ = measurements();
  for (unsigned number = 0; good && number < plan_.repeats; ++number) good = repeat(number, why);
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K");
  about.seconds = doctor::ms_since(start) / 1000;
  about.checked = plan_.check;
  if (good) {
    // Both at once, so that they can take leave of each other. All was measured by now.
    std::string ignored;
    ask({{"do", "perf close"}}, {{"do", "perf close"}}, close_limit, ignored);
  }
  return good;
}

}  // namespace weir::tools::perf
