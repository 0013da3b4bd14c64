#include "tools/port_facts.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace weir::tools {
namespace {

namespace fs = std::filesystem;

std::string sysfs(const std::string& device) { return "/sys/class/infiniband/" + device; }

}  // namespace

std::string pkeys_of(const verbs::PortChoice& port) {
  std::string why;
  const auto device = verbs::Device::open(port, why);
  return device ? verbs::pkeys_text(device->context(), port.port) : "";
}

std::string lanes_text(const config::Settings& settings) {
  const auto one = [](const char* what, std::int64_t value, const char* format) {
    if (value == config::automatic) return std::string(what) + " of the path";
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), format, static_cast<int>(value));
    return std::string(what) + " " + text.data();
  };
  return one("traffic class", settings.traffic_class, "%d") + ", " +
         one("service level", settings.service_level, "%d") + ", " +
         one("partition key", settings.pkey, "0x%04x");
}

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string state_text(const verbs::PortChoice& port) {
  // "4: ACTIVE"
  const std::string line =
      line_of(sysfs(port.device) + "/ports/" + std::to_string(port.port) + "/state");
  std::string state = line.substr(std::min(line.size(), line.find(' ') + 1));
  for (char& c : state) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return state.empty() ? (port.active ? "active" : "not active") : state;
}

std::string interface_of(const verbs::PortChoice& port) {
  std::array<char, IF_NAMESIZE> name{};
  if (port.interface != 0 && if_indextoname(port.interface, name.data()) != nullptr) {
    return name.data();
  }
  // Soft-RoCE has no device behind it, but says whose child it is.
  if (const std::string parent = line_of(sysfs(port.device) + "/parent"); !parent.empty()) {
    return parent;
  }
  std::error_code error;
  for (const auto& net : fs::directory_iterator(sysfs(port.device) + "/device/net", error)) {
    return net.path().filename();
  }
  return {};
}

std::uint32_t interface_mtu(const std::string& interface) {
  const std::string line = line_of("/sys/class/net/" + interface + "/mtu");
  return line.empty() ? 0 : static_cast<std::uint32_t>(std::atoi(line.c_str()));
}

std::string driver_of(const std::string& device) {
  std::error_code error;
  const fs::path link = fs::read_symlink(sysfs(device) + "/device/driver", error);
  if (!error) return link.filename();
  return fs::exists(sysfs(device) + "/parent") ? "rdma_rxe" : "";
}

std::string address_of(const verbs::Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, gid.raw.data(), text.data(), text.size());
  return text.data();
}

}  // namespace weir::tools
