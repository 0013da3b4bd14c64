#include "transport/btl/deaths.h"

#include <utility>

#include "transport/btl/module.h"
#include "transport/btl/report.h"

namespace weir::btl {
namespace {

// The runtime hands no pointer of ours to what it calls.
std::atomic<Deaths*> listener{nullptr};

}  // namespace

void Deaths::listen() {
  survivable_ = deaths_are_survivable() && !counts_as_dead(*opal_proc_local_get());
  if (!survivable_) return;
  listener.store(this);
  hearing_ = hear_of_deaths<on_death>();
}

void Deaths::end() {
  if (hearing_ >= 0) hear_no_more(std::exchange(hearing_, -1));
  listener.store(nullptr);
  for (const Death& death : take()) death.news.pass_on();
}

// In a thread of the runtime.
void Deaths::on_death(const std::vector<opal_process_name_t>& dead, const DeathNews& news) {
  Deaths* const self = listener.load();
  if (self == nullptr || !self->module_.started()) return news.pass_on();
  Death death{{}, news};
  for (const opal_process_name_t& name : dead) {
    if (Endpoint* const peer = self->give_up(to_name(name))) death.peers.push_back(peer);
  }
  if (death.peers.empty()) return news.pass_on();
  std::lock_guard guard(self->lock_);
  self->waiting_.push_back(std::move(death));
  self->any_.store(true, std::memory_order_relaxed);
}

Endpoint* Deaths::give_up(PeerName name) {
  Endpoint* const peer = module_.endpoints.find(name);
  if (peer != nullptr) peer->leaving.store(true, std::memory_order_relaxed);
  module_.for_each_engine([&](Engine& engine) { engine.give_up_dead(name); });
  return peer;
}

bool Deaths::is_of_pml(const Endpoint& peer, const void* context) const {
  return btl::is_of_pml(context, &module_, &peer);
}

bool Deaths::is_endless(const TransferRequest& refused) {
  constexpr int for_ever = 1000;
  std::lock_guard guard(lock_);
  const bool again = refused.peer == refused_.peer && refused.opcode == refused_.opcode &&
                     refused.remote_address == refused_.remote_address;
  in_a_row_ = again ? in_a_row_ + 1 : 1;
  refused_ = refused;
  return in_a_row_ >= for_ever;
}

void Deaths::on_failure(const Endpoint& peer, const void* context) {
  if (!survivable_ || !peer.leaving.load(std::memory_order_relaxed) || is_of_pml(peer, context) ||
      said_.exchange(true, std::memory_order_relaxed))
    return;
  complain("a one-sided operation with " + rank_text(peer.name) +
           " was not finished: that process is gone. Open MPI may not tell the program; " +
           "MPIX_Comm_get_failed does.");
}

std::vector<Deaths::Death> Deaths::take() {
  std::lock_guard guard(lock_);
  any_.store(false, std::memory_order_relaxed);
  return std::exchange(waiting_, {});
}

}  // namespace weir::btl
