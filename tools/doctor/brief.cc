#include "tools/doctor/brief.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "tools/doctor/checks.h"
#include "tools/doctor/show.h"
#include "tools/doctor/waiting.h"
#include "tools/here.h"
#include "transport/btl/device_wish.h"

namespace weir::tools::doctor {
namespace {

bool failed(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.verdict == Verdict::fail; });
}

// `now`: the name of the check under way.
Findings run_checks(const std::function<void(verbs::DeviceWish&)>& take_wishes,
                    std::atomic<const char*>& now) {
  Findings all;
  const auto run = [&](const char* name, auto check) {
    now = name;
    Findings found = check();
    const bool good = !failed(found);
    std::move(found.begin(), found.end(), std::back_inserter(all));
    return good;
  };
  if (!run("device", check_devices) || !run("device files", check_device_files)) return all;
  config::Configuration here;
  run("configuration", [&] {
    here = configuration_here();
    return check_configuration(here);
  });
  run("memlock", [&] { return check_memlock(here.settings); });
  verbs::DeviceWish wish = btl::device_wish(here.settings);
  take_wishes(wish);
  std::optional<verbs::PortChoice> port;
  if (!run("port", [&] { return check_port(wish, port); }) || !port) return all;
  std::optional<verbs::Device> device;
  const bool opened = run("open", [&] {
    std::string why;
    device = verbs::Device::open(*port, why);
    return device ? Findings{} : Findings{fail("open", why, "look at dmesg")};
  });
  if (!opened) return all;
  run("limits", [&] { return check_limits(*device, here.settings); });
  run("registration", [&] { return probe_memory(*device, here.settings); });
  run("connection", [&] { return probe_connection(*device); });
  return all;
}

}  // namespace

const Finding& Brief::worst() const {
  return *std::max_element(
      findings.begin(), findings.end(),
      [](const Finding& a, const Finding& b) { return a.verdict < b.verdict; });
}

std::string Brief::line() const {
  const Finding& one = worst();
  const auto others = std::count_if(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.verdict == one.verdict && &finding != &one;
  });
  std::string text = fmt::format("{:4}  ", word(one.verdict));
  if (one.verdict == Verdict::ok) {
    // What a person wants to know of a node that is well.
    const auto port = std::find_if(findings.begin(), findings.end(),
                                   [](const Finding& finding) { return finding.name == "port"; });
    text += fmt::format("{}; {} checks, {:.1f} s", port->text, findings.size(), seconds);
    return text;
  }
  text += one.name + ": " + one.text;
  if (others > 0) text += fmt::format(" (and {} more)", others);
  return text;
}

Brief check_briefly(std::function<void(verbs::DeviceWish&)> take_wishes, milliseconds limit) {
  // Both outlive this call with the thread, if it hangs.
  auto now = std::make_shared<std::atomic<const char*>>("start");
  auto task = std::make_shared<std::packaged_task<Findings()>>(
      [now, take = std::move(take_wishes)] { return run_checks(take, *now); });
  std::future<Findings> result = task->get_future();
  const auto start = Clock::now();
  std::thread([task] { (*task)(); }).detach();
  Brief brief;
  if (result.wait_for(limit) == std::future_status::ready) {
    brief.findings = result.get();
  } else {
    brief.findings = {fail(now->load(),
                           fmt::format("no end within {} s: a call into the driver hangs, or this "
                                       "node is overloaded",
                                       limit.count() / 1000),
                           "look at dmesg; reload the driver or reboot")};
  }
  brief.seconds = ms_since(start) / 1000;
  return brief;
}

}  // namespace weir::tools::doctor
