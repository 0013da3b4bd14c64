// `weir info`: devices and ports to run on.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/here.h"
#include "tools/needs.h"
#include "tools/port_facts.h"
#include "transport/btl/device_wish.h"
#include "transport/btl/eager_max.h"
#include "transport/config/window.h"
#include "transport/verbs/addresses.h"
#include "transport/verbs/choose_ports.h"
#include "transport/verbs/hw_counters.h"

namespace weir::tools {
namespace {

using Json = nlohmann::ordered_json;

struct InfoOptions {
  std::string device;  // empty: as configured
  std::optional<int> gid_index;
  bool json = false;
};

struct CounterName {
  const char* name;
  std::optional<std::uint64_t> verbs::HwCounters::*field;
};
constexpr std::array counter_names{
    CounterName{"rnr_naks_sent", &verbs::HwCounters::rnr_naks_sent},
    CounterName{"rnr_naks_received", &verbs::HwCounters::rnr_naks_received},
    CounterName{"retries_exceeded", &verbs::HwCounters::retries_exceeded},
    CounterName{"ack_timeouts", &verbs::HwCounters::ack_timeouts},
    CounterName{"out_of_sequence", &verbs::HwCounters::out_of_sequence},
    CounterName{"sequence_naks", &verbs::HwCounters::sequence_naks},
    CounterName{"duplicates", &verbs::HwCounters::duplicates},
};

// All that is shown, as JSON; the table is made from it too, so that both say the same.
Json describe_port(const verbs::PortChoice& port, bool chosen, const config::Settings& settings) {
  Json gids = Json::array();
  for (const verbs::Gid& gid : port.gids) {
    const bool taken = port.address.ss_family != 0 && gid.index == port.gid.index;
    Json one{{"index", gid.index},
             {"type", verbs::to_text(gid.type)},
             {"address", address_of(gid)},
             {"taken", taken}};
    if (taken || !gid.here) one["why"] = verbs::why_chosen(gid);
    gids.push_back(one);
  }
  Json counters = Json::object();
  const verbs::HwCounters read =
      verbs::read_hw_counters(verbs::hw_counter_folder(port.device, port.port));
  for (const CounterName& counter : counter_names) {
    if (const auto value = read.*counter.field) counters[counter.name] = *value;
  }
  return Json{{"port", port.port},
              {"taken", chosen},
              {"declined", port.declined.empty() ? Json() : Json(port.declined)},
              {"state", state_text(port)},
              {"link", port.link},
              {"interface", interface_of(port)},
              {"address", port.address.ss_family != 0 ? verbs::to_text(port.address) : ""},
              {"speed_gbps", static_cast<double>(port.speed_mbps) / 1000},
              {"mtu_bytes", port.mtu_bytes},
              {"pkeys", pkeys_of(port)},
              {"lanes", chosen ? Json(lanes_text(settings)) : Json()},
              {"gids", gids},
              {"counters", counters}};
}

Json describe_device(const verbs::PortChoice& port, const config::Settings& settings) {
  std::string why;
  const auto device = verbs::Device::open(port, why);
  if (!device) return Json{{"name", port.device}, {"error", why}, {"ports", Json::array()}};
  Json needs = Json::array();
  for (const Need& need : needs_of(*device, settings)) {
    needs.push_back({{"limit", need.limit},
                     {"has", need.has},
                     {"wants", need.wants},
                     {"met", need.met()},
                     {"why", need.why}});
  }
  return Json{{"name", port.device},
              {"driver", driver_of(port.device)},
              {"firmware", std::string(device->limits().fw_ver)},
              {"atomics", atomics_text(device->limits().atomic_cap)},
              {"ports", Json::array()},
              {"limits", needs}};
}

std::string text(const Json& value) { return value.get<std::string>(); }

void print_port(const std::string& device, const Json& port) {
  fmt::print("{} port {}:{}  {} {}, {} Gb/s, MTU {} B{}{}\n", port["taken"] == true ? "*" : " ",
             device, port["port"].get<int>(), text(port["link"]), text(port["state"]),
             port["speed_gbps"].get<double>(), port["mtu_bytes"].get<int>(),
             text(port["interface"]).empty() ? "" : ", interface " + text(port["interface"]),
             text(port["address"]).empty() ? ", no address" : ", address " + text(port["address"]));
  if (!port["declined"].is_null()) fmt::print("      not usable: {}\n", text(port["declined"]));
  for (const Json& gid : port["gids"]) {
    fmt::print("    {} GID {:3}  {:10}  {:39}  {}\n", gid["taken"] == true ? "*" : " ",
               gid["index"].get<int>(), text(gid["type"]), text(gid["address"]),
               gid.contains("why") ? text(gid["why"]) : "");
  }
  if (!port["lanes"].is_null()) {
    fmt::print("      partition keys {}; queue pairs: {}\n", text(port["pkeys"]),
               text(port["lanes"]));
  }
  for (const auto& [name, value] : port["counters"].items()) {
    fmt::print("      {:22} {:>10}\n", name, value.get<std::uint64_t>());
  }
}

void print_device(const Json& device) {
  if (device.contains("error")) {
    fmt::print("{}: {}\n", text(device["name"]), text(device["error"]));
    return;
  }
  fmt::print("{}  driver {}, firmware {}, atomics {}\n", text(device["name"]),
             text(device["driver"]).empty() ? "unknown" : text(device["driver"]),
             text(device["firmware"]).empty() ? "none" : text(device["firmware"]),
             text(device["atomics"]));
  for (const Json& port : device["ports"]) print_port(text(device["name"]), port);
  fmt::print("  {:20} {:>20} {:>14}         {}\n", "limit", "device has", "weir wants", "for");
  for (const Json& limit : device["limits"]) {
    fmt::print("  {:20} {:>20} {:>14}  {:5}  {}\n", text(limit["limit"]),
               limit["has"].get<std::uint64_t>(), limit["wants"].get<std::uint64_t>(),
               limit["met"] == true ? "ok" : "short", text(limit["why"]));
  }
  fmt::print("\n");
}

std::int64_t paths_of(const config::Settings& settings) {
  return settings.paths == config::automatic ? 1 : settings.paths;
}

std::string who_set_it(const config::Settings& settings) {
  return settings.tuned_for != "any" ? "as measured on " + settings.tuned_for : "as configured";
}

std::string why_paths(const config::Settings& settings) {
  if (settings.paths == config::automatic) {
    return "auto: no measurement shows that more pay ('weir tune' between nodes makes one)";
  }
  return who_set_it(settings);
}

// Of a job with no more processes on this node than processors.
std::size_t eager_max_of(const config::Settings& settings, std::size_t rails) {
  return settings.eager_max_bytes == config::automatic
             ? btl::automatic_eager_max(rails, false)
             : static_cast<std::size_t>(settings.eager_max_bytes);
}

std::string why_eager_max(const config::Settings& settings, std::size_t rails) {
  if (settings.eager_max_bytes != config::automatic) return who_set_it(settings);
  if (rails > 1) return "auto, with several rails";
  return fmt::format("auto; {} in jobs with more than {} processes on this node",
                     bytes_text(btl::eager_max_of_a_full_node), sysconf(_SC_NPROCESSORS_ONLN));
}

// For how long the port receives at its speed until so many bytes are used up. A round trip has to
// be shorter: conf/README.
std::int64_t covered_us(std::int64_t bytes, const verbs::PortChoice& port) {
  return port.speed_mbps == 0 ? 0 : bytes * 8 / port.speed_mbps;
}

void print_covered(const config::Settings& settings, const verbs::PortChoice& port) {
  const std::int64_t window = config::receive_window(settings).window.max * settings.buffer_bytes;
  const std::int64_t reads = settings.reads_window_max_bytes;
  fmt::print(
      "  {} of eager messages to one receiver cover a round trip of {} us on {}, {} of reads {} "
      "us\n",
      bytes_text(window), covered_us(window, port), port.name(), bytes_text(reads),
      covered_us(reads, port));
}

void run(const InfoOptions& options) {
  const config::Configuration here = configuration_here();
  for (const config::Problem& problem : here.problems) {
    fmt::print(stderr, "weir: {}\n", config::to_text(problem));
  }
  const config::Settings& settings = here.settings;
  verbs::DeviceWish wish = btl::device_wish(settings);
  if (!options.device.empty()) wish.name = options.device;
  wish.gid_index = options.gid_index.value_or(wish.gid_index);
  std::string why;
  const std::vector<verbs::PortChoice> rails = verbs::choose_ports(wish, why);
  const auto is_rail = [&](const verbs::PortChoice& port) {
    return std::any_of(rails.begin(), rails.end(),
                       [&](const auto& rail) { return rail.name() == port.name(); });
  };

  Json devices = Json::array();
  for (const verbs::PortChoice& port : verbs::list_ports(wish)) {
    if (devices.empty() || devices.back()["name"] != port.device) {
      devices.push_back(describe_device(port, settings));
    }
    devices.back()["ports"].push_back(describe_port(port, is_rail(port), settings));
  }

  if (options.json) {
    Json names = Json::array();
    for (const verbs::PortChoice& rail : rails) names.push_back(rail.name());
    Json whole{{"version", WEIR_VERSION},
               {"taken", rails.empty() ? Json() : names.front()},
               {"rails", names},
               {"paths", paths_of(settings)},
               {"eager_max_bytes", eager_max_of(settings, rails.size())},
               {"devices", devices}};
    if (rails.empty()) whole["error"] = why;
    fmt::print("{}\n", whole.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    for (const Json& device : devices) print_device(device);
    if (!rails.empty()) {
      fmt::print("* marks what weir takes, as configured\n");
      fmt::print("  paths {}: {}\n", paths_of(settings), why_paths(settings));
      fmt::print("  messages up to {} are sent without asking: {}\n",
                 bytes_text(eager_max_of(settings, rails.size())),
                 why_eager_max(settings, rails.size()));
      print_covered(settings, rails.front());
    }
    for (std::size_t i = 0; rails.size() > 1 && i < rails.size(); ++i) {
      fmt::print("  rail {}: {}, for {}\n", i, rails[i].name(),
                 i == 0 ? "everything" : "parts of large messages");
    }
  }
  if (!rails.empty()) return;
  if (!options.json) fmt::print(stderr, "weir: {}\n", why);
  throw CLI::RuntimeError(1);
}

}  // namespace

void add_info(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* info = app.add_subcommand("info",
                                      "Show devices, ports and GIDs, those that weir takes, and "
                                      "whether device limits meet its needs");
  info->add_option("--device", options->device,
                   "Instead of btl_weir_device: auto, mlx5_0, mlx5_0:1, or several with commas");
  info->add_option("--gid-index", options->gid_index, "Instead of btl_weir_gid_index; -1 chooses");
  info->add_flag("--json", options->json, "Print one JSON object instead of a table");
  info->footer(
      "weir info shows what a job started here takes and wants: files, WEIR_<KEY> and\n"
      "OMPI_MCA_btl_weir_<key> count.\n"
      "\n"
      "Exit status: 0; 1 when there is no port weir could use; 2 on wrong usage.\n"
      "\n"
      "Examples:\n"
      "  weir info                            all devices and ports\n"
      "  weir info --device mlx5_1            would weir take that one?\n"
      "  weir info --json | jq .taken         for scripts\n"
      "  weir-lab -- weir info                in a micro-VM with Soft-RoCE");
  info->callback([options] { run(*options); });
}

}  // namespace weir::tools
