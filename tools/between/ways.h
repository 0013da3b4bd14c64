// `weir doctor --peer` and `--hostfile`: tries the ways between hosts, one after the other. It only
// asks; what is done, the answerers on both hosts do.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "tools/between/hosts.h"
#include "tools/between/lines.h"

namespace weir::tools::between {

struct Options {
  std::vector<std::string> peers;
  std::vector<std::string> hostfiles;
  std::string shell;
  unsigned limit_s = 30;  // for a host to answer
  bool all_pairs = false;
  bool json = false;
  std::map<std::string, std::string> parameters;  // MCA parameters of weir, above the environment's

  bool wanted() const { return !peers.empty() || !hostfiles.empty(); }
};

// --hostfile, --rsh and --timeout.
void add_host_options(CLI::App& command, Options& options);

// The hosts of the files, each once, in order. Throws CLI::ValidationError (wrong usage).
std::vector<std::string> hosts_in_files(const Options& options);
// Throws it if one of the names can be no host's.
void check_names(const std::vector<std::string>& names);

// What a host is asked first; with the MCA parameters of weir that hold here.
Json first_question(const Options& options);

// Returns the exit status.
int run_doctor(const Options& options);

}  // namespace weir::tools::between
