// The component. Open MPI finds, registers, opens and initialises it, in this order, in every
// process, also in those that do not use weir. So nothing here is expensive, and no message is
// shown unless weir was asked for.

#include "transport/btl/component.h"

#include <cstdlib>
#include <exception>

#include "transport/btl/device_wish.h"
#include "transport/btl/engine_options.h"
#include "transport/btl/module.h"
#include "transport/btl/params.h"
#include "transport/btl/pvars.h"
#include "transport/btl/report.h"
#include "transport/verbs/choose_ports.h"

namespace weir::btl {
namespace {

// Everything here is trivially destructible: a program may exit without MPI_Finalize.
mca_btl_base_module_t standard;  // the standard variables live here
std::atomic<Module*> the_module{nullptr};

// Also runs in ompi_info and other tools, so it touches no hardware.
int register_variables() noexcept {
  try {
    if (!made_for_this_open_mpi()) {
      report_unavailable("built for Open MPI " + std::to_string(OPAL_MAJOR_VERSION) + "." +
                         std::to_string(OPAL_MINOR_VERSION) + ", but this is " +
                         opal_version_string +
                         (has_the_same_modules() ? "" : " with different support for CUDA") +
                         "; build weir against this Open MPI");
      return OPAL_ERR_NOT_AVAILABLE;
    }
    const mca_base_component_t& component = mca_btl_weir_component.btl_version;
    standard = {};
    set_rdma_entry_points(standard);
    const int rc = register_params(component, standard);
    return rc < 0 ? rc : register_pvars(component);
  } catch (const std::exception&) {
    return OPAL_ERR_OUT_OF_RESOURCE;
  }
}

int open() noexcept {
  try {
    for (const std::string& warning : configuration_warnings()) report_warning(warning);
    const config::Configuration found = read_configuration(config::Fabric::unknown);
    if (found.problems.empty()) return OPAL_SUCCESS;
    report_bad_configuration(found.problems);
  } catch (const std::exception&) {
  }
  return OPAL_ERR_NOT_AVAILABLE;
}

int close() noexcept {
  forget_params();
  return OPAL_SUCCESS;
}

// The ports for the rails.
std::vector<verbs::PortChoice> ports_for(const config::Settings& settings, std::string& why) {
  verbs::DeviceWish wish = device_wish(settings);
  wish.turn = static_cast<unsigned>(opal_process_info.my_local_rank);
  wish.processes = processes_on_node();
  std::vector<verbs::PortChoice> ports = verbs::choose_ports(wish, why);
  if (!ports.empty() && ports.size() < wish.rails) {
    report_warning("has " + std::to_string(ports.size()) + " of " + std::to_string(wish.rails) +
                   " rails (btl_weir_rails): no further adapter has an active port of the same "
                   "kind with an address and at least half the speed. 'weir info' shows the ports");
  }
  return ports;
}

config::Fabric fabric_of(const verbs::PortChoice& port) {
  if (port.soft_roce) return config::Fabric::rxe;
  return port.ethernet ? config::Fabric::roce : config::Fabric::infiniband;
}

// Opens the port, listens, and publishes the address. The large things (queues, buffers, the
// thread) are made with the first endpoint. Where weir will be used, memory hooks are opened here:
// they patch libc, which the application's threads may call later; and with the first large message
// its receiver would begin when the sender is done.
mca_btl_base_module_t** init(int* count, bool, bool) noexcept {
  *count = 0;
  try {
    // No profile sets the port, and the profile depends on the port.
    const config::Settings wish = read_configuration(config::Fabric::unknown).settings;
    std::string why;
    const std::vector<verbs::PortChoice> ports = ports_for(wish, why);
    if (ports.empty()) {
      report_unavailable(why);
      return nullptr;
    }
    const verbs::PortChoice& port = ports.front();
    const config::Configuration chosen = read_configuration(fabric_of(port));
    if (!chosen.problems.empty()) {
      report_bad_configuration(chosen.problems);
      return nullptr;
    }
    const config::Settings settings = settings_of_a_rail(chosen.settings, ports.size());
    const PeerName self = to_name(opal_proc_local_get()->proc_name);
    Engine::Options alone = engine_options(settings, self, {processes_on_node(), first_on_node()});
    let_caps_change(alone, chosen.settings, static_cast<std::uint32_t>(ports.size()));
    std::string why_not;
    alone.core.wakes = Overlap::wanted(settings, why_not);
    if (!why_not.empty()) report_no_overlap(why_not);
    const Engine::Options options = ports.size() > 1 ? RailEngines::options_of_first(alone) : alone;
    std::unique_ptr<Engine> engine = Engine::open(options, port, why);
    if (engine == nullptr) {
      report_unavailable(why);
      return nullptr;
    }
    if (!engine->can_start(why)) {
      report_start_failure(why);
      return nullptr;
    }
    std::vector<std::unique_ptr<Engine>> further;
    for (std::size_t i = 1; i < ports.size(); ++i) {
      further.push_back(Engine::open(RailEngines::options(options), ports[i], why));
      if (further.back() != nullptr && further.back()->can_start(why)) continue;
      further.pop_back();  // and those behind it: rail k goes to rail k
      if (!chooses_rails(settings)) {
        report_warning("has " + std::to_string(i) + " of " + std::to_string(ports.size()) +
                       " rails: " + ports[i].name() + " cannot be used: " + why);
      }
      break;
    }
    if (ports.size() > 1 && further.empty()) {  // nothing could take over from the first rail
      engine.reset();
      engine = Engine::open(alone, port, why);
      if (engine == nullptr) {
        report_unavailable(why);
        return nullptr;
      }
    }
    const std::string hardware = verbs::hardware_text(port);
    if (settings.tuned_for != "any" && settings.tuned_for != hardware && first_on_node()) {
      complain("uses settings that were measured on '" + settings.tuned_for +
               "', but this hardware is '" + hardware + "'. Run 'weir tune' to measure again.");
    }
    if (!engine->why_no_node().empty() && asked_for("weir") && first_on_node()) {
      complain("shares no read budget with the other processes of this host: " +
               engine->why_no_node() + ". Each keeps to limits of its own.");
    }
    const std::vector<std::byte> card = RailEngines::cards(*engine, further);
    const int rc = publish(mca_btl_weir_component.btl_version, card.data(), card.size());
    if (rc != OPAL_SUCCESS) {
      report_unavailable("the runtime did not publish this process's address (error " +
                         std::to_string(rc) + "). Start the program with mpirun");
      return nullptr;
    }
    std::string uses = engine->port().name();
    for (const auto& one : further) uses += " and " + one->port().name();
    note(10, "uses " + uses + " with profile " + chosen.profile);
    register_device_pvars(mca_btl_weir_component.btl_version, engine->port());

    auto module =
        std::make_unique<Module>(standard, settings, std::move(engine), std::move(further));
    auto** const modules = static_cast<mca_btl_base_module_t**>(malloc(sizeof(void*)));
    if (modules == nullptr) return nullptr;
    if (alone.core.wakes != wire::Wakes::none) {
      module->overlap = std::make_unique<Overlap>(*module, alone.core.wakes);
      module->btl_flags |= second_thread_flag;
    }
    module->has_company = module->rails != nullptr || module->overlap != nullptr;
    show_counters(&module->engine->counters());
    module->deaths.listen();
    if (asked_for("weir") && job_size() > 1) module->registrations();
    the_module.store(module.get(), std::memory_order_release);
    modules[0] = module.release();
    *count = 1;
    return modules;  // the caller frees it
  } catch (const std::exception& problem) {
    report_unavailable(problem.what());
    return nullptr;
  }
}

[[gnu::hot]] int progress_component() noexcept {
  Module* const module = the_module.load(std::memory_order_acquire);
  if (module == nullptr || !module->started()) return 0;
  try {
    return progress(*module);
  } catch (const std::exception& problem) {
    give_up(*module, problem);
    return 0;
  }
}

}  // namespace

void forget_module() { the_module.store(nullptr, std::memory_order_release); }

}  // namespace weir::btl

mca_btl_base_component_t mca_btl_weir_component = {
    .btl_version =
        {
            WEIR_BTL_INTERFACE,
            .mca_component_name = "weir",
            MCA_BASE_MAKE_VERSION(component, WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
                                  WEIR_VERSION_PATCH),
            .mca_open_component = weir::btl::open,
            .mca_close_component = weir::btl::close,
            .mca_query_component = nullptr,
            .mca_register_component_params = weir::btl::register_variables,
            .mca_component_flags = 0,
            .reserved = {},
        },
    .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE, .reserved = {}},
    .btl_init = weir::btl::init,
    .btl_progress = weir::btl::progress_component,
};
