#include "tools/between/facts.h"

namespace weir::tools::between {
namespace {

constexpr std::size_t most_hardware = 32;

Hardware hardware_in(const Json& answer) {
  Hardware all;
  const auto found = answer.find("hardware");
  if (found == answer.end() || !found->is_object()) return all;
  for (const auto& [name, value] : found->items()) {
    if (all.size() >= most_hardware) break;
    if (value.is_string()) all[safe(name, 40)] = text_in(*found, name.c_str());
  }
  return all;
}

}  // namespace

void describe(const config::Configuration& here, Facts& facts) {
  facts.profile = here.profile;
  for (const config::Key& key : config::schema()) {
    const config::Value& value = here.value(key);
    facts.settings[key.name] = {value.text, value.where};
  }
  facts.mistakes = here.problems.size();
  if (!here.problems.empty()) facts.first_mistake = config::to_text(here.problems.front());
}

Json to_json(const Facts& facts) {
  Json settings = Json::object();
  for (const auto& [key, setting] : facts.settings) {
    settings[key] = {{"value", setting.value}, {"from", setting.where}};
  }
  Json all{{"host", facts.host},
           {"weir", facts.weir},
           {"open_mpi", facts.open_mpi},
           {"why_no_open_mpi", facts.why_no_open_mpi},
           {"profile", facts.profile},
           {"settings", settings},
           {"mistakes", facts.mistakes},
           {"first_mistake", facts.first_mistake},
           {"why_no_port", facts.why_no_port},
           {"hardware", facts.hardware},
           {"slow_slot", facts.slow_slot},
           {"counters", to_json(facts.counters)}};
  if (facts.port) {
    const PortFacts& port = *facts.port;
    all["port"] = {{"name", port.name},
                   {"link", port.link},
                   {"gid", port.gid},
                   {"gid_type", port.gid_type},
                   {"interface", port.interface},
                   {"rails", port.rails},
                   {"rail_count", port.rail_count},
                   {"mtu_bytes", port.mtu_bytes},
                   {"speed_mbps", port.speed_mbps},
                   {"soft", port.soft}};
  }
  return all;
}

Facts facts_of(const Json& answer) {
  Facts facts{.host = text_in(answer, "host"),
              .weir = text_in(answer, "weir"),
              .open_mpi = text_in(answer, "open_mpi"),
              .why_no_open_mpi = text_in(answer, "why_no_open_mpi"),
              .profile = text_in(answer, "profile"),
              .settings = {},
              .mistakes = count_in(answer, "mistakes"),
              .first_mistake = text_in(answer, "first_mistake"),
              .port = {},
              .why_no_port = text_in(answer, "why_no_port"),
              .hardware = hardware_in(answer),
              .slow_slot = text_in(answer, "slow_slot"),
              .counters = counters_of(answer)};
  if (const auto settings = answer.find("settings");
      settings != answer.end() && settings->is_object()) {
    for (const config::Key& key : config::schema()) {
      const auto found = settings->find(key.name);
      if (found == settings->end() || !found->is_object()) continue;
      facts.settings[key.name] = {text_in(*found, "value", longest_value), text_in(*found, "from")};
    }
  }
  if (const auto found = answer.find("port"); found != answer.end() && found->is_object()) {
    const auto soft = found->find("soft");
    facts.port = PortFacts{.name = text_in(*found, "name"),
                           .link = text_in(*found, "link"),
                           .gid = text_in(*found, "gid"),
                           .gid_type = text_in(*found, "gid_type"),
                           .interface = text_in(*found, "interface"),
                           .rails = text_in(*found, "rails"),
                           .rail_count = count_in(*found, "rail_count"),
                           .mtu_bytes = count_in(*found, "mtu_bytes"),
                           .speed_mbps = count_in(*found, "speed_mbps"),
                           .soft = soft != found->end() && soft->is_boolean() && soft->get<bool>()};
  }
  return facts;
}

}  // namespace weir::tools::between
