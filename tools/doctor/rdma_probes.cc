// One-sided operations and a dead peer, over weir's own queues.

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tools/doctor/checks.h"
#include "tools/doctor/waiting.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/queues.h"

namespace weir::tools::doctor {
namespace {

constexpr milliseconds patience{2000};
constexpr std::uint8_t timeout_code = 14;  // 67 ms

// A queue pair with itself or with any number on the same port, and memory it may be read and
// written in.
class RdmaPair {
 public:
  static constexpr std::size_t words = 512;

  // `to`: the destination; 0 for itself.
  RdmaPair(const verbs::Device& device, std::uint32_t to, std::uint8_t retries) : memory_(words) {
    verbs::QueuePairOptions options;
    options.ack_timeout_code = timeout_code;
    options.retry_count = retries;
    queues_ = verbs::Queues::create(device, 1, options, why_);
    const std::uint32_t number = queues_ == nullptr ? 0 : queues_->create_pair(lane, why_);
    if (number == 0) return;
    if (!queues_->connect_on_port(lane, to == 0 ? number : to)) {
      why_ = fmt::format("a queue pair cannot be connected: {}", std::strerror(errno));
      return;
    }
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (device.limits().atomic_cap != IBV_ATOMIC_NONE) access |= IBV_ACCESS_REMOTE_ATOMIC;
    mr_.reset(ibv_reg_mr(device.pd(), memory_.data(), words * 8, access));
    if (!mr_) why_ = "cannot register memory: " + verbs::registration_error(errno);
  }

  bool ready() const { return mr_ != nullptr; }
  const std::string& why() const { return why_; }  // it is not
  std::uint32_t number() const { return queues_->pair(lane)->qp_num; }
  std::uint64_t* at(std::size_t word) { return memory_.data() + word; }

  // From word `from` to word `to` of the memory. The status of the completion, or nothing when none
  // came in time.
  std::optional<CompletionStatus> run(Opcode opcode, std::size_t from, std::size_t to,
                                      std::uint32_t bytes, milliseconds limit) {
    const WorkRequest work{.id = 0,
                           .lane = lane,
                           .opcode = opcode,
                           .signalled = true,
                           .inlined = false,
                           .length_bytes = bytes,
                           .lkey = mr_->lkey,
                           .address = reinterpret_cast<std::uint64_t>(at(from)),
                           .remote_address = reinterpret_cast<std::uint64_t>(at(to)),
                           .rkey = mr_->rkey,
                           .operand = 1};
    if (!queues_->post({&work, 1})) return CompletionStatus::loc_qp_op_err;
    Completion done{};
    if (!wait_for(limit, [&] { return queues_->poll({&done, 1}) == 1; })) return {};
    return done.status;
  }

 private:
  static constexpr LaneId lane{0};

  std::vector<std::uint64_t> memory_;
  std::string why_;
  std::unique_ptr<verbs::Queues> queues_;
  std::unique_ptr<ibv_mr, verbs::Destroyer<ibv_dereg_mr>> mr_;
};

const char* text_of(CompletionStatus status) {
  return ibv_wc_status_str(static_cast<ibv_wc_status>(status));
}

std::string outcome(const std::optional<CompletionStatus>& status) {
  if (!status) return fmt::format("nothing came back for {} ms", patience.count());
  return *status == CompletionStatus::success ? "the data is wrong" : text_of(*status);
}

}  // namespace

Findings probe_rdma(const verbs::Device& device) {
  constexpr const char* fix = "update the driver and firmware; eager messages do not need it";
  constexpr std::size_t from = 0, to = 256;
  constexpr std::uint32_t bytes = 1024;
  Findings findings;
  const auto report = [&](const char* name, bool good,
                          const std::optional<CompletionStatus>& status) {
    findings.push_back(good
                           ? ok(name, fmt::format("an RDMA {} works", name))
                           : warn(name, fmt::format("no RDMA {}: {}", name, outcome(status)), fix));
  };
  // Each on a pair of its own: an error ends a queue pair.
  for (const Opcode opcode : {Opcode::write, Opcode::read, Opcode::fetch_add}) {
    const bool atomic = opcode == Opcode::fetch_add;
    const char* name = atomic ? "atomic" : opcode == Opcode::write ? "write" : "read";
    if (atomic && device.limits().atomic_cap == IBV_ATOMIC_NONE) {
      findings.push_back(warn(name, "the device has no RDMA atomics", fix));
      continue;
    }
    RdmaPair pair(device, 0, 6);
    if (!pair.ready()) {
      findings.push_back(warn(name, fmt::format("no RDMA {}: {}", name, pair.why()), fix));
      continue;
    }
    // A write goes from `from` to `to`, a read brings `to` to `from`.
    std::uint64_t* const source = pair.at(opcode == Opcode::write ? from : to);
    for (std::size_t i = 0; i < bytes / 8; ++i) source[i] = i * 0x9e3779b97f4a7c15 + 1;
    const std::uint64_t first = source[0];
    const auto status = pair.run(opcode, from, to, atomic ? 8 : bytes, patience);
    const bool right = atomic ? *pair.at(from) == first && *pair.at(to) == first + 1
                              : std::memcmp(pair.at(from), pair.at(to), bytes) == 0;
    report(name, status == CompletionStatus::success && right, status);
  }
  return findings;
}

Findings probe_retries(const verbs::Device& device) {
  constexpr const char* name = "dead peer";
  constexpr const char* fix =
      "weir gives a peer up after btl_weir_peer_timeout by itself; update the driver and firmware";
  // A number that just was somebody's, and is nobody's now.
  std::uint32_t dead = 0;
  if (RdmaPair gone(device, 0, 1); gone.ready()) dead = gone.number();
  if (dead == 0) return {warn(name, "no queue pair to try it with", fix)};
  RdmaPair pair(device, dead, 1);
  if (!pair.ready()) return {warn(name, "no queue pair to try it with", fix)};
  const auto start = Clock::now();
  constexpr milliseconds limit{5000};
  const auto status = pair.run(Opcode::write, 0, 256, 64, limit);
  if (!status) {
    return {warn(name,
                 fmt::format("no error {} ms after a write to a queue pair that does not exist",
                             limit.count()),
                 fix)};
  }
  if (*status == CompletionStatus::success) {
    return {warn(name, "a write to a queue pair that does not exist succeeds", fix)};
  }
  return {ok(name, fmt::format("a write to a missing peer ends with an error after {:.0f} ms ({}; "
                               "one retry, timer 67 ms)",
                               ms_since(start), text_of(*status)))};
}

}  // namespace weir::tools::doctor
