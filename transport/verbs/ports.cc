#include "transport/verbs/ports.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "transport/verbs/addresses.h"
#include "transport/verbs/ipoib.h"

namespace weir::verbs {
namespace {

// The vendor number of rxe. Its device name would not help: `rdma link add` accepts any name.
constexpr std::uint32_t rxe_vendor = 0xffffff;

std::uint64_t lane_mbps(std::uint8_t speed) {
  switch (speed) {
    case 1: return 2500;
    case 2: return 5000;
    case 4:
    case 8: return 10000;
    case 16: return 14000;
    case 32: return 25000;
    case 64: return 50000;
    case 128: return 100000;
    default: return 2500;
  }
}

std::uint64_t lanes(std::uint8_t width) {
  switch (width) {
    case 2: return 4;
    case 4: return 8;
    case 8: return 12;
    case 16: return 2;
    default: return 1;
  }
}

std::vector<Gid> gid_table(ibv_context* context, std::uint8_t port) {
  std::array<ibv_gid_entry, 256> entries{};
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  std::vector<Gid> table;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<std::size_t>(i)];
    if (entry.port_num != port) continue;
    Gid gid;
    gid.index = static_cast<int>(entry.gid_index);
    gid.type = entry.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidType::roce_v2
               : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidType::roce_v1
                                                        : GidType::infiniband;
    std::memcpy(gid.raw.data(), entry.gid.raw, gid.raw.size());
    gid.interface = entry.ndev_ifindex;
    table.push_back(gid);
  }
  return table;
}

PortChoice look_at(ibv_context* context, const std::string& device, std::uint8_t port,
                   const DeviceWish& wish) {
  PortChoice choice;
  choice.device = device;
  choice.port = port;
  ibv_port_attr attributes{};
  if (ibv_query_port(context, port, &attributes) != 0) return choice;
  choice.active = attributes.state == IBV_PORT_ACTIVE;
  choice.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  choice.mtu_bytes = 128u << attributes.active_mtu;
  choice.speed_mbps = lane_mbps(attributes.active_speed) * lanes(attributes.active_width);
  choice.gids = gid_table(context, port);

  const Gid* gid = choose_gid(choice.gids);
  if (wish.gid_index >= 0) {
    const auto wanted = std::find_if(choice.gids.begin(), choice.gids.end(),
                                     [&](const Gid& g) { return g.index == wish.gid_index; });
    gid = wanted == choice.gids.end() ? nullptr : &*wanted;
  }
  if (gid == nullptr) return choice;
  choice.gid = *gid;
  choice.address = choice.ethernet ? make_address(gid->raw, 0, gid->interface)
                                   : ipoib_address(device, gid->raw, wish.pkey);
  choice.network_bits = network_bits(choice.address);
  return choice;
}

}  // namespace

std::string cannot_open(const std::string& device) {
  return "cannot open " + device + ": " + std::strerror(errno) +
         ". Check the permissions of /dev/infiniband/uverbs*";
}

std::vector<PortChoice> list_ports(const DeviceWish& wish, std::string* unopened) {
  std::vector<PortChoice> ports;
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices == nullptr) return ports;
  for (int i = 0; i < count; ++i) {
    const Context context(ibv_open_device(devices[i]));
    if (!context && unopened != nullptr) *unopened = cannot_open(ibv_get_device_name(devices[i]));
    ibv_device_attr limits{};
    if (!context || ibv_query_device(context.get(), &limits) != 0) continue;
    for (unsigned port = 1; port <= limits.phys_port_cnt; ++port) {
      ports.push_back(look_at(context.get(), ibv_get_device_name(devices[i]),
                              static_cast<std::uint8_t>(port), wish));
      ports.back().soft_roce = limits.vendor_id == rxe_vendor;
    }
  }
  ibv_free_device_list(devices);
  return ports;
}

std::string hardware_text(const PortChoice& port) {
  std::string text = "Soft-RoCE";
  if (!port.soft_roce) {
    const std::filesystem::path folder = "/sys/class/infiniband/" + port.device;
    std::error_code error;
    text = std::filesystem::read_symlink(folder / "device/driver", error).filename();
    std::string type;
    std::ifstream(folder / "hca_type") >> type;
    if (!type.empty()) text += " " + type;
  }
  const std::string mbps = std::to_string(port.speed_mbps % 1000 / 100);
  return text + ", " + std::to_string(port.speed_mbps / 1000) + "." + mbps + " Gb/s, MTU " +
         std::to_string(port.mtu_bytes) + ", " + std::to_string(sysconf(_SC_NPROCESSORS_ONLN)) +
         " CPUs";
}

}  // namespace weir::verbs
