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
  return !is_address(name) && up_to_dot(name) == up_to_dot(own);
}

std::vector<std::vector<std::string>> shell_alternatives(std::string_view wish) {
  std::vector<std::vector<std::string>> all;
  std::istringstream alternatives{std::string(wish)};
  for (std::string text; std::getline(alternatives, text, ':');) {
    std::vector<std::string> words;
    std::istringstream each(text);
    for (std::string word; each >> word;) words.push_back(word);
    if (words.empty()) continue;
    const std::string& program = words.front();
    if (program.substr(program.rfind('/') + 1) == "ssh") {
      words.insert(words.begin() + 1, {"-o", "BatchMode=yes", "-x"});
    }
    all.push_back(std::move(words));
  }
  return all;
}

std::string shell_command(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) {
    command += command.empty() ? "'" : " '";
    for (const char c : word) command += c == '\'' ? std::string("'\\''") : std::string(1, c);
    command += '\'';
  }
  return command;
}

}  // namespace weir::tools::between
