#include "tools/sim/command/scenario_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <utility>

#include "tools/sim/command/trace_file.h"
#include "transport/config/nearest.h"
#include "transport/config/table.h"
#include "transport/config/units.h"
#include "transport/config/yaml_file.h"

namespace weir::sim {
namespace {

using network::Scenario;
using Error = std::string;
using Text = std::string_view;

// Durations depend on the cycle, which a later line may set: so they are kept until the end.
struct Draft {
  Scenario scenario;
  double link_gbit_s = 102.4;
  double local_ns = 40;
  double global_ns = 200;
  double node_ns = 20;
  double from_ns = 120'000;
  double to_ns = 240'000;
  double timeout_ns = 100'000;
  double work_ns = 0;
  std::string slow;
  std::string down;
  std::string trace;
};

Error quoted(Text text, const std::string& what) {
  return "'" + std::string(text) + "' is not " + what;
}

Error number(Text text, double low, double high, double& value) {
  double read = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error != std::errc{} || end != text.data() + text.size() || !(read >= low && read <= high)) {
    std::string range = std::to_string(low);
    return quoted(text, "a number from " + range.substr(0, range.find('.') + 2) + " to " +
                            std::to_string(static_cast<std::int64_t>(high)));
  }
  value = read;
  return {};
}

template <typename T>
Error count(Text text, std::int64_t low, std::int64_t high, T& value) {
  std::int64_t read = 0;
  Error error;
  if (!config::parse_count(text, read, error)) return error;
  if (read < low || read > high) {
    return quoted(text, "a count from " + std::to_string(low) + " to " + std::to_string(high));
  }
  value = static_cast<T>(read);
  return {};
}

template <typename T>
Error size(Text text, std::int64_t low, std::int64_t high, T& value) {
  std::int64_t read = 0;
  Error error;
  if (!config::parse_size(text, read, error)) return error;
  if (read < low || read > high) {
    return quoted(text,
                  "a size from " + config::format_size(low) + " to " + config::format_size(high));
  }
  value = static_cast<T>(read);
  return {};
}

template <typename T>
Error duration(Text text, T& ns) {
  std::int64_t read = 0;
  Error error;
  if (!config::parse_duration(text, read, error)) return error;
  if (read > 10'000'000'000) return quoted(text, "a duration up to 10s");
  ns = static_cast<T>(read);
  return {};
}

template <typename T, std::size_t n>
Error choice(Text text, const std::array<std::pair<const char*, T>, n>& choices, T& value) {
  std::string names;
  for (const auto& [name, means] : choices) {
    if (text == name) {
      value = means;
      return {};
    }
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return quoted(text, "one of " + names);
}

Error rate(Text text, double& gbit_s) {
  constexpr Text unit = "Gbit/s";
  if (!text.ends_with(unit)) return quoted(text, "a rate as 100Gbit/s");
  text.remove_suffix(unit.size());
  while (text.ends_with(' ')) text.remove_suffix(1);
  return number(text, 0.1, 10'000, gbit_s);
}

// What stands between the commas; nothing for "none".
std::vector<Text> parts_of(Text text) {
  std::vector<Text> parts;
  if (text == "none") return parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    Text part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
  }
  return parts;
}

constexpr std::uint32_t any_number = UINT32_MAX;  // before it is known how many there are

// "1%@8x, 5@2x", "none"
Error slow_nodes(Text text, std::uint32_t nodes, std::vector<Scenario::Slow>& slow) {
  slow.clear();
  const Error wrong = quoted(text, "a list of slow nodes, as 1%@8x or 5@2x, 1@8x");
  for (const Text part : parts_of(text)) {
    const std::size_t at = part.find('@');
    if (at == Text::npos || !part.ends_with('x')) return wrong;
    Text how_many = part.substr(0, at);
    const Text how_slow = part.substr(at + 1, part.size() - at - 2);
    Scenario::Slow group;
    if (!count(how_slow, 1, 1'000, group.factor).empty()) return wrong;
    if (how_many.ends_with('%')) {
      how_many.remove_suffix(1);
      double percent = 0;
      if (!number(how_many, 0, 100, percent).empty()) return wrong;
      group.nodes = static_cast<std::uint32_t>(std::lround(percent / 100 * nodes));
    } else if (!count(how_many, 0, UINT32_MAX, group.nodes).empty()) {
      return wrong;
    }
    slow.push_back(group);
  }
  std::uint64_t all = 0;
  for (const Scenario::Slow& group : slow) all += group.nodes;
  if (all <= nodes || nodes == any_number) return {};
  return "they are " + std::to_string(all) + " nodes; the fabric has " + std::to_string(nodes);
}

// "0.01%"
Error percent(Text text, double& part) {
  const Error wrong = quoted(text, "a percentage from 0% to 50%, as 0.01%");
  if (!text.ends_with('%')) return wrong;
  text.remove_suffix(1);
  double read = 0;
  if (!number(text, 0, 50, read).empty()) return wrong;
  part = read / 100;
  return {};
}

// "3@50us-90us, 1@0-240us", "none"
Error outages(Text text, double cycle_ns, std::vector<Scenario::Outage>& down) {
  down.clear();
  const Error wrong = quoted(text, "a list of links and times, as 3@50us-90us");
  for (const Text part : parts_of(text)) {
    const std::size_t at = part.find('@');
    const std::size_t dash = part.find('-', std::min(at, part.size()));
    if (at == Text::npos || dash == Text::npos) return wrong;
    Scenario::Outage outage;
    double from = 0;
    double to = 0;
    if (!count(part.substr(0, at), 1, 100'000, outage.links).empty() ||
        !duration(part.substr(at + 1, dash - at - 1), from).empty() ||
        !duration(part.substr(dash + 1), to).empty() || to <= from) {
      return wrong;
    }
    outage.from_cycles = static_cast<std::uint64_t>(from / cycle_ns);
    outage.to_cycles = static_cast<std::uint64_t>(to / cycle_ns);
    down.push_back(outage);
  }
  return {};
}

Error yes_or_no(Text text, bool& value) {
  constexpr std::array<std::pair<const char*, bool>, 4> choices{
      {{"yes", true}, {"no", false}, {"true", true}, {"false", false}}};
  return choice(text, choices, value);
}

Error table(Text text, config::TableOf kind, std::string& value) {
  std::vector<config::TableEntry> entries;
  Error error;
  if (!config::parse_table(text, kind, entries, error)) return error;
  value = text;
  return {};
}

Error ecn(Text text, Scenario& scenario) {
  constexpr std::array<std::pair<const char*, int>, 3> choices{
      {{"off", 0}, {"default", 1}, {"aggressive", 2}}};
  int chosen = 0;
  const Error error = choice(text, choices, chosen);
  if (!error.empty()) return error;
  scenario.fabric.switching.marking = chosen;
  scenario.becn.on = chosen > 0;
  scenario.becn.decay_cycles = chosen == 2 ? 50 : 4;
  return {};
}

struct Row {
  ScenarioKey key;
  Error (*set)(Draft& draft, Text text);
};

network::Topology& topology(Draft& d) { return d.scenario.fabric.topology; }
network::Switching& switching(Draft& d) { return d.scenario.fabric.switching; }

using network::BudgetOf;
using network::EndpointsAre;
using network::Pattern;
using network::Protocol;
using network::Routing;
using network::Shape;

constexpr std::array<std::pair<const char*, Shape>, 3> shapes{
    {{"dragonfly", Shape::dragonfly},
     {"fat_tree", Shape::fat_tree},
     {"single_switch", Shape::single_switch}}};
constexpr std::array<std::pair<const char*, Routing>, 4> routings{
    {{"minimal", Routing::minimal},
     {"valiant", Routing::valiant},
     {"ugal", Routing::ugal},
     {"progressive", Routing::progressive}}};
constexpr std::array<std::pair<const char*, Pattern>, 7> patterns{
    {{"pairs", Pattern::pairs},
     {"incast", Pattern::incast},
     {"halo_2d", Pattern::halo_2d},
     {"halo_3d", Pattern::halo_3d},
     {"wavefront", Pattern::wavefront},
     {"all_to_all", Pattern::all_to_all},
     {"trace", Pattern::trace}}};
constexpr std::array<std::pair<const char*, Protocol>, 2> protocols{
    {{"push", Protocol::push}, {"reads", Protocol::reads}}};
constexpr std::array<std::pair<const char*, BudgetOf>, 3> owners{
    {{"node", BudgetOf::node}, {"process", BudgetOf::process}, {"transfer", BudgetOf::transfer}}};
constexpr std::array<std::pair<const char*, EndpointsAre>, 2> endpoints{
    {{"models", EndpointsAre::models}, {"core", EndpointsAre::core}}};
constexpr std::array<std::pair<const char*, bool>, 2> admissions{
    {{"always", false}, {"thresholds", true}}};
constexpr std::array<std::pair<const char*, ContextOf>, 2> contexts{
    {{"queue_pair", ContextOf::queue_pair}, {"request", ContextOf::request}}};
constexpr std::array<std::pair<const char*, bool>, 2> stepping{{{"free", false}, {"wait", true}}};
constexpr std::array<std::pair<const char*, bool>, 2> limit_events{
    {{"hardware", false}, {"rxe", true}}};

constexpr Row rows[] = {
    {{"topology", "dragonfly, fat_tree, single_switch", "dragonfly", "The fabric's shape"},
     [](Draft& d, Text t) { return choice(t, shapes, topology(d).shape); }},
    {{"p", "count, 1 to 64", "6", "Nodes on a router (dragonfly) or leaf (fat tree)"},
     [](Draft& d, Text t) { return count(t, 1, 64, topology(d).p); }},
    {{"a", "count, 2 to 64", "12", "Dragonfly: routers of a group"},
     [](Draft& d, Text t) { return count(t, 2, 64, topology(d).a); }},
    {{"h", "count, 1 to 32", "6",
      "Dragonfly: global links of a router; there are a * h + 1 groups"},
     [](Draft& d, Text t) { return count(t, 1, 32, topology(d).h); }},
    {{"leaves", "count, 2 to 512", "16", "Fat tree: switches with nodes"},
     [](Draft& d, Text t) { return count(t, 2, 512, topology(d).leaves); }},
    {{"spines", "count, 1 to 512", "16", "Fat tree: switches above them"},
     [](Draft& d, Text t) { return count(t, 1, 512, topology(d).spines); }},
    {{"ports", "count, 2 to 1024", "16", "Single switch: its nodes"},
     [](Draft& d, Text t) { return count(t, 2, 1024, topology(d).ports); }},
    {{"link_rate", "rate, as 100Gbit/s", "102.4Gbit/s", "What a link moves"},
     [](Draft& d, Text t) { return rate(t, d.link_gbit_s); }},
    {{"local_latency", "duration", "40ns", "Of links inside a group, or between leaf and spine"},
     [](Draft& d, Text t) { return duration(t, d.local_ns); }},
    {{"global_latency", "duration", "200ns", "Of links between groups"},
     [](Draft& d, Text t) { return duration(t, d.global_ns); }},
    {{"node_latency", "duration", "20ns", "Of the link between a node and its router"},
     [](Draft& d, Text t) { return duration(t, d.node_ns); }},
    {{"buffers", "size, 4KiB to 16MiB", "64KiB", "Of one virtual channel of an input"},
     [](Draft& d, Text t) {
       std::uint32_t bytes = 0;
       Error error = size(t, 4096, 16 << 20, bytes);
       if (error.empty()) switching(d).vc_flits = bytes / network::flit_bytes;
       return error;
     }},
    {{"routing", "minimal, valiant, ugal, progressive", "progressive",
      "Where a packet goes when there is a choice; on a fat tree ugal and progressive are the "
      "same"},
     [](Draft& d, Text t) { return choice(t, routings, switching(d).routing); }},
    {{"bias", "number, 0 to 100", "1",
      "Dragonfly: the shortest path is left when its queue is more than bias times the other one, "
      "and threshold"},
     [](Draft& d, Text t) { return number(t, 0, 100, switching(d).bias); }},
    {{"threshold", "size, 0 to 16MiB", "7680B", "See bias"},
     [](Draft& d, Text t) {
       std::int64_t bytes = 0;
       Error error = size(t, 0, 16 << 20, bytes);
       if (error.empty()) {
         switching(d).threshold = static_cast<std::int32_t>(bytes / network::flit_bytes);
       }
       return error;
     }},
    {{"request_lane", "yes, no", "yes", "Read requests have virtual channels of their own"},
     [](Draft& d, Text t) { return yes_or_no(t, switching(d).request_lanes); }},
    {{"ecn", "off, default, aggressive", "off", "FECN/BECN with the constants of [RDRP]"},
     [](Draft& d, Text t) { return ecn(t, d.scenario); }},
    {{"loss", "percentage, 0% to 50%", "0%", "Of the packets on each link"},
     [](Draft& d, Text t) { return percent(t, d.scenario.loss); }},
    {{"down", "as 3@50us-90us, 1@0-1ms; none", "none",
      "Links that are down from one time to another, drawn by the seed from those between groups, "
      "between leaves and spines, or of a single switch"},
     [](Draft& d, Text t) {
       d.down = t;
       std::vector<Scenario::Outage> ignored;
       return outages(t, 1, ignored);
     }},
    {{"retry_timeout", "duration", "100us",
      "An adapter goes back when the oldest operation of a connection is not done for so long"},
     [](Draft& d, Text t) { return duration(t, d.timeout_ns); }},
    {{"retry_count", "count, 0 to 100", "7", "So often in a row, then it gives the connection up"},
     [](Draft& d, Text t) { return count(t, 0, 100, d.scenario.retries); }},
    {{"pattern", "pairs, incast, halo_2d, halo_3d, wavefront, all_to_all, trace", "pairs",
      "Streams: random pairs that send to each other, with incast some receive from many, too; or "
      "messages of ranks until all are received"},
     [](Draft& d, Text t) { return choice(t, patterns, d.scenario.pattern); }},
    {{"receivers", "count, 0 to 100000", "0", "Incast: nodes that receive from many"},
     [](Draft& d, Text t) { return count(t, 0, 100'000, d.scenario.receivers); }},
    {{"senders", "count, 1 to 1024", "16", "Incast: from how many each"},
     [](Draft& d, Text t) { return count(t, 1, 1024, d.scenario.senders); }},
    {{"rounds", "count, 1 to 10000", "4",
      "Of halo, wavefront (sweeps) and all_to_all (stages); of pairs and incast with endpoints: "
      "core"},
     [](Draft& d, Text t) { return count(t, 1, 10'000, d.scenario.rounds); }},
    {{"message_size", "size, 0 to 1GiB", "256KiB",
      "Of halo, wavefront and all_to_all; of pairs and incast with endpoints: core"},
     [](Draft& d, Text t) { return size(t, 0, 1 << 30, d.scenario.message_bytes); }},
    {{"eager_max", "size, 0 to 1MiB", "4KiB", "Messages up to that go without a rendezvous"},
     [](Draft& d, Text t) { return size(t, 0, 1 << 20, d.scenario.eager_bytes); }},
    {{"work", "duration", "0",
      "What a rank computes before each of its steps but the first; core: without progress"},
     [](Draft& d, Text t) { return duration(t, d.work_ns); }},
    {{"trace", "file, beside this one; none", "none",
      "Of pattern trace: lines of time, source, destination, bytes and perhaps the number of the "
      "message it comes after"},
     [](Draft& d, Text t) {
       d.trace = t == "none" ? "" : t;
       return Error{};
     }},
    {{"slow", "as 1%@8x or 5@2x, 1@8x; none", "none",
      "Nodes whose memory takes so many times longer than the link"},
     [](Draft& d, Text t) {
       d.slow = t;
       std::vector<Scenario::Slow> ignored;
       return slow_nodes(t, any_number, ignored);
     }},
    {{"endpoints", "models, core", "models",
      "What hangs on the fabric: models of adapters with the receivers' side that ships, or "
      "processes with all of transport/core over RC queue pairs"},
     [](Draft& d, Text t) { return choice(t, endpoints, d.scenario.endpoints); }},
    {{"steps", "free, wait", "free",
      "Core: a rank sends as fast as it may, or each step when what it needs is there, as models "
      "do and a trace always"},
     [](Draft& d, Text t) { return choice(t, stepping, d.scenario.steps_wait); }},
    {{"match_time", "duration", "0",
      "Core, with steps: wait and traces: what it takes a rank to match a message with its "
      "receive; it does nothing else meanwhile"},
     [](Draft& d, Text t) { return duration(t, d.scenario.match_ns); }},
    {{"window_initial", "count, 1 to 65536", "8", "Core: receive buffers of a process, at first"},
     [](Draft& d, Text t) { return count(t, 1, 65'536, d.scenario.window_initial); }},
    {{"window_max", "count, 1 to 65536; auto", "auto",
      "Core: W_max; auto is the transport's: 512, more where so many peers need it"},
     [](Draft& d, Text t) {
       d.scenario.window_max = 0;
       return t == "auto" ? Error{} : count(t, 1, 65'536, d.scenario.window_max);
     }},
    {{"window_unasked", "count, 1 to 65536; auto", "auto",
      "Core: beyond, the window grows for peers without credits only; auto: 256 with window_max "
      "auto, else window_max"},
     [](Draft& d, Text t) {
       d.scenario.window_unasked = 0;
       return t == "auto" ? Error{} : count(t, 1, 65'536, d.scenario.window_unasked);
     }},
    {{"max_rd_atomic", "count, 1 to 128", "16", "Core: reads of a queue pair under way"},
     [](Draft& d, Text t) { return count(t, 1, 128, d.scenario.max_rd_atomic); }},
    {{"proxy_servers", "count, 0 to 32", "0",
      "Core: processes of a node that send eager frames for the others at a time; 0: each sends "
      "its own"},
     [](Draft& d, Text t) { return count(t, 0, 32, d.scenario.proxy_servers); }},
    {{"context_cache", "count, 1 to 1000000; off", "off",
      "Core: contexts that a node's adapter holds; off: all there are"},
     [](Draft& d, Text t) {
       d.scenario.context_cache = 0;
       return t == "off" ? Error{} : count(t, 1, 1'000'000, d.scenario.context_cache);
     }},
    {{"context_of", "queue_pair, request", "queue_pair",
      "With context_cache: what has one, each queue pair, or each request until it is answered "
      "(the adapter that the tok figures declare)"},
     [](Draft& d, Text t) { return choice(t, contexts, d.scenario.context_of); }},
    {{"context_miss", "duration", "600ns",
      "With context_cache: what a request or an answer waits for its context if it is not held; "
      "the adapter does nothing else meanwhile"},
     [](Draft& d, Text t) { return duration(t, d.scenario.context_miss_ns); }},
    {{"limit_event", "hardware, rxe", "hardware",
      "Core: armed below the limit, an SRQ fires at once, or with the next receive (Soft-RoCE)"},
     [](Draft& d, Text t) { return choice(t, limit_events, d.scenario.rxe_limit); }},
    {{"protocol", "push, reads", "push",
      "Who decides when data is sent: the sender or the receiver; the core reads"},
     [](Draft& d, Text t) { return choice(t, protocols, d.scenario.protocol); }},
    {{"processes", "count, 1 to 32", "1",
      "Of a node that receives streams; its senders are dealt out to them. Core: of each node, a "
      "rank each"},
     [](Draft& d, Text t) { return count(t, 1, 32, d.scenario.processes); }},
    {{"budget", "node, process, transfer", "node",
      "What the read budget belongs to; a node's is shared by its processes. Core: transfer is a "
      "connection, which has no more than max_rd_atomic"},
     [](Draft& d, Text t) { return choice(t, owners, d.scenario.budget_of); }},
    {{"tokens", "count, 1 to 65535; off", "off",
      "Core: requests of a node, frames and chunks, take one of so many"},
     [](Draft& d, Text t) {
       d.scenario.tokens = 0;
       return t == "off" ? Error{} : count(t, 1, 65'535, d.scenario.tokens);
     }},
    {{"admission", "always, thresholds", "always",
      "With tokens: each request takes one, or when the tables below say so (Algorithm 1)"},
     [](Draft& d, Text t) { return choice(t, admissions, d.scenario.thresholds); }},
    {{"cct", "table, as 64B=12, 4KiB=8; none", "none",
      "With admission thresholds, by size of the request: with so many active processes on the "
      "node all take tokens"},
     [](Draft& d, Text t) { return table(t, config::TableOf::counts, d.scenario.cct); }},
    {{"nrct", "table, as 64B=12, 4KiB=8; none", "none",
      "The same: what the node may have under way before the next one takes a token"},
     [](Draft& d, Text t) { return table(t, config::TableOf::counts, d.scenario.nrct); }},
    {{"crct", "table, as 1@4KiB=64; none", "none",
      "The same of one process, by active processes and size"},
     [](Draft& d, Text t) { return table(t, config::TableOf::counts_by_cores, d.scenario.crct); }},
    {{"reads_max", "count, 1 to 100000; auto", "30", "c, the reads outstanding; auto adapts"},
     [](Draft& d, Text t) {
       d.scenario.adaptive = t == "auto";
       return d.scenario.adaptive ? Error{} : count(t, 1, 100'000, d.scenario.reads);
     }},
    {{"reads_queue", "size, 4KiB to 16MiB", "64KiB",
      "With reads_max auto: what may queue in the fabric (q)"},
     [](Draft& d, Text t) { return size(t, 4096, 16 << 20, d.scenario.queue_bytes); }},
    {{"reads_window_min", "size, 4KiB to 1GiB", "4KiB", "With reads_max auto: the least window"},
     [](Draft& d, Text t) { return size(t, 4096, 1 << 30, d.scenario.least_bytes); }},
    {{"chunk_size", "size, 4KiB to 8MiB", "4KiB", "What one read fetches"},
     [](Draft& d, Text t) { return size(t, 4096, 8 << 20, d.scenario.chunk_bytes); }},
    {{"from", "duration", "120us", "When measuring begins"},
     [](Draft& d, Text t) { return duration(t, d.from_ns); }},
    {{"to", "duration", "240us", "When it ends, if not before"},
     [](Draft& d, Text t) { return duration(t, d.to_ns); }},
};

const Row* find(Text name) {
  const auto at = std::find_if(std::begin(rows), std::end(rows),
                               [&](const Row& r) { return name == r.key.name; });
  return at == std::end(rows) ? nullptr : at;
}

std::string no_such_key(Text name) {
  const Row* best = nullptr;
  std::size_t least = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const Row& row : rows) {
    const std::size_t distance = config::edit_distance(name.substr(0, 64), row.key.name);
    if (distance < least) {
      least = distance;
      best = &row;
    }
  }
  if (best != nullptr) {
    return std::string("there is no such key; did you mean ") + best->key.name + "?";
  }
  return "there is no such key; 'weir sim run --help' lists them all";
}

constexpr std::uint32_t most_nodes = 100'000;
constexpr std::uint32_t most_cores = 512;  // every one knows every other

// Ticks, of which a cycle has three, are kept modulo 2^32 in places.
constexpr std::uint64_t most_cycles = 1'000'000'000;

// What only the whole tells.
class Whole {
 public:
  Whole(Draft& draft, const config::Source& source, std::vector<config::Problem>& problems)
      : d_(draft), source_(source), problems_(problems) {}

  void finish() {
    Scenario& scenario = d_.scenario;
    const std::uint32_t nodes = topology(d_).nodes();
    if (nodes > most_nodes) {
      blame({"p", "a", "h", "leaves", "ports"}, "the fabric has " + std::to_string(nodes) +
                                                    " nodes; at most " +
                                                    std::to_string(most_nodes) + " are simulated");
      return;  // what follows counts them
    }
    scenario.cycle_ns = network::flit_bytes * 8 / d_.link_gbit_s;
    switching(d_).local_cycles = static_cast<std::uint32_t>(cycles("local_latency", d_.local_ns));
    switching(d_).global_cycles =
        static_cast<std::uint32_t>(cycles("global_latency", d_.global_ns));
    switching(d_).node_cycles = static_cast<std::uint32_t>(cycles("node_latency", d_.node_ns));
    scenario.from_cycles = cycles("from", d_.from_ns);
    scenario.to_cycles = cycles("to", d_.to_ns);
    if (scenario.to_cycles <= scenario.from_cycles) {
      blame({"to", "from"}, "'to' has to be later than 'from'");
    }
    scenario.timeout_cycles = cycles("retry_timeout", d_.timeout_ns);
    scenario.work_cycles = d_.work_ns > 0 ? cycles("work", d_.work_ns) : 0;
    fabric();
    traffic();
    endpoints_of();
    const Error slow = slow_nodes(d_.slow, nodes, scenario.slow);
    if (!slow.empty()) blame({"slow"}, slow);
    links_down();
  }

 private:
  // The line of the first of those keys that the file has.
  void blame(std::initializer_list<Text> keys, const std::string& reason) {
    for (const Text key : keys) {
      for (const config::Entry& entry : source_.entries) {
        if (entry.key != key) continue;
        problems_.push_back({source_.layer, entry.where, entry.key, reason, entry.line});
        return;
      }
    }
    problems_.push_back({source_.layer, "", std::string(*keys.begin()), reason, 0});
  }

  // Whether the file asks for something else than the default.
  bool asks_for(Text key) const {
    return std::any_of(source_.entries.begin(), source_.entries.end(),
                       [&](const config::Entry& entry) {
                         return entry.key == key && entry.value != find(key)->key.fallback;
                       });
  }
  void only_with(std::initializer_list<Text> keys, bool fits, const std::string& reason) {
    for (const Text key : keys) {
      if (!fits && asks_for(key)) blame({key}, reason);
    }
  }

  std::uint64_t cycles(Text key, double ns) {
    const double count = std::max(std::round(ns / d_.scenario.cycle_ns), 1.0);
    if (count <= static_cast<double>(most_cycles)) return static_cast<std::uint64_t>(count);
    blame({key, "link_rate"}, "more than 1,000,000,000 cycles; one is the time of 256 bytes");
    return most_cycles;
  }

  void fabric() {
    const Shape shape = topology(d_).shape;
    only_with({"p"}, shape != Shape::single_switch, "a single switch has 'ports'");
    only_with({"a", "h"}, shape == Shape::dragonfly, "only a dragonfly has that");
    only_with({"leaves", "spines"}, shape == Shape::fat_tree, "only a fat tree has that");
    only_with({"ports"}, shape == Shape::single_switch, "only a single switch has that");
  }

  void traffic() {
    const Scenario& scenario = d_.scenario;
    const std::uint32_t nodes = topology(d_).nodes();
    const bool messages = ends(scenario.pattern);
    const bool incast = scenario.pattern == Pattern::incast;
    const bool core = scenario.endpoints == EndpointsAre::core;
    only_with({"receivers", "senders"}, incast, "only 'pattern: incast' has that");
    if (incast && scenario.receivers == 0) {
      blame({"receivers", "pattern"}, "'pattern: incast' and 'receivers' belong together");
    }
    if (scenario.receivers > nodes) {
      blame({"receivers"}, "the fabric has " + std::to_string(nodes) + " nodes");
    }
    if (incast && scenario.senders >= nodes) {
      blame({"senders", "pattern"}, "a receiver has at most the " + std::to_string(nodes - 1) +
                                        " other nodes of the fabric");
    }
    only_with({"processes", "budget"}, !messages || core,
              "messages of ranks have one process a node, but with 'endpoints: core'");
    only_with({"ecn"}, !messages && scenario.protocol == Protocol::push,
              "only streams that are pushed are throttled");
    if (scenario.pattern == Pattern::trace && d_.trace.empty()) {
      blame({"pattern"}, "'pattern: trace' and 'trace: FILE' belong together");
    }
    if (scenario.pattern != Pattern::trace && !d_.trace.empty()) {
      blame({"trace"}, "'pattern: trace' and 'trace: FILE' belong together");
    }
    constexpr std::uint64_t most_messages = 4'000'000;
    if (messages && scenario.pattern != Pattern::trace &&
        std::uint64_t{scenario.rounds} * nodes * scenario.processes * 6 > most_messages) {
      blame({"rounds", "p", "ports", "pattern"}, "rounds times ranks are too many messages");
    }
  }

  void endpoints_of() {
    Scenario& scenario = d_.scenario;
    const bool core = scenario.endpoints == EndpointsAre::core;
    const bool trace = scenario.pattern == Pattern::trace;
    only_with({"steps", "match_time", "window_initial", "window_max", "window_unasked",
               "max_rd_atomic", "limit_event", "tokens", "proxy_servers", "context_cache"},
              core, "only 'endpoints: core' has that");
    only_with({"admission"}, scenario.tokens > 0, "only 'tokens' has that");
    only_with({"cct", "nrct", "crct"}, scenario.thresholds,
              "only 'admission: thresholds' has that");
    only_with({"context_of", "context_miss"}, scenario.context_cache > 0,
              "only 'context_cache' has that");
    if (!core) return;
    only_with({"from", "to", "retry_count"}, false, "'endpoints: core' does not have that");
    only_with({"steps"}, ends(scenario.pattern), "streams have no steps");
    only_with({"work"}, scenario.steps_wait && !trace, "only 'steps: wait' has that");
    only_with({"processes"}, !trace, "a trace is of nodes");
    scenario.steps_wait = scenario.steps_wait || trace;
    only_with({"match_time"}, scenario.steps_wait, "only 'steps: wait' and traces have that");
    only_with({"ecn"}, ends(scenario.pattern), "'endpoints: core' does not have that");
    if (scenario.budget_of == BudgetOf::transfer && scenario.adaptive) {
      blame({"reads_max", "budget"}, "what a connection has under way does not adapt");
    }
    if (scenario.window_max > 0 && scenario.window_initial > scenario.window_max) {
      blame({"window_initial", "window_max"}, "more than window_max");
    }
    if (scenario.proxy_servers > 0 && scenario.processes < 2) {
      blame({"proxy_servers"}, "a process alone on its node has nobody to send for");
    } else if (scenario.proxy_servers > scenario.processes) {
      blame({"proxy_servers"}, "a node has " + std::to_string(scenario.processes) + " processes");
    }
    const std::uint64_t processes = std::uint64_t{topology(d_).nodes()} * scenario.processes;
    if (processes > most_cores) {
      const bool many = scenario.processes > 1;
      blame({many ? "processes" : "endpoints"},
            "the fabric has " + std::to_string(processes) + (many ? " processes" : " nodes") +
                "; at most " + std::to_string(most_cores) + " are simulated with all of the core");
    }
  }

  void links_down() {
    Scenario& scenario = d_.scenario;
    const Error error = outages(d_.down, scenario.cycle_ns, scenario.outages);
    if (!error.empty()) blame({"down"}, error);
    for (const Scenario::Outage& outage : scenario.outages) {
      if (outage.links > topology(d_).trunks()) {
        blame({"down"}, "there are " + std::to_string(topology(d_).trunks()) + " such links");
      }
      if (outage.to_cycles > most_cycles) {
        blame({"down"}, "more than 1,000,000,000 cycles; one is the time of 256 bytes");
      }
    }
  }

  Draft& d_;
  const config::Source& source_;
  std::vector<config::Problem>& problems_;
};

// Beside the file that names it.
void add_trace(const Draft& draft, const config::Source& source, const std::string& file,
               ScenarioFile& to) {
  const std::filesystem::path path = std::filesystem::path(file).parent_path() / draft.trace;
  if (!std::ifstream(path)) {
    for (const config::Entry& entry : source.entries) {
      if (entry.key != "trace") continue;
      to.problems.push_back(
          {source.layer, entry.where, entry.key, path.string() + " cannot be read", entry.line});
    }
    return;
  }
  const Scenario& scenario = draft.scenario;
  TraceFile trace = read_trace(path.string(), scenario.fabric.topology.nodes(), scenario.cycle_ns);
  to.scenario.trace = std::move(trace.messages);
  to.problems = std::move(trace.problems);
}

ScenarioFile from_source(const config::Source& source, const std::string& path) {
  ScenarioFile file{.scenario = {}, .problems = source.problems};
  Draft draft;
  for (const config::Entry& entry : source.entries) {
    const Row* row = find(entry.key);
    const Error error = row == nullptr ? no_such_key(entry.key) : row->set(draft, entry.value);
    if (!error.empty()) {
      file.problems.push_back({source.layer, entry.where, entry.key, error, entry.line});
    }
  }
  if (file.problems.empty()) {
    Whole(draft, source, file.problems).finish();
  }
  file.scenario = draft.scenario;
  if (file.problems.empty() && !draft.trace.empty()) add_trace(draft, source, path, file);
  return file;
}

}  // namespace

std::vector<ScenarioKey> scenario_keys() {
  std::vector<ScenarioKey> keys;
  for (const Row& row : rows) keys.push_back(row.key);
  return keys;
}

ScenarioFile parse_scenario(const std::string& text, const std::string& file) {
  return from_source(config::parse_yaml(text, file, config::Layer::named_file), file);
}

ScenarioFile read_scenario(const std::string& path) {
  return from_source(config::read_yaml_file(path, config::Layer::named_file), path);
}

}  // namespace weir::sim
