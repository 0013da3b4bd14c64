// `weir doctor --adapter-report`: what this adapter is, and its habits in places where adapters
// differ and the specification lets them. Nothing here is right or wrong.

#include "tools/doctor/adapter_report.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "tools/doctor/waiting.h"
#include "tools/port_facts.h"
#include "transport/verbs/queues.h"

namespace weir::tools::doctor {
namespace {

using Json = nlohmann::ordered_json;
using Region = std::unique_ptr<ibv_mr, verbs::Destroyer<ibv_dereg_mr>>;

constexpr milliseconds patience{2000};
constexpr milliseconds soon{200};
constexpr LaneId lane{0};
constexpr std::uint32_t sends = 64;
constexpr std::uint32_t receives = 64;
constexpr std::uint32_t most_posts = 4096;

// "0", or "-12: Cannot allocate memory".
std::string error_text(int error) {
  return std::to_string(error) +
         (error == 0 ? "" : std::string(": ") + std::strerror(std::abs(error)));
}

std::string errno_text() { return errno == 0 ? "no errno" : error_text(errno); }

// A queue pair connected to itself, with memory to receive into.
struct Looped {
  Looped(const verbs::Device& device, std::string& why) : memory(4096) {
    verbs::QueuePairOptions options;
    options.send_depth = sends;
    options.inline_bytes = 0;
    queues = verbs::Queues::create(device, receives, options, why);
    if (queues == nullptr || queues->create_pair(lane, why) == 0) return;
    if (!queues->connect_to_itself(lane)) {
      why = "a queue pair cannot be connected to itself: " + errno_text();
      return;
    }
    region.reset(ibv_reg_mr(device.pd(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
    if (!region) why = "cannot register memory: " + errno_text();
  }

  bool ready() const { return region != nullptr; }
  ibv_qp* pair() const { return queues->pair(lane); }
  ibv_cq* cq() const { return pair()->send_cq; }

  ibv_sge piece() const {
    return {reinterpret_cast<std::uint64_t>(memory.data()), 8, region->lkey};
  }
  int post_receive() const {
    ibv_sge into = piece();
    ibv_recv_wr receive{.wr_id = 1, .next = nullptr, .sg_list = &into, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(pair()->srq, &receive, &bad);
  }
  int send(unsigned flags) const {
    ibv_sge from = piece();
    ibv_send_wr work{};
    work.sg_list = &from;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    work.send_flags = flags;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(pair(), &work, &bad);
  }
  // Polls until there were so many, or for so long. How many there were.
  int poll(int count, milliseconds limit) const {
    int found = 0;
    wait_for(limit, [&] {
      ibv_wc done{};
      while (found < count && ibv_poll_cq(cq(), 1, &done) == 1) ++found;
      return found >= count;
    });
    return found;
  }
  void to_error() const {
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    ibv_modify_qp(pair(), &error, IBV_QP_STATE);
  }

  std::vector<std::byte> memory;
  std::unique_ptr<verbs::Queues> queues;
  Region region;
};

// The names of the events that the device sends within `limit`.
Json events_of(const verbs::Device& device, milliseconds limit) {
  Json names = Json::array();
  wait_for(limit, [&] {
    ibv_async_event event{};
    while (ibv_get_async_event(device.context(), &event) == 0) {
      names.push_back(ibv_event_type_str(event.event_type));
      ibv_ack_async_event(&event);
    }
    return false;
  });
  return names;
}

Json completion_queue(const verbs::Device& device) {
  constexpr int asked = 100;
  errno = 0;
  const std::unique_ptr<ibv_cq, verbs::Destroyer<ibv_destroy_cq>> cq(
      ibv_create_cq(device.context(), asked, nullptr, nullptr, 0));
  if (!cq) return errno_text();
  const int had = cq->cqe;
  errno = 0;
  const int resized = ibv_resize_cq(cq.get(), 2 * asked);
  return {{"asked", asked},
          {"has", had},
          {"resize", error_text(resized)},
          {"errno", errno_text()},
          {"then", cq->cqe}};
}

Json inline_data(const verbs::Device& device, const Looped& looped) {
  Json sizes = Json::object();
  for (const std::uint32_t asked : {0u, 32u, 64u, 96u, 128u, 192u, 256u, 512u, 1024u}) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = looped.cq();
    attributes.srq = looped.pair()->srq;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {.max_send_wr = 128,
                      .max_recv_wr = 0,
                      .max_send_sge = 1,
                      .max_recv_sge = 0,
                      .max_inline_data = asked};
    errno = 0;
    const verbs::Queues::Pair pair(ibv_create_qp(device.pd(), &attributes));
    sizes[std::to_string(asked)] = pair ? Json{{"has", attributes.cap.max_inline_data},
                                               {"send_queue", attributes.cap.max_send_wr}}
                                        : Json(errno_text());
  }
  return sizes;
}

// How many receives fit into an SRQ made for 64, and what one more returns.
Json full_srq(const Looped& looped) {
  std::uint32_t posted = 0;
  int error = 0;
  while (posted < most_posts && (error = looped.post_receive()) == 0) ++posted;
  return {{"asked", receives}, {"posted", posted}, {"then", error_text(error)}};
}

// What happens when the receives posted are fewer than the limit already.
Json limit_below(const verbs::Device& device, const Looped& looped) {
  ibv_srq_attr attributes{};
  attributes.srq_limit = 8;
  for (int i = 0; i < 4; ++i) looped.post_receive();
  const int armed = ibv_modify_srq(looped.pair()->srq, &attributes, IBV_SRQ_LIMIT);
  Json report{{"armed", error_text(armed)}, {"at_once", events_of(device, soon)}};
  looped.send(IBV_SEND_SIGNALED);
  looped.poll(2, patience);
  report["after_a_message"] = events_of(device, soon);
  for (int i = 0; i < 3; ++i) looped.send(IBV_SEND_SIGNALED);
  looped.poll(6, patience);
  report["when_empty"] = events_of(device, soon);
  return report;
}

// A send queue made for 64 takes how many, until completions are polled; and then in error, where
// all are flushed.
Json full_send_queue(const verbs::Device& device, const Looped& looped) {
  std::uint32_t posted = 0;
  int error = 0;
  // Nobody has a receive: nothing completes.
  while (posted < most_posts && (error = looped.send(IBV_SEND_SIGNALED)) == 0) ++posted;
  Json report{{"asked", sends}, {"posted", posted}, {"then", error_text(error)}};
  const auto start = Clock::now();
  looped.to_error();
  report["flushed"] = looped.poll(static_cast<int>(posted), patience);
  report["flushed_in_ms"] = ms_since(start);
  report["events"] = events_of(device, soon);
  report["post_in_error"] = error_text(looped.send(IBV_SEND_SIGNALED));
  return report;
}

Json registration(const verbs::Device& device) {
  constexpr std::size_t bytes = 1 << 20;
  Json report = Json::object();
  const auto attempt = [&](const char* name, void* address, std::size_t length, int access) {
    errno = 0;
    const auto start = Clock::now();
    const Region region(ibv_reg_mr(device.pd(), address, length, access));
    report[name] = region ? Json{{"ms", ms_since(start)}} : Json(errno_text());
  };
  void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_text();
  attempt("read_only_memory_for_reads", memory, bytes, IBV_ACCESS_REMOTE_READ);
  attempt("read_only_memory_for_writes", memory, bytes,
          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ::mprotect(memory, bytes, PROT_READ | PROT_WRITE);
  attempt("1MiB", memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  attempt("relaxed_ordering", memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  attempt("no_bytes", memory, 0, IBV_ACCESS_LOCAL_WRITE);
  ::munmap(memory, bytes);
  return report;
}

Json limits_of(const ibv_device_attr& limits) {
  return {{"max_qp", limits.max_qp},
          {"max_qp_wr", limits.max_qp_wr},
          {"max_sge", limits.max_sge},
          {"max_cq", limits.max_cq},
          {"max_cqe", limits.max_cqe},
          {"max_mr", limits.max_mr},
          {"max_mr_size", limits.max_mr_size},
          {"max_srq", limits.max_srq},
          {"max_srq_wr", limits.max_srq_wr},
          {"max_qp_rd_atom", limits.max_qp_rd_atom},
          {"max_qp_init_rd_atom", limits.max_qp_init_rd_atom},
          {"max_res_rd_atom", limits.max_res_rd_atom},
          {"atomic_cap", limits.atomic_cap},
          {"device_cap_flags", limits.device_cap_flags},
          {"page_size_cap", limits.page_size_cap}};
}

}  // namespace

Json adapter_report(const verbs::Device& device) {
  const verbs::PortChoice& port = device.port();
  const ibv_device_attr& limits = device.limits();
  const int events = device.context()->async_fd;
  ::fcntl(events, F_SETFL, ::fcntl(events, F_GETFL) | O_NONBLOCK);
  utsname system{};
  ::uname(&system);
  Json report{{"version", WEIR_VERSION},
              {"kernel", std::string(system.release) + " " + system.machine},
              {"device", port.device},
              {"driver", driver_of(port.device)},
              {"firmware", std::string(limits.fw_ver)},
              {"vendor", limits.vendor_id},
              {"part", limits.vendor_part_id},
              {"link", port.link},
              {"speed_gbps", static_cast<double>(port.speed_mbps) / 1000},
              {"mtu_bytes", port.mtu_bytes},
              {"gids", port.gids.size()},
              {"limits", limits_of(limits)}};
  Json& habits = report["habits"];
  habits["completion_queue"] = completion_queue(device);
  habits["registration"] = registration(device);
  // Each on a pair of its own: most end it.
  const auto on_a_pair = [&](const char* name, auto probe) {
    std::string why;
    const Looped looped(device, why);
    habits[name] = looped.ready() ? probe(looped) : Json(why);
  };
  on_a_pair("inline_data", [&](const Looped& looped) { return inline_data(device, looped); });
  on_a_pair("srq_limit", [&](const Looped& looped) { return limit_below(device, looped); });
  on_a_pair("srq", full_srq);
  on_a_pair("send_queue", [&](const Looped& looped) { return full_send_queue(device, looped); });
  return report;
}

}  // namespace weir::tools::doctor
