#include "tools/top/who.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

namespace weir::tools::top {
namespace {

constexpr std::size_t most_environment = 1 << 20;

}  // namespace

std::string user_name(std::uint32_t user) {
  std::array<char, 16 << 10> memory;
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, memory.data(), memory.size(), &found) == 0 && found != nullptr) {
    const std::string_view name = entry.pw_name;
    const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.');
    });
    if (!name.empty() && plain) return std::string(name);
  }
  return std::to_string(user);
}

bool is_slurm_job(std::string_view text) {
  return !text.empty() && text.size() <= 20 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string slurm_job(std::uint32_t pid) {
  constexpr std::string_view wanted = "SLURM_JOB_ID=";
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  std::size_t seen = 0;
  for (std::string line; seen < most_environment && std::getline(file, line, '\0');) {
    seen += line.size() + 1;
    if (!line.starts_with(wanted)) continue;
    const std::string number = line.substr(wanted.size());
    return is_slurm_job(number) ? number : "";
  }
  return "";
}

}  // namespace weir::tools::top
