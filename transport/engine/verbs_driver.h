// Drives the core over one RDMA port: what the core wants is posted, connected and registered here,
// and what the adapter reports goes to the core (drive/driver.h says when). What the layer above is
// to hear goes into the inbox.
//
// Thread rule: the engine's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/core/core.h"
#include "transport/drive/driver.h"
#include "transport/engine/event_thread.h"
#include "transport/engine/inbox.h"
#include "transport/engine/link_inbox.h"
#include "transport/engine/node.h"
#include "transport/engine/options.h"
#include "transport/engine/slot_pool.h"
#include "transport/engine/warnings.h"
#include "transport/verbs/connections.h"
#include "transport/verbs/device.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/queues.h"

namespace weir {

// What is under way or lent out. All zero once all peers are left and everything is handed up;
// anything else is a leak.
struct Remains {
  std::uint64_t transfers = 0;  // gets, puts and atomics whose end was not reported
  std::uint64_t chunks = 0;     // their chunks that the adapter has
  std::uint64_t pending_frames = 0;
  std::uint64_t send_slots = 0;
  std::uint64_t receive_buffers = 0;  // with messages that are still in use
  std::uint64_t credits = 0;          // credits that peers hold
};

class VerbsDriver : public Driver<VerbsDriver> {
 public:
  VerbsDriver(const EngineOptions& options, verbs::Device device);
  ~VerbsDriver();

  [[gnu::hot]] static Time clock();  // monotonic
  Now now() const { return Now(clock); }

  // Joins the node and listens for requests. Checks that there is memory for the first buffers,
  // because peers take our card for a promise. False, with the reason in `why`, if not.
  bool open(std::string& why);
  // Tries out whether this process can have queues and a thread. The same.
  bool can_start(std::string& why);
  // Makes queues and first buffers. The same.
  bool start(std::string& why);
  // After a start in vain. Nobody may be answered, so requests are refused from here on.
  void undo_start();
  bool has_started() const { return queues_ != nullptr; }

  // ---- its parts ----

  Core& core() { return core_; }
  const Core& core() const { return core_; }
  Outbox& out() { return out_; }
  const Outbox& out() const { return out_; }
  const EngineOptions& options() const { return options_; }
  const verbs::Device& device() const { return device_; }
  verbs::Queues& queues() { return *queues_; }
  verbs::Connections& connections() { return *connections_; }
  const verbs::Connections& connections() const { return *connections_; }
  SlotPool& slots() { return *slots_; }
  Inbox& inbox() { return inbox_; }
  const Inbox& inbox() const { return inbox_; }
  LinkInbox& links() { return links_; }
  NodeMember& node() { return node_; }
  const NodeMember& node() const { return node_; }
  Warnings& warnings() { return warnings_; }
  EventThread& thread() { return thread_; }

  // ---- what the engine has it do, besides what Driver has ----

  using Driver::attend;
  using Driver::call_thread;
  using Driver::drain;
  using Driver::finish_transfer;
  using Driver::flush;
  using Driver::give_up_dead;
  using Driver::has_requests;
  using Driver::look;
  using Driver::may_serve_request;
  using Driver::nap;
  using Driver::note_released;
  using Driver::on_woken;
  using Driver::serve_request;
  using Driver::waits_for_node_since;

  // Something is not taken yet.
  bool has_arrived() const { return !out_.deliveries.empty() || inbox_.has_news(); }
  // Carries out what a call of the core wants.
  void settle() {
    if (!out_.empty()) flush();
  }
  // The end of a call that sends.
  void finish_send() {
    finish_call();
    if (leaves_work()) [[unlikely]]
      note_pending();
  }
  // A hint, also without the lock: frames wait for the next pump.
  bool holds_frames() const { return has_held_.load(std::memory_order_relaxed); }
  void note_held() { has_held_.store(core_.has_held(), std::memory_order_relaxed); }
  void post_held();
  // A send begins whose end is to be told while the application is absent. It may end at once.
  void owe(bool owes) { owed_ += owes ? 1 : 0; }
  void note_owed(Status status) {
    if (status != Status::ok) --owed_;
    call_thread();
  }
  // What connection management and the device report. The event thread woke at `since`.
  [[gnu::noinline]] void serve_connections();
  void serve_device_events(Time since);
  // The device's descriptors are of no use any more.
  void on_device_gone();
  bool has_device() const { return has_device_; }

  // There are queues. Walks lists.
  Remains remains();

 private:
  // What Driver calls.
  friend class Driver<VerbsDriver>;
  int poll_completions() {
    const Now now = this->now();
    const int count = queues_->poll(verbs::Queues::poll_most, [&](const Completion& completion) {
      core_.on_completion(now, completion, out_);
    });
    if (count < 0) [[unlikely]]
      break_down("its completion queue cannot be read");
    return count;
  }
  [[gnu::hot, gnu::noinline]] void post_receives();
  [[gnu::hot]] void post_work();
  [[gnu::cold, gnu::noinline]] void arm(SrqArm limit);
  void listen() { queues_->listen(); }
  void advertise_rnr_timer(std::uint8_t code) {
    queues_->advertise_rnr_timer(code);
    call_thread();
  }
  void provide_slab();
  void drop_slab() { receive_slabs_.pop_back(); }
  void carry_out(const ConnectAction& action);
  void hand_up(const Retired& retired);
  void hand_up(const Outage& outage) { warnings_.on_outage(outage, core_); }
  void hand_up(const LinkNews& news) {
    if (links_.add(news)) thread_.wake();
  }
  template <typename News>
  void hand_up(const News& news) {
    inbox_.tell(news);
  }
  void wake_thread() { thread_.wake(); }
  static bool is_alive(ProcessId id);
  void reap_node() { node_.reap(); }

  [[gnu::noinline]] void note_pending();
  [[gnu::cold, gnu::noinline]] void break_down(const std::string& what);
  [[gnu::cold, gnu::noinline]] void refuse_lane(LaneId lane);
  // Registered memory that a process needs at least.
  std::size_t least_bytes() const {
    return std::size_t{options_.core.window.initial} * options_.core.buffer_bytes +
           SlotPool::least_bytes(options_.core.buffer_bytes);
  }

  void serve(const ibv_async_event& event, Time since);

  // verbs_driver_connections.cc
  void make_pair(const ConnectAction& action);
  bool lend_control_slots(std::string& why);
  void connect(const ConnectAction& action, std::uint32_t qp_number);
  void give_up(const ConnectAction& action, FailReason reason);
  void make_lane_end(const ConnectAction& action);
  void drop(LaneId lane);
  void await_flush();
  void refuse(const ConnectAction& action);
  void serve(const verbs::ConnectionEvent& event);

  EngineOptions options_;
  verbs::Device device_;
  Inbox inbox_;
  LinkInbox links_;
  Warnings warnings_;
  NodeMember node_;
  EventThread thread_;
  std::unique_ptr<verbs::Queues> queues_;
  std::unique_ptr<verbs::Connections> connections_;
  std::unique_ptr<SlotPool> slots_;
  std::vector<verbs::RegisteredMemory> receive_slabs_;
  std::atomic<bool> has_held_{false};
  bool broken_ = false;  // `break_down` was called
  bool has_device_ = true;
};

}  // namespace weir
