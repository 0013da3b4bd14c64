#include "transport/engine/verbs_driver.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <span>
#include <utility>

#include "flowctl/shm/process.h"

namespace weir {

Time VerbsDriver::clock() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec};
}

VerbsDriver::VerbsDriver(const EngineOptions& options, verbs::Device device)
    : Driver(options.core, clock()),
      options_(options),
      device_(std::move(device)),
      warnings_(inbox_, options_, device_),
      node_(options_, device_, core_, warnings_) {}

VerbsDriver::~VerbsDriver() {
  connections_.reset();  // ids first, then the pairs and queues they belong to
  queues_.reset();
  node_.leave_proxy();
}

bool VerbsDriver::open(std::string& why) {
  node_.join(clock());
  connections_ = verbs::Connections::listen(device_, why);
  if (!connections_) return false;
  if (options_.queue_pair.traffic_class) {
    connections_->set_traffic_class(*options_.queue_pair.traffic_class);
  }
  const std::size_t least = least_bytes();
  if (verbs::RegisteredMemory::allocate(device_, least)) return true;
  why = cannot_register(device_, least);
  return false;
}

bool VerbsDriver::can_start(std::string& why) {
  EventThread thread;
  if (!verbs::Queues::create(device_, options_.core.window.max, options_.queue_pair, why) ||
      !thread.start([] {}, why)) {
    return false;
  }
  thread.join();
  return true;
}

bool VerbsDriver::start(std::string& why) {
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
    return false;
  }
  slots_->put(small);
  slots_->put(full);
  return true;
}

void VerbsDriver::undo_start() {
  connections_->attach(nullptr);
  connections_->stop_listening();
  queues_.reset();
  slots_.reset();
  receive_slabs_.clear();
}

bool VerbsDriver::is_alive(ProcessId id) { return process_alive(id); }

void VerbsDriver::hand_up(const Retired& retired) {
  if (retired.slot->notify) {
    if (owed_ > 0) --owed_;
    inbox_.tell(retired);
  } else {
    slots_->put(retired.slot);
  }
}

// The adapter can no longer be relied on. Whoever waits for a peer has to hear of it now: peers
// would only be silent.
void VerbsDriver::break_down(const std::string& what) {
  if (std::exchange(broken_, true)) return;
  warnings_.breakdown(what);
  core_.give_up_all(clock(), out_);
}

void VerbsDriver::post_receives() {
  const bool good = queues_->post(out_.receives);
  out_.receives.clear();
  if (!good) [[unlikely]]
    break_down(std::string("it refuses receive buffers (") + std::strerror(errno) + ")");
}

// Makes one call for each run of work requests of the same lane.
void VerbsDriver::post_work() {
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

// The adapter takes no work for this lane. With a broken adapter that is no news.
void VerbsDriver::refuse_lane(LaneId lane) {
  if (!broken_ && queues_->has_pair(lane)) warnings_.lane_refused();
  core_.on_lane_error(clock(), lane, out_);
}

// Without the event, the event thread still looks at the window once a second.
void VerbsDriver::arm(SrqArm limit) {
  if (!queues_->arm(limit)) [[unlikely]]
    warnings_.no_limit_event();
}

void VerbsDriver::provide_slab() {
  const std::uint32_t count = out_.slab_buffers;
  out_.slab_buffers = 0;
  const std::size_t bytes = std::size_t{count} * options_.core.buffer_bytes;
  verbs::RegisteredMemory slab = verbs::RegisteredMemory::allocate(device_, bytes);
  if (!slab) {
    if (core_.counters().slab_failures == 0 && core_.counters().receive_bytes > 0) {
      warnings_.window_cannot_grow(bytes, core_.counters().window);
    }
    core_.on_slab_failed(out_);
    return;
  }
  receive_slabs_.push_back(std::move(slab));
  const verbs::RegisteredMemory& memory = receive_slabs_.back();
  core_.on_slab(reinterpret_cast<std::uint64_t>(memory.data()), memory.lkey(), count, out_);
}

void VerbsDriver::note_pending() {
  note_held();
  note_work_left();
}

void VerbsDriver::post_held() {
  flush_held();
  has_held_.store(false, std::memory_order_relaxed);
}

Remains VerbsDriver::remains() {
  release_handled();
  return {.transfers = core_.transfers_under_way(),
          .chunks = core_.chunks_under_way(),
          .pending_frames = core_.pending_frames(),
          .send_slots = slots_->out() - core_.idle_control_slots() - core_.idle_relay_slots(),
          .receive_buffers = core_.counters().receives_held,
          .credits = core_.counters().credits_out};
}

void VerbsDriver::on_device_gone() {
  has_device_ = false;
  break_down("it was removed");
  flush();
}

// What the device reports.
void VerbsDriver::serve_device_events(Time since) {
  ibv_async_event event{};
  while (ibv_get_async_event(device_.context(), &event) == 0) {
    serve(event, since);
    ibv_ack_async_event(&event);
    flush();
  }
}

void VerbsDriver::serve(const ibv_async_event& event, Time since) {
  switch (event.event_type) {
    case IBV_EVENT_SRQ_LIMIT_REACHED: on_limit_event(since); break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: {
      const LaneId lane = queues_->lane_of(event.element.qp->qp_num);
      if (lane != LaneId::none) core_.on_lane_error(clock(), lane, out_);
      break;
    }
    case IBV_EVENT_SRQ_ERR:
      if (device_.calls_empty_srq_an_error()) break;  // it makes senders wait, and that is all
      [[fallthrough]];
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_DEVICE_FATAL: break_down(ibv_event_type_str(event.event_type)); break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE: {
      if (event.element.port_num != device_.port().port) break;
      const bool is_down = event.event_type == IBV_EVENT_PORT_ERR;
      if (is_down) {
        drain();
        core_.on_port_down(clock(), out_);
      }
      warnings_.on_port(is_down);
      break;
    }
    default: break;  // paths: the queue pairs concerned report the effect
  }
}

}  // namespace weir
