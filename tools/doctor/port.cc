// The port weir would take, its address, its packets, its limits.

#include <fmt/core.h>

#include "tools/between/hardware.h"
#include "tools/doctor/checks.h"
#include "tools/needs.h"
#include "tools/port_facts.h"
#include "transport/verbs/choose_ports.h"
#include "transport/verbs/hw_counters.h"

namespace weir::tools::doctor {
namespace {

constexpr std::uint32_t best_mtu = 4096;
// An Ethernet frame with an RDMA packet of 4096: RoCEv2's headers and checksum are 74 bytes at
// most, and people know this number.
constexpr std::uint32_t interface_mtu_for_best = 4200;

std::string or_placeholder(const std::string& interface) {
  return interface.empty() ? "NETDEV" : interface;
}

Finding why_port_unusable(const verbs::PortChoice& port) {
  if (!port.suits) {
    return fail("port", fmt::format("{}: {}", port.name(), port.declined),
                "use another adapter; weir info shows the ports there are");
  }
  const std::string interface = interface_of(port);
  if (!port.active) {
    return fail("port",
                fmt::format("{} is {}{}", port.name(), state_text(port),
                            interface.empty() ? "" : " (" + interface + ")"),
                port.ethernet ? fmt::format("ip link set {} up, and look at the cable or the "
                                            "switch when it stays down",
                                            or_placeholder(interface))
                              : "connect the cable; a port that stays in 'init' has no subnet "
                                "manager: run opensm on one host of the fabric");
  }
  return fail("gid", fmt::format("{}: {}", port.name(), port.declined),
              fmt::format("{}ip addr add 10.0.0.1/24 dev {}, each host its own address",
                          port.ethernet ? "" : "modprobe ib_ipoib; ", or_placeholder(interface)));
}

Finding check_gid(const verbs::PortChoice& port) {
  const std::string interface = or_placeholder(interface_of(port));
  const std::string text = fmt::format("{} takes GID {}, {} ({})", port.name(), port.gid.index,
                                       address_of(port.gid), why_chosen(port.gid));
  const std::string fix =
      fmt::format("ip addr add 10.0.0.1/24 dev {}, each host its own address", interface);
  if (!port.ethernet) return ok("gid", text);
  if (port.gid.is_link_local()) return warn("gid", text, fix);
  if (port.gid.type == verbs::GidType::roce_v1) {
    return warn("gid", text,
                fmt::format("choose another entry with --mca btl_weir_gid_index N (weir info lists "
                            "them), or enable RoCEv2 on {}",
                            port.device));
  }
  return ok("gid", text);
}

Finding check_mtu(const verbs::PortChoice& port) {
  const std::string interface = interface_of(port);
  std::string text = fmt::format("{}'s active MTU is {} B", port.name(), port.mtu_bytes);
  if (port.mtu_bytes >= best_mtu) return ok("mtu", text);
  text += fmt::format(" instead of {} B: more packets for the same data", best_mtu);
  if (!port.ethernet) {
    return warn("mtu", text, "raise the MTU of the partition in the subnet manager (mtu=5)");
  }
  if (const std::uint32_t mtu = interface_mtu(interface); mtu != 0) {
    text += fmt::format("; {}'s MTU is {}", interface, mtu);
  }
  return warn("mtu", text,
              fmt::format("ip link set {} mtu {} (or 9000) on every host and switch",
                          or_placeholder(interface), interface_mtu_for_best));
}

Finding check_rails(const std::vector<verbs::PortChoice>& rails, std::size_t wanted) {
  std::string names;
  for (const verbs::PortChoice& rail : rails) names += (names.empty() ? "" : ", ") + rail.name();
  const std::string text =
      fmt::format("{} for large messages: {}", rails.size() == 1 ? "one rail" : "rails", names);
  if (rails.size() >= wanted) return ok("rails", text);
  return warn("rails", fmt::format("{}; btl_weir_rails wants {}", text, wanted),
              "name the devices with --mca btl_weir_device a,b (weir info shows them)");
}

}  // namespace

Findings check_port(const verbs::DeviceWish& wish, std::optional<verbs::PortChoice>& choice) {
  std::string why;
  const std::vector<verbs::PortChoice> rails = verbs::choose_ports(wish, why);
  if (!rails.empty()) {
    choice = rails.front();
    Findings findings{
        ok("port", fmt::format("{} is active: {}, {} Gb/s", choice->name(), choice->link,
                               static_cast<double>(choice->speed_mbps) / 1000)),
        check_gid(*choice), check_mtu(*choice)};
    const std::string slow = between::why_slow_slot("/sys/class/infiniband/" + choice->device);
    if (!slow.empty()) {
      findings.push_back(warn("slot", choice->device + " " + slow,
                              "reseat the adapter, or use a slot with all its lanes (lspci -vv: "
                              "LnkSta against LnkCap)"));
    }
    if (rails.size() > 1 || wish.rails > 1) findings.push_back(check_rails(rails, wish.rails));
    return findings;
  }
  Findings findings;
  for (const verbs::PortChoice& port : verbs::list_ports(wish)) {
    if (wish.name != "auto" && wish.name != port.device && wish.name != port.name()) continue;
    findings.push_back(why_port_unusable(port));
  }
  if (findings.empty()) {
    const auto end = why.find(". ");
    findings.push_back(fail("port", why.substr(0, end),
                            "weir info shows the ports there are; name one with --device, and with "
                            "--mca btl_weir_device in a job"));
  }
  return findings;
}

// Whether a switch sorts these packets as wanted, only its administrator knows.
Findings check_path(const verbs::Device& device, const config::Settings& settings) {
  std::string why;
  if (settings.pkey != config::automatic &&
      !device.pkey_index(static_cast<std::uint16_t>(settings.pkey), why)) {
    return {fail("path", why.substr(0, why.find(". ")),
                 "set --mca btl_weir_pkey auto, or a key of the port; or have the subnet manager "
                 "add the port to the partition")};
  }
  const bool sorted_by_class = device.port().ethernet && !device.port().soft_roce;
  return {
      ok("path", "queue pairs take " + lanes_text(settings) +
                     (sorted_by_class && settings.traffic_class == config::automatic
                          ? "; where switches sort by DSCP, set btl_weir_traffic_class to 4 times "
                            "that of RDMA"
                          : ""))};
}

Findings check_limits(const verbs::Device& device, const config::Settings& settings) {
  Findings findings;
  for (const Need& need : needs_of(device, settings)) {
    if (need.met()) continue;
    const std::string text =
        fmt::format("{} has {} {}, and weir wants {} ({})", device.port().device, need.limit,
                    need.has, need.wants, need.why);
    const std::string fix =
        need.why.starts_with("btl_weir_")
            ? fmt::format("--mca {} with a smaller value", need.why.substr(0, need.why.find(' ')))
            : std::string("use another device, or run fewer processes on a node");
    findings.push_back(need.essential ? fail("limits", text, fix) : warn("limits", text, fix));
  }
  if (findings.empty()) {
    findings.push_back(
        ok("limits", device.port().device + " has what weir needs (weir info shows each limit)"));
  }
  return findings;
}

Findings check_counters(const verbs::Device& device) {
  const std::string folder = verbs::hw_counter_folder(device.port().device, device.port().port);
  const verbs::HwCounters counters = verbs::read_hw_counters(folder);
  if (!counters.rnr_naks_sent || !counters.rnr_naks_received) {
    return {warn("counters",
                 folder + " has no counter of RNR NAKs: the MPI_T variables "
                          "btl_weir_rnr_naks_* are missing",
                 "install a newer driver; in a container, mount /sys read-only")};
  }
  return {ok("counters",
             fmt::format("the port counted {} RNR NAKs sent and {} received since it came up",
                         *counters.rnr_naks_sent, *counters.rnr_naks_received))};
}

}  // namespace weir::tools::doctor
