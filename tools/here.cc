#include "tools/here.h"

#include "transport/btl/device_wish.h"
#include "transport/verbs/choose_ports.h"

namespace weir::tools {
namespace {

config::Source mca_environment(config::Environment environment) {
  config::Source source;
  source.layer = config::Layer::parameter;
  for (const config::Key& key : config::schema()) {
    const std::string name = "OMPI_MCA_" + config::mca_name(key);
    const std::string_view value = config::value_of(environment, name);
    if (!value.empty()) {
      source.entries.push_back({key.name, std::string(value), "environment variable " + name, 0});
    }
  }
  return source;
}

}  // namespace

config::Sources sources_here(const std::string& file) {
  const config::Environment environment = config::own_environment();
  std::string named = file;
  if (named.empty()) named = config::value_of(environment, "OMPI_MCA_btl_weir_config");
  config::Sources all = config::gather(environment, named);
  all.list.push_back(mca_environment(environment));
  return all;
}

config::Fabric fabric_here(const config::Settings& wish, std::string& port) {
  std::string why;
  const auto choice = verbs::choose_port(btl::device_wish(wish), why);
  if (!choice) return config::Fabric::unknown;
  port = choice->name();
  if (choice->soft_roce) return config::Fabric::rxe;
  return choice->ethernet ? config::Fabric::roce : config::Fabric::infiniband;
}

config::Configuration configuration_here() {
  const config::Sources all = sources_here();
  std::string port;
  const auto wish = config::resolve(all, config::Fabric::unknown).settings;
  return config::resolve(all, fabric_here(wish, port));
}

}  // namespace weir::tools
