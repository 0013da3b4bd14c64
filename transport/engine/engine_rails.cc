// The frames and transfers of a rail that broke, for another one (transport/rail/handover.h).

#include <mutex>
#include <utility>

#include "transport/engine/engine.h"

namespace weir {

void Engine::watch_links(Atomic<bool>& news, std::function<void()> serve) {
  driver_.links().watch(news, std::move(serve));
}

void Engine::take_links(std::vector<LinkNews>& taken) {
  std::lock_guard guard(lock_);
  driver_.links().take(taken);
}

std::optional<std::uint32_t> Engine::hold(PeerId peer, bool even_if_ready) {
  std::lock_guard guard(lock_);
  if (!driver_.has_started()) return std::nullopt;
  driver_.drain();  // what has arrived counts
  const bool held = core().hold(clock(), peer, even_if_ready, out());
  driver_.settle();
  if (!held || !core().is_held(peer)) return std::nullopt;
  return core().received(peer);
}

std::optional<std::uint32_t> Engine::received_before_end(PeerId peer) {
  std::lock_guard guard(lock_);
  return core().received_before_end(peer);
}

std::optional<std::vector<SendSlot*>> Engine::give_away(PeerId peer, std::uint32_t received) {
  std::lock_guard guard(lock_);
  std::vector<SendSlot*> frames;
  const bool gave = core().give_away(clock(), peer, received, out(),
                                     [&](SendSlot* slot) { frames.push_back(slot); });
  driver_.settle();
  return gave ? std::optional(std::move(frames)) : std::nullopt;
}

std::vector<SendSlot*> Engine::take_unsent(PeerId peer) {
  std::lock_guard guard(lock_);
  std::vector<SendSlot*> frames;
  core().take_unsent(peer, [&](SendSlot* slot) { frames.push_back(slot); });
  return frames;
}

bool Engine::send_handover(PeerId peer, const HandoverMessage& message) {
  std::lock_guard guard(lock_);
  const bool sent = core().send_handover(peer, message, out());
  driver_.settle();
  return sent;
}

void Engine::let_go(PeerId peer) {
  std::lock_guard guard(lock_);
  core().let_go(clock(), peer, out());
  driver_.settle();
}

Status Engine::carry(PeerId peer, const SendSlot& frame) {
  std::lock_guard guard(lock_);
  SendSlot* const slot = driver_.slots().get(static_cast<SlotPool::Size>(frame.pool));
  if (slot == nullptr) return Status::back_pressure;
  slot->copy(frame);
  const Status status = core().send_frame(clock(), peer, slot, out());
  if (status != Status::ok) driver_.slots().put(slot);
  driver_.finish_send();
  return status;
}

std::vector<TransferRequest> Engine::withdraw(PeerId peer) {
  std::lock_guard guard(lock_);
  std::vector<TransferRequest> taken;
  core().withdraw(clock(), peer, out(),
                  [&](const TransferRequest& request) { taken.push_back(request); });
  driver_.settle();
  return taken;
}

}  // namespace weir
