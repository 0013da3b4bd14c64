// The only module of weir in a process. All rails are inside, so ob1 never has to choose one.
//
// Thread rule: any thread may be in any entry point, and again from inside an upcall. We hold no
// lock during an upcall.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transport/btl/compat.h"
#include "transport/btl/deaths.h"
#include "transport/btl/descriptor.h"
#include "transport/btl/endpoint.h"
#include "transport/btl/operation.h"
#include "transport/btl/overlap.h"
#include "transport/btl/pool.h"
#include "transport/btl/pvars.h"
#include "transport/btl/rails.h"
#include "transport/btl/trains.h"
#include "transport/btl/waiting.h"
#include "transport/config/settings.h"
#include "transport/engine/engine.h"

namespace weir::btl {

struct Module : mca_btl_base_module_t {
  Module(const mca_btl_base_module_t& standard, const config::Settings& settings,
         std::unique_ptr<Engine> engine, std::vector<std::unique_ptr<Engine>> further);

  // Makes the queues and the event thread, once. False if that failed, now or before.
  bool start();
  bool started() const { return start_state.load(std::memory_order_acquire) == StartState::yes; }

  // The endpoint of a process that runs weir; nullptr for any other.
  Endpoint* add(opal_proc_t* proc);

  // The endpoint of a peer of the engine's; made now if the peer came before Open MPI named it.
  Endpoint* endpoint_of(PeerId id);

  // Closes these endpoints; makes progress until they are closed, or gives up after a time.
  void close(std::span<Endpoint* const> leaving);

  // visit(engine) of each rail, the first one before the others.
  template <typename F>
  void for_each_engine(F&& visit) {
    visit(*engine);
    if (rails == nullptr) return;
    rails->engines.for_each_further([&](std::size_t, Engine& further) { visit(further); });
  }

  // Completes a send that is over for ob1 within its own call.
  int complete_at_once(Descriptor& descriptor, int status);
  // Completes a send that ob1 waits for.
  void complete(Descriptor& descriptor, int status);
  void release(Descriptor& descriptor);

  // Has Open MPI end the job because of `proc` (nullptr: of this process). `why` is a format string
  // in 4.1. False if Open MPI has registered no error callback.
  bool end_job(opal_proc_t* proc, char* why);

  // Registrations of application memory; made when first asked for. nullptr: copy instead.
  verbs::RegistrationCache* registrations();
  // Memory could not be registered; warns once.
  void warn_no_registration(int error);
  // How many of these registrations are in use.
  std::uint64_t registrations_in_use() const;
  // The most memory that was ever registered for the application.
  std::uint64_t registered_peak_bytes() const;
  // Where peers look up what this process exports; made at first use. nullptr: peers have only
  // handles.
  Directory* directory();
  // Small messages go over all rails, so the module offers no one-sided operations.
  bool spreads() const { return rails != nullptr && rails->frames.spread(); }
  bool spreads(mca_btl_base_tag_t tag) const {
    return rails != nullptr && rails->frames.spreads(tag);
  }
  // Registrations are no longer needed.
  void end_registrations();

  const config::Settings settings;
  std::unique_ptr<Engine> engine;    // of the first rail
  std::unique_ptr<Rails> rails;      // the further ones; nullptr if there are none
  std::unique_ptr<Overlap> overlap;  // nullptr: nobody stands in for the application
  bool has_company = false;          // either of them
  Endpoints endpoints;
  Pool<Descriptor> descriptors;
  Operations operations;
  Pool<Lookup> lookups;
  Refusals refusals;
  RdmaCounters rdma_counters;
  FlushEpochs flushes;  // of these operations
  Pool<Handle> handles;
  Trains trains;
  WaitingSends waiting_sends;
  EarlyMessages early_messages;
  Deaths deaths{*this};
  const Time begun = Engine::clock();
  std::atomic<std::int64_t> owed_bytes{0};  // of sends whose completion callback is still owed
  std::atomic<mca_btl_base_module_error_cb_fn_t> on_error{nullptr};
  bool lost_message_told = false;   // by the thread that makes progress
  bool stays_with_runtime = false;  // for its last words

 private:
  enum class StartState : std::uint8_t { no, yes, failed };

  void make_registrations();
  // The peer has a card, but cannot be reached.
  void leave_to_others(PeerName peer, const std::string& why);

  std::unique_ptr<Directory> directory_;
  std::once_flag directory_made_;
  std::unique_ptr<verbs::RegistrationCache> registration_cache;
  std::atomic<StartState> registration_state{StartState::no};
  std::atomic<bool> warned_no_registration{false};
  std::atomic<bool> told_unreachable{false};
  std::mutex start_lock;
  std::atomic<StartState> start_state{StartState::no};
};

inline Module& of(mca_btl_base_module_t* module) { return *static_cast<Module*>(module); }

// The entry points for traffic, in traffic.cc.
mca_btl_base_descriptor_t* alloc(mca_btl_base_module_t*, Endpoint*, std::uint8_t order,
                                 std::size_t size, std::uint32_t flags) noexcept;
int free_descriptor(mca_btl_base_module_t*, mca_btl_base_descriptor_t*) noexcept;
mca_btl_base_descriptor_t* prepare_src(mca_btl_base_module_t*, Endpoint*, opal_convertor_t*,
                                       std::uint8_t order, std::size_t reserve, std::size_t* size,
                                       std::uint32_t flags) noexcept;
int send(mca_btl_base_module_t*, Endpoint*, mca_btl_base_descriptor_t*,
         mca_btl_base_tag_t) noexcept;
int sendi(mca_btl_base_module_t*, Endpoint*, opal_convertor_t*, void* header,
          std::size_t header_size, std::size_t payload_size, std::uint8_t order,
          std::uint32_t flags, mca_btl_base_tag_t, mca_btl_base_descriptor_t**) noexcept;

// The entry points for large messages and one-sided operations, in rdma.cc; offer_rdma then
// withdraws what this module's device cannot do.
void set_rdma_entry_points(mca_btl_base_module_t& module);
void offer_rdma(Module& module);
// `tell`: Open MPI still takes callbacks.
[[gnu::hot]] void conclude(Module& module, const Operation& done, bool ok, bool tell);
[[gnu::hot]] void finish_operation(Module& module, const TransferEnd& end, bool tell);

// Hands up a message that is not a car of a train; in progress.cc.
[[gnu::hot]] void take_whole(Module& module, const Delivery& message);
// Makes progress once; in progress.cc. Returns how many messages and ends it handed up.
[[gnu::hot, gnu::noinline]] int progress(Module& module);
// The same for the thread that stands in for the application (Engine::stand_in).
int stand_in_for_application(Module& module, std::uint64_t visits, int most) noexcept;
// Ends the job because `progress` threw this: messages that had arrived are lost, and a receiver
// may wait for them.
[[gnu::cold]] void give_up(Module& module, const std::exception& problem);
// Sends what is pending, closes all peers and ends the engine; makes no more upcalls.
void shut_down(Module& module);
// Reports unfinished operations, and memory not given back, after that (check_leaks); in leaks.cc.
void report_leaks(Module& module);
// What all ranks did and waited for, from rank 0 (summary); in summary.cc.
void report_summary(Module& module);

}  // namespace weir::btl
