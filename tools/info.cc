// `weir info`: what there is to run on.

#include <arpa/inet.h>
#include <fmt/core.h>

#include <array>
#include <memory>
#include <string>

#include "tools/commands.h"
#include "transport/verbs/device.h"

namespace weir::tools {
namespace {

struct InfoOptions {
  std::string device = "auto";
  int gid_index = -1;
};

std::string address_of(const verbs::Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, gid.raw.data(), text.data(), text.size());
  return text.data();
}

void print_port(const verbs::PortChoice& port, bool chosen) {
  fmt::print("{} {}  {}, {}, MTU {} B, {} Gb/s, address {}\n", chosen ? "*" : " ", port.name(),
             port.ethernet ? "RoCE" : "InfiniBand", port.active ? "active" : "not active",
             port.mtu_bytes, port.speed_mbps / 1000, verbs::to_text(port.address));
  for (const verbs::Gid& gid : port.gids) {
    fmt::print("      {} GID {:3}  {:10}  {}\n", gid.index == port.gid.index ? "*" : " ", gid.index,
               verbs::to_text(gid.type), address_of(gid));
  }
}

void run(const InfoOptions& options) {
  std::string why;
  const auto choice = verbs::choose_port({options.device, options.gid_index}, why);
  for (const verbs::PortChoice& port : verbs::list_ports(options.gid_index)) {
    print_port(port, choice && choice->name() == port.name());
  }
  if (!choice) {
    fmt::print(stderr, "weir: {}\n", why);
    throw CLI::RuntimeError(1);
  }
  fmt::print("* is what weir takes by itself\n");
}

}  // namespace

void add_info(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* info = app.add_subcommand("info", "Show the RDMA ports and GIDs, and which weir takes");
  info->add_option("--device", options->device, "As btl_weir_device: auto, mlx5_0 or mlx5_0:1")
      ->capture_default_str();
  info->add_option("--gid-index", options->gid_index, "As btl_weir_gid_index; -1 chooses")
      ->capture_default_str();
  info->callback([options] { run(*options); });
}

}  // namespace weir::tools
