#include "tools/between/answer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "tools/between/counters.h"
#include "tools/between/facts.h"
#include "tools/between/host.h"
#include "tools/between/link.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/subprocess.h"
#include "tools/here.h"
#include "tools/perf/answer.h"
#include "tools/port_facts.h"
#include "tools/top/answer.h"
#include "transport/btl/device_wish.h"
#include "transport/verbs/choose_ports.h"

namespace weir::tools::between {
namespace {

constexpr std::uint32_t most_rounds = 100000;
constexpr std::uint32_t longest_read_ms = 10000;

// The next request. False at the end of all, or of one that is longer than any request.
bool take_line(std::string& line) {
  line.clear();
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c == '\n') return true;
    if (line.size() == longest_line) return false;
    line += static_cast<char>(c);
  }
  return false;
}

// What the kernel's own tool says of drivers that have no files for it: "0:off 3:on".
std::string dcb(const char* what, const char* part, const std::string& interface) {
  if (interface.empty() || doctor::find_program("dcb").empty()) return {};
  std::string why;
  const auto said = doctor::run_program({"dcb", what, "show", "dev", interface, part}, {},
                                        doctor::milliseconds(2000), why);
  if (!said || said->status != 0) return {};
  const std::string line = said->output.substr(0, said->output.find('\n'));
  const std::string mark = std::string(part) + " ";
  return line.starts_with(mark) ? line.substr(mark.size()) : "";
}

class Answerer {
 public:
  Json to(const Json& request) {
    const std::string what = text_in(request, "do");
    std::string why;
    if (what.starts_with("perf ")) return perf_.to(what, request, settings_);
    if (what == "top look" || what == "top order") return top_.to(what, request);
    if (what == "facts") return facts(request);
    if (what == "counters") return counters();
    if (what == "listen") {
      link_.reset();
      link_ = Link::listen(settings_, count_in(request, "mtu", 4096), why);
      return link_ == nullptr ? failed(why) : Json{{"card", to_hex(link_->pair().card())}};
    }
    if (what == "drop") {
      link_.reset();
      return {{"dropped", true}};
    }
    if (link_ == nullptr) return failed("nothing listens");
    if (what == "connect") {
      const auto start = doctor::Clock::now();
      if (!link_->pair().connect(from_hex(text_in(request, "card")), why)) return failed(why);
      return {{"ms", doctor::ms_since(start)}, {"mtu", link_->pair().path_mtu()}};
    }
    if (what == "accept") {
      return link_->pair().accept(why) ? Json{{"mtu", link_->pair().path_mtu()}} : failed(why);
    }
    if (what == "ping") {
      std::vector<double> times = link_->ping(count_in(request, "bytes", 4096),
                                              count_in(request, "rounds", most_rounds), why);
      if (times.empty()) return failed(why);
      std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
      return {{"us", times[times.size() / 2]}};
    }
    if (what == "pong") {
      return link_->pong(count_in(request, "rounds", most_rounds), why) ? Json{{"done", true}}
                                                                        : failed(why);
    }
    if (what == "memory") {
      return {{"address", link_->memory_address()}, {"key", link_->memory_key()}};
    }
    if (what == "read") {
      const double speed =
          link_->read(count_in(request, "address"), count_in(request, "key", UINT32_MAX),
                      doctor::milliseconds(count_in(request, "ms", longest_read_ms)), why);
      return speed > 0 ? Json{{"bytes_per_second", speed}} : failed(why);
    }
    return failed("this weir does not know '" + what + "'");
  }

 private:
  // MCA parameters of the host that asks: mpirun would hand them on.
  static void take_parameters(const Json& request) {
    const auto found = request.find("parameters");
    if (found == request.end() || !found->is_object()) return;
    for (const config::Key& key : config::schema()) {
      const std::string name = config::mca_name(key);
      const std::string value = text_in(*found, name.c_str(), longest_value);
      if (!value.empty()) setenv(("OMPI_MCA_" + name).c_str(), value.c_str(), 1);
    }
  }

  Json facts(const Json& request) {
    take_parameters(request);
    const config::Configuration here = configuration_here();
    settings_ = here.settings;
    Facts facts;
    facts.host = own_name();
    facts.weir = WEIR_VERSION;
    describe(here, facts);
    if (request.contains("only_configuration")) return to_json(facts);
    if (!request.contains("without_open_mpi")) {
      facts.open_mpi = doctor::open_mpi_version(facts.why_no_open_mpi);
    }
    std::string why;
    const auto rails = verbs::choose_ports(btl::device_wish(settings_), why);
    if (rails.empty()) {
      facts.why_no_port = why;
      return to_json(facts);
    }
    const verbs::PortChoice& port = rails.front();
    PortFacts& said = facts.port.emplace();
    said.name = port.name();
    said.link = port.link;
    said.gid = address_of(port.gid);
    said.gid_type = verbs::to_text(port.gid.type);
    said.interface = interface_of(port);
    for (const verbs::PortChoice& rail : rails) {
      said.rails += (said.rails.empty() ? "" : ", ") + rail.name();
    }
    said.rail_count = rails.size();
    said.mtu_bytes = port.mtu_bytes;
    said.speed_mbps = port.speed_mbps;
    said.soft = port.soft_roce;
    counter_folder_ = fmt::format("/sys/class/infiniband/{}/ports/{}", port.device, port.port);
    interface_ = said.interface;
    const std::string device = "/sys/class/infiniband/" + port.device;
    facts.hardware =
        read_hardware(device, port.port, interface_.empty() ? "" : "/sys/class/net/" + interface_);
    // Soft-RoCE has no folder of a driver.
    facts.hardware["driver"] = driver_of(port.device);
    for (const auto& [name, what, part] : {std::tuple("pfc", "pfc", "prio-pfc"),
                                           std::tuple("dscp to priority", "app", "dscp-prio")}) {
      if (facts.hardware.contains(name)) continue;
      if (std::string text = dcb(what, part, interface_); !text.empty()) {
        facts.hardware[name] = std::move(text);
      }
    }
    facts.slow_slot = why_slow_slot(device);
    facts.counters = read_counters(counter_folder_, interface_);
    return to_json(facts);
  }

  Json counters() const {
    return {{"counters", between::to_json(read_counters(counter_folder_, interface_))}};
  }

  config::Settings settings_;
  std::string counter_folder_;
  std::string interface_;
  std::unique_ptr<Link> link_;
  perf::Answerer perf_;
  top::Answerer top_;
};

}  // namespace

int answer() {
  Answerer answerer;
  for (std::string line; take_line(line);) {
    const auto request = object_of(line);
    const Json said = request ? answerer.to(*request) : failed("this is no request");
    // What a library prints must not stand before it on the line.
    const std::string text = "\n" + std::string(answer_mark) + between::line_of(said);
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return 1;
  }
  return 0;
}

}  // namespace weir::tools::between
