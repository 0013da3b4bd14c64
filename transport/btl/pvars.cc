#include "transport/btl/pvars.h"

#include <array>

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

}  // namespace

int register_pvars(const mca_base_component_t& component) {
  for (const Variable& v : variables) {
    // "Level", because Open MPI shows the counter classes relative to the start of a handle.
    const int index = mca_base_component_pvar_register(
        &component, v.name, v.help, OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_LEVEL,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, nullptr, MCA_BASE_VAR_BIND_NO_OBJECT,
        static_cast<mca_base_pvar_flag_t>(MCA_BASE_PVAR_FLAG_READONLY |
                                          MCA_BASE_PVAR_FLAG_CONTINUOUS),
        read_variable, nullptr, nullptr, const_cast<Variable*>(&v));
    if (index < 0) return index;
  }
  return OPAL_SUCCESS;
}

void show_counters(const Counters* counters) {
  if (counters == nullptr) {
    last = *shown.load(std::memory_order_relaxed);
    counters = &last;
  }
  shown.store(counters, std::memory_order_release);
}

}  // namespace weir::btl
