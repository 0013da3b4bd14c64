#include "transport/btl/pvars.h"

#include <array>
#include <string>

#include "transport/verbs/hw_counters.h"

namespace weir::btl {
namespace {

using verbs::RegistrationCounters;
constexpr std::array registration_table{
#define WEIR_X(name, unit, kind, help)                                              \
  CounterLine<RegistrationCounters>{"registration_" #name, unit, CounterKind::kind, \
                                    help " [" unit "]", &RegistrationCounters::name},
    WEIR_REGISTRATION_COUNTERS(WEIR_X)
#undef WEIR_X
};

constexpr std::array rdma_table{
#define WEIR_X(name, unit, kind, help)                                          \
  CounterLine<RdmaCounters>{#name, unit, CounterKind::kind, help " [" unit "]", \
                            &RdmaCounters::name},
    WEIR_RDMA_COUNTERS(WEIR_X)
#undef WEIR_X
};

// The owner of a group may not be there yet, or no longer.
template <typename Group>
Group last;  // while there is no owner, and after it
template <typename Group>
std::atomic<const Group*> shown{&last<Group>};

// Any thread may call this while the engine runs: a counter is one aligned word.
template <typename Group>
int read_variable(const mca_base_pvar_t* variable, void* value, void*) {
  const auto& v = *static_cast<const CounterLine<Group>*>(variable->ctx);
  const Group& counters = *shown<Group>.load(std::memory_order_acquire);
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

// Never freed: a handle may be read until MPI_T ends, possibly after the component's end.
struct DeviceCounters {
  std::string folder;
  verbs::HwCounters start;
};
const DeviceCounters* device_counters = nullptr;

// Reads files of sysfs: fit for an occasional look, not for every message.
int read_device_variable(const mca_base_pvar_t* variable, void* value, void*) {
  const auto& v = *static_cast<const DeviceVariable*>(variable->ctx);
  const auto start = device_counters->start.*v.field;
  const auto now = verbs::read_hw_counters(device_counters->folder).*v.field;
  // The counter is gone or was reset: the device was replaced meanwhile.
  *static_cast<unsigned long long*>(value) = now && *now >= *start ? *now - *start : 0;
  return OPAL_SUCCESS;
}

int register_level(const mca_base_component_t& component, const char* name, const char* help,
                   mca_base_get_value_fn_t read, void* context) {
  // "Level", because for counter classes Open MPI shows the change since the start of a handle.
  return mca_base_component_pvar_register(
      &component, name, help, OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_LEVEL,
      MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, nullptr, MCA_BASE_VAR_BIND_NO_OBJECT,
      static_cast<mca_base_pvar_flag_t>(MCA_BASE_PVAR_FLAG_READONLY |
                                        MCA_BASE_PVAR_FLAG_CONTINUOUS),
      read, nullptr, nullptr, context);
}

template <typename Group, std::size_t count>
int register_group(const mca_base_component_t& component,
                   const std::array<CounterLine<Group>, count>& group) {
  for (const CounterLine<Group>& v : group) {
    const int index = register_level(component, v.name, v.help, read_variable<Group>,
                                     const_cast<CounterLine<Group>*>(&v));
    if (index < 0) return index;
  }
  return OPAL_SUCCESS;
}

template <typename Group>
void show(const Group* counters) {
  if (counters == nullptr) {
    last<Group> = *shown<Group>.load(std::memory_order_relaxed);
    counters = &last<Group>;
  }
  shown<Group>.store(counters, std::memory_order_release);
}

}  // namespace

int register_pvars(const mca_base_component_t& component) {
  int rc = register_group(component, counter_table);
  if (rc == OPAL_SUCCESS) rc = register_group(component, rdma_table);
  return rc == OPAL_SUCCESS ? register_group(component, registration_table) : rc;
}

void register_device_pvars(const mca_base_component_t& component, const verbs::PortChoice& port) {
  if (device_counters != nullptr) return;
  const std::string folder = verbs::hw_counter_folder(port.device, port.port);
  device_counters = new DeviceCounters{folder, verbs::read_hw_counters(folder)};
  for (const DeviceVariable& v : device_variables) {
    if (!(device_counters->start.*v.field)) continue;
    // Without these variables there is less to see, but weir works.
    register_level(component, v.name, v.help, read_device_variable,
                   const_cast<DeviceVariable*>(&v));
  }
}

void show_counters(const Counters* counters) { show(counters); }

void show_rdma_counters(const RdmaCounters* counters) { show(counters); }

void show_registration_counters(const verbs::RegistrationCounters* counters) { show(counters); }

}  // namespace weir::btl
