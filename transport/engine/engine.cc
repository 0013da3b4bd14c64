#include "transport/engine/engine.h"

#include <sched.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/verbs/choose_ports.h"
#include "transport/verbs/reach.h"

namespace weir {
namespace {

// Polls between two looks at the connection manager, while an application waits for a connection.
constexpr int polls_per_connection_look = 8;

}  // namespace

std::unique_ptr<Engine> Engine::open(const Options& options, std::string& why) {
  const std::optional<verbs::PortChoice> port = verbs::choose_port(options.device, why);
  return port ? open(options, *port, why) : nullptr;
}

std::unique_ptr<Engine> Engine::open(const Options& options, const verbs::PortChoice& port,
                                     std::string& why) {
  const int fork_error = verbs::survive_forks() ? 0 : errno;  // before anything is registered
  std::optional<verbs::Device> device = verbs::Device::open(port, why);
  if (!device) return nullptr;
  Options fitted = options;
  const auto most = static_cast<std::uint32_t>(device->limits().max_srq_wr);
  fitted.core.window.max = std::min(fitted.core.window.max, most);
  fitted.core.window.most = std::min(fitted.core.window.most, most);
  fitted.core.max_rd_atomic =
      std::min<std::uint32_t>(fitted.core.max_rd_atomic, device->most_fetches_started());
  fitted.core.fetches_answered = device->most_fetches_answered();
  fitted.core.fetches_apart = device->port().soft_roce;
  fitted.core.frames_may_repeat = device->port().soft_roce;
  if (options.pkey) {
    fitted.queue_pair.pkey_index = device->pkey_index(*options.pkey, why);
    if (!fitted.queue_pair.pkey_index) return nullptr;
  }
  if (::getrandom(fitted.core.key.data(), fitted.core.key.size(), 0) !=
      static_cast<ssize_t>(fitted.core.key.size())) {
    why = std::string("no random numbers from the kernel: ") + std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<Engine> engine(new Engine(fitted, std::move(*device)));
  if (fork_error != 0) engine->driver_.warnings().forks(fork_error);
  if (!engine->driver_.open(why)) return nullptr;
  return engine;
}

Engine::~Engine() { stop(); }

std::array<std::byte, wire::card_bytes> Engine::card() const {
  wire::Card card;
  card.port = driver_.connections().port();
  verbs::describe_fabric(port(), card);
  card.key = options().core.key;
  card.further_lanes = wire::most_further_lanes;
  return wire::encode(card);
}

bool Engine::start(std::string& why) {
  std::lock_guard guard(lock_);
  if (driver_.has_started()) return true;
  if (std::exchange(start_failed_, true)) return false;  // there is no second try
  // The thread first waits for the lock.
  if (!driver_.start(why) || !driver_.thread().start([this] { run_thread(); }, why)) {
    driver_.undo_start();
    return false;
  }
  driver_.node().join_proxy(driver_.slots());
  driver_.node().tidy_after(clock());
  start_failed_ = false;
  return true;
}

void Engine::stop() {
  {
    std::lock_guard guard(lock_);
    stopping_ = true;
    core().leave_proxy();
  }
  if (driver_.thread().is_running()) {
    driver_.thread().wake();
    driver_.thread().join();
  }
  driver_.node().tidy();  // if the job ended before the event thread did it
}

// ---- peers ----

bool Engine::add_peer(PeerName name, std::span<const std::byte> card, PeerId& id,
                      std::string& why) {
  const std::optional<wire::Card> decoded = wire::decode_card(card);
  if (!decoded || wire::common_version(decoded->protocol_min, decoded->protocol_max) == 0) {
    why = "its weir and this one have no protocol version in common";
    return false;
  }
  why = verbs::why_unreachable(port(), *decoded);
  if (!why.empty()) return false;
  std::lock_guard guard(lock_);
  id = core().add_peer(name, *decoded);
  return true;
}

PeerId Engine::find(PeerName name) {
  std::lock_guard guard(lock_);
  return core().find(name);
}

void Engine::give_up_dead(PeerName name) {
  std::lock_guard guard(lock_);
  driver_.node().on_death();
  const PeerId peer = core().find(name);
  if (peer != PeerId::none && driver_.has_started()) driver_.give_up_dead(peer);
}

void Engine::set_above(PeerId peer, void* record) {
  std::lock_guard guard(lock_);
  core().set_above(peer, record);
}

void* Engine::above(PeerId peer) {
  std::lock_guard guard(lock_);
  return core().above(peer);
}

void Engine::expect_peers(std::uint32_t count) {
  std::lock_guard guard(lock_);
  core().expect_peers(count);
}

PeerName Engine::name(PeerId peer) {
  std::lock_guard guard(lock_);
  return core().name(peer);
}

PeerState Engine::state(PeerId peer) {
  std::lock_guard guard(lock_);
  return core().state(peer);
}

Counters Engine::snapshot() {
  std::lock_guard guard(lock_);
  return core().counters();
}

void Engine::count(std::uint64_t Counters::*counter, std::uint64_t more) {
  std::lock_guard guard(lock_);
  core().counters().*counter += more;
}

void Engine::let_train(PeerId peer, bool may) {
  std::lock_guard guard(lock_);
  core().let_train(peer, may, out());
  driver_.settle();
}

// ---- progress ----

// Polls, and takes what arrived for `progress` to hand up. False if this thread gets nothing.
[[gnu::flatten]] bool Engine::fetch() {
  std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock() || !driver_.has_started()) return false;
  stand_in_.visit();
  const ThreadMark owner = driver_.inbox().owner();
  if (owner != ThreadMark::none && owner != this_thread()) {
    const bool yields = stand_in_.meets(owner);
    guard.unlock();
    if (yields) sched_yield();
    return false;
  }

  if (!driver_.inbox().has_taken()) {
    driver_.look();
    if (core().wants_trains() != wants_trains()) [[unlikely]]
      wants_trains_.store(core().wants_trains(), relaxed);
    if (driver_.holds_frames()) [[unlikely]]
      driver_.note_held();
    if (core().connecting_count() > 0 && ++polls_ % polls_per_connection_look == 0) {
      driver_.serve_connections();
    }
    // The polling thread is here already; the event thread may have to wait for the lock.
    if (driver_.has_requests()) [[unlikely]] {
      driver_.serve_request();
      if (driver_.has_requests()) driver_.call_thread();
    }
    if (!driver_.has_arrived()) return false;
    driver_.inbox().take(out().deliveries);
  }
  driver_.inbox().enter();
  return true;
}

// Before progress returns, posts the frames that were held while messages were handed up.
void Engine::post_held() {
  std::lock_guard guard(lock_);
  driver_.post_held();
}

// ---- standing in for the application ----

void Engine::set_bell(int bell, const Engine& visited) {
  std::lock_guard guard(lock_);
  stand_in_.set_bell(bell, visited.stand_in_);
}

// What a thread has taken is its own until it leaves.
bool Engine::has_for_stand_in() const {
  const bool is_left = driver_.inbox().owner() == ThreadMark::none && driver_.inbox().has_taken();
  if (!driver_.has_arrived() && !is_left) return false;
  return !driver_.inbox().has_news_for_application(is_left);
}

bool Engine::waits_for_application(std::uint64_t& visits) {
  std::lock_guard guard(lock_);
  visits = stand_in_.application_visits();
  return stand_in_.on_look(has_for_stand_in());
}

bool Engine::visited_since(std::uint64_t visits) {
  std::lock_guard guard(lock_);
  return stand_in_.visits() != visits;
}

std::uint64_t Engine::visits_when_rung() {
  std::lock_guard guard(lock_);
  return stand_in_.visits_when_rung();
}

void Engine::rang_in_vain() {
  std::lock_guard guard(lock_);
  ++core().counters().overlap_in_vain;
  stand_in_.was_in_vain();
}

bool Engine::fetch_standing_in(const std::uint64_t* visits) {
  std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock() || !driver_.has_started()) return false;
  if (visits != nullptr && *visits != stand_in_.application_visits()) return false;
  const ThreadMark owner = driver_.inbox().owner();
  const ThreadMark self = this_thread();
  if (owner != ThreadMark::none && owner != self) return false;
  stand_in_.begin(self);
  if (!driver_.inbox().has_taken()) {
    driver_.look();
    if (driver_.holds_frames()) driver_.note_held();
    if (driver_.inbox().has_news_for_application(true)) return false;
    if (!driver_.has_arrived()) return false;
    driver_.inbox().take(out().deliveries);
  } else if (driver_.inbox().has_news_for_application(true)) {
    return false;
  }
  driver_.inbox().enter();
  return true;
}

// ---- leaving ----

bool Engine::close_one(PeerId peer) {
  if (!driver_.has_started()) return true;
  core().close(clock(), peer, out());
  driver_.flush();
  return core().closed(peer);
}

bool Engine::try_close(std::span<const PeerId> peers) {
  std::lock_guard guard(lock_);
  bool all = true;
  for (const PeerId peer : peers) all = close_one(peer) && all;
  return all;
}

bool Engine::try_close_all() {
  std::lock_guard guard(lock_);
  bool all = true;
  for (std::uint32_t i = 0; i < core().peer_count(); ++i) all = close_one(PeerId{i}) && all;
  return all;
}

std::size_t Engine::abandon(std::span<const PeerId> peers) {
  std::lock_guard guard(lock_);
  std::size_t left = 0;
  for (const PeerId peer : peers) {
    left += core().closed(peer) ? 0 : 1;
    core().abandon(clock(), peer, out());
  }
  driver_.flush();
  return left;
}

void Engine::abandon_all() {
  std::lock_guard guard(lock_);
  const Time now = clock();
  for (std::uint32_t i = 0; i < core().peer_count(); ++i) core().abandon(now, PeerId{i}, out());
  driver_.flush();
}

Remains Engine::remains() {
  std::lock_guard guard(lock_);
  return driver_.has_started() ? driver_.remains() : Remains{};
}

}  // namespace weir
