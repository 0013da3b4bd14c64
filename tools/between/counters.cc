#include "tools/between/counters.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

namespace weir::tools::between {
namespace {

struct Known {
  const char* name;
  Trouble trouble;
  const char* words;
};

// rxe: Linux, drivers/infiniband/sw/rxe/rxe_hw_counters.c. mlx5: Linux, hw/mlx5/counters.c.
// bnxt_re: Linux, hw/bnxt_re/hw_counters.c. The others:
// Documentation/ABI/stable/sysfs-class-infiniband.
constexpr Known known[] = {
    {"send_rnr_err", Trouble::rnr, "RNR NAKs sent"},
    {"rcvd_rnr_err", Trouble::rnr, "RNR NAKs received"},
    {"out_of_buffer", Trouble::rnr, "messages without a receive"},
    {"rnr_nak_retry_err", Trouble::rnr, "RNR NAKs received"},
    {"duplicate_request", Trouble::repeat, "requests that came twice"},
    {"out_of_seq_request", Trouble::repeat, "packets after a gap"},
    {"out_of_sequence", Trouble::repeat, "packets after a gap"},
    {"rcvd_seq_err", Trouble::repeat, "gaps that a peer saw"},
    {"packet_seq_err", Trouble::repeat, "gaps that a peer saw"},
    {"implied_nak_seq_err", Trouble::repeat, "answers after a gap"},
    {"local_ack_timeout_err", Trouble::repeat, "acknowledgements that came too late"},
    {"completer_retry_err", Trouble::repeat, "requests repeated"},
    {"retry_exceeded_err", Trouble::drop, "peers given up after all retries"},
    {"req_transport_retries_exceeded", Trouble::drop, "peers given up after all retries"},
    {"rx_icrc_encapsulated", Trouble::drop, "RoCE packets with a wrong checksum"},
    {"rx_roce_discards", Trouble::drop, "RoCE packets dropped"},
    {"port_rcv_errors", Trouble::drop, "packets received with an error"},
    {"port_xmit_discards", Trouble::drop, "packets dropped before sending"},
    {"symbol_error", Trouble::cable, "symbol errors of the link"},
    {"link_downed", Trouble::cable, "times the link went down"},
    {"link_error_recovery", Trouble::cable, "times the link recovered"},
    {"local_link_integrity_errors", Trouble::cable, "bursts of errors of the link"},
    {"rx_symbol_err_phy", Trouble::cable, "symbol errors of the link"},
    {"rx_pcs_symbol_err_phy", Trouble::cable, "symbol errors of the link"},
    {"rx_discards_phy", Trouble::drop, "packets dropped for want of buffers"},
    {"tx_discards_phy", Trouble::drop, "packets dropped before sending"},
    {"rx_crc_errors_phy", Trouble::cable, "packets with a wrong checksum"},
    {"rx_prio0_discards", Trouble::drop, "packets of priority 0 dropped"},
    {"np_cnp_sent", Trouble::congestion, "congestion notifications sent"},
    {"rp_cnp_handled", Trouble::congestion, "congestion notifications received"},
    {"np_ecn_marked_roce_packets", Trouble::congestion, "packets marked by a switch (ECN)"},
    {"rx_cnp_pkts", Trouble::congestion, "congestion notifications received"},
    {"tx_cnp_pkts", Trouble::congestion, "congestion notifications sent"},
    {"rx_ecn_marked_pkts", Trouble::congestion, "packets marked by a switch (ECN)"},
};

// "rx_prio3_pause": PFC, by priority.
bool is_pause(std::string_view name) {
  return (name.starts_with("rx_prio") || name.starts_with("tx_prio")) && name.ends_with("_pause");
}

std::optional<Known> known_as(std::string_view name) {
  for (const Known& one : known) {
    if (name == one.name) return one;
  }
  if (is_pause(name)) return Known{"", Trouble::pause, "pauses of a priority (PFC)"};
  return {};
}

void read_folder(const std::string& folder, Counters& counters) {
  for (const Known& one : known) {
    std::ifstream file(folder + "/" + one.name);
    if (std::uint64_t value = 0; file >> value) counters[one.name] = value;
  }
}

// What `ethtool -S` shows.
void read_driver(const std::string& interface, Counters& counters) {
  constexpr std::uint32_t most = 16384;
  ifreq request{};
  if (interface.empty() || interface.size() >= sizeof request.ifr_name) return;
  interface.copy(request.ifr_name, interface.size());
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto ask = [&](void* data) {
    request.ifr_data = static_cast<char*>(data);
    return ioctl(fd, SIOCETHTOOL, &request) == 0;
  };
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  if (ask(&driver) && driver.n_stats > 0 && driver.n_stats <= most) {
    const std::size_t count = driver.n_stats;
    std::vector<std::uint64_t> names((sizeof(ethtool_gstrings) + count * ETH_GSTRING_LEN) / 8 + 1);
    std::vector<std::uint64_t> values(sizeof(ethtool_stats) / 8 + count + 1);
    auto* const strings = reinterpret_cast<ethtool_gstrings*>(names.data());
    strings->cmd = ETHTOOL_GSTRINGS;
    strings->string_set = ETH_SS_STATS;
    strings->len = driver.n_stats;
    auto* const stats = reinterpret_cast<ethtool_stats*>(values.data());
    stats->cmd = ETHTOOL_GSTATS;
    stats->n_stats = driver.n_stats;
    if (ask(strings) && ask(stats)) {
      for (std::size_t i = 0; i < count; ++i) {
        const char* const at = reinterpret_cast<char*>(strings->data) + i * ETH_GSTRING_LEN;
        const std::string name(at, strnlen(at, ETH_GSTRING_LEN));
        if (known_as(name)) counters[name] = stats->data[i];
      }
    }
  }
  close(fd);
}

}  // namespace

Counters read_counters(const std::string& port_folder, const std::string& interface) {
  Counters counters;
  read_folder(port_folder + "/counters", counters);
  read_folder(port_folder + "/hw_counters", counters);
  read_driver(interface, counters);
  return counters;
}

Counters cable_errors(const Counters& counters) {
  Counters found;
  for (const auto& [name, value] : counters) {
    const auto meaning = known_as(name);
    if (meaning && meaning->trouble == Trouble::cable) found[name] = value;
  }
  return found;
}

std::string words_of(const std::string& counter) {
  const auto meaning = known_as(counter);
  return meaning ? std::string(meaning->words) + " (" + counter + ")" : "";
}

std::vector<Rise> rises(const Counters& before, const Counters& after) {
  std::vector<Rise> all;
  for (const auto& [name, value] : after) {
    const auto was = before.find(name);
    const auto meaning = known_as(name);
    if (was == before.end() || !meaning || value <= was->second) continue;
    all.push_back({name, meaning->trouble, meaning->words, value - was->second});
  }
  return all;
}

Json to_json(const Counters& counters) {
  Json all = Json::object();
  for (const auto& [name, value] : counters) all[name] = value;
  return all;
}

Counters counters_of(const Json& answer) {
  Counters counters;
  const auto found = answer.find("counters");
  if (found == answer.end() || !found->is_object()) return counters;
  for (const auto& [name, value] : found->items()) {
    if (known_as(name) && value.is_number_unsigned()) {
      counters[safe(name, 64)] = value.get<std::uint64_t>();
    }
  }
  return counters;
}

}  // namespace weir::tools::between
