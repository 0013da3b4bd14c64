#include "transport/btl/params.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "transport/btl/eager_max.h"
#include "transport/config/nearest.h"
#include "transport/config/profiles.h"
#include "transport/config/rails.h"
#include "transport/config/schema.h"
#include "transport/verbs/memory.h"
#include "transport/wire/frame.h"

namespace weir::btl {
namespace {

// Open MPI writes the values here. They are texts, so that they can have units, and we report
// errors.
std::array<char*, 64> values;
std::array<int, 64> indexes;
char* named_file;

// The settings of files and the environment. No destructor: programs exit without MPI_Finalize.
const config::Sources* gathered;

int register_text(const mca_base_component_t& component, const char* name, const std::string& help,
                  int level, const char* initial, char*& value) {
  value = const_cast<char*>(initial);  // copied, never written
  return mca_base_component_var_register(
      &component, name, help.c_str(), MCA_BASE_VAR_TYPE_STRING, nullptr, 0,
      static_cast<mca_base_var_flag_t>(0),
      static_cast<mca_base_var_info_lvl_t>(OPAL_INFO_LVL_1 + level - 1),
      MCA_BASE_VAR_SCOPE_READONLY, &value);
}

// "MCA parameter btl_weir_mtu", with the file it comes from, if any; empty if nobody has set it.
std::string set_by(const char* name, int index) {
  mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;
  const char* file = nullptr;
  const void* ignored = nullptr;
  if (mca_base_var_get_value(index, &ignored, &source, &file) != OPAL_SUCCESS) return "";
  if (source == MCA_BASE_VAR_SOURCE_DEFAULT) return "";
  std::string where = std::string("MCA parameter ") + name;
  if (file != nullptr && file[0] != 0) where += std::string(" (") + file + ")";
  return where;
}

config::Source mca_parameters() {
  config::Source source;
  source.layer = config::Layer::parameter;
  const auto keys = config::schema();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string where = set_by(config::mca_name(keys[i]).c_str(), indexes[i]);
    if (where.empty()) continue;
    source.entries.push_back({keys[i].name, values[i] != nullptr ? values[i] : "", where, 0});
  }
  return source;
}

void fill_defaults(mca_btl_base_module_t& standard) {
  // No profile sets the size of a buffer, so the port is not needed here.
  const config::Settings settings = read_configuration(config::Fabric::unknown).settings;
  const auto largest = static_cast<std::size_t>(settings.buffer_bytes) - wire::first_payload_offset;

  standard.btl_eager_limit =
      ob1_longest_header + (settings.eager_max_bytes == config::automatic
                                ? eager_max_of_one_rail
                                : static_cast<std::size_t>(settings.eager_max_bytes));
  // A relay takes single frames only, and cars would overtake them.
  if (settings.proxy_servers > 0) {
    standard.btl_eager_limit = std::min(standard.btl_eager_limit, largest);
  }
  standard.btl_rndv_eager_limit = std::min(largest, standard.btl_eager_limit);
  standard.btl_max_send_size = largest;
  // No PUT pipeline: ob1 hangs if something in it is refused.
  standard.btl_min_rdma_pipeline_size = SIZE_MAX;
  standard.btl_rdma_pipeline_send_length = SIZE_MAX;
  standard.btl_rdma_pipeline_frag_size = SIZE_MAX;
  // One get or put for each message: with several, ob1 hangs if one of them fails.
  standard.btl_get_limit = SIZE_MAX;
  standard.btl_put_limit = SIZE_MAX;
  standard.btl_exclusivity = 2048;  // ahead of openib (1024) and tcp, behind shared memory (65536)
  standard.btl_latency = 2;         // between shared memory and tcp
  standard.btl_bandwidth = 0;       // the port's speed
  standard.btl_flags = module_flags;
}

// "; roce: 268ms", if profiles set the key.
std::string profile_values(const config::Key& key,
                           const std::vector<config::ProfileEntry>& profiles) {
  std::string text;
  for (const auto& [name, entry] : profiles) {
    if (entry.key == key.name) text += "; " + std::string(name) + ": " + entry.value;
  }
  return text;
}

}  // namespace

int register_params(const mca_base_component_t& component, mca_btl_base_module_t& standard) {
  const auto keys = config::schema();
  if (keys.size() > values.size()) return OPAL_ERR_OUT_OF_RESOURCE;
  const int file =
      register_text(component, "config",
                    "YAML file with values of these keys, which win over /etc/weir/weir.yaml and "
                    "~/.config/weir/weir.yaml. Default: the file that WEIR_CONFIG names. none: no "
                    "file and no WEIR_ variable counts",
                    2, "", named_file);
  if (file < 0) return file;
  forget_params();
  gathered = new config::Sources(
      config::gather(config::own_environment(), named_file != nullptr ? named_file : ""));

  // Settings that rank below the MCA variables become their defaults, so ompi_info shows the values
  // in effect, except the profile: it depends on the port, which is not known yet.
  const config::Configuration below = config::resolve(*gathered, config::Fabric::unknown);
  const std::vector<config::ProfileEntry> profiles = config::profile_entries();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const config::Key& key = keys[i];
    const config::Value& value = below.value(key);
    std::string help = std::string(key.help) + " (" + config::accepts(key) + "; default " +
                       key.fallback + ": " + key.reason + profile_values(key, profiles);
    if (value.layer != config::Layer::builtin) help += "; set by " + value.where;
    indexes[i] =
        register_text(component, key.name, help + ")", key.level, value.text.c_str(), values[i]);
    if (indexes[i] < 0) return indexes[i];
  }
  fill_defaults(standard);
  return mca_btl_base_param_register(const_cast<mca_base_component_t*>(&component), &standard);
}

config::Configuration read_configuration(config::Fabric fabric) {
  config::Sources sources;
  if (gathered != nullptr) sources = *gathered;
  sources.list.push_back(mca_parameters());
  return config::resolve(sources, fabric);
}

std::vector<std::string> configuration_warnings() {
  std::vector<std::string> warnings;
  if (gathered != nullptr) warnings = gathered->warnings;
  // mpirun passes its --mca parameters on in the environment; Open MPI accepts any name.
  constexpr std::string_view prefix = "OMPI_MCA_btl_weir_";
  for (const std::string_view variable : config::own_environment()) {
    if (!variable.starts_with(prefix)) continue;
    const std::string name(variable.substr(prefix.size(), variable.find('=') - prefix.size()));
    if (mca_base_var_find("opal", "btl", "weir", name.c_str()) >= 0) continue;
    const config::Key* const meant = config::nearest_key(name);
    const char* const former = config::why_no_key_any_more(name);
    warnings.push_back("MCA parameter btl_weir_" + name +
                       (former != nullptr
                            ? std::string(" no longer exists and has no effect: ") + former
                        : meant == nullptr ? " does not exist and has no effect"
                                           : " does not exist and has no effect; did you mean " +
                                                 config::mca_name(*meant) + "?"));
  }
  return warnings;
}

void forget_params() {
  delete gathered;
  gathered = nullptr;
}

config::Settings settings_of_a_rail(const config::Settings& settings, std::size_t rails) {
  if (rails <= 1) return settings;
  config::Settings all = settings;
  all.registration_bytes = static_cast<std::int64_t>(registration_bytes(settings));
  return config::for_each_rail(all, static_cast<std::uint32_t>(rails));
}

std::size_t registration_bytes(const config::Settings& settings) {
  if (settings.registration_bytes != config::automatic) {
    return static_cast<std::size_t>(settings.registration_bytes);
  }
  const auto memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t share = memory / 2 / processes_on_node();
  rlimit locked{};
  if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur != RLIM_INFINITY &&
      !verbs::may_lock_anything()) {
    share = std::min<std::size_t>(share, locked.rlim_cur / 4 * 3);
  }
  return share;
}

}  // namespace weir::btl
