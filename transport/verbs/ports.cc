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

const char* link_of(ibv_transport_type transport, bool ethernet) {
  switch (transport) {
    case IBV_TRANSPORT_IB: return ethernet ? "RoCE" : "InfiniBand";
    case IBV_TRANSPORT_IWARP: return "iWARP";
    case IBV_TRANSPORT_USNIC:
    case IBV_TRANSPORT_USNIC_UDP: return "usNIC";
    default: return "another transport";  // efa
  }
}

// What is the same for all ports of a device.
struct Opened {
  std::string name;
  ibv_transport_type transport = IBV_TRANSPORT_UNKNOWN;
  ibv_device_attr limits{};
  std::vector<ibv_port_attr> ports;
  std::vector<ibv_gid_entry> gids;
  std::vector<LocalAddress> local;  // addresses of this network namespace
};

// Of all ports: the kernel refuses to write a table that does not fit.
std::vector<ibv_gid_entry> gid_table(ibv_context* context,
                                     const std::vector<ibv_port_attr>& ports) {
  std::size_t most = 0;
  for (const ibv_port_attr& port : ports) most += static_cast<std::size_t>(port.gid_tbl_len);
  std::vector<ibv_gid_entry> entries(most);
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  entries.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return entries;
}

std::vector<Gid> gids_of(const Opened& device, const PortChoice& port) {
  std::vector<Gid> table;
  for (const ibv_gid_entry& entry : device.gids) {
    if (entry.port_num != port.port) continue;
    Gid gid;
    gid.index = static_cast<int>(entry.gid_index);
    gid.type = entry.gid_type == IBV_GID_TYPE_ROCE_V2   ? GidType::roce_v2
               : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidType::roce_v1
                                                        : GidType::infiniband;
    std::memcpy(gid.raw.data(), entry.gid.raw, gid.raw.size());
    gid.interface = entry.ndev_ifindex;
    gid.here = !port.ethernet || device.local.empty() ||
               find_address(device.local, gid.raw, gid.interface) != nullptr;
    table.push_back(gid);
  }
  return table;
}

// Whether the port can run weir, once it is up and has an address.
std::string why_unsuited(const Opened& device, const PortChoice& port) {
  if (device.transport != IBV_TRANSPORT_IB) {
    return std::string(port.link) + ": weir runs on InfiniBand and RoCE";
  }
  if (device.limits.max_srq == 0) return "no shared receive queues (max_srq is 0): weir needs them";
  return {};
}

// Gives the port the GID and the address. If it has none, the reason.
std::string take_address(const Opened& device, const DeviceWish& wish, PortChoice& port) {
  const Gid* gid = choose_gid(port.gids);
  if (wish.gid_index >= 0) {
    const auto wanted = std::find_if(port.gids.begin(), port.gids.end(),
                                     [&](const Gid& g) { return g.index == wish.gid_index; });
    if (wanted == port.gids.end()) return "no GID " + std::to_string(wish.gid_index);
    if (!wanted->here) return "GID " + std::to_string(wish.gid_index) + ": " + why_chosen(*wanted);
    gid = &*wanted;
  }
  if (port.gids.empty()) return "no GID";
  if (gid == nullptr) return "no GID with an address of this network namespace";
  port.gid = *gid;
  const LocalAddress* const local =
      port.ethernet ? find_address(device.local, gid->raw, gid->interface)
                    : ipoib_address(device.name, gid->raw, wish.pkey, device.local);
  if (!port.ethernet && local == nullptr) return "no IPoIB interface of it has an IP address";
  port.interface = local != nullptr && local->interface != 0 ? local->interface : gid->interface;
  port.address = make_address(local != nullptr ? local->bytes : gid->raw, 0, port.interface);
  port.network_bits = local != nullptr ? local->network_bits : std::uint8_t{0};
  return {};
}

PortChoice look_at(const Opened& device, std::uint8_t number, const DeviceWish& wish) {
  const ibv_port_attr& attributes = device.ports[number - 1u];
  PortChoice port;
  port.device = device.name;
  port.port = number;
  port.turn = wish.turn;
  port.active = attributes.state == IBV_PORT_ACTIVE;
  port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.link = link_of(device.transport, port.ethernet);
  port.soft_roce = device.limits.vendor_id == rxe_vendor;
  port.mtu_bytes = 128u << attributes.active_mtu;
  port.speed_mbps = lane_mbps(attributes.active_speed) * lanes(attributes.active_width);
  port.gids = gids_of(device, port);
  port.declined = why_unsuited(device, port);
  port.suits = port.declined.empty();
  if (!port.suits) return port;
  port.declined = take_address(device, wish, port);
  if (!port.active) port.declined = "not active";
  return port;
}

}  // namespace

std::string cannot_open(const std::string& device) {
  return "cannot open " + device + ": " + std::strerror(errno) +
         ". Check the permissions of /dev/infiniband/uverbs*";
}

std::vector<PortChoice> list_ports(const DeviceWish& wish, std::string* unopened) {
  std::vector<PortChoice> ports;
  Opened device;
  device.local = local_addresses();
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices == nullptr) return ports;
  for (int i = 0; i < count; ++i) {
    device.name = ibv_get_device_name(devices[i]);
    device.transport = devices[i]->transport_type;
    const Context context(ibv_open_device(devices[i]));
    if (!context && unopened != nullptr) *unopened = cannot_open(device.name);
    if (!context || ibv_query_device(context.get(), &device.limits) != 0) continue;
    device.ports.assign(device.limits.phys_port_cnt, {});
    for (unsigned port = 1; port <= device.ports.size(); ++port) {
      ibv_query_port(context.get(), static_cast<std::uint8_t>(port), &device.ports[port - 1]);
    }
    device.gids = gid_table(context.get(), device.ports);
    for (unsigned port = 1; port <= device.ports.size(); ++port) {
      ports.push_back(look_at(device, static_cast<std::uint8_t>(port), wish));
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
