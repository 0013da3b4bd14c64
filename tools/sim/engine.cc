#include "tools/sim/engine.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace weir::sim {
namespace {

using Kind = ConnectAction::Kind;

constexpr std::uint32_t small_slot_bytes = 512;

// Nobody looks for a second, then the nap under way has to end, and the thread looks by ticks.
constexpr Duration lost_event_costs = milliseconds(2050);

// Every process has a key of its own, and all know it.
wire::Key key_of(Node node) {
  wire::Key key{};
  std::memcpy(key.data(), &node, sizeof node);
  return key;
}

// Its address is its number.
wire::Card card_of(Node node) {
  wire::Card card{.port = 1, .key = key_of(node), .further_lanes = wire::most_further_lanes};
  std::memcpy(card.address.data(), &node, sizeof node);
  return card;
}

Node node_at(const wire::Card& card) {
  Node node;
  std::memcpy(&node, card.address.data(), sizeof node);
  return node;
}

Core::Config keyed(Core::Config config, Node node) {
  config.key = key_of(node);
  return config;
}

}  // namespace

Engine::Engine(Fabric& fabric, Connections& connections, Node node, const Config& config,
               Host* host)
    : Driver(keyed(config.core, node), fabric.events.now()),
      fabric_(fabric),
      connections_(connections),
      config_(config),
      nic_(fabric, node, config.nic),
      host_(host) {
  if (host_ != nullptr) {
    door_ = std::make_unique<Host::Door>(*host_);
    if (!host_->join(*door_, node)) fabric_.violation("no slot for a process of the host");
    const bool counts = config.core.admission.policy != Admission::Policy::off;
    core_.join_node(counts ? &door_->requests : nullptr,
                    config.own_reads ? nullptr : &door_->reads);
    if (config.proxy_servers > 0) join_proxy();
  }
  nic_.on_limit = [this] { soon([this, since = fabric_.events.now()] { on_limit_event(since); }); };
  nic_.advertise_rnr_timer(rnr_timer_duration(config.core.rnr_code));
  connections_.listen(node, [this](EndId end, const ConnectionNews& news) { hear(end, news); });
  core_.start(out_);
  settle();
  sleep();
}

void Engine::join_proxy() {
  host_->build_proxy(config_.proxy_servers, (config_.core.buffer_bytes + 7) / 8 * 8);
  // Every second process of a host could not register the cells.
  const auto lkey = node() % 2 == 0 ? std::optional<std::uint32_t>(1) : std::nullopt;
  core_.join_proxy(host_->proxy_ground(), door_->requests.slot(), host_->id_of(node()), lkey);
  for (std::size_t i = 0; i < Core::most_relay_slots; ++i) {
    core_.lend_relay_slot(acquire(core_.max_payload_bytes()));
    --slots_lent_;  // for good
  }
}

// What is sent from a cell that its task may use again is wrong, and looks it.
void Engine::spoil_free_cells() {
  if (!core_.has_proxy()) return;
  const ProxyGround ground = host_->proxy_ground();
  std::byte* const cells =
      ground.cells + std::size_t{door_->requests.slot()} * proxy_depth * ground.cell_bytes;
  const std::uint32_t freed = core_.free_cells() & ~free_cells_;
  for (std::uint32_t i = 0; i < proxy_depth; ++i) {
    if ((freed >> i & 1) != 0) {
      std::memset(cells + std::size_t{i} * ground.cell_bytes, 0xdb, ground.cell_bytes);
    }
  }
  free_cells_ = core_.free_cells();
}

PeerId Engine::add_peer(PeerName name, Node node) { return core_.add_peer(name, card_of(node)); }

// ---- sending ----

SendSlot* Engine::acquire(std::uint32_t payload_bytes) {
  const bool small = payload_bytes + wire::first_payload_offset <= small_slot_bytes;
  std::vector<SendSlot*>& free = free_slots_[small ? 0 : 1];
  ++slots_lent_;
  if (!free.empty()) {
    SendSlot* slot = free.back();
    free.pop_back();
    return slot;
  }
  const std::uint32_t bytes = small ? small_slot_bytes : config_.core.buffer_bytes;
  slots_.push_back({{}, std::make_unique<std::byte[]>(bytes)});
  SendSlot& slot = slots_.back().slot;
  slot.frame = slots_.back().memory.get();
  slot.capacity_bytes = bytes;
  slot.pool = small ? 0 : 1;
  return &slot;
}

// What is read from a slot after this is wrong, and looks it.
void Engine::discard(SendSlot* slot) {
  std::memset(slot->frame, 0xdb, slot->capacity_bytes);
  slot->notify = slot->wakes = slot->is_car = false;
  slot->user = nullptr;
  free_slots_[slot->pool].push_back(slot);
  --slots_lent_;
}

Status Engine::send(PeerId peer, SendSlot* slot, std::uint32_t length_bytes, std::uint8_t tag,
                    bool must_take) {
  const Status status = core_.send(now(), peer, slot, length_bytes, tag, must_take, out_);
  finish_send();
  return status;
}

void Engine::finish_send() {
  settle();
  if (leaves_work()) note_work_left();
}

// ---- among rails ----

std::optional<std::uint32_t> Engine::hold(PeerId peer, bool even_if_ready) {
  drain();
  const bool held = core_.hold(now(), peer, even_if_ready, out_);
  settle();
  if (!held || !core_.is_held(peer)) return std::nullopt;
  return core_.received(peer);
}

std::optional<std::vector<SendSlot*>> Engine::give_away(PeerId peer, std::uint32_t received) {
  std::vector<SendSlot*> frames;
  const bool gave = core_.give_away(now(), peer, received, out_,
                                    [&](SendSlot* slot) { frames.push_back(slot); });
  settle();
  return gave ? std::optional(std::move(frames)) : std::nullopt;
}

void Engine::check_at_rest() const {
  if (!core_.conserved()) fabric_.violation("buffers or credits do not add up");
  if (core_.has_transfers()) fabric_.violation("a transfer never ended");
  if (slots_lent_ == 0) return;
  fabric_.violation(fmt::format("node {}: {} slots never came back", node(), slots_lent_));
}

Status Engine::carry(PeerId peer, const SendSlot& frame) {
  SendSlot* const slot =
      acquire(frame.frame_bytes - static_cast<std::uint32_t>(wire::first_payload_offset));
  slot->copy(frame);
  const Status status = core_.send_frame(now(), peer, slot, out_);
  if (status != Status::ok) discard(slot);
  finish_send();
  return status;
}

std::vector<TransferRequest> Engine::withdraw(PeerId peer) {
  std::vector<TransferRequest> taken;
  core_.withdraw(now(), peer, out_,
                 [&](const TransferRequest& request) { taken.push_back(request); });
  settle();
  return taken;
}

void Engine::hand_up(const LinkNews& news) {
  fabric_.note(node(), news.kind, news.reason, news.message.kind, news.message.received);
  if (!serve_links_) return;
  fabric_.trace(node(), "link news ", static_cast<int>(news.kind), ", peer ", index(news.peer),
                ", message ", static_cast<int>(news.message.kind));
  arrived_links_.push_back(news);
  wake_thread();
}

void Engine::lose_port() {
  soon([this] {
    drain();
    core_.on_port_down(now(), out_);
  });
}

// ---- what the core wants ----

void Engine::settle() {
  if (dead_) return;
  finish_call();
  spoil_free_cells();
}

void Engine::post_receives() {
  fabric_.note(node(), fabric_.events.now().ns);
  for (const ReceivePost& post : out_.receives) fabric_.note(index(post.buffer));
  nic_.post_receives(out_.receives);
  out_.receives.clear();
}

void Engine::hand_up(const Retired& retired) {
  fabric_.note(retired.slot->frame_bytes, retired.delivered);
  if (retired.slot->notify) {
    arrived_.push_back([retired](Upcalls& to) { to.on_retired(retired.slot, retired.delivered); });
  } else {
    discard(retired.slot);
  }
}

void Engine::hand_up(const Failure& failure) {
  fabric_.note(index(failure.peer), failure.reason, failure.completion, failure.frame.fault);
  fabric_.trace(node(), "gives up peer ", index(failure.peer), ": ", to_text(failure.reason), ", ",
                to_text(failure.completion), ", ", to_text(failure.frame.fault));
  ++failures_arrived_;
  arrived_.push_back([this, failure](Upcalls& to) {
    --failures_arrived_;
    to.on_failure(failure);
  });
}

void Engine::hand_up(const TransferEnd& end) {
  fabric_.note(end.token, end.ok);
  arrived_.push_back([end](Upcalls& to) { to.on_transfer(end); });
}

// The hash has all of it but addresses, which differ from run to run.
void Engine::post_work() {
  fabric_.note(node(), fabric_.events.now().ns);
  for (const WorkRequest& work : out_.work) {
    fabric_.note(work.id, index(work.lane), work.opcode, work.signalled, work.inlined,
                 work.length_bytes, work.operand, work.compare, work.solicited);
    if (work.opcode == Opcode::send) {
      std::uint64_t header;
      static_assert(wire::frame_header_bytes == sizeof header);
      std::memcpy(&header, reinterpret_cast<const void*>(work.address), sizeof header);
      fabric_.note(header);
    }
    const auto found = lanes_.find(work.lane);
    if (found == lanes_.end()) {
      fabric_.violation("work for a lane that does not exist");
      continue;
    }
    ++core_.counters().doorbells;
    nic_.post_send(found->second.qp, work);
  }
  out_.work.clear();
}

void Engine::provide_slab() {
  const std::uint32_t count = out_.slab_buffers;
  fabric_.note(count);
  out_.slab_buffers = 0;
  const std::uint64_t bytes = std::uint64_t{count} * config_.core.buffer_bytes;
  const std::uint64_t had = core_.counters().receive_bytes / config_.core.buffer_bytes;
  if (had + count > config_.slab_limit) return core_.on_slab_failed(out_);
  slabs_.push_back({std::make_unique<std::byte[]>(bytes), bytes});
  core_.on_slab(reinterpret_cast<std::uint64_t>(slabs_.back().memory.get()), 1, count, out_);
}

void Engine::drop_slab() {
  ++slabs_dropped_;
  fabric_.note(slabs_dropped_);
  const Slab& slab = slabs_.back();
  if (nic_.has_receive_in(reinterpret_cast<std::uint64_t>(slab.memory.get()), slab.bytes)) {
    fabric_.violation("memory was given back that the adapter may write to");
  }
  slabs_.pop_back();
}

void Engine::carry_out(const ConnectAction& action) {
  constexpr const char* kinds[] = {"connect", "accept", "reject", "loop", "drop", "lane end"};
  fabric_.trace(node(), kinds[static_cast<int>(action.kind)], " peer ", index(action.peer),
                " lane ", index(action.lane));
  fabric_.note(node(), action.kind, index(action.peer), index(action.lane), action.request,
               action.reason, action.hello.credits, action.hello.control_credits,
               action.hello.attempt, action.theirs.qp_number, action.reads);
  if (action.kind == Kind::drop) return forget(action.lane);
  if (action.kind == Kind::lane_end) return make_lane_end(action);
  const auto request = requests_.extract(action.request);
  if (request.empty() && (action.kind == Kind::reject || action.kind == Kind::accept)) {
    return fabric_.violation("an unknown request was answered");
  }
  if (action.kind == Kind::reject) {
    return action.silent ? connections_.forget(request.mapped())
                         : connections_.reject(request.mapped(), action.reason);
  }
  while (core_.lacks_control_slots()) {
    core_.lend_control_slot(acquire(0));
    --slots_lent_;  // for good
  }
  const auto [place, is_new] = lanes_.try_emplace(action.lane);
  if (!is_new) fabric_.violation("a lane was made that exists already");
  LanePair& lane = place->second;
  lane.qp = nic_.create_qp(config_.core.queue.depth);
  lane_of_qp_[lane.qp] = action.lane;
  if (action.kind == Kind::loop) {
    nic_.connect_qp(lane.qp, node(), lane.qp);
    return core_.on_established(now(), action.lane, out_);
  }
  const wire::Card& card = core_.card(action.peer);
  if (action.kind == Kind::connect && card.port == 0) {
    return core_.on_connect_failed(now(), action.lane, FailReason::connect_unreachable, out_);
  }
  lane.end = action.kind == Kind::accept
                 ? request.mapped()
                 : connections_.connect(node(), node_at(card), lane.qp, action.hello);
  lane_of_end_[lane.end] = action.lane;
  if (action.kind == Kind::accept && !connections_.accept(lane.end, lane.qp, action.hello)) {
    core_.on_connect_failed(now(), action.lane, FailReason::no_resources, out_);
  }
}

void Engine::make_lane_end(const ConnectAction& action) {
  wire::LaneEnd ours = action.ours;
  auto found = lanes_.find(action.lane);
  if (found == lanes_.end()) {
    found = lanes_.emplace(action.lane, LanePair{}).first;
    if (fabric_.strikes(fabric_.hazards.missed_bulk_pair)) {
      return core_.on_lane_end(now(), action.lane, {}, out_);
    }
    found->second.qp = nic_.create_qp(core_.fetch_depth());
    lane_of_qp_[found->second.qp] = action.lane;
    ours.qp_number = static_cast<std::uint32_t>(found->second.qp);
    ours.reads = static_cast<std::uint8_t>(config_.nic.max_rd_atomic);
  }
  if (action.theirs.exists()) {
    const Node to = nic_.remote_node(lanes_.at(action.beside).qp);
    nic_.connect_qp(found->second.qp, to, QpNumber{action.theirs.qp_number}, action.reads);
  }
  core_.on_lane_end(now(), action.lane, ours, out_);
}

void Engine::forget(LaneId lane) {
  const auto found = lanes_.extract(lane);
  if (found.empty()) return fabric_.violation("a lane was dropped that does not exist");
  const auto [qp, end] = found.mapped();
  if (end != EndId::none) {
    lane_of_end_.erase(end);
    connections_.drop(end);
  }
  nic_.destroy_qp(qp);
  drain();
  lane_of_qp_.erase(qp);
  core_.on_dropped(now(), lane, out_);
}

// ---- progress ----

int Engine::poll_completions() {
  int count = 0;
  QpCompletion arrived;
  while (count < static_cast<int>(config_.poll_batch) && nic_.poll(arrived)) {
    ++count;
    const auto lane = lane_of_qp_.find(arrived.qp);
    arrived.completion.lane = lane == lane_of_qp_.end() ? LaneId::none : lane->second;
    core_.on_completion(now(), arrived.completion, out_);
  }
  return count;
}

int Engine::progress(Upcalls& upcalls) {
  if (dead_) return 0;
  ++visits_;
  visited_at_ = fabric_.events.now();
  return hand_up_all(upcalls);
}

int Engine::hand_up_all(Upcalls& upcalls) {
  look();
  settle();

  int count = 0;
  for (const Delivery& delivery : out_.deliveries) {
    fabric_.note(index(delivery.peer), index(delivery.buffer), delivery.length_bytes, delivery.tag,
                 delivery.last);
    arrived_.push_back([delivery](Upcalls& to) { to.on_message(delivery); });
  }
  out_.deliveries.clear();
  for (std::size_t left = arrived_.size(); left > 0 && !dead_; --left) {
    const auto tell = std::move(arrived_.front());
    arrived_.pop_front();
    ++count;
    tell(upcalls);
  }
  if (!dead_ && core_.has_held()) {
    flush_held();
    settle();
  }
  if (core_.round() % 16 == 0) check();
  return count;
}

void Engine::kill(bool told) {
  if (dead_) return;
  dead_ = true;
  if (host_ != nullptr) host_->kill(node());
  connections_.kill(node(), told);
  nic_.power_off();
}

// ---- standing in for the application ----

void Engine::let_stand_in(Upcalls& upcalls) {
  stand_in_ = &upcalls;
  nic_.on_solicited = [this] {
    event_came_ = true;
    if (absence_.listens()) hear_event();
  };
}

void Engine::hear_event() { soon({}); }

// What only the application may hear keeps back the rest.
bool Engine::has_for_stand_in() const {
  return failures_arrived_ == 0 && !(arrived_.empty() && out_.deliveries.empty());
}

void Engine::ring() {
  ++stood_in_.wakeups;
  fabric_.events.after(fabric_.random.up_to(fabric_.timing.event_thread), [this] {
    begin(absence_.visits_when_called());
    stand_in();
  });
}

int Engine::hand_up_some(std::uint64_t visits) {
  if (dead_ || visits != visits_ || failures_arrived_ > 0) return 0;
  const int count = hand_up_all(*stand_in_);
  stood_in_.upcalls += static_cast<std::uint64_t>(count);
  return count;
}

// The application has to be away for a while, of which the event thread begins to take note when it
// listens again, a pause after an event that it did not need. Both threads may be late, and so may
// be the event.
void Engine::check_nobody_waits() {
  if (stand_in_ == nullptr || dead_) return;
  const Time now = fabric_.events.now();
  const bool waits =
      failures_arrived_ == 0 && (has_for_stand_in() || nic_.solicited_since() <= now);
  if (!waits || std::exchange(upcalls_seen_, stood_in_.upcalls) != stood_in_.upcalls) {
    waits_since_ = Time::never();
    return;
  }
  waits_since_ = std::min(waits_since_, now);
  std::int64_t most_ns = 2 * Absence::longest_pause.ns + StandInLoop::longest_pause.ns +
                         Nic::latest_event.ns + 3 * fabric_.timing.event_thread.ns;
  if ((now - nic_.event_lost_at()).ns <= most_ns + lost_event_costs.ns) {
    most_ns += lost_event_costs.ns;
  }
  if ((now - std::max(waits_since_, visited_at_)).ns <= most_ns) return;
  fabric_.violation(
      fmt::format("node {}: a message waits for an application that computes", node()));
}

// ---- the event thread ----

void Engine::run_thread(const EventQueue::Action& step) {
  if (dead_) return;
  const Time woken = fabric_.events.now();
  if (!arrived_links_.empty()) serve_links_();
  if (step) step();
  serve_requests();
  settle();
  const bool heard = absence_.listens() && std::exchange(event_came_, false);
  if (heard) {
    nic_.listen();
    drain();
  }
  attend(woken);
  settle();
  if (stand_in_ != nullptr && absence_.calls(woken, visits_, heard, has_for_stand_in())) ring();
  // A look at very many lanes takes several turns, and a fence at the end of a turn may let W grow,
  // which is to be looked at.
  turns_at_once_ = core_.next_deadline() <= woken ? turns_at_once_ + 1 : 0;
  if (turns_at_once_ > 1 + core_.peer_count() / 64) {
    fabric_.violation("the core wants its timer again at once: the event thread would spin");
  }
  if (!dead_) sleep();
}

// Until the nap is over, or an earlier event begins the next one.
void Engine::sleep() {
  const std::uint64_t nap = ++naps_;
  const Time now = fabric_.events.now();
  if (event_came_ && absence_.listens()) return hear_event();
  fabric_.events.after(absence_.nap(Driver::nap(now), now), [this, nap] {
    if (nap == naps_) run_thread({});
  });
}

// The event thread hears of it later, and of an end that has a lane only if it still has one then.
void Engine::hear(EndId end, const ConnectionNews& news) {
  soon([this, end, news] {
    if (news.kind == ConnectionNews::Kind::requested) {
      const RequestId request{next_request_++};
      fabric_.trace(node(), "request from rank ", news.hello.from.rank);
      requests_[request] = end;
      return add_request({request, news.hello});
    }
    on_connection_event([&](const Now& now) {
      const auto found = lane_of_end_.find(end);
      if (found != lane_of_end_.end()) on_news(now, found->second, end, news);
    });
  });
}

void Engine::on_news(const Now& now, LaneId lane, EndId end, const ConnectionNews& news) {
  constexpr const char* kinds[] = {"request",  "answer",         "established",
                                   "rejected", "attempt failed", "disconnected"};
  fabric_.trace(node(), kinds[static_cast<int>(news.kind)], ", lane ", index(lane));
  switch (news.kind) {
    case ConnectionNews::Kind::requested: break;
    case ConnectionNews::Kind::answered:
      // Or it is withdrawn; the news of that is under way.
      if (connections_.establish(end)) on_answer(now, lane, news.hello);
      break;
    case ConnectionNews::Kind::established: core_.on_established(now, lane, out_); break;
    case ConnectionNews::Kind::rejected: core_.on_rejected(now, lane, news.reject, out_); break;
    case ConnectionNews::Kind::failed: core_.on_connect_failed(now, lane, news.reason, out_); break;
    case ConnectionNews::Kind::gone: core_.on_disconnected(now, lane, out_); break;
  }
}

// One after the other; meanwhile the event thread hears of nothing else.
void Engine::serve_requests() {
  while (!serves_ && may_serve_request()) {
    if (fabric_.timing.connection_service != Duration{}) return begin_service();
    serve_request();
  }
}

void Engine::begin_service() {
  serves_ = true;
  thread_free_ = std::max(thread_free_, fabric_.events.now()) + fabric_.timing.connection_service;
  fabric_.events.at(thread_free_, [this] {
    run_thread([this] {
      serves_ = false;
      serve_request();
    });
  });
}

}  // namespace weir::sim
