// Plays two ends of a connection against each other through every interleaving of what may happen,
// scenario by scenario, up to a depth. States that were seen before are left out. From each state
// that is new the fabric is then whole and time passes: both ends have to agree, and everything has
// to arrive.
//
//   weir_interleave                         all scenarios, each to its depth
//   weir_interleave --only NAME --depth N   deeper, by hand
//   weir_interleave --play NAME 0,3,1       one way, step by step, as a finding names it
//   weir_interleave --table                 what the connector does: event, states, action
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/contract/interleaving/scenarios.h"
#include "tests/contract/interleaving/world.h"

namespace weir::interleaving {
namespace {

using Path = std::vector<std::uint16_t>;

struct State {
  std::uint32_t parent;
  std::uint16_t choice;
};

struct Finding {
  std::string what;
  Path path;
  std::string mode;
  std::uint64_t count = 0;
};

struct Result {
  std::uint64_t states = 0;
  std::uint64_t steps = 0;
  std::size_t depth = 0;
  std::size_t longest = 0;
  bool whole = false;  // there is nothing beyond
  std::vector<Finding> findings;
};

double seconds_used() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Path path_to(const std::vector<State>& states, std::uint32_t at) {
  Path path;
  for (; at != 0; at = states[at].parent) path.push_back(states[at].choice);
  return {path.rbegin(), path.rend()};
}

void replay(World& world, const Path& path) {
  for (const std::uint16_t choice : path) world.apply(world.choices()[choice]);
}

// Where the ends stand differs from way to way.
std::string kind_of(const std::string& what) { return what.substr(0, what.find(": A ")); }

class Explorer {
 public:
  Explorer(const Scenario& scenario, std::size_t depth) : scenario_(scenario), depth_(depth) {}

  Result run() {
    states_.push_back({0, 0});
    std::vector<std::uint32_t> level{0};
    seen_.insert(World(scenario_).digest());
    for (std::size_t depth = 0; depth < depth_ && !level.empty(); ++depth) {
      std::vector<std::uint32_t> next;
      for (const std::uint32_t at : level) expand(at, next);
      level = std::move(next);
      if (!level.empty()) result_.depth = depth + 1;
    }
    result_.whole = level.empty();
    result_.states = seen_.size();
    return result_;
  }

 private:
  void expand(std::uint32_t at, std::vector<std::uint32_t>& next) {
    const Path path = path_to(states_, at);
    std::vector<Choice> choices;
    {
      World world(scenario_);
      replay(world, path);
      choices = world.choices();
    }
    for (std::uint16_t i = 0; i < choices.size(); ++i) {
      World world(scenario_);
      replay(world, path);
      world.apply(choices[i]);
      result_.steps += path.size() + 1;
      if (!world.violation().empty()) {
        note(world.violation(), path, i, "");
        continue;
      }
      if (!seen_.insert(world.digest()).second) continue;
      const auto number = static_cast<std::uint32_t>(states_.size());
      states_.push_back({at, i});
      next.push_back(number);
      // The world is not needed any more.
      end(world, path, i, std::nullopt, "then all is well");
      if (!scenario_.computes) continue;
      for (const std::size_t away : {std::size_t{0}, std::size_t{1}}) {
        World again(scenario_);
        replay(again, path);
        again.apply(choices[i]);
        end(again, path, i, away,
            away == 0 ? "then the application of A computes"
                      : "then the application of B computes");
      }
    }
  }

  void end(World& world, const Path& path, std::uint16_t choice, std::optional<std::size_t> away,
           const char* mode) {
    world.settle(away);
    result_.longest = std::max(result_.longest, world.steps());
    if (!world.violation().empty()) note(world.violation(), path, choice, mode);
  }

  void note(const std::string& what, Path path, std::uint16_t choice, const char* mode) {
    const std::string kind = kind_of(what);
    for (Finding& finding : result_.findings) {
      if (kind_of(finding.what) == kind) {
        ++finding.count;
        return;
      }
    }
    path.push_back(choice);
    result_.findings.push_back({what, path, mode, 1});
  }

  const Scenario& scenario_;
  const std::size_t depth_;
  Result result_;
  std::vector<State> states_;
  std::unordered_set<std::uint64_t> seen_;
};

// The way, in words.
void tell(const Scenario& scenario, const Path& path, const std::string& mode) {
  World world(scenario);
  world.listen([](const std::string& line) { std::printf("      %s\n", line.c_str()); });
  std::size_t step = 0;
  for (const std::uint16_t choice : path) {
    const std::vector<Choice> choices = world.choices();
    if (choice >= choices.size()) {
      std::printf("    there is no choice %u\n", choice);
      return;
    }
    std::printf("    %2zu. %s\n", ++step, world.text(choices[choice]).c_str());
    world.apply(choices[choice]);
    std::printf("          [%s]\n", world.text().c_str());
  }
  if (mode.empty() && !world.violation().empty()) return;
  const bool a = mode.find(" A ") != std::string::npos;
  const bool b = mode.find(" B ") != std::string::npos;
  std::printf("    %s\n", mode.empty() ? "then all is well" : mode.c_str());
  world.settle(a   ? std::optional<std::size_t>(0)
               : b ? std::optional<std::size_t>(1)
                   : std::nullopt);
  std::printf("    %s\n", world.violation().empty() ? "both agree" : world.violation().c_str());
}

std::string to_text(const Path& path) {
  std::string text;
  for (const std::uint16_t choice : path)
    text += (text.empty() ? "" : ",") + std::to_string(choice);
  return text;
}

// Whether the finding is known; notes that it is there still.
bool is_known(const Scenario& scenario, const Finding& finding,
              std::array<bool, known.size()>& found) {
  bool any = false;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i].scenario != std::string(scenario.name)) continue;
    if (finding.what.find(known[i].what) == std::string::npos) continue;
    found[i] = any = true;
  }
  return any;
}

// What the connector does, in Markdown.
void print_table() {
  std::printf("| event | states | action |\n|---|---|---|\n");
  for (const ConnectionRule& rule : connection_table::rules) {
    std::string states;
    for (unsigned i = 0; rule.in != connection_table::others && i < peer_states; ++i) {
      const auto state = static_cast<PeerState>(i);
      if (rule.in.has(state)) states += std::string(states.empty() ? "" : ", ") + name_of(state);
    }
    std::printf("| %s | %s | %s |\n", to_text(rule.event),
                states.empty() ? "others" : states.c_str(), to_text(rule.action));
  }
}

// Whether each rule of the connector's table that is in reach was taken, and no other.
bool all_rules_taken() {
  bool all = true;
  std::size_t count = 0;
  for (std::size_t i = 0; i < connection_table::count; ++i) {
    const ConnectionRule& rule = connection_table::rules[i];
    const bool within = rule.reach == ConnectionRule::Reach::explorer &&
                        rule.action != ConnectionAction::impossible;
    const bool taken = rules_taken()[i];
    count += taken ? 1 : 0;
    if (taken == within) continue;
    all = false;
    std::printf("rule %zu (%s: %s) is %s\n", i, to_text(rule.event), to_text(rule.action),
                taken ? "taken, and yet out of reach" : "never taken");
  }
  std::printf("%zu of %zu rules of the table are taken\n", count, connection_table::count);
  return all;
}

int explore(const std::string& only, std::size_t depth) {
  std::array<bool, known.size()> found{};
  std::uint64_t states = 0;
  bool failed = false;
  const double began = seconds_used();
  for (const Scenario& scenario : scenarios) {
    if (!only.empty() && only != scenario.name) continue;
    const double start = seconds_used();
    const Result result = Explorer(scenario, depth > 0 ? depth : scenario.depth).run();
    states += result.states;
    std::printf(
        "%-18s %zu rail%s: %8llu states, %s %2zu choices, %zu waits at most to the end, %.1f s\n",
        scenario.name, scenario.rails, scenario.rails > 1 ? "s" : " ",
        static_cast<unsigned long long>(result.states),
        result.whole ? "all there are, within" : "to a depth of", result.depth, result.longest,
        seconds_used() - start);
    for (const Finding& finding : result.findings) {
      const bool is_new = !is_known(scenario, finding, found);
      failed = failed || is_new;
      std::printf("  %s %llu times: %s\n    again: weir_interleave --play %s %s%s\n",
                  is_new ? "FOUND" : "known", static_cast<unsigned long long>(finding.count),
                  finding.what.c_str(), scenario.name, to_text(finding.path).c_str(),
                  finding.mode.find(" A ") != std::string::npos   ? " A"
                  : finding.mode.find(" B ") != std::string::npos ? " B"
                                                                  : "");
      if (is_new || !only.empty()) tell(scenario, finding.path, finding.mode);
    }
    std::fflush(stdout);
  }
  for (std::size_t i = 0; i < known.size() && only.empty() && depth == 0; ++i) {
    if (found[i]) continue;
    failed = true;
    std::printf("NOT FOUND any more in %s: %s\n", known[i].scenario, known[i].what);
  }
  if (only.empty() && depth == 0) failed = !all_rules_taken() || failed;
  std::printf("%llu states, %.1f s of a processor\n", static_cast<unsigned long long>(states),
              seconds_used() - began);
  return failed ? 1 : 0;
}

int play(const std::string& name, const char* text, const char* away) {
  for (const Scenario& scenario : scenarios) {
    if (name != scenario.name) continue;
    Path path;
    for (const char* at = text; *at != '\0';) {
      char* end = nullptr;
      path.push_back(static_cast<std::uint16_t>(std::strtoul(at, &end, 10)));
      if (end == at) return 2;
      at = *end == ',' ? end + 1 : end;
    }
    tell(scenario, path,
         away == nullptr ? "" : std::string("then the application of ") + away + " computes");
    return 0;
  }
  return 2;
}

}  // namespace
}  // namespace weir::interleaving

int main(int argc, char** argv) {
  std::string only;
  std::size_t depth = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else if (option == "--depth" && i + 1 < argc) {
      depth = std::strtoull(argv[++i], nullptr, 10);
    } else if (option == "--table") {
      weir::interleaving::print_table();
      return 0;
    } else if (option == "--play" && i + 2 < argc) {
      return weir::interleaving::play(argv[i + 1], argv[i + 2],
                                      i + 3 < argc ? argv[i + 3] : nullptr);
    } else {
      const bool asked = option == "--help";
      std::fprintf(asked ? stdout : stderr,
                   "usage: %s [--only NAME] [--depth N] [--play NAME CHOICES [A | B]] [--table]\n",
                   argv[0]);
      return asked ? 0 : 2;
    }
  }
  return weir::interleaving::explore(only, depth);
}
