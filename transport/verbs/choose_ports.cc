#include "transport/verbs/choose_ports.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "transport/verbs/locality.h"
#include "transport/verbs/reach.h"
#include "transport/wire/hello.h"

namespace weir::verbs {
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

// Whether a peer that the one port reaches can be reached from the other, too.
bool in_one_network(const PortChoice& one, const PortChoice& other) {
  wire::Card first;
  wire::Card second;
  describe_fabric(one, first);
  describe_fabric(other, second);
  return why_unreachable(first, second, false).empty();
}

// Reads files for each core: only where there is something to choose.
Place here(unsigned turn) {
  const auto online = static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN));
  const auto all = static_cast<unsigned>(sysconf(_SC_NPROCESSORS_CONF));
  return {.own = own_cpus(), .cores = cores_of_machine(all), .online = online, .turn = turn};
}

// A near one of the fastest ports, of those in the network of the first fastest.
PortChoice near_us(const std::vector<const PortChoice*>& usable, const DeviceWish& wish) {
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
  PortChoice taken = *(equal.size() == 1 ? equal.front() : equal[nearest(near, here(wish.turn))]);
  taken.mixed_node = wish.processes > 1 && std::any_of(equal.begin(), equal.end(), [&](auto* port) {
                       return port->device != taken.device;
                     });
  return taken;
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
  bool any_suits = false;
  for (const PortChoice& port : ports) {
    const bool named = name == "auto" || name == port.device || name == port.name();
    if (named && port.declined.empty()) usable.push_back(&port);
    any_suits = any_suits || port.suits;
    seen += (seen.empty() ? "" : ", ") + port.name();
    if (!port.declined.empty()) seen += " (" + port.declined + ")";
  }
  if (usable.empty()) {
    why = "no usable RDMA port for device '" + name + "'; there is: " + seen;
    if (any_suits) why += ". Bring the port up and give its network interface an IP address";
    return std::nullopt;
  }
  return near_us(usable, wish);
}

namespace {

// The ports that can be rails together with `first`, and `first`. It takes one port of each
// adapter, because the ports of an adapter share its bus.
std::vector<PortChoice> rail_ports(const PortChoice& first, const DeviceWish& wish) {
  std::set<std::string> seen{first.device};
  std::vector<PortChoice> ports = list_ports(wish);
  std::erase_if(ports, [&](const PortChoice& port) {
    if (port.name() == first.name()) return false;
    return !port.declined.empty() || port.ethernet != first.ethernet ||
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

// Each rail connects our port to the peer's port with the same index. If the ports are in different
// networks, all processes must take them in the same order: `first`, then the others as listed.
void add_others(std::vector<PortChoice>& rails, std::size_t most, const DeviceWish& wish) {
  const PortChoice first = rails.front();
  std::vector<PortChoice> ports = rail_ports(first, wish);
  if (ports.size() < 2) return;
  const Place place = here(wish.turn);
  const bool one_network = std::all_of(ports.begin(), ports.end(), [&](const PortChoice& port) {
    return in_one_network(first, port);
  });
  if (wish.rails == 0) {  // no number was asked for: no slower port
    std::erase_if(ports, [&](const auto& port) { return port.speed_mbps != first.speed_mbps; });
    if (one_network) {
      const std::vector<std::size_t> chosen =
          one_or_two(cpus_near_each(ports), place, wish.processes);
      if (chosen.size() == 2) rails = {ports[chosen[0]], ports[chosen[1]]};
      rails.front().mixed_node = first.mixed_node;
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

}  // namespace weir::verbs
