#include "tools/between/judge.h"

#include <fmt/core.h>

#include <algorithm>

namespace weir::tools::between {
namespace {

using doctor::fail;
using doctor::ok;
using doctor::Verdict;
using doctor::warn;

// Of what the slower port can. RDMA reads of 64 KiB lose a tenth to headers and PCIe at most.
constexpr double good_share = 0.8;
// A cable and two switches take 3 us with any adapter of the last ten years.
constexpr double slow_us = 20;
// Both directions use the same parts; noise is less.
constexpr double lopsided = 0.7;

// Keys that say how packets travel: a job may do with different ones, but hardly anybody means it.
constexpr std::string_view path_keys[] = {"rails", "mtu", "traffic_class", "service_level", "pkey"};

std::string value_text(const End& end, const std::string& key) {
  const Setting& setting = end.facts.settings.at(key);
  return fmt::format("{} on {} ({})", setting.value, end.name, setting.where);
}

bool differs(const End& here, const End& there, const std::string& key) {
  const auto ours = here.facts.settings.find(key);
  const auto theirs = there.facts.settings.find(key);
  return ours != here.facts.settings.end() && theirs != there.facts.settings.end() &&
         ours->second.value != theirs->second.value;
}

// mpirun hands MCA parameters on, but no other variable.
std::string how_to_agree(const End& here, const End& there, const std::string& key) {
  for (const End* end : {&here, &there}) {
    const std::string variable = config::environment_name(*config::find_key(key));
    if (end->facts.settings.at(key).where.find(variable) != std::string::npos) {
      return fmt::format(
          "mpirun does not hand {} on to other hosts: mpirun -x {}, or --mca {} VALUE, or the same "
          "file on every host",
          variable, variable, config::mca_name(*config::find_key(key)));
    }
  }
  return fmt::format("the same file on every host, or mpirun --mca {} VALUE",
                     config::mca_name(*config::find_key(key)));
}

std::string difference_text(const End& here, const End& there, const std::string& key) {
  return fmt::format("{} is {}, {}", key, value_text(here, key), value_text(there, key));
}

bool is_of_path(std::string_view key) {
  return std::find(std::begin(path_keys), std::end(path_keys), key) != std::end(path_keys);
}

void compare_versions(const End& here, const End& there, Findings& findings) {
  const Facts& ours = here.facts;
  const Facts& theirs = there.facts;
  findings.push_back(
      ours.weir == theirs.weir
          ? ok("weir", fmt::format("both have weir {}", ours.weir))
          : fail("weir",
                 fmt::format("weir {} on {}, {} on {}", ours.weir, here.name,
                             theirs.weir.empty() ? "of no version" : theirs.weir, there.name),
                 "install the same weir on every host"));
  for (const End* end : {&here, &there}) {
    if (!end->facts.open_mpi.empty()) continue;
    findings.push_back(
        warn("open mpi",
             fmt::format("programs that a remote shell starts on {} find no Open MPI: {}",
                         end->name, end->facts.why_no_open_mpi),
             "start jobs with mpirun's full path or --prefix. Or put its bin folder into PATH in "
             "~/.bashrc there, before the line that ends it in a shell that is not interactive"));
    return;
  }
  findings.push_back(ours.open_mpi == theirs.open_mpi
                         ? ok("open mpi", fmt::format("both have Open MPI {}", ours.open_mpi))
                         : fail("open mpi",
                                fmt::format("Open MPI {} on {}, {} on {}", ours.open_mpi, here.name,
                                            theirs.open_mpi, there.name),
                                "use the same Open MPI on every host: processes of different "
                                "versions do not understand each other"));
}

void compare_settings(const End& here, const End& there, Findings& findings) {
  constexpr const char* name = "keys";
  const std::size_t before = findings.size();
  for (const End* end : {&here, &there}) {
    if (end->facts.mistakes == 0) continue;
    findings.push_back(
        fail(name,
             fmt::format("{} mistake{} in the configuration of {}: {}", end->facts.mistakes,
                         end->facts.mistakes == 1 ? "" : "s", end->name, end->facts.first_mistake),
             "weir config check there names them all"));
  }
  std::size_t others = 0;
  for (const config::Key& key : config::schema()) {
    if (!differs(here, there, key.name)) continue;
    if (!key.alike) {
      others += is_of_path(key.name) ? 0 : 1;
      continue;
    }
    findings.push_back(fail(
        name, difference_text(here, there, key.name) + ": it has to be the same in all processes",
        how_to_agree(here, there, key.name)));
  }
  if (findings.size() > before) return;
  findings.push_back(ok(
      name,
      others == 0
          ? std::string("all keys of the configuration agree")
          : fmt::format(
                "the keys that must agree do; {} other{} (weir config diff shows the difference)",
                others, others == 1 ? " differs" : "s differ")));
}

// Traffic class (DSCP), service level and partition, as configured.
void compare_path(const End& here, const End& there, Findings& findings) {
  constexpr const char* name = "path";
  const std::size_t before = findings.size();
  std::string same;
  for (const std::string_view view : path_keys) {
    const std::string key(view);
    const auto ours = here.facts.settings.find(key);
    if (ours != here.facts.settings.end()) {
      same += fmt::format("{}{} {}", same.empty() ? "" : ", ", key, ours->second.value);
    }
    if (!differs(here, there, key)) continue;
    findings.push_back(warn(name,
                            difference_text(here, there, key) +
                                ": the fabric treats packets of each direction differently",
                            how_to_agree(here, there, key)));
  }
  if (findings.size() == before) findings.push_back(ok(name, "both are set to " + same));
}

Finding compare_mtu(const End& here, const End& there) {
  constexpr const char* name = "mtu";
  const PortFacts& ours = *here.facts.port;
  const PortFacts& theirs = *there.facts.port;
  if (ours.mtu_bytes == theirs.mtu_bytes) {
    return ok(name, fmt::format("both ports' active MTU is {} B", ours.mtu_bytes));
  }
  const End& smaller = ours.mtu_bytes < theirs.mtu_bytes ? here : there;
  const PortFacts& port = *smaller.facts.port;
  return warn(
      name,
      fmt::format("the active MTU is {} B on {}, {} B on {}: one side may send packets that the "
                  "other drops",
                  ours.mtu_bytes, here.name, theirs.mtu_bytes, there.name),
      port.link == "RoCE"
          ? fmt::format("on {}: ip link set {} mtu 4200 (or 9000), as on the other hosts",
                        smaller.name, port.interface.empty() ? "NETDEV" : port.interface)
          : fmt::format("give {}'s port the MTU of the others (subnet manager)", smaller.name));
}

Finding compare_gids(const End& here, const End& there) {
  constexpr const char* name = "gid";
  const PortFacts& ours = *here.facts.port;
  const PortFacts& theirs = *there.facts.port;
  const std::string both = fmt::format("{} {} on {}, {} {} on {}", ours.gid_type, ours.gid,
                                       here.name, theirs.gid_type, theirs.gid, there.name);
  if (ours.link != theirs.link) {
    return fail(name,
                fmt::format("{} is on {}, {} on {}: they are not on one fabric", here.name,
                            ours.link, there.name, theirs.link),
                "name the port of the common fabric with --device, and with btl_weir_device in "
                "jobs");
  }
  if (ours.gid_type != theirs.gid_type) {
    return fail(name, "the GIDs are of different kinds: " + both,
                "choose entries of one kind with btl_weir_gid_index (weir info lists them)");
  }
  return ok(name, both);
}

void compare_rails(const End& here, const End& there, Findings& findings) {
  const PortFacts& ours = *here.facts.port;
  const PortFacts& theirs = *there.facts.port;
  if (ours.rail_count == theirs.rail_count) {
    if (ours.rail_count > 1) {
      findings.push_back(
          ok("rails", fmt::format("both have {} rails ({}; {}); this test uses the first",
                                  ours.rail_count, ours.rails, theirs.rails)));
    }
    return;
  }
  findings.push_back(warn("rails",
                          fmt::format("{} rail{} on {} ({}), {} on {} ({}): the others are idle",
                                      ours.rail_count, ours.rail_count == 1 ? "" : "s", here.name,
                                      ours.rails, theirs.rail_count, there.name, theirs.rails),
                          "name the same number of ports on every host with btl_weir_device, in "
                          "the same order"));
}

// As ping wants it.
std::string plain_address(const std::string& gid) {
  constexpr std::string_view ipv4 = "::ffff:";
  return gid.starts_with(ipv4) ? gid.substr(ipv4.size()) : gid;
}

std::string megabytes(double bytes_per_second) {
  return fmt::format("{:.{}f} MB/s", bytes_per_second / 1e6, bytes_per_second < 1e7 ? 1 : 0);
}

std::string rises_text(const std::string& name, const std::vector<Rise>& rose) {
  std::string text;
  for (const Rise& rise : rose) {
    text += fmt::format("{}{} {} on {} ({})", text.empty() ? "" : ", ", rise.by, rise.words, name,
                        rise.name);
  }
  return text;
}

}  // namespace

Findings compare(const End& here, const End& there) {
  Findings findings;
  compare_versions(here, there, findings);
  compare_settings(here, there, findings);
  compare_path(here, there, findings);
  bool ports = true;
  for (const End* end : {&here, &there}) {
    if (end->facts.port) continue;
    ports = false;
    findings.push_back(fail(
        "port",
        fmt::format("{} has no port that weir could take: {}", end->name,
                    end->facts.why_no_port.empty() ? "it gives no reason" : end->facts.why_no_port),
        fmt::format("run weir doctor on {}, which says more", end->name)));
  }
  if (!ports) return findings;
  findings.push_back(compare_gids(here, there));
  findings.push_back(compare_mtu(here, there));
  compare_rails(here, there, findings);
  return findings;
}

Finding judge_connection(const End& here, const End& there, double took_ms,
                         const std::string& why) {
  constexpr const char* name = "connection";
  if (why.empty()) {
    return ok(name, fmt::format("a queue pair of {} connects to one of {} within {:.0f} ms",
                                here.name, there.name, took_ms));
  }
  return fail(
      name,
      fmt::format("no queue pair of {} connects to one of {}: {}", here.name, there.name, why),
      fmt::format("see that {} reaches the address {} by the interface of its port (ping "
                  "-I), and that no firewall drops UDP port 4791",
                  here.name,
                  there.facts.port ? plain_address(there.facts.port->gid) : "of its peer"));
}

Finding judge_packet(std::uint64_t mtu, const std::string& why, std::uint64_t smaller_passes,
                     const End& here, const End& there) {
  constexpr const char* name = "packet";
  if (why.empty()) {
    return ok(name, fmt::format("a packet of {} B, the path's MTU, passes both ways", mtu));
  }
  if (smaller_passes == 0) {
    return fail(name,
                fmt::format("queue pairs connect, but no packet passes between {} and {}: {}",
                            here.name, there.name, why),
                "on RoCE, see that no firewall or switch drops UDP port 4791; weir doctor on each "
                "host alone says whether its adapter works");
  }
  return fail(
      name,
      fmt::format(
          "packets of {} B pass, but those of {} B do not, although queue pairs take them: {}",
          smaller_passes, mtu, why),
      fmt::format("raise the MTU of interfaces and switches between {} and {} to 4200 or "
                  "more; until then --mca btl_weir_mtu {}",
                  here.name, there.name, smaller_passes));
}

Finding judge_latency(const End& here, const End& there, double half_round_us) {
  constexpr const char* name = "latency";
  const std::string text =
      fmt::format("8 B take {:.1f} us, half a round trip (median)", half_round_us);
  if (here.facts.port->soft || there.facts.port->soft || half_round_us < slow_us) {
    return ok(name, text);
  }
  return warn(
      name, fmt::format("{}: an adapter takes less than {:.0f} us", text, slow_us),
      "look for other traffic on the way, for CPUs that sleep (cpupower idle-set -D 0), and "
      "for a long way through the fabric");
}

Finding judge_bandwidth(const char* name, const End& sender, const End& receiver,
                        double bytes_per_second) {
  const PortFacts& from = *sender.facts.port;
  const PortFacts& to = *receiver.facts.port;
  const std::string text =
      fmt::format("{} from {} to {}", megabytes(bytes_per_second), sender.name, receiver.name);
  if (from.soft || to.soft) {
    return ok(name, text + "; Soft-RoCE is as fast as the CPUs, whatever rate its port shows");
  }
  const std::uint64_t slower_mbps = std::min(from.speed_mbps, to.speed_mbps);
  if (slower_mbps == 0) return ok(name, text + "; the ports do not show their rate");
  const double share = bytes_per_second * 8 / (static_cast<double>(slower_mbps) * 1e6);
  const std::string whole = fmt::format("{}, {:.0f} % of the {:g} Gb/s that the slower port has",
                                        text, share * 100, static_cast<double>(slower_mbps) / 1000);
  if (share >= good_share) return ok(name, whole);
  return warn(name, whole,
              "look for other traffic, for lost packets (counters), for a small MTU, and for an "
              "adapter in a narrow slot (lspci -vv: LnkSta against LnkCap)");
}

std::optional<Finding> judge_directions(const End& here, const End& there, double to, double from) {
  if (here.facts.port->soft || there.facts.port->soft) return {};
  if (std::min(to, from) >= lopsided * std::max(to, from)) return {};
  return warn("directions",
              fmt::format("{} from {} to {}, {} back", megabytes(to), here.name, there.name,
                          megabytes(from)),
              "the slower direction has lost packets, other traffic, or a worse cable: compare the "
              "counters of both ports");
}

Finding judge_counters(const End& here, const std::vector<Rise>& rose_here, const End& there,
                       const std::vector<Rise>& rose_there, bool any_counters) {
  constexpr const char* name = "counters";
  if (!any_counters) {
    return warn(name, "neither port has counters of retries and drops",
                "install a newer driver; in a container, mount /sys read-only");
  }
  std::vector<Rise> all = rose_here;
  all.insert(all.end(), rose_there.begin(), rose_there.end());
  if (all.empty()) {
    return ok(
        name,
        "during this test neither port counted an RNR NAK, retry, drop or sign of congestion");
  }
  std::string text = rises_text(here.name, rose_here);
  if (!rose_there.empty()) text += (text.empty() ? "" : ", ") + rises_text(there.name, rose_there);
  const auto any = [&](Trouble trouble) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Rise& rise) { return rise.trouble == trouble; });
  };
  const bool soft = here.facts.port && here.facts.port->soft;
  if (any(Trouble::cable)) {
    return warn(name, text,
                "the cable or a plug is bad: clean and reseat it, or replace it (ethtool -m, "
                "mlxlink and ibdiagnet say more)");
  }
  if (soft && any(Trouble::repeat) && !any(Trouble::drop)) {
    return warn(name, text,
                "Soft-RoCE repeats requests that busy CPUs answer late: look for other programs on "
                "both hosts; without them, packets are lost on the way");
  }
  if (any(Trouble::drop) || any(Trouble::repeat)) {
    return warn(name, text,
                "packets are lost or late: look at the cables and at the drop counters of the "
                "switches. RoCE needs PFC or ECN for its traffic class");
  }
  if (any(Trouble::rnr)) {
    return warn(name, text + ": this test always has receives posted", "look for other traffic");
  }
  return warn(name, text + ": the way is congested, perhaps by other traffic",
              "look for other traffic; a pair alone should not be marked or paused: compare the "
              "ECN and PFC thresholds of the switches");
}

double median_of(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

std::vector<std::size_t> odd_ones(const std::vector<double>& values, bool higher_is_worse) {
  if (values.size() < 3) return {};
  const double median = median_of(values);
  std::vector<std::size_t> odd;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool far =
        higher_is_worse ? values[i] > median * odd_factor : values[i] * odd_factor < median;
    if (far) odd.push_back(i);
  }
  return odd;
}

}  // namespace weir::tools::between
