#include "tools/between/hardware.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

namespace weir::tools::between {
namespace {

namespace fs = std::filesystem;

std::string line_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.substr(0, line.find_last_not_of(" \t\r") + 1);
}

std::string link_in(const std::string& path) {
  std::error_code error;
  return fs::read_symlink(path, error).filename();
}

// "16.0 GT/s PCIe" is the same as "16.0 GT/s" of an older kernel.
std::string speed_in(const std::string& path) {
  const std::string line = line_in(path);
  return line.substr(0, line.find(" PCIe"));
}

// "0 0 1": what the files of a folder say, one for each priority.
std::string lines_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    names.push_back(file.path().filename());
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : " ") + line_in(folder + "/" + name);
  }
  return text;
}

}  // namespace

Hardware read_hardware(const std::string& device, unsigned port, const std::string& interface) {
  Hardware all;
  utsname system{};
  if (uname(&system) == 0) all["kernel"] = system.release;
  all["driver"] = link_in(device + "/device/driver");
  all["firmware"] = line_in(device + "/fw_ver");
  all["board"] = line_in(device + "/board_id");
  all["rate"] = line_in(fmt::format("{}/ports/{}/rate", device, port));
  const std::string slot = device + "/device/";
  if (const std::string width = line_in(slot + "current_link_width"); !width.empty()) {
    all["pcie"] = fmt::format("x{} {}", width, speed_in(slot + "current_link_speed"));
  }
  if (!interface.empty()) {
    all["interface mtu"] = line_in(interface + "/mtu");
    // These are of NVIDIA's own driver.
    all["trust"] = line_in(interface + "/qos/trust");
    all["pfc"] = line_in(interface + "/qos/pfc");
    all["ecn of receivers"] = lines_in(interface + "/ecn/roce_np/enable");
    all["ecn of senders"] = lines_in(interface + "/ecn/roce_rp/enable");
  }
  std::erase_if(all, [](const auto& one) { return one.second.empty(); });
  return all;
}

std::string why_slow_slot(const std::string& device) {
  const std::string slot = device + "/device/";
  const std::string width = line_in(slot + "current_link_width");
  const std::string most = line_in(slot + "max_link_width");
  const std::string speed = speed_in(slot + "current_link_speed");
  const std::string most_speed = speed_in(slot + "max_link_speed");
  if (width.empty() || most.empty() || (width == most && speed == most_speed)) return {};
  return fmt::format("runs at PCIe x{} {}, and could at x{} {}", width, speed, most, most_speed);
}

}  // namespace weir::tools::between
