#include "tools/between/host_options.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tools/between/hosts.h"
#include "tools/between/lines.h"
#include "tools/doctor/subprocess.h"

namespace weir::tools::between {
namespace {

using doctor::find_program;

constexpr std::size_t most_hosts = 10000;
constexpr doctor::milliseconds patience{10000};

void check_name(const std::string& name) {
  if (const std::string why = why_no_host(name); !why.empty()) {
    throw CLI::ValidationError("'" + safe(name, 60) + "' is no host: " + why);
  }
}

// ClusterShell's nodeset knows patterns and groups; Slurm's scontrol knows its own lists.
std::vector<std::string> expanded(const std::string& pattern) {
  std::vector<std::string> command;
  if (!find_program("nodeset").empty()) {
    command = {"nodeset", "-S", "\n", "-e", pattern};
  } else if (!find_program("scontrol").empty() && !pattern.starts_with('@')) {
    command = {"scontrol", "show", "hostnames", pattern};
  } else {
    throw CLI::ValidationError(fmt::format(
        "'{}' needs the program nodeset: install clustershell, or write each host in a --hostfile",
        safe(pattern, 60)));
  }
  const auto refuse = [&](const std::string& why) {
    throw CLI::ValidationError(
        fmt::format("{} does not understand '{}': {}", command[0], safe(pattern, 60), safe(why)));
  };
  if (pattern.starts_with('-')) refuse("it begins with '-'");
  std::string why;
  const auto said = doctor::run_program(command, {}, patience, why);
  if (!said) refuse(why);
  if (said->status != 0) refuse(said->output.substr(0, said->output.find('\n')));
  std::vector<std::string> hosts = hosts_of(said->output);
  if (hosts.empty()) refuse("it names no host");
  return hosts;
}

void add(std::vector<std::string>& hosts, const std::string& part) {
  const std::vector<std::string> more =
      is_pattern(part) ? expanded(part) : std::vector<std::string>{part};
  for (const std::string& name : more) check_name(name);
  if (hosts.size() + more.size() > most_hosts) {
    throw CLI::ValidationError(fmt::format("these are more than {} hosts", most_hosts));
  }
  add_hosts(hosts, more);
}

std::string text_of_file(const char* option, const std::string& name) {
  std::ifstream file(name);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) throw CLI::ValidationError(option, name + " cannot be read");
  return text;
}

}  // namespace

void add_host_options(CLI::App& command, HostOptions& options, const std::string& names) {
  command
      .add_option(names, options.lists,
                  "Hosts: node1,node2 or node[001-500] or @group, as ClusterShell's nodeset and "
                  "Slurm write them; again for more")
      ->type_name("LIST");
  command
      .add_option("--hostfile", options.files,
                  "Hosts of this file, in mpirun's format; slots do not matter")
      ->type_name("FILE");
  command
      .add_option(
          "--launcher", options.launcher,
          "What starts weir there: ssh, srun, mpirun, or a command that takes HOST and then "
          "the words to run. {host} stands for the host elsewhere in it. Default: srun "
          "inside an allocation, else what OMPI_MCA_plm_rsh_agent names, or ssh")
      ->type_name("CMD");
  command
      .add_option("--timeout", options.limit_s,
                  "Time limit for a host's first answer (30); later steps have limits of their own")
      ->check(CLI::Range(1, 3600))
      ->type_name("SECONDS");
}

std::vector<std::string> hosts_in_lists(const std::vector<std::string>& lists) {
  std::vector<std::string> hosts;
  for (const std::string& list : lists) {
    const std::vector<std::string> parts = parts_of(list);
    if (parts.empty()) check_name(list);
    for (const std::string& part : parts) add(hosts, part);
  }
  return hosts;
}

std::vector<std::string> hosts_in(const HostOptions& options) {
  std::vector<std::string> hosts = hosts_in_lists(options.lists);
  for (const std::string& name : options.files) {
    for (const std::string& part : hosts_of(text_of_file("--hostfile", name))) add(hosts, part);
  }
  return hosts;
}

std::vector<std::pair<std::string, std::string>> switches_in(const std::string& file) {
  std::vector<std::pair<std::string, std::string>> all;
  std::istringstream lines(text_of_file("--switches", file));
  for (std::string line; std::getline(lines, line);) {
    std::string name;
    std::string nodes;
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      const std::string key = CLI::detail::to_lower(word.substr(0, word.find('=')));
      if (key == "switchname") name = word.substr(word.find('=') + 1);
      if (key == "nodes") nodes = word.substr(word.find('=') + 1);
    }
    if (nodes.empty()) continue;
    for (const std::string& host : hosts_in_lists({nodes})) all.emplace_back(host, safe(name, 40));
  }
  if (all.empty()) {
    throw CLI::ValidationError("--switches",
                               file +
                                   " has no line 'SwitchName=NAME Nodes=LIST', as Slurm's "
                                   "topology.conf");
  }
  return all;
}

Launcher launcher_here(const HostOptions& options) {
  return choose_launcher(options.launcher, {.variable =
                                                [](const char* name) {
                                                  const char* const value = std::getenv(name);
                                                  return std::string(value == nullptr ? "" : value);
                                                },
                                            .exists =
                                                [](const std::string& program) {
                                                  return program.find('/') != std::string::npos
                                                             ? access(program.c_str(), X_OK) == 0
                                                             : !find_program(program).empty();
                                                }});
}

}  // namespace weir::tools::between
