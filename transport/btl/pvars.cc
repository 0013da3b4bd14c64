#include "transport/btl/pvars.h"

#include <array>
#include <string>

#include "transport/verbs/hw_counters.h"

namespace weir::btl {
namespace {

struct Variable {
  const char* name;
  const char* help;
  std::uint64_t Counters::*field;
};

constexpr std::array variables{
#define WEIR_X(name, unit, help) Variable{#name, help " [" unit "]", &Counters::name},
    WEIR_COUNTERS(WEIR_X)
#undef WEIR_X
};

Counters last;  // while and after there is no engine
std::atomic<const Counters*> shown{&last};

// May run in any thread beside the engine: a counter is one aligned word.
int read_variable(const mca_base_pvar_t* variable, void* value, void*) {
  const Variable& v = *static_cast<const Variable*>(variable->ctx);
  const Counters& counters = *shown.load(std::memory_order_acquire);
  *static_cast<unsigned long long*>(value) =
      __atomic_load_n(&(counters.*v.field), __ATOMIC_RELAXED);
  return OPAL_SUCCESS;
}

struct DeviceVariable {
  const char* name;
  const char* help;
  std::optional<std::uint64_t> verbs::HwCounters::*field;
};

constexpr std::array device_variables{
    DeviceVariable{"rnr_naks_sent",
                   "Device-wide, all processes on the port: requests that found no receive buffer "
                   "here, since MPI_Init [NAKs]",
                   &verbs::HwCounters::rnr_naks_sent},
    DeviceVariable{"rnr_naks_received",
                   "Device-wide, all processes on the port: requests that found no receive buffer "
                   "at a peer, since MPI_Init [NAKs]",
                   &verbs::HwCounters::rnr_naks_received},
};

// Never freed: a handle may be read until MPI_T ends, which may be after the component's end.
struct DeviceCounters {
  std::string folder;
  verbs::HwCounters start;
};
const DeviceCounters* device_counters = nullptr;

// Reads a file of sysfs: for looking at now and then, not for every message.
int read_device_variable(const mca_base_pvar_t* variable, void* value, void*) {
  const auto& v = *static_cast<const DeviceVariable*>(variable->ctx);
  const auto start = device_counters->start.*v.field;
  const auto now = verbs::read_hw_counters(device_counters->folder).*v.field;
  // Not there any more, or set back: the device was replaced under us.
  *static_cast<unsigned long long*>(value) = now && *now >= *start ? *now - *start : 0;
  return OPAL_SUCCESS;
}

int register_level(const mca_base_component_t& component, const char* name, const char* help,
                   mca_base_get_value_fn_t read, void* context) {
  // "Level", because Open MPI shows the counter classes relative to the start of a handle.
  return mca_base_component_pvar_register(
      &component, name, help, OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_LEVEL,
      MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, nullptr, MCA_BASE_VAR_BIND_NO_OBJECT,
      static_cast<mca_base_pvar_flag_t>(MCA_BASE_PVAR_FLAG_READONLY |
                                        MCA_BASE_PVAR_FLAG_CONTINUOUS),
      read, nullptr, nullptr, context);
}

}  // namespace

int register_pvars(const mca_base_component_t& component) {
  for (const Variable& v : variables) {
    const int index =
        register_level(component, v.name, v.help, read_variable, const_cast<Variable*>(&v));
    if (index < 0) return index;
  }
  return OPAL_SUCCESS;
}

void register_device_pvars(const mca_base_component_t& component, const verbs::PortChoice& port) {
  if (device_counters != nullptr) return;
  const std::string folder = verbs::hw_counter_folder(port.device, port.port);
  device_counters = new DeviceCounters{folder, verbs::read_hw_counters(folder)};
  for (const DeviceVariable& v : device_variables) {
    if (!(device_counters->start.*v.field)) continue;
    // Without them there is less to see, but weir works.
    register_level(component, v.name, v.help, read_device_variable,
                   const_cast<DeviceVariable*>(&v));
  }
}

void show_counters(const Counters* counters) {
  if (counters == nullptr) {
    last = *shown.load(std::memory_order_relaxed);
    counters = &last;
  }
  shown.store(counters, std::memory_order_release);
}

}  // namespace weir::btl
