#include "transport/config/reference.h"

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <algorithm>
#include <string_view>

namespace weir::config {
namespace {

constexpr std::size_t columns = 100;

// `text` as comment lines.
std::string comment(std::string_view text) {
  std::string lines;
  std::string line = "#";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (line.size() > 1 && line.size() + 1 + end > columns) {
      lines += line + "\n";
      line = "#";
    }
    line += " " + std::string(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + line + "\n";
}

}  // namespace

std::string reference_yaml() {
  std::string text =
      "# Every key that weir takes, with its default. Made from the schema by\n"
      "# 'weir config show --defaults', and a test compares: change transport/config/schema.cc.\n"
      "#\n"
      "# Copy it to /etc/weir/weir.yaml or ~/.config/weir/weir.yaml, or name the copy in\n"
      "# WEIR_CONFIG. Take away the # in front of what you set; a key set here also wins over\n"
      "# the profile. 'weir config check FILE' looks for mistakes; README.md beside this file\n"
      "# says which of several values wins.\n"
      "\n# ---- What matters most ----\n";
  const char* heading = "What matters most";
  for (const Key* key : by_importance()) {
    const char* const now = key->matters_most()  ? "What matters most"
                            : key->is_measured() ? "What 'weir tune' measures and writes"
                                                 : "The rest";
    if (std::string_view(now) != heading) text += "\n# ---- " + std::string(now) + " ----\n";
    heading = now;
    text += "\n" + comment(std::string(key->help) + ".") +
            comment("Takes: " + accepts(*key) + ".") +
            comment(std::string("Why ") + key->fallback + ": " + key->reason + ".") + "#" +
            key->name + ": " + key->fallback + "\n";
  }
  return text;
}

std::string to_yaml(const Configuration& configuration) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const Key* key : by_importance()) {
    const Value& value = configuration.value(*key);
    out << YAML::Key << key->name << YAML::Value << value.text << YAML::Comment(value.where);
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace weir::config
