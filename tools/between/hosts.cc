#include "tools/between/hosts.h"

#include <algorithm>
#include <sstream>

namespace weir::tools::between {
namespace {

constexpr std::size_t longest_name = 255;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-:@%").find(c) != std::string_view::npos;
}

std::string_view up_to_dot(std::string_view name) { return name.substr(0, name.find('.')); }

bool is_address(std::string_view name) {
  return name.find(':') != std::string_view::npos ||
         name.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

std::vector<std::string> hosts_of(std::string_view hostfile) {
  std::vector<std::string> hosts;
  std::istringstream lines{std::string(hostfile)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    if (std::string host; words >> host) add_hosts(hosts, {host});
  }
  return hosts;
}

std::vector<std::string> parts_of(std::string_view list) {
  if (list.find_first_of("!&^") != std::string_view::npos) return {std::string(list)};
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (depth <= 0 && (c == ',' || c == ' ' || c == '\t' || c == '\n')) {
      if (!parts.back().empty()) parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

bool is_pattern(std::string_view part) {
  return part.starts_with('@') || part.find_first_of("[]*?!&^") != std::string_view::npos;
}

void add_hosts(std::vector<std::string>& hosts, const std::vector<std::string>& more) {
  for (const std::string& host : more) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
}

std::string why_no_host(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > longest_name) return "it is too long";
  if (name.front() == '-') return "it begins with '-'";
  if (!std::all_of(name.begin(), name.end(), is_name_character)) {
    return "it has characters that no host's name has";
  }
  return {};
}

bool is_this_host(std::string_view name, std::string_view own) {
  if (name == "localhost" || name == "127.0.0.1" || name == "::1" || name == own) return true;
  const bool domains =
      name.find('.') != std::string_view::npos && own.find('.') != std::string_view::npos;
  return !domains && !is_address(name) && up_to_dot(name) == up_to_dot(own);
}

}  // namespace weir::tools::between
