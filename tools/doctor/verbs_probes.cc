// Things done over weir's own queues, connected to themselves, as the transport would do them.

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "srq/rnr_timer.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/waiting.h"
#include "tools/needs.h"
#include "transport/verbs/hw_counters.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/queues.h"
#include "transport/verbs/registration_cache.h"

namespace weir::tools::doctor {
namespace {

constexpr milliseconds patience{2000};
constexpr const char* report_it =
    "look at dmesg; update the driver and firmware; weir does not work on this port as it is";

// One queue pair, connected to itself, on an SRQ. Buffer i is both sent from and received into.
class Loop {
 public:
  static constexpr std::uint32_t buffer_bytes = 4096;
  // With the one to send from 52 KiB: so little locked memory is one failure, not one of each
  // probe.
  static constexpr std::uint32_t buffers = 12;

  static std::unique_ptr<Loop> make(const verbs::Device& device,
                                    const verbs::QueuePairOptions& options, std::string& why) {
    std::unique_ptr<Loop> loop(new Loop);
    loop->queues_ = verbs::Queues::create(device, buffers, options, why);
    if (loop->queues_ == nullptr || loop->queues_->create_pair(lane, why) == 0) return nullptr;
    if (!loop->queues_->connect_to_itself(lane)) {
      why = fmt::format("a queue pair cannot be connected: {}", std::strerror(errno));
      return nullptr;
    }
    loop->out_ = verbs::RegisteredMemory::allocate(device, buffer_bytes);
    if (loop->out_) loop->in_ = verbs::RegisteredMemory::allocate(device, buffer_bytes * buffers);
    if (!loop->in_) {
      why = "cannot register memory: " + verbs::registration_error(errno);
      return nullptr;
    }
    return loop;
  }

  verbs::Queues& queues() { return *queues_; }
  std::byte* out() { return out_.data(); }
  std::byte* in(std::uint32_t buffer) { return in_.data() + std::size_t{buffer} * buffer_bytes; }

  bool post_receive(std::uint32_t buffer) {
    const ReceivePost post{BufferId{buffer}, buffer_bytes, in_.lkey(),
                           reinterpret_cast<std::uint64_t>(in(buffer))};
    return queues_->post(std::span(&post, 1));
  }
  bool send(std::uint32_t bytes) {
    const WorkRequest work{.id = sent_++,
                           .lane = lane,
                           .opcode = Opcode::send,
                           .signalled = true,
                           .inlined = false,
                           .length_bytes = bytes,
                           .lkey = out_.lkey(),
                           .address = reinterpret_cast<std::uint64_t>(out_.data())};
    return queues_->post(std::span(&work, 1));
  }

  // Until `sends` sends and `receives` receives in all are complete. False in case of an error or
  // when time is up; `why` says which.
  bool complete(std::uint32_t sends, std::uint32_t receives, milliseconds limit, std::string& why) {
    const bool in_time = wait_for(limit, [&] {
      poll();
      return failed_ != CompletionStatus::success || (sends_ >= sends && receives_ >= receives);
    });
    if (failed_ != CompletionStatus::success) {
      why = fmt::format("completion with status {}",
                        ibv_wc_status_str(static_cast<ibv_wc_status>(failed_)));
    } else if (!in_time) {
      why = fmt::format("no completion for {} ms", limit.count());
    }
    return in_time && failed_ == CompletionStatus::success;
  }
  std::uint32_t receives() {
    poll();
    return receives_;
  }
  // The buffer that was filled last.
  std::uint32_t last_buffer() const { return last_buffer_; }

 private:
  static constexpr LaneId lane{0};

  void poll() {
    std::array<Completion, 8> done;
    const int count = queues_->poll(done);
    for (int i = 0; i < count; ++i) {
      const Completion& completion = done[static_cast<std::size_t>(i)];
      if (completion.status != CompletionStatus::success) failed_ = completion.status;
      ++(completion.opcode == Opcode::receive ? receives_ : sends_);
      if (completion.opcode == Opcode::receive) {
        last_buffer_ = static_cast<std::uint32_t>(completion.id);
      }
    }
  }

  std::unique_ptr<verbs::Queues> queues_;
  verbs::RegisteredMemory out_;
  verbs::RegisteredMemory in_;
  std::uint64_t sent_ = 0;
  std::uint32_t sends_ = 0;
  std::uint32_t receives_ = 0;
  std::uint32_t last_buffer_ = 0;
  CompletionStatus failed_ = CompletionStatus::success;
};

// Waits for the limit event of the only SRQ there is; other events are taken and dropped.
bool wait_for_limit_event(const verbs::Device& device, milliseconds limit) {
  const int fd = device.context()->async_fd;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return wait_for(limit, [&] {
    pollfd readable{fd, POLLIN, 0};
    ibv_async_event event{};
    if (::poll(&readable, 1, 1) != 1 || ibv_get_async_event(device.context(), &event) != 0) {
      return false;
    }
    ibv_ack_async_event(&event);
    return event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
  });
}

}  // namespace

Findings probe_memory(const verbs::Device& device, const config::Settings& settings) {
  const std::uint64_t wanted = least_registered_bytes(settings);
  const auto start = Clock::now();
  const auto memory = verbs::RegisteredMemory::allocate(device, wanted);
  if (!memory) {
    return {fail("registration",
                 fmt::format("{} of memory cannot be registered: {}", bytes_text(wanted),
                             std::strerror(errno)),
                 "see memlock above; otherwise look at dmesg")};
  }
  return {ok("registration", fmt::format("{} of memory is registered in {:.2f} ms",
                                         bytes_text(wanted), ms_since(start)))};
}

// The application's buffers of large messages. Hooks that do not work are noticed on creation.
Findings probe_cache(const verbs::Device& device) {
  constexpr const char* name = "cache";
  constexpr std::size_t bytes = 1 << 20;
  constexpr const char* copies = "large messages are copied";
  std::string why;
  const auto cache = verbs::RegistrationCache::create(device, {}, why);
  if (cache == nullptr) {
    return {warn(name,
                 fmt::format("no registration cache: {}; memory is registered for each large "
                             "message, which takes longer",
                             why),
                 "install UCX (Debian: libucx0), and see that nothing else patches munmap")};
  }
  std::vector<std::byte> buffer(bytes);
  const auto get = [&] { return cache->get(buffer.data(), bytes, Access::local_write); };
  const auto start = Clock::now();
  verbs::Registration* const first = get();
  if (first == nullptr) {
    return {warn(name,
                 fmt::format("{} of an application cannot be registered: {}; {}", bytes_text(bytes),
                             verbs::registration_error(errno), copies),
                 "see memlock above; otherwise look at dmesg")};
  }
  const double first_ms = ms_since(start);
  cache->put(first);
  constexpr int times = 100;
  const auto again = Clock::now();
  for (int i = 0; i < times; ++i) cache->put(get());
  return {ok(name, fmt::format("UCX's registration cache sees memory that is unmapped; {} take "
                               "{:.2f} ms at first, {:.1f} us when known; the node's processes may "
                               "have {} registrations together",
                               bytes_text(bytes), first_ms, ms_since(again) * 1e3 / times,
                               cache->counters().regions_limit))};
}

Findings probe_connection(const verbs::Device& device) {
  constexpr const char* name = "connection";
  std::string why;
  const auto loop = Loop::make(device, {}, why);
  if (loop == nullptr) return {fail(name, "no connection to oneself: " + why, report_it)};
  for (std::uint32_t i = 0; i < Loop::buffers; ++i) loop->post_receive(i);

  for (std::uint32_t i = 0; i < Loop::buffer_bytes; ++i) {
    loop->out()[i] = static_cast<std::byte>(i * 7 + (i >> 8));
  }
  if (!loop->send(Loop::buffer_bytes) || !loop->complete(1, 1, patience, why)) {
    return {fail(name, "a message to oneself does not arrive: " + why, report_it)};
  }
  if (std::memcmp(loop->out(), loop->in(loop->last_buffer()), Loop::buffer_bytes) != 0) {
    return {fail(name, "a message to oneself arrives with wrong data", report_it)};
  }

  constexpr std::uint32_t rounds = 200;
  std::vector<double> times;
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    loop->post_receive(loop->last_buffer());
    const auto start = Clock::now();
    if (!loop->send(8) || !loop->complete(0, 1 + round, patience, why) ||
        (times.push_back(ms_since(start)), !loop->complete(1 + round, 1 + round, patience, why))) {
      return {fail(name, fmt::format("message {} to oneself does not arrive: {}", round + 1, why),
                   report_it)};
    }
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return {ok(name, fmt::format("{} messages to oneself over RC arrive intact; 8 B take {:.1f} us "
                               "(median)",
                               rounds + 1, times[rounds / 2] * 1000))};
}

Findings probe_srq_limit(const verbs::Device& device) {
  constexpr const char* name = "srq limit";
  constexpr const char* fix =
      "update the driver and firmware; until then weir notices a low window by itself, only later";
  std::string why;
  const auto loop = Loop::make(device, {}, why);
  if (loop == nullptr) return {fail(name, "no shared receive queue: " + why, report_it)};
  constexpr std::uint32_t posted = 10, limit = 8, consumed = 3;
  for (std::uint32_t i = 0; i < posted; ++i) loop->post_receive(i);
  if (!loop->queues().arm({limit})) {
    return {fail(name, fmt::format("the limit cannot be armed: {}", std::strerror(errno)), fix)};
  }
  if (wait_for_limit_event(device, milliseconds(50))) {
    return {fail(name, "the limit event fires although enough receives are posted", fix)};
  }
  for (std::uint32_t i = 0; i < consumed; ++i) loop->send(8);
  if (!loop->complete(consumed, consumed, patience, why)) {
    return {fail(name, "the messages that should reach the limit do not arrive: " + why, fix)};
  }
  const auto start = Clock::now();
  if (!wait_for_limit_event(device, patience)) {
    return {fail(name,
                 fmt::format("no limit event within {} ms after the posted receives fell below "
                             "the limit",
                             patience.count()),
                 fix)};
  }
  const double took_ms = ms_since(start);
  // Already below: hardware may fire now, Soft-RoCE waits for the next receive to be consumed.
  if (!loop->queues().arm({limit})) {
    return {fail(name, "the limit cannot be armed again", fix)};
  }
  const char* variant = "fires at once when armed already below the limit";
  if (!wait_for_limit_event(device, milliseconds(200))) {
    variant = "is silent when armed already below the limit, and fires with the next message";
    loop->send(8);
    if (!loop->complete(consumed + 1, consumed + 1, patience, why) ||
        !wait_for_limit_event(device, patience)) {
      variant = "is lost when armed already below the limit";
    }
  }
  return {ok(name, fmt::format("the limit event fires within {:.1f} ms; it {} (weir is made for "
                               "that)",
                               std::max(took_ms, 0.1), variant))};
}

Findings probe_rnr(const verbs::Device& device, const config::Settings& settings) {
  constexpr const char* name = "rnr";
  verbs::QueuePairOptions options;
  options.rnr_timer_code = rnr_timer_code({settings.rnr_timer_ns});
  const double asked_ms = static_cast<double>(rnr_timer_duration(options.rnr_timer_code).ns) / 1e6;
  std::string why;
  const auto loop = Loop::make(device, options, why);
  if (loop == nullptr) return {fail(name, "no connection to oneself: " + why, report_it)};

  const std::string folder = verbs::hw_counter_folder(device.port().device, device.port().port);
  const verbs::HwCounters before = verbs::read_hw_counters(folder);
  constexpr milliseconds starved{40};
  const auto start = Clock::now();
  if (!loop->send(64)) return {fail(name, "a message cannot be posted", report_it)};
  std::this_thread::sleep_for(starved);
  if (loop->receives() != 0) {
    return {fail(name, "a message arrives where no receive is posted", report_it)};
  }
  const auto posted = Clock::now();
  loop->post_receive(0);
  if (!loop->complete(1, 1, patience, why)) {
    return {fail(name,
                 "a message that found no receive is not delivered once one is posted: " + why,
                 report_it)};
  }
  const double after_ms = ms_since(posted);
  const double all_ms = ms_since(start);
  const verbs::HwCounters now = verbs::read_hw_counters(folder);

  std::string text = fmt::format(
      "a message without a receive waits, and is delivered {:.1f} ms after one is posted",
      after_ms);
  if (before.rnr_naks_received && before.rnr_naks_sent && now.rnr_naks_received &&
      now.rnr_naks_sent) {
    const std::uint64_t received = *now.rnr_naks_received - *before.rnr_naks_received;
    const std::uint64_t sent = *now.rnr_naks_sent - *before.rnr_naks_sent;
    if (received == 0 || sent == 0) {
      return {warn(name, text + ", but the port's RNR NAK counters do not move",
                   "do not rely on btl_weir_rnr_naks_*; update the driver")};
    }
    const double apart_ms = all_ms / static_cast<double>(received);
    text += fmt::format("; {} RNR NAKs, {:.1f} ms apart for a timer of {:.2f} ms", received,
                        apart_ms, asked_ms);
    if (apart_ms > 3 * asked_ms) {
      text += " (this device rounds up; Soft-RoCE does to kernel ticks, 8 ms at 250 Hz)";
    }
  }
  // A round of the longest rounding known, and what a busy machine adds.
  if (after_ms > 10 * asked_ms + 100) {
    return {warn(name, text + ": far longer than the timer",
                 "look for other traffic on this port (weir info shows the counters)")};
  }
  return {ok(name, text)};
}

}  // namespace weir::tools::doctor
