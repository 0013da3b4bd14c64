#include "tools/between/ways.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "tools/between/host.h"
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
constexpr milliseconds quick_limit{10000};

constexpr std::uint32_t small_bytes = 8;
constexpr std::uint32_t warm_rounds = 20;
constexpr double latency_time_us = 300000;
constexpr std::uint32_t read_ms = 400;
constexpr std::size_t hosts_at_once = 32;
constexpr std::size_t most_for_pairs = 64;

struct Known {
  Host& host;
  Facts facts;
  std::string why;  // it has none
};

// The way between two hosts that have answered.
class Attempt {
 public:
  Attempt(Known& here, Known& there, Way& way)
      : here_(here.host),
        there_(there.host),
        ours_{here.host.name(), here.facts},
        theirs_{there.host.name(), there.facts},
        way_(way) {}

  void run() {
    way_.findings = compare(ours_, theirs_);
    if (!ours_.facts.port || !theirs_.facts.port) return;
    const auto before = read_both();
    if (connect(0) && try_packet()) measure();
    const auto after = read_both();
    for (Host* host : {&here_, &there_}) {
      std::string why;
      host->ask({{"do", "drop"}});
      host->answer(quick_limit, why);
    }
    add(judge_counters(ours_, rises(before.first, after.first), theirs_,
                       rises(before.second, after.second),
                       !before.first.empty() || !before.second.empty()));
  }

 private:
  void add(Finding finding) { way_.findings.push_back(std::move(finding)); }

  // The answer of one host; nothing, and the reason in why_.
  std::optional<Json> ask(Host& host, const Json& request, milliseconds limit) {
    host.ask(request);
    return take(host, limit);
  }
  std::optional<Json> take(Host& host, milliseconds limit) {
    std::string why;
    auto said = host.answer(limit, why);
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
      if (const auto said = host->answer(quick_limit, why)) *counters = counters_of(*said);
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
};

// On stderr, of a terminal only.
class Progress {
 public:
  explicit Progress(std::size_t all) : all_(all) {}
  void show(const Way& way) {
    if (done_ == 0) start_ = Clock::now();
    say(progress_text(done_++, all_, doctor::ms_since(start_) / 1000, way));
  }
  void say(const std::string& text) const {
    if (!terminal_) return;
    fmt::print(stderr, "\r\x1b[K{}", text);
    std::fflush(stderr);
  }
  void clear() const {
    if (terminal_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  std::size_t all_;
  std::size_t done_ = 0;
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  Clock::time_point start_ = Clock::now();
};

std::vector<Known> introduce(const std::vector<std::unique_ptr<Host>>& hosts,
                             const Options& options, const Progress& progress) {
  progress.say(fmt::format("asking {} hosts, {} s at most", hosts.size(), options.limit_s));
  const auto end = Clock::now() + std::chrono::seconds(options.limit_s);
  std::vector<Known> all;
  for (const auto& host : hosts) host->ask(first_question(options));
  for (const auto& host : hosts) {
    Known& known = all.emplace_back(Known{*host, {}, {}});
    if (const auto said = host->answer(Host::left_until(end), known.why)) {
      known.facts = facts_of(*said);
    }
  }
  return all;
}

Finding no_answer(const Known& known) {
  return fail("shell", fmt::format("{} does not answer: {}", known.host.name(), known.why),
              fmt::format("see that 'ssh {} true', or what --rsh names, works without a password, "
                          "and that weir is installed there at the same path",
                          known.host.name()));
}

void try_way(Known& here, Known& there, std::vector<Way>& ways, Progress& progress) {
  Way& way = ways.emplace_back();
  way.from = here.host.name();
  way.to = there.host.name();
  progress.show(way);
  for (Known* known : {&here, &there}) {
    // One that was lost while another pair was tried, too.
    if (known->why.empty() && known->host.lost()) known->why = known->host.why_lost();
    if (known->why.empty()) continue;
    way.findings.push_back(no_answer(*known));
    return;
  }
  way.findings.push_back(doctor::ok("shell", there.host.name() + " answers"));
  Findings before = std::move(way.findings);
  Attempt(here, there, way).run();
  way.findings.insert(way.findings.begin(), before.begin(), before.end());
}

std::vector<Way> from_here(const std::vector<std::string>& names, const Options& options) {
  const Reach reach{options.shell};
  std::vector<Way> ways;
  Progress progress(names.size());
  for (std::size_t first = 0; first < names.size(); first += hosts_at_once) {
    // This host, too, is an answerer: a driver that hangs does not take us with it.
    std::vector<std::string> some{"localhost"};
    const auto begin = names.begin() + static_cast<std::ptrdiff_t>(first);
    some.insert(some.end(), begin,
                begin + static_cast<std::ptrdiff_t>(std::min(hosts_at_once, names.size() - first)));
    auto hosts = start_hosts(some, reach);
    hosts.front()->rename(own_name());
    std::vector<Known> known = introduce(hosts, options, progress);
    for (std::size_t i = 1; i < known.size(); ++i) {
      try_way(known.front(), known[i], ways, progress);
    }
  }
  progress.clear();
  return ways;
}

std::vector<Way> all_pairs(const std::vector<std::string>& names, const Options& options) {
  const auto hosts = start_hosts(names, {options.shell});
  Progress progress(names.size() * (names.size() - 1) / 2);
  std::vector<Known> known = introduce(hosts, options, progress);
  std::vector<Way> ways;
  for (std::size_t i = 0; i < known.size(); ++i) {
    for (std::size_t j = i + 1; j < known.size(); ++j) {
      try_way(known[i], known[j], ways, progress);
    }
  }
  progress.clear();
  return ways;
}

std::ptrdiff_t count(const std::vector<Way>& ways, Verdict verdict) {
  std::ptrdiff_t all = 0;
  for (const Way& way : ways) {
    all += std::count_if(way.findings.begin(), way.findings.end(),
                         [&](const Finding& finding) { return finding.verdict == verdict; });
  }
  return all;
}

Json to_json(const std::vector<Way>& ways) {
  Json all = Json::array();
  const auto or_null = [](const std::optional<double>& number) {
    return number ? Json(*number) : Json(nullptr);
  };
  for (const Way& way : ways) {
    Json checks = Json::array();
    for (const Finding& finding : way.findings) checks.push_back(doctor::to_json(finding));
    all.push_back({{"from", way.from},
                   {"to", way.to},
                   {"latency_us", or_null(way.latency_us)},
                   {"to_bytes_per_second", or_null(way.to_bytes_per_second)},
                   {"from_bytes_per_second", or_null(way.from_bytes_per_second)},
                   {"checks", checks}});
  }
  return {{"version", WEIR_VERSION},
          {"pairs", all},
          {"ok", count(ways, Verdict::ok)},
          {"warn", count(ways, Verdict::warn)},
          {"fail", count(ways, Verdict::fail)}};
}

void print_text(const std::vector<Way>& ways, const std::vector<std::string>& names,
                const Options& options) {
  const bool colour = isatty(STDOUT_FILENO) != 0;
  if (ways.size() == 1 && !options.all_pairs) {
    for (const Finding& finding : ways.front().findings) doctor::show(finding, colour);
  } else {
    fmt::print("{}\n", options.all_pairs ? matrix_of(ways, names) : table_of(ways));
    for (const Way& way : ways) {
      const std::string where = options.all_pairs ? way.from + " " + way.to : way.to;
      for (const Finding& finding : way.findings) {
        if (finding.verdict != Verdict::ok) doctor::show(finding, colour, where);
      }
    }
  }
  fmt::print("{} ok, {} warn, {} fail\n", count(ways, Verdict::ok), count(ways, Verdict::warn),
             count(ways, Verdict::fail));
}

}  // namespace

void add_host_options(CLI::App& command, Options& options) {
  command
      .add_option("--hostfile", options.hostfiles,
                  "Hosts of this file, in mpirun's format; slots do not matter")
      ->type_name("FILE");
  command
      .add_option("--rsh", options.shell,
                  "Remote shell (default: what OMPI_MCA_plm_rsh_agent names, or ssh)")
      ->type_name("CMD");
  command
      .add_option(
          "--timeout", options.limit_s,
          "Time limit for the first answer of all hosts (30); later steps have limits of their own")
      ->check(CLI::Range(1, 3600))
      ->type_name("SECONDS");
}

void check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (const std::string why = why_no_host(name); !why.empty()) {
      throw CLI::ValidationError("'" + safe(name, 60) + "' is no host: " + why);
    }
  }
}

std::vector<std::string> hosts_in_files(const Options& options) {
  std::vector<std::string> hosts;
  for (const std::string& name : options.hostfiles) {
    std::ifstream file(name);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file.is_open() || file.bad()) {
      throw CLI::ValidationError("--hostfile", name + " cannot be read");
    }
    add_hosts(hosts, hosts_of(text));
  }
  return hosts;
}

Json first_question(const Options& options) {
  Json parameters = Json::object();
  for (const config::Key& key : config::schema()) {
    const std::string name = config::mca_name(key);
    if (const char* value = std::getenv(("OMPI_MCA_" + name).c_str())) parameters[name] = value;
  }
  for (const auto& [name, value] : options.parameters) parameters[name] = value;
  return {{"do", "facts"}, {"parameters", parameters}};
}

int run_doctor(const Options& options) {
  std::vector<std::string> names = hosts_in_files(options);
  const std::string own = own_name();
  // A file names all hosts of a job, this one perhaps; --peer means what it says.
  if (!options.all_pairs) {
    std::erase_if(names, [&](const std::string& name) { return is_this_host(name, own); });
  }
  std::vector<std::string> chosen = options.peers;
  add_hosts(chosen, names);
  check_names(chosen);
  if (chosen.size() < (options.all_pairs ? 2 : 1)) {
    throw CLI::ValidationError("--hostfile", "name at least one other host");
  }
  if (options.all_pairs && chosen.size() > most_for_pairs) {
    throw CLI::ValidationError("--all-pairs",
                               fmt::format("takes at most {} hosts", most_for_pairs));
  }
  std::vector<Way> ways =
      options.all_pairs ? all_pairs(chosen, options) : from_here(chosen, options);
  name_odd_ones(ways);
  if (options.json) {
    fmt::print("{}\n", to_json(ways).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_text(ways, chosen, options);
  }
  std::fflush(stdout);
  return count(ways, Verdict::fail) == 0 ? 0 : 1;
}

}  // namespace weir::tools::between
