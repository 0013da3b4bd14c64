#include "tools/between/ways.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "tools/between/at_once.h"
#include "tools/between/differences.h"
#include "tools/between/host.h"
#include "tools/between/hosts.h"
#include "tools/between/odd.h"
#include "tools/between/picture.h"
#include "tools/between/rounds.h"
#include "tools/between/table.h"
#include "tools/doctor/show.h"
#include "transport/config/schema.h"

namespace weir::tools::between {
namespace {

using doctor::Clock;
using doctor::fail;
using doctor::milliseconds;
using doctor::Verdict;

// Above what the answerers wait themselves, so that their reason is heard.
constexpr milliseconds connect_limit{25000};
constexpr milliseconds traffic_limit{20000};
constexpr milliseconds quick_limit{20000};
// All of a pair: twice what one does that fails at each step.
constexpr milliseconds pair_limit{60000};

constexpr std::uint32_t small_bytes = 8;
constexpr std::uint32_t warm_rounds = 20;
constexpr double latency_time_us = 300000;
constexpr std::uint32_t read_ms = 400;
constexpr std::size_t hosts_at_once = 64;
constexpr std::size_t most_for_pairs = 64;
constexpr std::size_t most_numbers = 8;  // hosts whose matrix shows numbers
constexpr std::size_t most_shown = 40;   // findings of ways

// The way between two hosts that have answered.
class Attempt {
 public:
  Attempt(Host& here, const Facts& ours, Host& there, const Facts& theirs, Way& way)
      : here_(here),
        there_(there),
        ours_{here.name(), ours},
        theirs_{there.name(), theirs},
        way_(way) {}

  void run() {
    for (Finding& finding : compare(ours_, theirs_)) add(std::move(finding));
    if (!ours_.facts.port || !theirs_.facts.port) return;
    const auto before = read_both();
    if (connect(0) && try_packet()) measure();
    const auto after = read_both();
    for (Host* host : {&here_, &there_}) {
      std::string why;
      host->ask({{"do", "drop"}});
      host->answer(left(quick_limit), why);
    }
    if (Clock::now() >= end_) {
      add(fail("deadline",
               fmt::format("{} and {} are not done within {} s, and were ended", ours_.name,
                           theirs_.name, pair_limit.count() / 1000),
               "try them alone: weir doctor --hosts " + ours_.name + "," + theirs_.name));
    }
    way_.rose_from = rises(before.first, after.first);
    way_.rose_to = rises(before.second, after.second);
    add(judge_counters(ours_, way_.rose_from, theirs_, way_.rose_to,
                       !before.first.empty() || !before.second.empty()));
  }

 private:
  void add(Finding finding) { way_.findings.push_back(std::move(finding)); }

  milliseconds left(milliseconds limit) const {
    return std::clamp(std::chrono::duration_cast<milliseconds>(end_ - Clock::now()),
                      milliseconds(0), limit);
  }

  // The answer of one host; nothing, and the reason in why_.
  std::optional<Json> ask(Host& host, const Json& request, milliseconds limit) {
    host.ask(request);
    return take(host, limit);
  }
  std::optional<Json> take(Host& host, milliseconds limit) {
    std::string why;
    auto said = host.answer(left(limit), why);
    // Both ends have something to say: the one whose packets are lost knows more.
    if (!said) why_ += fmt::format("{}{}: {}", why_.empty() ? "" : "; ", host.name(), why);
    return said;
  }

  std::pair<Counters, Counters> read_both() {
    std::pair<Counters, Counters> both;
    for (auto [host, counters] :
         {std::pair(&here_, &both.first), std::pair(&there_, &both.second)}) {
      std::string why;
      host->ask({{"do", "counters"}});
      if (const auto said = host->answer(left(quick_limit), why)) *counters = counters_of(*said);
    }
    return both;
  }

  bool connect(std::uint64_t mtu_bytes) {
    why_.clear();
    const auto listens = ask(there_, {{"do", "listen"}, {"mtu", mtu_bytes}}, quick_limit);
    const auto starts = ask(here_, {{"do", "listen"}, {"mtu", mtu_bytes}}, quick_limit);
    double took_ms = 0;
    if (listens && starts) {
      there_.ask({{"do", "accept"}});
      const auto connected =
          ask(here_, {{"do", "connect"}, {"card", text_in(*listens, "card")}}, connect_limit);
      const auto accepted = take(there_, connect_limit);
      if (connected && accepted) {
        took_ms = number_in(*connected, "ms");
        mtu_ = std::max(count_in(*connected, "mtu"), count_in(*accepted, "mtu"));
      }
    }
    if (mtu_bytes == 0) add(judge_connection(ours_, theirs_, took_ms, why_));
    return why_.empty();
  }

  // A round trip of one message of this size, `rounds` times; 0 if it does not pass.
  double ping(std::uint64_t bytes, std::uint32_t rounds) {
    why_.clear();
    there_.ask({{"do", "pong"}, {"rounds", rounds}});
    const auto said =
        ask(here_, {{"do", "ping"}, {"bytes", bytes}, {"rounds", rounds}}, traffic_limit);
    const auto done = take(there_, traffic_limit);
    return said && done ? number_in(*said, "us") : 0;
  }

  // True if there is a connection that carries packets, perhaps smaller ones.
  bool try_packet() {
    const std::uint64_t mtu = mtu_;
    if (ping(mtu, 1) > 0) {
      add(judge_packet(mtu, {}, 0, ours_, theirs_));
      return true;
    }
    const std::string why = why_;
    // With packets that every Ethernet carries.
    std::uint64_t smaller = std::min(ours_.facts.port->mtu_bytes, theirs_.facts.port->mtu_bytes);
    smaller = std::bit_floor(smaller);
    if (smaller < 256 || smaller >= mtu) smaller = 1024;
    const bool passes = smaller < mtu && connect(smaller) && ping(smaller, 1) > 0;
    add(judge_packet(mtu, why, passes ? smaller : 0, ours_, theirs_));
    return passes;
  }

  void measure() {
    double us = ping(small_bytes, warm_rounds);
    if (us > 0) {
      us = ping(small_bytes,
                static_cast<std::uint32_t>(std::clamp(latency_time_us / us / 2, 50.0, 20000.0)));
    }
    if (us <= 0) {
      add(fail("latency", "small messages do not arrive: " + why_,
               "look at the counters of both ports, and of the switches between"));
      return;
    }
    way_.latency_us = us;
    add(judge_latency(ours_, theirs_, us));
    way_.to_bytes_per_second = stream("to", ours_, here_, theirs_, there_);
    way_.from_bytes_per_second = stream("from", theirs_, there_, ours_, here_);
    if (!way_.to_bytes_per_second || !way_.from_bytes_per_second) return;
    if (auto lopsided = judge_directions(ours_, theirs_, *way_.to_bytes_per_second,
                                         *way_.from_bytes_per_second)) {
      add(std::move(*lopsided));
    }
  }

  // RDMA reads, as the transport moves large messages: the receiver fetches the data.
  std::optional<double> stream(const char* name, const End& sender, Host& source,
                               const End& receiver, Host& reader) {
    why_.clear();
    const auto memory = ask(source, {{"do", "memory"}}, quick_limit);
    std::optional<Json> said;
    if (memory) {
      said = ask(reader,
                 {{"do", "read"},
                  {"address", count_in(*memory, "address")},
                  {"key", count_in(*memory, "key")},
                  {"ms", read_ms}},
                 traffic_limit);
    }
    const double speed = said ? number_in(*said, "bytes_per_second") : 0;
    if (speed <= 0) {
      add(fail(name,
               fmt::format("no RDMA read moves data from {} to {}: {}", sender.name, receiver.name,
                           why_),
               "look at the counters of both ports, and of the switches between"));
      return {};
    }
    add(judge_bandwidth(name, sender, receiver, speed));
    return speed;
  }

  Host& here_;
  Host& there_;
  End ours_;
  End theirs_;
  Way& way_;
  std::string why_;
  std::uint64_t mtu_ = 0;
  Clock::time_point end_ = Clock::now() + pair_limit;
};

// On stderr, of a terminal only. Thread rule: any.
class Progress {
 public:
  void begin(std::size_t pairs) {
    const std::lock_guard lock(mutex_);
    all_ += pairs;
  }
  void done() {
    const std::lock_guard lock(mutex_);
    ++done_;
    print(progress_text(done_, all_, doctor::ms_since(start_) / 1000));
  }
  void say(const std::string& text) {
    const std::lock_guard lock(mutex_);
    start_ = Clock::now();
    print(text);
  }
  void clear() const {
    if (terminal_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  void print(const std::string& text) const {
    if (!terminal_) return;
    fmt::print(stderr, "\r\x1b[K{}", text);
    std::fflush(stderr);
  }

  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::mutex mutex_;
  std::size_t all_ = 0;
  std::size_t done_ = 0;
  Clock::time_point start_ = Clock::now();
};

// All hosts of a call, and what was tried between them.
class Tour {
 public:
  Tour(const std::vector<std::string>& names, const std::vector<std::string>& switches,
       const Options& options)
      : starter_(launcher_here(options.hosts), {"doctor", "--answer"}),
        most_(options.at_once),
        known_(names.size()) {
    progress_.say(fmt::format("asking {} hosts", names.size()));
    const Json question = first_question(options.parameters);
    at_once(hosts_at_once, names.size(), [&](std::size_t i) {
      Known& known = known_[i];
      known.host = starter_.start(names[i]);
      known.at = switches[i];
      known.host->ask(question);
      const std::chrono::seconds limit(options.hosts.limit_s);
      if (const auto said = known.host->answer(limit, known.why)) known.facts = facts_of(*said);
    });
    progress_.say("");
  }
  ~Tour() {
    progress_.clear();
    // Each may take a moment to end.
    at_once(hosts_at_once, known_.size(), [this](std::size_t i) { known_[i].host.reset(); });
  }

  // All pairs of it, as many at once as the user allows.
  void run(const Round& round) {
    const std::size_t first = ways_.size();
    const std::size_t number = rounds_.size();
    const auto start = Clock::now();
    ways_.resize(first + round.size());
    progress_.begin(round.size());
    at_once(most_, round.size(), [&](std::size_t i) {
      Way& way = ways_[first + i];
      const auto begin = Clock::now();
      way.round = number;
      try_way(known_[round[i].first], known_[round[i].second], way);
      way.seconds = doctor::ms_since(begin) / 1000;
      progress_.done();
    });
    rounds_.push_back({round.size(), doctor::ms_since(start) / 1000});
  }
  void run(const std::vector<Round>& rounds) {
    for (const Round& round : rounds) run(round);
  }

  void rename(std::size_t host, const std::string& name) { known_[host].host->rename(name); }

  std::vector<Tested> hosts() const {
    std::vector<Tested> all;
    for (const Known& known : known_) {
      all.push_back({known.host->name(), known.at, known.facts,
                     known.why.empty() ? known.host->why_lost() : known.why});
    }
    return all;
  }
  const std::vector<Way>& ways() const { return ways_; }
  std::vector<Way> take_ways() { return std::move(ways_); }
  struct Past {
    std::size_t pairs;
    double seconds;
  };
  const std::vector<Past>& rounds() const { return rounds_; }

 private:
  struct Known {
    std::unique_ptr<Host> host;
    std::string at;
    std::optional<Facts> facts;
    std::string why;  // it has none
  };

  void try_way(Known& here, Known& there, Way& way) const {
    way.from = here.host->name();
    way.to = there.host->name();
    for (Known* known : {&here, &there}) {
      // One that was lost while another pair was tried, too.
      if (known->why.empty() && known->host->lost()) known->why = known->host->why_lost();
      if (known->why.empty()) continue;
      way.findings.push_back(fail(
          "shell", fmt::format("{} does not answer: {}", known->host->name(), known->why),
          fmt::format("see that '{}' works without a password (--launcher names another way), and "
                      "that weir is installed there at the same path",
                      starter_.trial(known->host->name()))));
      return;
    }
    way.findings.push_back(doctor::ok("shell", way.to + " answers"));
    Attempt(*here.host, *here.facts, *there.host, *there.facts, way).run();
  }

  Starter starter_;
  std::size_t most_;
  Progress progress_;
  std::vector<Known> known_;
  std::vector<Way> ways_;
  std::vector<Past> rounds_;
};

// What is shown in the end.
struct Outcome {
  Picture picture;
  std::vector<Tour::Past> rounds;
  std::vector<Difference> hardware;
  std::vector<Difference> keys;  // that have to agree
};

Outcome outcome_of(Tour& tour, bool all_pairs) {
  Outcome all;
  all.picture = {tour.hosts(), tour.take_ways(), {}, all_pairs};
  all.rounds = tour.rounds();
  const auto known = answered(all.picture.hosts);
  all.hardware = hardware_differences(known);
  all.keys = differences(known);
  std::erase_if(all.keys, [](const Difference& one) { return !one.alike; });
  name_odd_ones(all.picture.ways);
  return all;
}

Outcome from_here(const std::vector<std::string>& peers, const Options& options) {
  // This host, too, is an answerer: a driver that hangs does not take us with it.
  std::vector<std::string> names{"localhost"};
  names.insert(names.end(), peers.begin(), peers.end());
  Tour tour(names, std::vector<std::string>(names.size()), options);
  tour.rename(0, own_name());
  for (std::size_t i = 1; i < names.size(); ++i) tour.run(Round{{0, i}});
  return outcome_of(tour, false);
}

// Those that a switch has are neighbours; the others keep their order behind them.
void sort_by_switch(std::vector<std::string>& names, std::vector<std::string>& switches,
                    const std::string& file) {
  switches.assign(names.size(), "");
  if (file.empty()) return;
  std::map<std::string, std::pair<std::size_t, std::string>> places;  // in the file, and a switch
  for (const auto& [host, at] : switches_in(file)) places.try_emplace(host, places.size(), at);
  const auto place_of = [&](const std::string& name) {
    const auto found = places.find(name);
    return found == places.end() ? places.size() : found->second.first;
  };
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return place_of(a) < place_of(b);
  });
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (const auto found = places.find(names[i]); found != places.end()) {
      switches[i] = found->second.second;
    }
  }
}

// Each host with a partner, and what that leaves open.
void try_partners(Tour& tour, const std::vector<std::string>& switches) {
  std::vector<std::size_t> places;  // the same number for hosts of a switch
  for (const std::string& at : switches) {
    places.push_back(static_cast<std::size_t>(std::find(switches.begin(), switches.end(), at) -
                                              switches.begin()));
  }
  tour.run(neighbours(places));
  if (Round far = across(places); !far.empty()) tour.run(far);
  // Of a bad pair, which of the two is it? Both try one that is well.
  const std::vector<Tested> hosts = tour.hosts();
  tour.run(again(suspects(hosts, tour.ways()), well(hosts, tour.ways())));
}

Outcome between_all(std::vector<std::string> names, const Options& options) {
  std::vector<std::string> switches;
  sort_by_switch(names, switches, options.switches);
  Tour tour(names, switches, options);
  if (options.all_pairs) {
    tour.run(everybody(names.size()));
  } else {
    try_partners(tour, switches);
  }
  Outcome all = outcome_of(tour, options.all_pairs);
  all.picture.odd = odd_hosts(all.picture.hosts, all.picture.ways);
  return all;
}

std::ptrdiff_t count(const Outcome& outcome, Verdict verdict) {
  const std::vector<Way>& ways = outcome.picture.ways;
  std::ptrdiff_t all = 0;
  for (const Way& way : ways) {
    all += std::count_if(way.findings.begin(), way.findings.end(),
                         [&](const Finding& finding) { return finding.verdict == verdict; });
  }
  for (const Odd& odd : outcome.picture.odd) all += odd.finding.verdict == verdict ? 1 : 0;
  return all;
}

Json to_json(const Outcome& outcome) {
  const auto or_null = [](const std::optional<double>& number) {
    return number ? Json(*number) : Json(nullptr);
  };
  Json pairs = Json::array();
  for (const Way& way : outcome.picture.ways) {
    Json checks = Json::array();
    for (const Finding& finding : way.findings) checks.push_back(doctor::to_json(finding));
    pairs.push_back({{"from", way.from},
                     {"to", way.to},
                     {"round", way.round},
                     {"seconds", way.seconds},
                     {"latency_us", or_null(way.latency_us)},
                     {"to_bytes_per_second", or_null(way.to_bytes_per_second)},
                     {"from_bytes_per_second", or_null(way.from_bytes_per_second)},
                     {"checks", checks}});
  }
  Json rounds = Json::array();
  for (const Tour::Past& past : outcome.rounds) {
    rounds.push_back({{"pairs", past.pairs}, {"seconds", past.seconds}});
  }
  Json hosts = Json::object();
  for (const Tested& host : outcome.picture.hosts) {
    Json& one = hosts[host.name] = {{"switch", host.at}, {"lost", host.why_lost}};
    if (host.facts) one["hardware"] = host.facts->hardware;
  }
  Json odd = Json::object();
  for (const Odd& one : outcome.picture.odd) odd[one.host] = doctor::to_json(one.finding);
  return {{"version", WEIR_VERSION},
          {"hosts", hosts},
          {"rounds", rounds},
          {"pairs", pairs},
          {"odd_hosts", odd},
          {"hardware_differences", to_json(outcome.hardware)},
          {"ok", count(outcome, Verdict::ok)},
          {"warn", count(outcome, Verdict::warn)},
          {"fail", count(outcome, Verdict::fail)}};
}

// All that is not ok, except what follows from a host that is odd anyhow.
void show_ways(const Picture& picture, bool from_here, bool colour) {
  std::set<std::string> odd;
  for (const Odd& one : picture.odd) odd.insert(one.host);
  std::size_t shown = 0;
  std::size_t left_out = 0;
  for (const Way& way : picture.ways) {
    const bool follows = odd.contains(way.from) || odd.contains(way.to);
    for (const Finding& finding : way.findings) {
      if (finding.verdict == Verdict::ok) continue;
      if ((follows && !from_here) || shown >= most_shown) {
        ++left_out;
        continue;
      }
      ++shown;
      doctor::show(finding, colour, from_here ? way.to : way.from + " " + way.to);
    }
  }
  if (left_out > 0) fmt::print("{} more, most of odd hosts: --json has all\n", left_out);
}

void print_text(const Outcome& outcome, bool from_here) {
  const Picture& picture = outcome.picture;
  const bool colour = isatty(STDOUT_FILENO) != 0;
  const bool one = picture.ways.size() == 1;
  if (one) {
    for (const Finding& finding : picture.ways.front().findings) doctor::show(finding, colour);
  } else {
    if (from_here) {
      fmt::print("{}\n", table_of(picture.ways));
    } else if (picture.all_pairs && picture.hosts.size() <= most_numbers) {
      std::vector<std::string> names;
      for (const Tested& host : picture.hosts) names.push_back(host.name);
      fmt::print("{}\n", matrix_of(picture.ways, names));
    } else {
      fmt::print("{}\n", text_of(picture, colour));
    }
    if (!from_here) {
      for (const Odd& odd : picture.odd) doctor::show(odd.finding, colour, odd.host);
    }
    for (const Difference& difference : outcome.keys) fmt::print("{}\n", line_of(difference));
    show_ways(picture, from_here, colour);
  }
  for (const Difference& difference : outcome.hardware) fmt::print("{}\n", line_of(difference));
  fmt::print("{} ok, {} warn, {} fail\n", count(outcome, Verdict::ok),
             count(outcome, Verdict::warn), count(outcome, Verdict::fail));
}

}  // namespace

Json first_question(const std::map<std::string, std::string>& above) {
  Json parameters = Json::object();
  for (const config::Key& key : config::schema()) {
    const std::string name = config::mca_name(key);
    if (const char* value = std::getenv(("OMPI_MCA_" + name).c_str())) parameters[name] = value;
  }
  for (const auto& [name, value] : above) parameters[name] = value;
  return {{"do", "facts"}, {"parameters", parameters}};
}

int run_doctor(const Options& options) {
  const bool from_here_only = !options.peers.empty() && !options.all_pairs;
  if (from_here_only && options.hosts.any()) {
    throw CLI::ValidationError("--peer", "is tried from here; --hosts and --hostfile in pairs");
  }
  std::vector<std::string> names = hosts_in_lists(options.peers);
  add_hosts(names, hosts_in(options.hosts));
  if (!from_here_only && names.size() < 2) {
    throw CLI::ValidationError("--hosts", "name at least two hosts, or one with --peer");
  }
  if (options.all_pairs && names.size() > most_for_pairs) {
    throw CLI::ValidationError("--all-pairs",
                               fmt::format("takes at most {} hosts", most_for_pairs));
  }
  // Refused now, not after minutes of measuring.
  std::ofstream svg;
  if (!options.svg.empty()) {
    svg.open(options.svg);
    if (!svg) throw CLI::ValidationError("--svg", options.svg + " cannot be written");
  }
  const Outcome outcome =
      from_here_only ? from_here(names, options) : between_all(std::move(names), options);
  if (svg.is_open() && !(svg << svg_of(outcome.picture) << std::flush)) {
    fmt::print(stderr, "weir doctor: {} cannot be written\n", options.svg);
  }
  if (options.json) {
    fmt::print("{}\n", to_json(outcome).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_text(outcome, from_here_only);
  }
  std::fflush(stdout);
  return count(outcome, Verdict::fail) == 0 ? 0 : 1;
}

}  // namespace weir::tools::between
