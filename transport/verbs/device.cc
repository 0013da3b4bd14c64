#include "transport/verbs/device.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "transport/verbs/ipoib.h"
#include "transport/verbs/locality.h"
#include "transport/verbs/reach.h"

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

std::vector<std::uint16_t> pkey_table(ibv_context* context, std::uint8_t port) {
  std::vector<std::uint16_t> table;
  ibv_port_attr attributes{};
  if (ibv_query_port(context, port, &attributes) != 0) return table;
  for (int i = 0; i < attributes.pkey_tbl_len; ++i) {
    __be16 pkey = 0;
    table.push_back(ibv_query_pkey(context, port, i, &pkey) == 0 ? ntohs(pkey) : std::uint16_t{0});
  }
  return table;
}

// An InfiniBand port has no IP address: rdma_cm uses that of its IPoIB interface.
sockaddr_storage ipoib_address(const std::string& device, const Gid& gid,
                               std::optional<std::uint16_t> pkey) {
  sockaddr_storage found{};
  const std::vector<IpoibInterface> interfaces = ipoib_interfaces(device);
  const IpoibInterface* const interface = choose_ipoib(interfaces, gid.raw, pkey);
  ifaddrs* all = nullptr;
  if (interface == nullptr || getifaddrs(&all) != 0) return found;
  for (const ifaddrs* it = all; it != nullptr && found.ss_family == 0; it = it->ifa_next) {
    if (it->ifa_addr != nullptr && it->ifa_addr->sa_family == AF_INET &&
        interface->name == it->ifa_name) {
      std::memcpy(&found, it->ifa_addr, sizeof(sockaddr_in));
    }
  }
  freeifaddrs(all);
  return found;
}

std::uint8_t leading_ones(const std::uint8_t* mask, std::size_t bytes) {
  std::uint8_t bits = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    bits = static_cast<std::uint8_t>(bits + std::countl_one(mask[i]));
    if (mask[i] != 0xff) break;
  }
  return bits;
}

// The bits of the network that the address is in; 0 if no interface has it.
std::uint8_t network_bits(const sockaddr_storage& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return 0;
  std::uint8_t bits = 0;
  for (const ifaddrs* it = all; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || it->ifa_netmask == nullptr) continue;
    sockaddr_storage one{};
    const bool v4 = it->ifa_addr->sa_family == AF_INET;
    if (!v4 && it->ifa_addr->sa_family != AF_INET6) continue;
    std::memcpy(&one, it->ifa_addr, v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (address_bytes(one) != address_bytes(address)) continue;
    const sockaddr* const mask = it->ifa_netmask;
    bits = v4 ? static_cast<std::uint8_t>(
                    96 + leading_ones(reinterpret_cast<const std::uint8_t*>(
                                          &reinterpret_cast<const sockaddr_in*>(mask)->sin_addr),
                                      4))
              : leading_ones(reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr, 16);
  }
  freeifaddrs(all);
  return bits;
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
                                   : ipoib_address(device, *gid, wish.pkey);
  choice.network_bits = network_bits(choice.address);
  return choice;
}

std::string cannot_open(const std::string& device) {
  return "cannot open " + device + ": " + std::strerror(errno) +
         ". Check the permissions of /dev/infiniband/uverbs*";
}

}  // namespace

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

namespace {

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

bool is_usable(const PortChoice& port) { return port.active && port.address.ss_family != 0; }

// Whether what the one reaches can be reached from the other.
bool in_one_network(const PortChoice& one, const PortChoice& other) {
  wire::Card first;
  wire::Card second;
  describe_fabric(one, first);
  describe_fabric(other, second);
  return why_unreachable(first, second, false).empty();
}

// The fastest, or of those equal to the first such that also reach what it reaches, a near one.
const PortChoice* near_us(const std::vector<const PortChoice*>& usable, unsigned turn) {
  const PortChoice& first = **std::max_element(
      usable.begin(), usable.end(),
      [](const auto* a, const auto* b) { return a->speed_mbps < b->speed_mbps; });
  std::vector<const PortChoice*> equal;
  std::vector<Cpus> near;
  for (const PortChoice* const port : usable) {
    if (port->speed_mbps != first.speed_mbps || !in_one_network(first, *port)) continue;
    equal.push_back(port);
    near.push_back(cpus_near(port->device));
  }
  const auto online = static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN));
  return equal[nearest(near, {.own = own_cpus(), .online = online, .turn = turn})];
}

}  // namespace

std::optional<PortChoice> choose_port(const DeviceWish& wish, std::string& why) {
  const std::string name = names_in(wish.name).front();
  std::string unopened;
  const std::vector<PortChoice> ports = list_ports(wish, &unopened);
  if (ports.empty()) {
    why = unopened;
    if (!why.empty()) return std::nullopt;
    why =
        "there is no RDMA device (ibv_devices lists none). Load the adapter's driver, or "
        "Soft-RoCE (modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0)";
    return std::nullopt;
  }
  std::vector<const PortChoice*> usable;
  std::string seen;
  for (const PortChoice& port : ports) {
    if (name != "auto" && name != port.device && name != port.name()) {
      seen += (seen.empty() ? "" : ", ") + port.name();
      continue;
    }
    if (!port.active) {
      seen += (seen.empty() ? "" : ", ") + port.name() + " (not active)";
    } else if (port.address.ss_family == 0) {
      seen += (seen.empty() ? "" : ", ") + port.name() + " (no usable GID or IP address)";
    } else {
      usable.push_back(&port);
    }
  }
  if (usable.empty()) {
    why = "no usable RDMA port for device '" + name + "'; there is: " + seen +
          ". Bring the port up and give its network interface an IP address";
    return std::nullopt;
  }
  return *near_us(usable, wish.turn);
}

namespace {

// Those that can be rails with the first one, which is among them: of each adapter one port, for
// the ports share its bus.
std::vector<PortChoice> rail_ports(const PortChoice& first, const DeviceWish& wish) {
  std::set<std::string> seen{first.device};
  std::vector<PortChoice> ports = list_ports(wish);
  std::erase_if(ports, [&](const PortChoice& port) {
    if (port.name() == first.name()) return false;
    return !is_usable(port) || port.ethernet != first.ethernet ||
           port.soft_roce != first.soft_roce || 2 * port.speed_mbps < first.speed_mbps ||
           !seen.insert(port.device).second;
  });
  return ports;
}

std::vector<Cpus> cpus_near_each(const std::vector<PortChoice>& ports) {
  std::vector<Cpus> near;
  for (const PortChoice& port : ports) near.push_back(cpus_near(port.device));
  return near;
}

// Of a process's ports, each goes to the port of a peer that has the same place. If only ports of
// one name reach each other, all processes have to take them in one order: `first` and those as
// listed.
void add_others(std::vector<PortChoice>& rails, std::size_t most, const DeviceWish& wish) {
  const PortChoice first = rails.front();
  const Place place{.own = own_cpus(),
                    .online = static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN)),
                    .turn = wish.turn};
  std::vector<PortChoice> ports = rail_ports(first, wish);
  const bool one_network = std::all_of(ports.begin(), ports.end(), [&](const PortChoice& port) {
    return in_one_network(first, port);
  });
  if (wish.rails == 0) {  // nobody asked for more: none that is slower
    std::erase_if(ports, [&](const auto& port) { return port.speed_mbps != first.speed_mbps; });
    if (one_network) {
      const std::vector<std::size_t> chosen =
          one_or_two(cpus_near_each(ports), place, wish.processes);
      if (chosen.size() == 2) rails = {ports[chosen[0]], ports[chosen[1]]};
      return;
    }
    most = ports.size() < 2 * wish.processes ? 1 : 2;
  }
  std::erase_if(ports, [&](const PortChoice& port) { return port.device == first.device; });
  while (rails.size() < most && !ports.empty()) {
    const std::size_t next = one_network ? nearest(cpus_near_each(ports), place) : 0;
    rails.push_back(ports[next]);
    ports.erase(ports.begin() + static_cast<std::ptrdiff_t>(next));
  }
}

}  // namespace

std::vector<PortChoice> choose_ports(const DeviceWish& wish, std::string& why) {
  constexpr std::size_t most_rails = 4;
  const std::vector<std::string> names = names_in(wish.name);
  const std::size_t most = std::min(wish.rails > 0 ? wish.rails : names.size(), most_rails);
  std::vector<PortChoice> rails;
  DeviceWish one = wish;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    one.name = names[i];
    std::optional<PortChoice> port = choose_port(one, why);
    if (!port) return {};
    rails.push_back(std::move(*port));
  }
  if (wish.name == "auto") add_others(rails, most, wish);
  return rails;
}

std::string pkeys_text(ibv_context* context, std::uint8_t port) {
  std::string text;
  for (const std::uint16_t pkey : pkey_table(context, port)) {
    if (pkey == 0) continue;  // not used
    std::array<char, 8> one{};
    std::snprintf(one.data(), one.size(), "0x%04x", pkey);
    text += (text.empty() ? "" : ", ") + std::string(one.data());
  }
  return text;
}

std::optional<std::uint16_t> Device::pkey_index(std::uint16_t pkey, std::string& why) const {
  constexpr std::uint16_t partition = 0x7fff;  // the other bit: a full member
  const std::vector<std::uint16_t> table = pkey_table(context(), port_.port);
  std::optional<std::uint16_t> found;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if ((table[i] & partition) != (pkey & partition)) continue;
    if (!found || table[i] > table[*found]) found = static_cast<std::uint16_t>(i);
  }
  if (found) return found;
  std::array<char, 8> wanted{};
  std::snprintf(wanted.data(), wanted.size(), "0x%04x", pkey);
  why = port_.name() + " has no partition key " + wanted.data() + "; it has " +
        pkeys_text(context(), port_.port) +
        ". Correct btl_weir_pkey, or have the subnet manager add the port to the partition";
  return std::nullopt;
}

std::optional<Device> Device::open(const PortChoice& port, std::string& why) {
  Device device;
  device.port_ = port;
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    if (port.device == ibv_get_device_name(devices[i])) {
      device.context_.reset(ibv_open_device(devices[i]));
    }
  }
  if (devices != nullptr) ibv_free_device_list(devices);
  if (!device.context_) {
    why = cannot_open(port.device);
    return std::nullopt;
  }
  device.pd_.reset(ibv_alloc_pd(device.context_.get()));
  if (!device.pd_ || ibv_query_device(device.context_.get(), &device.limits_) != 0) {
    why = "cannot allocate a protection domain on " + port.device + ": " + std::strerror(errno);
    return std::nullopt;
  }
  return device;
}

std::array<std::uint8_t, 16> address_bytes(const sockaddr_storage& address) {
  std::array<std::uint8_t, 16> bytes{};
  if (address.ss_family == AF_INET) {
    bytes[10] = bytes[11] = 0xff;
    std::memcpy(&bytes[12], &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
  }
  return bytes;
}

sockaddr_storage make_address(const std::array<std::uint8_t, 16>& bytes, std::uint16_t port,
                              std::uint32_t interface) {
  sockaddr_storage storage{};
  const Gid gid{.raw = bytes};
  if (gid.is_ipv4_mapped()) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, &bytes[12], 4);
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, bytes.data(), 16);
    if (gid.is_link_local()) v6.sin6_scope_id = interface;
  }
  return storage;
}

std::string to_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text.data(),
              text.size());
  } else if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text.data(),
              text.size());
  } else {
    return "no address";
  }
  return text.data();
}

}  // namespace weir::verbs
