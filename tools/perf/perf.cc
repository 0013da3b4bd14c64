// `weir perf`: how fast weir is between two hosts or two ports, without MPI, beside verbs alone.

#include <fmt/core.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "tools/between/answer.h"
#include "tools/between/host.h"
#include "tools/between/host_options.h"
#include "tools/between/hosts.h"
#include "tools/between/ways.h"
#include "tools/commands.h"
#include "tools/gnuplot.h"
#include "tools/here.h"
#include "tools/perf/memory.h"
#include "tools/perf/session.h"
#include "tools/perf/socket.h"
#include "transport/config/units.h"

namespace weir::tools {
namespace perf {
namespace {

using between::Host;
using between::Json;

struct Options {
  between::HostOptions hosts;
  bool serve = false;
  bool local = false;
  std::uint16_t listen = usual_port;
  std::string ports;
  std::string only;
  std::string time = "20s";
  std::string from = "1B";
  std::string to = "64MiB";
  Plan plan;
  bool json = false;
  bool csv = false;
  std::string svg;
};

constexpr const char* device_parameter = "btl_weir_device";

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
  return parts;
}

std::uint64_t size_of(const char* option, const std::string& text) {
  std::int64_t bytes = 0;
  std::string error;
  if (!config::parse_size(text, bytes, error)) throw CLI::ValidationError(option, error);
  if (bytes < 1 || bytes > static_cast<std::int64_t>(largest_bytes) ||
      !std::has_single_bit(static_cast<std::uint64_t>(bytes))) {
    throw CLI::ValidationError(option, "takes a power of two from 1B to 64MiB, not " + text);
  }
  return static_cast<std::uint64_t>(bytes);
}

Plan plan_of(const Options& options) {
  Plan plan = options.plan;
  plan.from_bytes = size_of("--from", options.from);
  plan.to_bytes = size_of("--to", options.to);
  plan.only = parts_of(options.only);
  for (const std::string& one : plan.only) {
    if (one == "send" || one == "put" || one == "get" || one == "add") continue;
    throw CLI::ValidationError("--only", "takes send, put, get and add, with commas");
  }
  if (parts_of(options.ports).size() > 2) {
    throw CLI::ValidationError("--ports", "takes one port or two");
  }
  if (plan.from_bytes > plan.to_bytes) {
    throw CLI::ValidationError("--from", "is larger than --to");
  }
  std::int64_t ns = 0;
  std::string error;
  if (!config::parse_duration(options.time, ns, error)) throw CLI::ValidationError("--for", error);
  plan.time = std::chrono::nanoseconds(ns);
  plan.silence = doctor::milliseconds(configuration_here().settings.peer_timeout_ns / 1'000'000);
  return plan;
}

// The port of the first or the second end, if the user has named it.
std::optional<std::string> port_of(const Options& options, std::size_t end) {
  const std::vector<std::string> ports = parts_of(options.ports);
  if (ports.empty()) return {};
  return ports[std::min(end, ports.size() - 1)];
}

Json question(const Options& options, std::size_t end) {
  std::map<std::string, std::string> parameters;
  if (const auto port = port_of(options, end)) parameters[device_parameter] = *port;
  Json asks = between::first_question(parameters);
  asks["without_open_mpi"] = true;
  return asks;
}

std::string one_host(const Options& options) {
  std::vector<std::string> names = between::hosts_in(options.hosts);
  if (names.size() > 1) {  // a file names all hosts of a job
    std::erase_if(names, [](const std::string& name) {
      return between::is_this_host(name, between::own_name());
    });
  }
  if (names.size() != 1) throw CLI::ValidationError("HOST", "name one other host");
  return names.front();
}

std::vector<std::unique_ptr<Host>> ends_of(const Options& options, bool& by_hand) {
  const between::Starter starter(between::launcher_here(options.hosts), {"doctor", "--answer"});
  const std::string name = options.local ? "localhost" : one_host(options);
  std::vector<std::unique_ptr<Host>> ends;
  ends.push_back(starter.start("localhost"));
  std::string why;
  const bool asks_for_server = !options.local && options.hosts.launcher.empty();
  const int socket = asks_for_server ? connect_to_server(name, options.listen, why) : -1;
  by_hand = socket >= 0;
  ends.push_back(by_hand ? std::make_unique<Host>(name, socket) : starter.start(name));
  return ends;
}

void print(const std::vector<Row>& rows, const About& about, const Options& options) {
  if (options.json) {
    const Json whole = to_json(rows, about);
    fmt::print("{}\n", whole.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", options.csv ? to_csv(rows) : to_text(rows, about));
  }
  std::fflush(stdout);
}

void measure(const Options& options) {
  const Plan plan = plan_of(options);
  bool by_hand = false;
  const auto hosts = ends_of(options, by_hand);
  hosts[0]->rename(between::own_name());
  if (options.local) hosts[1]->rename(between::own_name() + " (second process)");
  // A server that was started by hand has its own port, unless two are named here.
  Options there = options;
  if (by_hand && parts_of(options.ports).size() < 2) there.ports.clear();
  Session session(*hosts[0], *hosts[1], plan);
  std::string why;
  const bool good = session.run(question(options, 0), question(there, 1),
                                std::chrono::seconds(options.hosts.limit_s), why);
  const std::vector<Row> rows = session.results.rows();
  if (!good) {
    fmt::print(stderr,
               "weir perf: between {} and {}: {}\n"
               "  If a process has gone, see on its host who ended it (dmesg, the scheduler). "
               "'{}' tries the way.\n",
               hosts[0]->name(), hosts[1]->name(), why,
               options.local ? "weir doctor" : "weir doctor --peer " + hosts[1]->name());
    throw CLI::RuntimeError(1);
  }
  if (rows.empty()) {
    fmt::print(stderr,
               "weir perf: nothing was measured: atomics have 8B, and not all ports have "
               "them\n");
    throw CLI::RuntimeError(1);
  }
  print(rows, session.about, options);
  if (!options.svg.empty() && !draw_by_gnuplot(to_gnuplot(rows, session.about), options.svg)) {
    fmt::print(stderr, "weir perf: no picture: gnuplot is not installed, or cannot write {}\n",
               options.svg);
    throw CLI::RuntimeError(3);
  }
}

void serve(const Options& options) {
  if (const auto port = port_of(options, 0)) {
    setenv((std::string("OMPI_MCA_") + device_parameter).c_str(), port->c_str(), 1);
  }
  std::string client, why;
  const int listener = listen_for_client(options.listen, why);
  if (listener >= 0) {
    fmt::print(stderr, "on the other host: weir perf {}{}\n", between::own_name(),
               options.listen == usual_port ? "" : fmt::format(" --listen {}", options.listen));
  }
  if (listener < 0 || !take_client(listener, client, why)) {
    fmt::print(stderr, "weir perf: {}\n", why);
    throw CLI::RuntimeError(1);
  }
  fmt::print(stderr, "{} measures\n", client);
  throw CLI::RuntimeError(between::answer());
}

void run(const Options& options) {
  const int chosen =
      (options.serve ? 1 : 0) + (options.local ? 1 : 0) + (options.hosts.any() ? 1 : 0);
  if (chosen != 1) throw CLI::ValidationError("weir perf", "name a HOST, or --local, or --serve");
  options.serve ? serve(options) : measure(options);
}

constexpr const char* manual =
    "Measures weir's engine as the plugin drives it, without MPI, and beside it verbs alone on a\n"
    "queue pair of its own. For each power of two it measures\n"
    "  messages   half a round trip; a stream one way, and one both ways. weir sends short ones\n"
    "             at once; the receiver reads those above eager_max\n"
    "  puts       RDMA writes into the other host's memory\n"
    "  gets       RDMA reads from it\n"
    "  atomics    fetch-and-adds of 8B\n"
    "A stream has up to 64 operations under way, for large ones up to 64 MiB. Figures are medians\n"
    "of the repeats; 99 % is the 99th percentile. The ratio is weir / verbs: below 1 is good for\n"
    "latency, above 1 for streams.\n"
    "\n"
    "The other end is started on HOST like that of 'weir doctor --peer'. If 'weir perf --serve'\n"
    "waits there already, it is used. --serve takes one client, without a password: use it in\n"
    "networks that you trust. Both hosts need the same weir.\n"
    "\n"
    "Time is shared over all sizes. Each is measured once, however long that takes. Both ends\n"
    "register up to 128 MiB; --to takes less. A peer that goes away ends it with an error, at the\n"
    "latest after peer_timeout.\n"
    "\n"
    "Exit status:\n"
    "  0  all was measured\n"
    "  1  it failed\n"
    "  2  wrong usage\n"
    "  3  there is no picture (--svg)\n"
    "\n"
    "Examples:\n"
    "  weir perf node7\n"
    "  weir perf node7 --for 2min --svg node7.svg\n"
    "  weir perf node7 --only send --to 8KiB --json | jq '.results[] | {bytes, ratio}'\n"
    "  weir perf --local --ports mlx5_0:1,mlx5_1:1\n"
    "  weir perf --serve           on node7; then, on another host: weir perf node7\n"
    "  weir-lab -- weir perf --local";

}  // namespace
}  // namespace perf

void add_perf(CLI::App& app) {
  auto options = std::make_shared<perf::Options>();
  CLI::App* command = app.add_subcommand(
      "perf", "Measure latency, rate and bandwidth between two hosts, beside verbs alone");
  between::add_host_options(*command, options->hosts, "HOST");
  command->add_flag("--serve", options->serve, "Wait here for a 'weir perf' of another host");
  command->add_option("--listen", options->listen, "TCP port of --serve, on both hosts")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  command->add_flag("--local", options->local, "Between two processes of this host");
  command->add_option("--ports", options->ports,
                      "Instead of btl_weir_device: mlx5_0:1 for both ends, or mlx5_0:1,mlx5_1:1 "
                      "for this one and the other");
  command->add_option("--from", options->from, "The smallest size")->capture_default_str();
  command->add_option("--to", options->to, "The largest size")->capture_default_str();
  command->add_option("--for", options->time, "The time for all")->capture_default_str();
  command->add_option("--repeats", options->plan.repeats, "Of each measurement, in turns")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  command->add_option("--only", options->only, "Some of these, with commas: send,put,get,add");
  command->add_flag("--check", options->plan.check,
                    "Look at each byte that arrives; what is timed then includes that");
  auto* json = command->add_flag("--json", options->json, "Print one JSON object, not a table");
  command->add_flag("--csv", options->csv, "Print lines of CSV")->excludes(json);
  command->add_option("--svg", options->svg, "Draw a picture, too; needs gnuplot")
      ->type_name("FILE");
  command->footer(perf::manual);
  command->callback([options] { perf::run(*options); });
}

}  // namespace weir::tools
