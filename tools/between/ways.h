// `weir doctor --peer` and `--hosts`: tries the ways between hosts, in rounds of pairs. It only
// asks; what is done, the answerers on both hosts do.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/between/host_options.h"
#include "tools/between/lines.h"

namespace weir::tools::between {

struct Options {
  std::vector<std::string> peers;  // lists
  HostOptions hosts;
  std::string switches;  // a file, see switches_in
  std::size_t at_once = 64;
  bool all_pairs = false;
  std::string svg;
  bool json = false;
  std::map<std::string, std::string> parameters;  // MCA parameters of weir, above the environment's

  bool wanted() const { return !peers.empty() || hosts.any(); }
};

// What a host is asked first; with the MCA parameters of weir that hold here, those of `parameters`
// above those of the environment.
Json first_question(const std::map<std::string, std::string>& parameters);

// Returns the exit status.
int run_doctor(const Options& options);

}  // namespace weir::tools::between
