// The options of every command that asks other hosts: which hosts, and how it starts itself there.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/between/launch.h"

namespace weir::tools::between {

struct HostOptions {
  std::vector<std::string> lists;  // "node[001-500]", "@group"
  std::vector<std::string> files;
  std::string launcher;   // as the user says; empty: by itself
  unsigned limit_s = 30;  // for a host to answer

  bool any() const { return !lists.empty() || !files.empty(); }
};

// --hosts (`names`: perhaps with other names of it), --hostfile, --launcher and --timeout.
void add_host_options(CLI::App& command, HostOptions& options,
                      const std::string& names = "--hosts");

// The hosts meant, each once, in order. Throws CLI::ValidationError (wrong usage).
std::vector<std::string> hosts_in(const HostOptions& options);
// Those of lists alone, as of HostOptions::lists.
std::vector<std::string> hosts_in_lists(const std::vector<std::string>& lists);

// Hosts and their switches, of a file as Slurm's topology.conf: "SwitchName=leaf1
// Nodes=node[1-18]". Lines of other switches than those of hosts do not matter. Throws
// CLI::ValidationError.
std::vector<std::pair<std::string, std::string>> switches_in(const std::string& file);

// How programs are started on other hosts here.
Launcher launcher_here(const HostOptions& options);

}  // namespace weir::tools::between
