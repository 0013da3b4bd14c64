// `weir tune` hands over to the program that searches (tools/tune/tune, in Python), and tells it
// what it cannot know: the device that is configured, its hardware, and where the MPI program is.

#include <cstdlib>
#include <string>
#include <vector>

#include "tools/between/host_options.h"
#include "tools/commands.h"
#include "tools/data_files.h"
#include "tools/here.h"
#include "transport/btl/device_wish.h"
#include "transport/verbs/choose_ports.h"

namespace weir::tools {
namespace {

// What follows the last of this option; `otherwise` if it is not among the arguments.
std::string value_among(const std::vector<std::string>& arguments, const std::string& option,
                        std::string otherwise) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].starts_with(option + "=")) otherwise = arguments[i].substr(option.size() + 1);
    if (arguments[i] == option && i + 1 < arguments.size()) otherwise = arguments[i + 1];
  }
  return otherwise;
}

int run(const CLI::App& tune) {
  const config::Settings settings = configuration_here().settings;
  ::setenv("WEIR_TUNE_DEVICE", settings.device.c_str(), 0);
  const std::string device = value_among(tune.remaining(), "--device", settings.device);
  std::string why;
  verbs::DeviceWish wish = btl::device_wish(settings);
  wish.name = device;
  if (const auto port = verbs::choose_port(wish, why)) {
    ::setenv("WEIR_TUNE_HARDWARE", verbs::hardware_text(*port).c_str(), 0);
  } else {
    ::setenv("WEIR_TUNE_NO_HARDWARE", why.c_str(), 1);
  }
  if (const std::string list = value_among(tune.remaining(), "--hosts", ""); !list.empty()) {
    std::string hosts;
    for (const std::string& host : between::hosts_in_lists({list})) hosts += host + " ";
    ::setenv("WEIR_TUNE_HOSTS", hosts.c_str(), 1);
  }
  ::setenv("WEIR_TUNE_LOAD", helper_program("weir_tune_load").c_str(), 0);

  return become("tune/tune", tune.remaining());
}

}  // namespace

void add_tune(CLI::App& app) {
  CLI::App* tune = app.add_subcommand(
      "tune", "Measure which settings make this node fastest; write a profile and a report");
  tune->prefix_command();
  tune->set_help_flag();
  tune->callback([tune] { throw CLI::RuntimeError(run(*tune)); });
}

}  // namespace weir::tools
