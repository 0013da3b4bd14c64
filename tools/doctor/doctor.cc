// `weir doctor`: goes through the checks and shows what they find.

#include <fmt/color.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "tools/between/answer.h"
#include "tools/between/ways.h"
#include "tools/commands.h"
#include "tools/doctor/adapter_report.h"
#include "tools/doctor/brief.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/show.h"
#include "tools/here.h"
#include "transport/btl/device_wish.h"
#include "transport/verbs/choose_ports.h"

namespace weir::tools {
namespace doctor {
namespace {

struct Options {
  std::string device;  // empty: as configured
  std::optional<int> gid_index;
  bool json = false;
  between::Options between;
  bool answer = false;
  bool adapter_report = false;
  bool brief = false;
  std::chrono::seconds brief_limit{2};
};

// Each check has its own deadlines; this one is for calls into a driver that never return.
constexpr std::chrono::seconds check_limit{45};

class Report {
 public:
  explicit Report(bool json) : json_(json), colour_(!json && isatty(STDOUT_FILENO) != 0) {}

  void add(const Findings& findings) {
    for (const Finding& finding : findings) {
      all_.push_back(finding);
      if (!json_) show(finding, colour_);
    }
    std::fflush(stdout);
  }

  // Returns the exit status.
  int finish() const {
    if (json_) {
      nlohmann::ordered_json checks = nlohmann::ordered_json::array();
      for (const Finding& finding : all_) checks.push_back(to_json(finding));
      const nlohmann::ordered_json whole{{"version", WEIR_VERSION},
                                         {"checks", checks},
                                         {"ok", count(Verdict::ok)},
                                         {"warn", count(Verdict::warn)},
                                         {"fail", count(Verdict::fail)}};
      // What the system says may be no UTF-8.
      fmt::print("{}\n", whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      fmt::print("{} ok, {} warn, {} fail\n", count(Verdict::ok), count(Verdict::warn),
                 count(Verdict::fail));
    }
    std::fflush(stdout);
    return count(Verdict::fail) == 0 ? 0 : 1;
  }

 private:
  std::ptrdiff_t count(Verdict verdict) const {
    return std::count_if(all_.begin(), all_.end(),
                         [&](const Finding& finding) { return finding.verdict == verdict; });
  }

  bool json_;
  bool colour_;
  Findings all_;
};

// Runs `check` in a thread of its own, so that a driver that hangs does not take us with it.
template <typename Check>
auto in_time(Report& report, const char* name, Check check) {
  using Result = decltype(check());
  auto task = std::make_shared<std::packaged_task<Result()>>(std::move(check));
  std::future<Result> result = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  if (result.wait_for(check_limit) == std::future_status::ready) return result.get();
  report.add({fail(name,
                   fmt::format("this check did not come back within {} s: a call into the "
                               "driver hangs",
                               check_limit.count()),
                   "look at dmesg; reload the driver or reboot")});
  // What hangs holds the device: nothing after it would tell the truth.
  _exit(report.finish());
}

void check_device(Report& report, const verbs::DeviceWish& wish, const config::Settings& settings) {
  const auto run = [&](const char* name, auto check) { report.add(in_time(report, name, check)); };

  const auto [findings, choice] = in_time(report, "port", [wish] {
    std::optional<verbs::PortChoice> port;
    Findings found = check_port(wish, port);
    return std::pair(found, port);
  });
  report.add(findings);
  if (!choice) return;

  const auto [opened, why] = in_time(report, "open", [port = *choice] {
    std::string reason;
    std::optional<verbs::Device> device = verbs::Device::open(port, reason);
    return std::pair(std::move(device), reason);
  });
  if (!opened) {
    report.add({fail("open", why, "see 'device files' above, and dmesg")});
    return;
  }
  const verbs::Device& device = *opened;
  run("limits", [&] { return check_limits(device, settings); });
  run("path", [&] { return check_path(device, settings); });
  run("registration", [&] { return probe_memory(device, settings); });
  run("cache", [&] { return probe_cache(device); });
  run("connection", [&] { return probe_connection(device); });
  run("srq limit", [&] { return probe_srq_limit(device); });
  run("rnr", [&] { return probe_rnr(device, settings); });
  run("dead peer", [&] { return probe_retries(device); });
  run("rdma", [&] { return probe_rdma(device); });
  run("counters", [&] { return check_counters(device); });
}

void run_between(const Options& options) {
  between::Options all = options.between;
  all.json = options.json;
  if (!options.device.empty()) all.parameters["btl_weir_device"] = options.device;
  if (options.gid_index) {
    all.parameters["btl_weir_gid_index"] =
        *options.gid_index < 0 ? "auto" : std::to_string(*options.gid_index);
  }
  if (const int status = between::run_doctor(all); status != 0) throw CLI::RuntimeError(status);
}

void print_adapter_report(Report& report, const verbs::DeviceWish& wish) {
  const nlohmann::ordered_json found = in_time(report, "adapter", [wish] {
    std::string why;
    const std::vector<verbs::PortChoice> ports = verbs::choose_ports(wish, why);
    const auto device = ports.empty() ? std::nullopt : verbs::Device::open(ports.front(), why);
    return device ? adapter_report(*device) : nlohmann::ordered_json{{"error", why}};
  });
  fmt::print("{}\n", found.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  if (found.contains("error")) throw CLI::RuntimeError(1);
}

void take_wishes(const Options& options, verbs::DeviceWish& wish) {
  if (!options.device.empty()) wish.name = options.device;
  wish.gid_index = options.gid_index.value_or(wish.gid_index);
}

void run_briefly(const Options& options) {
  const Brief brief = check_briefly(
      [options](verbs::DeviceWish& wish) { take_wishes(options, wish); }, options.brief_limit);
  if (options.json) {
    nlohmann::ordered_json whole = to_json(brief.worst());
    whole["checks"] = brief.findings.size();
    whole["seconds"] = brief.seconds;
    fmt::print("{}\n", whole.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}\n", brief.line());
  }
  std::fflush(stdout);
  // Not by way of destructors: a thread that hangs may hold what they want.
  _exit(brief.worst().verdict == Verdict::fail ? 1 : 0);
}

void run(const Options& options) {
  if (options.answer) throw CLI::RuntimeError(between::answer());
  if (options.between.all_pairs && !options.between.wanted()) {
    throw CLI::ValidationError("--all-pairs", "name hosts with --hosts, --hostfile or --peer");
  }
  if (options.between.wanted()) {
    run_between(options);
    return;
  }
  if (options.brief) run_briefly(options);
  Report report(options.json || options.adapter_report);
  // It opens devices, for the profile of the port's fabric.
  const config::Configuration here = in_time(report, "device", configuration_here);
  const config::Settings& settings = here.settings;
  verbs::DeviceWish wish = btl::device_wish(settings);
  take_wishes(options, wish);
  if (options.adapter_report) return print_adapter_report(report, wish);
  report.add(check_configuration(here));
  const Findings devices = check_devices();
  report.add(devices);
  report.add(check_memlock(settings));
  report.add(check_process());
  report.add(check_overlap(settings));
  if (devices.front().verdict == Verdict::ok) {
    const Findings files = check_device_files();
    report.add(files);
    // Without the files libibverbs sees no device at all, and would say so in other words.
    const bool usable = std::none_of(files.begin(), files.end(), [](const Finding& finding) {
      return finding.verdict == Verdict::fail;
    });
    report.add(check_fork());
    if (usable) check_device(report, wish, settings);
  }
  report.add(check_open_mpi());  // programs, each with a deadline; no driver
  if (const int status = report.finish(); status != 0) throw CLI::RuntimeError(status);
}

constexpr const char* manual =
    "Tries on this machine what weir needs. Each check ends with ok, warn (works, but worse or\n"
    "not completely) or fail (weir will not work). A warn or fail comes with a fix. The checks\n"
    "really connect a queue pair to itself, send, and wait for an SRQ limit event. They let a\n"
    "message run into an RNR NAK, read and write by RDMA, and let ompi_info load the plugin.\n"
    "Every wait has a deadline. It changes no setting, and needs no other host and no root. But\n"
    "the port counts RNR NAKs (send_rnr_err, out_of_buffer) and the retries of the dead peer\n"
    "(local_ack_timeout_err, retry_exceeded_err, req_transport_retries_exceeded).\n"
    "\n"
    "--brief leaves those out, and whatever may take long: it is for a scheduler's health check,\n"
    "such as Slurm's HealthCheckProgram or a check of NHC. It checks devices, their files, the\n"
    "configuration, locked memory, the port, limits, registration, and messages to oneself.\n"
    "\n"
    "With --hosts or --hostfile it tries the ways between other hosts, in disjoint pairs side by\n"
    "side. Each host has a partner, a neighbour below its switch first if --switches says so.\n"
    "Both hosts of a bad pair then try one that is well, and so the odd host is found. With\n"
    "--all-pairs each host has each other one as its partner, in as many rounds as hosts. --peer\n"
    "tries the way from here.\n"
    "\n"
    "It starts itself there, at the same path. Inside an allocation of Slurm it does so by srun,\n"
    "else by Open MPI's remote shell (ssh must ask for no password), or by --launcher.\n"
    "\n"
    "Of each pair it compares the versions of weir and Open MPI, the configuration, GIDs and\n"
    "MTUs. It connects a queue pair of the first rail, sends a packet of the full MTU, and\n"
    "measures latency and bandwidth both ways. It also reports which counters of retries, drops\n"
    "and congestion rose meanwhile. Of all hosts it compares driver, firmware, kernel, PCIe slot,\n"
    "PFC, ECN, and errors of the cable. MCA parameters of weir in the environment hold there,\n"
    "too, as in a job, and so do --device and --gid-index; WEIR_ variables do not.\n"
    "\n"
    "Exit status:\n"
    "  0  nothing failed (there may be warnings)\n"
    "  1  something failed\n"
    "  2  wrong usage\n"
    "\n"
    "Examples:\n"
    "  weir doctor                      the port weir would take\n"
    "  weir doctor --device mlx5_1:1    another one\n"
    "  why=$(weir doctor --brief) || scontrol update NodeName=$(hostname -s) State=DRAIN "
    "Reason=\"weir: $why\"\n"
    "  weir doctor --json | jq '.checks[] | select(.status != \"ok\")'\n"
    "  weir doctor --peer node7         the way from here to node7\n"
    "  weir doctor --hosts node[001-500] --switches /etc/slurm/topology.conf --svg hosts.svg\n"
    "  weir doctor --hosts \"$SLURM_JOB_NODELIST\" --all-pairs\n"
    "  weir doctor --adapter-report > report.json\n"
    "  weir-lab -- weir doctor          in a micro-VM with Soft-RoCE";

}  // namespace
}  // namespace doctor

void add_doctor(CLI::App& app) {
  auto options = std::make_shared<doctor::Options>();
  CLI::App* command =
      app.add_subcommand("doctor", "Try what weir needs on this machine, and say how to repair it");
  command->add_option("--device", options->device,
                      "Instead of btl_weir_device: auto, mlx5_0 or mlx5_0:1");
  command->add_option("--gid-index", options->gid_index,
                      "Instead of btl_weir_gid_index; -1 chooses");
  command->add_flag("--json", options->json, "Print one JSON object instead of lines");
  command
      ->add_option("--peer", options->between.peers,
                   "Try the way from here to this host, or to those of a list; again for more")
      ->type_name("LIST");
  between::add_host_options(*command, options->between.hosts);
  command->add_flag("--all-pairs", options->between.all_pairs,
                    "Try each of --hosts with each other one, not with one partner alone");
  command
      ->add_option("--switches", options->between.switches,
                   "Which hosts are below which switch: a file like Slurm's topology.conf. Hosts "
                   "are tried with a neighbour first, and then with one of another switch")
      ->type_name("FILE");
  command
      ->add_option("--at-once", options->between.at_once,
                   "How many pairs are at work at once, at most (64)")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  command
      ->add_option("--svg", options->between.svg, "Write a picture of all pairs to this file, too")
      ->type_name("FILE");
  command->add_flag("--brief", options->brief,
                    "Check within 2 s (or --timeout) whether this node is fit for jobs, and say "
                    "so in one line");
  command->add_flag("--adapter-report", options->adapter_report,
                    "Print what this adapter is and how it behaves where adapters differ, as JSON "
                    "to send to weir's authors");
  // How it is started on the hosts: speaks JSON, and is for no person.
  command->add_flag("--answer", options->answer)->group("");
  command->footer(doctor::manual);
  command->callback([options, command] {
    if (command->count("--timeout") > 0) {
      options->brief_limit = std::chrono::seconds(options->between.hosts.limit_s);
    }
    doctor::run(*options);
  });
}

}  // namespace weir::tools
