#include "transport/engine/engine.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "transport/verbs/blocked_signals.h"
#include "transport/verbs/choose_ports.h"
#include "transport/verbs/reach.h"

namespace weir {
namespace {

using Kind = ConnectAction::Kind;

// Refused requests that are reported; the rest is only counted.
constexpr std::uint64_t refusals_told = 8;

// Messages of peers about other rails that wait to be served. An exchange is asked for again.
constexpr std::size_t most_link_news = 1024;

// Outages that are reported; the rest is only counted.
constexpr int most_outages_told = 8;

// A queue pair that ends has completed what it had under way in microseconds. An adapter that was
// late so many times is not waited for any more.
constexpr Duration flush_patience = milliseconds(20);
constexpr std::uint64_t most_late_flushes = 50;

// Polls between two looks at the connection manager, while an application waits for a connection.
constexpr int polls_per_connection_look = 8;

// Visits of an application that find another thread standing in for it, until it gives way.
constexpr unsigned polls_per_yield = 16;

std::string cannot_register(const verbs::Device& device, std::size_t bytes) {
  const int error = errno;
  return "cannot register " + std::to_string((bytes + 1023) / 1024) + " KiB of memory with " +
         device.port().name() + ": " + verbs::registration_error(error);
}

}  // namespace

Time Engine::clock() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec};
}

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
  if (fork_error != 0) engine->warn_of_forks(fork_error);
  engine->join_node();
  engine->open_proxy();
  engine->connections_ = verbs::Connections::listen(engine->device_, why);
  if (!engine->connections_) return nullptr;
  if (options.queue_pair.traffic_class) {
    engine->connections_->set_traffic_class(*options.queue_pair.traffic_class);
  }

  // Peers take our card for a promise. So check, before it is published, that there is memory for
  // the first buffers.
  const std::size_t least = engine->least_bytes();
  if (!verbs::RegisteredMemory::allocate(engine->device_, least)) {
    why = cannot_register(engine->device_, least);
    return nullptr;
  }
  return engine;
}

Engine::Engine(const Options& options, verbs::Device device)
    : Driver(options.core, clock()), options_(options), device_(std::move(device)) {
  messages_.reserve(256);
  ends_.reserve(256);
  arrived_ends_.reserve(256);
  in_hand_.reserve(8);
}

Engine::~Engine() {
  stop();
  connections_.reset();  // ids first, then the pairs and queues they belong to
  queues_.reset();
  cells_ = {};  // no adapter sends from the cells any more
  proxy_.reset();
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

std::array<std::byte, wire::card_bytes> Engine::card() const {
  wire::Card card;
  card.port = connections_->port();
  verbs::describe_fabric(device_.port(), card);
  card.key = options_.core.key;
  card.further_lanes = wire::most_further_lanes;
  return wire::encode(card);
}

bool Engine::start(std::string& why) {
  std::lock_guard guard(lock_);
  if (queues_ != nullptr) return true;
  if (start_failed_) return false;
  start_failed_ = true;  // until the end is reached: there is no second try
  queues_ = verbs::Queues::create(device_, core_.settle_receive_queue(), options_.queue_pair, why);
  if (queues_ == nullptr) return false;
  connections_->attach(queues_.get());
  slots_ = std::make_unique<SlotPool>(device_, options_.core.buffer_bytes, options_.send_bytes,
                                      core_.counters());

  errno = 0;
  core_.start(out_);
  flush();
  // At least one slab of slots in each size: sends may wait for a slot, but never for ever.
  SendSlot* const small = slots_->get(SlotPool::small);
  SendSlot* const full = slots_->get(SlotPool::full);
  if (core_.counters().receive_bytes == 0 || small == nullptr || full == nullptr) {
    why = cannot_register(device_, least_bytes());
    undo_start();
    return false;
  }
  slots_->put(small);
  slots_->put(full);
  if (!start_thread(why)) {
    undo_start();
    return false;
  }
  join_proxy();
  if ((node_ != nullptr || proxy_ != nullptr) && warns_for_node()) {
    tidy_at_ = clock() + seconds(2);
  }
  start_failed_ = false;
  return true;
}

void Engine::undo_start() {
  connections_->attach(nullptr);
  queues_.reset();
  slots_.reset();
  receive_slabs_.clear();
}

// The thread first waits for the lock, which the caller holds.
bool Engine::start_thread(std::string& why) {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  const verbs::BlockedSignals blocked;
  try {
    thread_ = std::thread([this] { run_thread(); });
  } catch (const std::system_error& problem) {
    why = std::string("cannot start the event thread: ") + problem.what() +
          ". Check the limit of processes (ulimit -u; pids.max of the cgroup)";
  }
  return thread_.joinable();
}

bool Engine::add_peer(PeerName name, std::span<const std::byte> card, PeerId& id,
                      std::string& why) {
  const std::optional<wire::Card> decoded = wire::decode_card(card);
  if (!decoded || wire::common_version(decoded->protocol_min, decoded->protocol_max) == 0) {
    why = "its weir and this one have no protocol version in common";
    return false;
  }
  why = verbs::why_unreachable(device_.port(), *decoded);
  if (!why.empty()) return false;
  std::lock_guard guard(lock_);
  id = core_.add_peer(name, *decoded);
  return true;
}

PeerId Engine::find(PeerName name) {
  std::lock_guard guard(lock_);
  return core_.find(name);
}

void Engine::set_above(PeerId peer, void* record) {
  std::lock_guard guard(lock_);
  core_.set_above(peer, record);
}

void* Engine::above(PeerId peer) {
  std::lock_guard guard(lock_);
  return core_.above(peer);
}

void Engine::expect_peers(std::uint32_t count) {
  std::lock_guard guard(lock_);
  core_.expect_peers(count);
}

PeerName Engine::name(PeerId peer) {
  std::lock_guard guard(lock_);
  return core_.name(peer);
}

// ---- carrying frames over another rail ----

std::optional<std::uint32_t> Engine::hold(PeerId peer, bool even_if_ready) {
  std::lock_guard guard(lock_);
  if (queues_ == nullptr) return std::nullopt;
  drain();  // what has arrived counts
  const bool held = core_.hold(clock(), peer, even_if_ready, out_);
  if (!out_.empty()) flush();
  if (!held || !core_.is_held(peer)) return std::nullopt;
  return core_.received(peer);
}

std::optional<std::uint32_t> Engine::received_before_end(PeerId peer) {
  std::lock_guard guard(lock_);
  return core_.received_before_end(peer);
}

std::optional<std::vector<SendSlot*>> Engine::give_away(PeerId peer, std::uint32_t received) {
  std::lock_guard guard(lock_);
  std::vector<SendSlot*> frames;
  const bool gave = core_.give_away(clock(), peer, received, out_,
                                    [&](SendSlot* slot) { frames.push_back(slot); });
  if (!out_.empty()) flush();
  return gave ? std::optional(std::move(frames)) : std::nullopt;
}

std::vector<SendSlot*> Engine::take_unsent(PeerId peer) {
  std::lock_guard guard(lock_);
  std::vector<SendSlot*> frames;
  core_.take_unsent(peer, [&](SendSlot* slot) { frames.push_back(slot); });
  return frames;
}

bool Engine::send_handover(PeerId peer, const HandoverMessage& message) {
  std::lock_guard guard(lock_);
  const bool sent = core_.send_handover(peer, message, out_);
  if (!out_.empty()) flush();
  return sent;
}

void Engine::hand_up(const LinkNews& news) {
  if (link_news_ == nullptr) return;
  if (news.kind == LinkNews::Kind::message && arrived_links_.size() >= most_link_news) return;
  arrived_links_.push_back(news);
  link_news_->store(true, std::memory_order_release);
  wake_thread();
}

void Engine::let_go(PeerId peer) {
  std::lock_guard guard(lock_);
  core_.let_go(clock(), peer, out_);
  if (!out_.empty()) flush();
}

Status Engine::carry(PeerId peer, const SendSlot& frame) {
  std::lock_guard guard(lock_);
  SendSlot* const slot = slots_->get(static_cast<SlotPool::Size>(frame.pool));
  if (slot == nullptr) return Status::back_pressure;
  slot->copy(frame);
  const Status status = core_.send_frame(clock(), peer, slot, out_);
  if (status != Status::ok) slots_->put(slot);
  finish_send();
  return status;
}

std::vector<TransferRequest> Engine::withdraw(PeerId peer) {
  std::lock_guard guard(lock_);
  std::vector<TransferRequest> taken;
  core_.withdraw(clock(), peer, out_,
                 [&](const TransferRequest& request) { taken.push_back(request); });
  if (!out_.empty()) flush();
  return taken;
}

void Engine::hand_up(const Retired& retired) {
  if (retired.slot->notify) {
    if (owed_ > 0) --owed_;
    tell(retired);
  } else {
    slots_->put(retired.slot);
  }
}

// A line when connections break, and one when they are there again; the first few times.
void Engine::hand_up(const Outage& outage) {
  if (!outage.over) {
    ++outages_told_;
    resent_before_ = core_.counters().frames_resent;
  }
  if (outages_told_ > most_outages_told) return;
  const std::string peer = "rank " + std::to_string(core_.name(outage.peer).rank);
  const std::string port = device_.port().name();
  if (outage.over) {
    const std::int64_t ms = outage.took.ns / milliseconds(1).ns;
    tell("the broken connections of " + port + " were made again, the last to " + peer +
         ", after " + std::to_string(ms) + " ms. " +
         std::to_string(core_.counters().frames_resent - resent_before_) +
         " frames were sent again.");
    return;
  }
  const bool known = outage.completion != CompletionStatus::success;
  tell("a connection of " + port + " broke, to " + peer + ": " + to_text(outage.reason) +
       (known ? std::string(" (") + to_text(outage.completion) + ")" : "") +
       ". weir makes it again, and any other that breaks. Their messages wait, for "
       "btl_weir_peer_timeout at most.");
}

// The adapter can no longer be relied on. Whoever waits for a peer has to hear of it now: peers
// would only be silent.
void Engine::break_down(const std::string& what) {
  if (std::exchange(broken_, true)) return;
  tell(device_.port().name() + " failed: " + what +
           ". This process can no longer reach any peer. Look for the driver's messages in this "
           "host's kernel log (dmesg), and check the adapter with ibv_devinfo. If both show "
           "nothing, report this as a bug",
       Notice::Kind::breakdown);
  core_.give_up_all(clock(), out_);
}

void Engine::post_receives() {
  const bool good = queues_->post(out_.receives);
  out_.receives.clear();
  if (!good) [[unlikely]]
    break_down(std::string("it refuses receive buffers (") + std::strerror(errno) + ")");
}

// Without the event, the event thread still looks at the window once a second.
void Engine::arm(SrqArm limit) {
  if (queues_->arm(limit) || no_limit_told_) [[likely]]
    return;
  no_limit_told_ = true;
  if (!options_.node.tells) return;
  tell(device_.port().name() + " has no limit event for shared receive queues (" +
       std::strerror(errno) +
       "): while the application computes, the receive window grows only once a second. A larger "
       "btl_weir_window_initial helps. The job goes on.");
}

// The adapter takes no work for this lane. With a broken adapter that is no news.
void Engine::refuse_lane(LaneId lane) {
  const int error = errno;
  if (!broken_ && queues_->has_pair(lane)) {
    tell(device_.port().name() + " refuses work requests of a queue pair (" + std::strerror(error) +
         ").");
  }
  core_.on_lane_error(clock(), lane, out_);
}

// Makes one call for each run of work requests of the same lane.
void Engine::post_work() {
  const WorkRequest* start = out_.work.data();
  const WorkRequest* all = start + out_.work.size();
  do {
    const WorkRequest* end = start + 1;
    while (end != all && end->lane == start->lane) ++end;
    ++core_.counters().doorbells;
    if (!queues_->post(std::span(start, end))) [[unlikely]] {
      const std::ptrdiff_t gone = end - out_.work.data();
      refuse_lane(start->lane);  // which may add work
      end = out_.work.data() + gone;
      all = out_.work.data() + out_.work.size();
    }
    start = end;
  } while (start != all);
  out_.work.clear();
}

void Engine::provide_slab() {
  const std::uint32_t count = out_.slab_buffers;
  out_.slab_buffers = 0;
  const std::size_t bytes = std::size_t{count} * options_.core.buffer_bytes;
  verbs::RegisteredMemory slab = verbs::RegisteredMemory::allocate(device_, bytes);
  if (!slab) {
    if (core_.counters().slab_failures == 0 && core_.counters().receive_bytes > 0) {
      tell("the receive window cannot grow any further: " + cannot_register(device_, bytes) +
           ". The job goes on with " + std::to_string(core_.counters().window) +
           " receive buffers.");
    }
    core_.on_slab_failed(out_);
    return;
  }
  receive_slabs_.push_back(std::move(slab));
  const verbs::RegisteredMemory& memory = receive_slabs_.back();
  core_.on_slab(reinterpret_cast<std::uint64_t>(memory.data()), memory.lkey(), count, out_);
}

void Engine::carry_out(const ConnectAction& action) {
  const auto failed = [&](FailReason reason) {
    core_.on_connect_failed(clock(), action.lane, reason, out_);
  };
  if (action.kind == Kind::reject) {
    note_refusal(action);
    action.silent ? connections_->forget(action.request)
                  : connections_->reject(action.request, action.reason);
    return;
  }
  if (action.kind == Kind::drop) {
    connections_->drop(action.lane);
    // What is completed before the pair is gone counts; after that nothing of it can come.
    queues_->retire_pair(action.lane);
    await_flush();
    queues_->destroy_retired();
    drain();
    queues_->forget_retired();
    core_.on_dropped(clock(), action.lane, out_);
    return;
  }
  if (action.kind == Kind::lane_end) return make_lane_end(action);
  if (broken_) {
    if (action.kind == Kind::accept) connections_->reject(action.request, wire::Reject::closing);
    return failed(FailReason::adapter_broken);
  }
  const auto lacks = [&](std::string what) {
    tell(std::move(what) + ".");
    if (action.kind == Kind::accept) connections_->reject(action.request, wire::Reject::closing);
    failed(FailReason::no_resources);
  };
  while (core_.lacks_control_slots()) {
    SendSlot* const slot = slots_->get(SlotPool::small);
    if (slot == nullptr) {
      const std::size_t bytes = std::size_t{SlotPool::small_bytes} * SlotPool::slab_slots;
      return lacks("no memory for another connection: " + cannot_register(device_, bytes));
    }
    core_.lend_control_slot(slot);
  }
  std::string why;
  const std::uint32_t number = queues_->create_pair(action.lane, why);
  if (number == 0) return lacks(std::move(why));
  core_.limit_inline(queues_->inline_bytes());
  warn_of_small_window();
  switch (action.kind) {
    case Kind::connect: {
      const wire::Card& card = core_.card(action.peer);
      if (card.port == 0 || !connections_->connect(action.lane, card, action.hello, number)) {
        failed(FailReason::connect_unreachable);
      }
      break;
    }
    case Kind::accept:
      if (!connections_->accept(action.request, action.lane, action.hello, number)) {
        failed(FailReason::no_resources);
      }
      break;
    case Kind::loop:
      if (queues_->connect_to_itself(action.lane)) {
        core_.on_established(clock(), action.lane, out_);
      } else {
        failed(FailReason::no_resources);
      }
      break;
    case Kind::reject:
    case Kind::drop:
    case Kind::lane_end: break;
  }
}

// Some adapters lose the completions of a pair they destroy, and with them receive buffers: so all
// of them are to be there before. The wait has a bound, because it is under the lock.
void Engine::await_flush() {
  const bool waits = core_.counters().flushes_late < most_late_flushes;
  const Time end = clock() + (waits ? flush_patience : Duration{});
  drain();
  while (!queues_->is_flushed() && !broken_) {
    if (clock() >= end) {
      ++core_.counters().flushes_late;
      return;
    }
    drain();
  }
}

// Somebody registered memory before us, or the kernel cannot keep pages from children.
void Engine::warn_of_forks(int error) {
  if (!warns_for_node()) return;
  tell(std::string("a program that calls fork() may corrupt messages, because this kernel does not "
                   "copy registered pages for the child and ibv_fork_init failed (") +
       std::strerror(error) +
       "). For such programs use mpirun -x RDMAV_FORK_SAFE=1, or a kernel from 5.12 on.");
}

// Only one process of a job and node warns: the others would say the same.
void Engine::warn_of_small_window() {
  if (!warns_for_node() || small_window_told_ || core_.covers_all_peers()) return;
  small_window_told_ = true;
  tell("the receive window is limited to " + std::to_string(core_.window_max()) +
       " buffers, fewer than the four that each peer needs (two for messages, two for credits). "
       "Senders will have to repeat (RNR NAK), and will wait for a process that computes. Raise "
       "btl_weir_window_max or btl_weir_receive_memory_max.");
}

// Without a second lane, reads use the first one.
void Engine::make_lane_end(const ConnectAction& action) {
  wire::LaneEnd ours = action.ours;
  if (!queues_->has_pair(action.lane)) {
    std::uint32_t random = 0;
    const bool drawn = ::getrandom(&random, sizeof random, 0) == sizeof random;
    std::string why;
    ours.qp_number = drawn ? queues_->create_second_pair(action.lane, core_.fetch_depth(), why) : 0;
    if (ours.qp_number == 0 && ours.number == 0 && options_.core.fetches_apart) {
      tell(why + ".");  // the peer will be lost
    }
    ours.psn = random & wire::psn_mask;
    ours.reads = device_.most_fetches_answered();
  }
  const bool joins = ours.qp_number != 0 && action.theirs.qp_number != 0;
  if (joins &&
      !queues_->connect_beside(action.lane, action.beside, ours, action.theirs, action.reads)) {
    ours = {};
  }
  core_.on_lane_end(clock(), action.lane, ours, out_);
}

// Crossed and closing requests are normal; somebody has to look into all others.
void Engine::note_refusal(const ConnectAction& action) {
  // What belongs to the lives of connections is nobody's fault.
  if (action.reason == wire::Reject::crossed || action.reason == wire::Reject::closing ||
      action.reason == wire::Reject::over) {
    return;
  }
  if (action.silent) return;  // the driver counts it
  const std::uint64_t count = ++core_.counters().requests_refused;
  if (count > refusals_told) return;
  tell(Refusal{action.reason, action.hello.from, connections_->asker(action.request),
               action.hello.attempt != 0, count == refusals_told});
}

int Engine::poll_completions() {
  const Now now = this->now();
  const int count = queues_->poll(verbs::Queues::poll_most, [&](const Completion& completion) {
    core_.on_completion(now, completion, out_);
  });
  if (count < 0) [[unlikely]]
    break_down("its completion queue cannot be read");
  return count;
}

// Polls, and takes what arrived for `progress` to hand up. False if this thread gets nothing.
[[gnu::flatten]] bool Engine::fetch() {
  std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock() || queues_ == nullptr) return false;
  visits_.store(visits_.load(relaxed) + 1, relaxed);
  const ThreadMark owner = progress_owner_.load(std::memory_order_acquire);
  if (owner != ThreadMark::none && owner != this_thread()) {
    const bool yields = met_stand_in(owner);
    guard.unlock();
    if (yields) sched_yield();
    return false;
  }

  if (!has_taken()) {
    look();
    if (core_.wants_trains() != wants_trains()) [[unlikely]]
      wants_trains_.store(core_.wants_trains(), relaxed);
    if (has_held_.load(std::memory_order_relaxed)) [[unlikely]]
      has_held_.store(core_.has_held(), std::memory_order_relaxed);
    if (core_.connecting_count() > 0 && ++polls_ % polls_per_connection_look == 0) {
      serve_connections();
    }
    // The polling thread is here already; the event thread may have to wait for the lock.
    if (has_requests()) [[unlikely]] {
      serve_request();
      if (has_requests()) call_thread();
    }
    if (!has_arrived()) return false;
    take();
  }
  enter_progress();
  return true;
}

void Engine::take() {
  if (!out_.deliveries.empty()) messages_.take(out_.deliveries);
  if (!std::exchange(news_arrived_, false)) return;
  has_news_ = true;
  if (!arrived_ends_.empty()) ends_.take(arrived_ends_);
  if (!arrived_notices_.empty()) notices_.take(arrived_notices_);
}

void Engine::enter_progress() {
  if (progress_depth_ == 0) {
    progress_owner_.store(this_thread(), std::memory_order_relaxed);
  }
  if (in_hand_.size() < static_cast<std::size_t>(++progress_depth_)) {
    in_hand_.push_back(BufferId::none);
  }
}

// ---- standing in for the application ----

// Open MPI may end the job because of these, or asks for more in its turn than a thread beside the
// application's may do.
bool Engine::is_for_application(const Notice& notice) {
  switch (notice.kind) {
    case Notice::Kind::retired:
    case Notice::Kind::refusal:
    case Notice::Kind::warning: return false;
    case Notice::Kind::failure:
    case Notice::Kind::breakdown:
    case Notice::Kind::wanted: break;
  }
  return true;
}

bool Engine::has_news_for_application(bool taken) const {
  return std::any_of(arrived_notices_.begin(), arrived_notices_.end(), is_for_application) ||
         (taken && notices_.any_of(is_for_application));
}

// What a thread has taken is its own until it leaves.
bool Engine::has_for_stand_in() const {
  const bool is_left =
      progress_owner_.load(std::memory_order_acquire) == ThreadMark::none && has_taken();
  if (!has_arrived() && !is_left) return false;
  return !has_news_for_application(is_left);
}

bool Engine::waits_for_application(std::uint64_t& visits) {
  std::lock_guard guard(lock_);
  visits = application_visits();
  rung_ = has_for_stand_in();
  return rung_;
}

std::uint64_t Engine::visits_when_rung() {
  std::lock_guard guard(lock_);
  return rung_at_;
}

void Engine::rang_in_vain() {
  std::lock_guard guard(lock_);
  ++core_.counters().overlap_in_vain;
  absence_.was_in_vain();
}

void Engine::ring() {
  if (rung_ || !has_for_stand_in()) return;
  rung_ = true;
  rung_at_ = application_visits();
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(bell_, &one, sizeof one);
}

// The application has to wait for who stands in for it, who may be waiting for this very core.
bool Engine::met_stand_in(ThreadMark owner) {
  return owner == stand_in_ && ++meetings_ % polls_per_yield == 0;
}

bool Engine::fetch_standing_in(const std::uint64_t* visits) {
  std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard.owns_lock() || queues_ == nullptr) return false;
  if (visits != nullptr && *visits != application_visits()) return false;
  const ThreadMark owner = progress_owner_.load(std::memory_order_acquire);
  const ThreadMark self = this_thread();
  if (owner != ThreadMark::none && owner != self) return false;
  stand_in_ = self;
  if (!has_taken()) {
    look();
    if (has_held_.load(relaxed)) has_held_.store(core_.has_held(), relaxed);
    if (has_news_for_application(true)) return false;
    if (!has_arrived()) return false;
    take();
  } else if (has_news_for_application(true)) {
    return false;
  }
  enter_progress();
  return true;
}

// Before progress returns, posts the frames that were held while messages were handed up.
void Engine::post_held() {
  std::lock_guard guard(lock_);
  flush_held();
  has_held_.store(false, std::memory_order_relaxed);
}

void Engine::note_pending() {
  has_held_.store(core_.has_held(), std::memory_order_relaxed);
  note_work_left();
}

// When a handler makes progress, the last message of a buffer may be handled before an earlier one
// of the same buffer is finished; the buffer is released only after both.
void Engine::finish_nested(const Delivery& message) {
  if (!message.last) {
    const auto found = std::find(postponed_.begin(), postponed_.end(), message.buffer);
    if (found == postponed_.end()) return;
    postponed_.erase(found);
  }
  const bool needed = std::find(in_hand_.begin(), in_hand_.end(), message.buffer) != in_hand_.end();
  if (needed) {
    postponed_.push_back(message.buffer);
  } else {
    note_released(message.buffer);
  }
}

bool Engine::close_one(PeerId peer) {
  if (queues_ == nullptr) return true;
  core_.close(clock(), peer, out_);
  flush();
  return core_.closed(peer);
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
  for (std::uint32_t i = 0; i < core_.peer_count(); ++i) all = close_one(PeerId{i}) && all;
  return all;
}

std::size_t Engine::abandon(std::span<const PeerId> peers) {
  std::lock_guard guard(lock_);
  std::size_t left = 0;
  for (const PeerId peer : peers) {
    left += core_.closed(peer) ? 0 : 1;
    core_.abandon(clock(), peer, out_);
  }
  flush();
  return left;
}

void Engine::abandon_all() {
  std::lock_guard guard(lock_);
  const Time now = clock();
  for (std::uint32_t i = 0; i < core_.peer_count(); ++i) core_.abandon(now, PeerId{i}, out_);
  flush();
}

Engine::Remains Engine::remains() {
  std::lock_guard guard(lock_);
  if (queues_ == nullptr) return {};
  release_handled();
  return {.transfers = core_.transfers_under_way(),
          .chunks = core_.chunks_under_way(),
          .pending_frames = core_.pending_frames(),
          .send_slots = slots_->out() - core_.idle_control_slots() - core_.idle_relay_slots(),
          .receive_buffers = core_.counters().receives_held,
          .credits = core_.counters().credits_out};
}

void Engine::stop() {
  {
    std::lock_guard guard(lock_);
    stopping_ = true;
    core_.leave_proxy();
  }
  if (thread_.joinable()) {
    wake_thread();
    thread_.join();
  }
  tidy_node();  // if the job ended before the event thread did it
}

}  // namespace weir
