#include "transport/btl/module.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "transport/btl/component.h"
#include "transport/btl/eager_max.h"
#include "transport/btl/memory_hooks.h"
#include "transport/btl/params.h"
#include "transport/btl/pvars.h"
#include "transport/btl/report.h"
#include "transport/verbs/borrowed_cpus.h"

namespace weir::btl {
namespace {

// No exception may reach Open MPI's C code.
template <typename F>
int guarded(F&& action) noexcept {
  try {
    return action();
  } catch (const std::exception& problem) {
    complain(std::string("failed: ") + problem.what() + ".");
    return OPAL_ERR_OUT_OF_RESOURCE;
  }
}

std::span<const std::byte> cards_in(const Published& published) {
  return {reinterpret_cast<const std::byte*>(published.bytes.get()), published.size};
}

// Gives NULL for every process that we cannot reach, and success: an error would take the whole
// module out of the call. `reachable` is NULL when a single process is added later.
int add_procs(mca_btl_base_module_t* btl, std::size_t count, opal_proc_t** procs,
              Endpoint** endpoints, opal_bitmap_t* reachable) noexcept {
  std::fill_n(endpoints, count, nullptr);
  return guarded([&]() -> int {
    Module& module = of(btl);
    for (std::size_t i = 0; i < count; ++i) {
      endpoints[i] = module.add(procs[i]);
      if (endpoints[i] == nullptr || reachable == nullptr) continue;
      const int rc = opal_bitmap_set_bit(reachable, static_cast<int>(i));
      if (rc != OPAL_SUCCESS) return rc;
    }
    return OPAL_SUCCESS;
  });
}

// Never reads or writes the array of endpoints: bml/r2 compares it afterwards, and may call again
// with an endpoint that is no longer valid. So endpoints live until the module ends.
int del_procs(mca_btl_base_module_t* btl, std::size_t count, opal_proc_t** procs,
              Endpoint**) noexcept {
  return guarded([&]() -> int {
    Module& module = of(btl);
    if (!module.started()) return OPAL_SUCCESS;
    std::vector<Endpoint*> leaving;
    for (std::size_t i = 0; i < count; ++i) {
      Endpoint* const endpoint = module.endpoints.find(to_name(procs[i]->proc_name));
      if (endpoint != nullptr) leaving.push_back(endpoint);
    }
    module.close(leaving);
    return OPAL_SUCCESS;
  });
}

int register_error(mca_btl_base_module_t* btl,
                   mca_btl_base_module_error_cb_fn_t callback) noexcept {
  of(btl).on_error.store(callback, std::memory_order_release);
  return OPAL_SUCCESS;
}

void dump(mca_btl_base_module_t* btl, Endpoint* only, int verbose) noexcept {
  guarded([&]() -> int {
    Module& module = of(btl);
    opal_output(0, "weir on %s", module.engine->port().name().c_str());
    const auto show = [&](const Endpoint& endpoint) {
      opal_output(0, "weir:   %s: %s", rank_text(endpoint.name).c_str(),
                  to_text(module.engine->state(endpoint.id)));
    };
    if (only != nullptr) {
      show(*only);
    } else {
      module.endpoints.for_each(show);
    }
    if (verbose > 0) {
      const Counters& counters = module.engine->counters();
      for (const auto& [name, unit, kind, help, field] : counter_table) {
        opal_output(0, "weir:   %s: %llu %s", name,
                    static_cast<unsigned long long>(counters.*field), unit);
      }
    }
    return OPAL_SUCCESS;
  });
}

// The PML is closed by now: nothing is handed up, and failures are not reported.
int finalize(mca_btl_base_module_t* btl) noexcept {
  return guarded([&]() -> int {
    const std::unique_ptr<Module> module(&of(btl));
    forget_module();
    module->deaths.end();
    if (module->started()) shut_down(*module);
    if (module->settings.summary == "on") report_summary(*module);
    if (module->stays_with_runtime) leave_runtime();
    if (module->settings.check_leaks == "on") report_leaks(*module);
    module->end_registrations();
    show_counters(nullptr);
    show_rdma_counters(nullptr);
    return OPAL_SUCCESS;
  });
}

// The eager limit that the user has set, or else the automatic one for the node and its rails.
std::size_t most_eager(const mca_btl_base_module_t& standard, const config::Settings& wanted,
                       std::size_t further_rails) {
  const bool is_default = wanted.eager_max_bytes == config::automatic &&
                          standard.btl_eager_limit == ob1_longest_header + eager_max_of_one_rail;
  if (!is_default) return standard.btl_eager_limit;
  return ob1_longest_header + automatic_eager_max(1 + further_rails, node_is_full());
}

}  // namespace

Module::Module(const mca_btl_base_module_t& standard, const config::Settings& wanted,
               std::unique_ptr<Engine> with, std::vector<std::unique_ptr<Engine>> further)
    : mca_btl_base_module_t(standard),
      settings(wanted),
      engine(std::move(with)),
      endpoints(*engine),
      trains(*this, most_eager(standard, wanted, further.size())) {
  if (!further.empty()) {
    rails = std::make_unique<Rails>(*engine, std::move(further), endpoints, operations,
                                    rdma_counters, settings.frames == "spread");
  }
  show_rdma_counters(&rdma_counters);
  stays_with_runtime = settings.summary == "on" && stay_with_runtime();
  btl_component = &mca_btl_weir_component;

  // Every fragment has to fit into one receive buffer, and so has the first part of a large message
  // with its header: ob1 takes no account of that header.
  const std::size_t most = engine->max_payload_bytes();
  btl_eager_limit = trains.most_bytes();
  btl_rndv_eager_limit =
      std::min({btl_rndv_eager_limit, btl_eager_limit, most - ob1_longest_header});
  btl_max_send_size = std::min(btl_max_send_size, most);
  btl_flags = (btl_flags & module_flags) | MCA_BTL_FLAGS_SEND;
  if (btl_bandwidth == 0) btl_bandwidth = static_cast<std::uint32_t>(engine->port().speed_mbps);

  btl_add_procs = add_procs;
  btl_del_procs = del_procs;
  btl_finalize = finalize;
  btl_alloc = alloc;
  btl_free = free_descriptor;
  btl_prepare_src = prepare_src;
  btl_send = send;
  btl_sendi = sendi;
  btl_dump = dump;
  btl_register_error = register_error;
  set_ft_event(*this);
  offer_rdma(*this);
  // btl_register stays NULL: Open MPI keeps the receive callbacks in a table of its own.
}

bool Module::start() {
  if (start_state.load(std::memory_order_acquire) != StartState::no) return started();
  std::lock_guard guard(start_lock);
  if (start_state.load(std::memory_order_relaxed) != StartState::no) return started();
  engine->expect_peers(job_size());
  std::string why;
  std::string why_not_there;
  // These CPUs are also for the event threads, which do most of the work.
  const verbs::BorrowedCpus cpus(overlap != nullptr ? settings.overlap_cpus : "auto",
                                 why_not_there);
  if (!why_not_there.empty() && first_on_node()) complain("overlap_cpus: " + why_not_there + ".");
  const bool good = engine->start(why);
  if (!good) report_start_failure(why);
  if (good && rails != nullptr) rails->engines.start(registration_bytes(settings));
  if (good && overlap != nullptr && !overlap->start(why)) report_no_overlap(why);
  start_state.store(good ? StartState::yes : StartState::failed, std::memory_order_release);
  return good;
}

verbs::RegistrationCache* Module::registrations() {
  if (registration_state.load(std::memory_order_acquire) == StartState::no) make_registrations();
  return registration_cache.get();
}

void Module::make_registrations() {
  std::lock_guard guard(start_lock);
  if (registration_state.load(std::memory_order_relaxed) != StartState::no) return;
  verbs::RegistrationCache::Options options;
  options.max_bytes = registration_bytes(settings);
  options.sharers = processes_on_node() * (rails != nullptr ? most_rails : 1);
  if (options.max_bytes == 0) {  // as configured
    registration_state.store(StartState::failed, std::memory_order_release);
    return;
  }
  std::string why;
  registration_cache = btl::make_registrations(engine->device(), options, why);
  show_registration_counters(&registration_cache->counters());
  if (!why.empty()) {
    complain("registers memory anew for each large message, which takes longer: " + why + ".");
  }
  registration_state.store(StartState::yes, std::memory_order_release);
}

Directory* Module::directory() {
  // What fits one slot is read by one get.
  constexpr std::uint32_t most = 256;
  const auto fit = engine->max_payload_bytes() / static_cast<std::uint32_t>(sizeof(Export));
  std::call_once(directory_made_, [&] {
    directory_ = Directory::create(engine->device(), std::min(most, fit));
    if (directory_ == nullptr)
      note(1, "no directory of registered memory: " + verbs::registration_error(errno));
  });
  return directory_.get();
}

std::uint64_t Module::registrations_in_use() const {
  return (registration_cache != nullptr ? registration_cache->in_use() : 0) +
         (rails != nullptr ? rails->engines.registrations_in_use() : 0);
}

std::uint64_t Module::registered_peak_bytes() const {
  return registration_cache != nullptr ? registration_cache->counters().bytes_peak : 0;
}

void Module::end_registrations() {
  show_registration_counters(nullptr);
  directory_.reset();
  registration_cache.reset();
  if (rails != nullptr) rails->engines.end_registrations();
  close_memory_hooks();
}

void Module::warn_no_registration(int error) {
  if (warned_no_registration.exchange(true, std::memory_order_relaxed)) return;
  std::string why = verbs::registration_error(error);
  if (error == ENOSPC) {
    why = "all " + std::to_string(registration_cache->counters().regions_limit) +
          " registrations are in use that this process may have, its share of the adapter's";
  }
  complain("cannot register memory of the application (" + why +
           "): such messages are copied, and windows of it are refused. The job goes on.");
}

bool Module::end_job(opal_proc_t* proc, char* why) {
  const auto callback = on_error.load(std::memory_order_acquire);
  if (callback != nullptr) callback(this, MCA_BTL_ERROR_FLAGS_FATAL, proc, why);
  return callback != nullptr;
}

Endpoint* Module::add(opal_proc_t* proc) {
  const PeerName name = to_name(proc->proc_name);
  Endpoint* const known = endpoints.find(name);
  if (known != nullptr && known->proc == proc && !known->leaving.load(std::memory_order_relaxed)) {
    return known;
  }
  PeerId id = PeerId::none;
  std::string why;
  Published card;
  if (proc == opal_proc_local_get()) {
    if (!start() || !engine->add_peer(name, engine->card(), id, why)) return nullptr;
  } else {
    card = published(mca_btl_weir_component.btl_version, *proc);
    if (card.size == 0 || !start()) return nullptr;
    if (!engine->add_peer(name, cards_in(card).first(std::min(card.size, wire::card_bytes)), id,
                          why)) {
      leave_to_others(name, why);
      return nullptr;
    }
  }
  Endpoint* const endpoint = endpoints.add(name, id, proc);
  if (rails != nullptr) rails->engines.add(*endpoint, cards_in(card));
  engine->expect_peers(endpoints.size());
  return endpoint;
}

// Warns of the first such peer only: there may be thousands.
void Module::leave_to_others(PeerName peer, const std::string& why) {
  const std::string text = rank_text(peer) + " cannot be reached from " + engine->port().name() +
                           ": " + why + ". It is left to other transports (btl)";
  if (told_unreachable.exchange(true)) return note(1, text);
  report_warning(text +
                 ". If all processes should use one fabric, name its device with "
                 "btl_weir_device.");
}

Endpoint* Module::endpoint_of(PeerId id) {
  if (Endpoint* const known = endpoints.find(id)) return known;
  opal_proc_t* const proc = opal_proc_for_name(to_opal(engine->name(id)));
  if (proc == nullptr) return nullptr;
  return endpoints.add(engine->name(id), id, proc);
}

}  // namespace weir::btl
