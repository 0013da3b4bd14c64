// One-sided operations and a dead peer, over a plain queue pair: weir's queues do not do these yet.

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tools/doctor/checks.h"
#include "tools/doctor/waiting.h"

namespace weir::tools::doctor {
namespace {

constexpr milliseconds patience{2000};

using CompletionQueue = std::unique_ptr<ibv_cq, verbs::Destroyer<ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, verbs::Destroyer<ibv_destroy_qp>>;
using MemoryRegion = std::unique_ptr<ibv_mr, verbs::Destroyer<ibv_dereg_mr>>;

constexpr int remote_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// A queue pair with itself or with any number on the same port, and memory it may be read and
// written in.
class PlainPair {
 public:
  static constexpr std::size_t words = 512;

  // `to`: the destination; 0 for itself.
  PlainPair(const verbs::Device& device, std::uint32_t to, std::uint8_t timeout_code,
            std::uint8_t retries)
      : memory_(words), cq_(ibv_create_cq(device.context(), 16, nullptr, nullptr, 0)) {
    if (!cq_) return;
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq_.get();
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {4, 4, 1, 1, 0};
    qp_.reset(ibv_create_qp(device.pd(), &attributes));
    mr_.reset(ibv_reg_mr(device.pd(), memory_.data(), words * 8,
                         device.limits().atomic_cap == IBV_ATOMIC_NONE
                             ? remote_access & ~IBV_ACCESS_REMOTE_ATOMIC
                             : remote_access));
    if (qp_ && mr_) ready_ = connect(device, to == 0 ? qp_->qp_num : to, timeout_code, retries);
  }

  bool ready() const { return ready_; }
  std::uint32_t number() const { return qp_->qp_num; }
  std::uint64_t* at(std::size_t word) { return memory_.data() + word; }

  // From word `from` to word `to` of the memory. The status of the completion, or nothing when none
  // came in time.
  std::optional<ibv_wc_status> run(ibv_wr_opcode opcode, std::size_t from, std::size_t to,
                                   std::uint32_t bytes, milliseconds limit) {
    ibv_sge piece{reinterpret_cast<std::uint64_t>(at(from)), bytes, mr_->lkey};
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic = {reinterpret_cast<std::uint64_t>(at(to)), 1, 0, mr_->rkey};
    } else {
      request.wr.rdma = {reinterpret_cast<std::uint64_t>(at(to)), mr_->rkey};
    }
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_.get(), &request, &bad) != 0) return IBV_WC_LOC_QP_OP_ERR;
    ibv_wc done{};
    if (!wait_for(limit, [&] { return ibv_poll_cq(cq_.get(), 1, &done) == 1; })) return {};
    return done.status;
  }

 private:
  bool connect(const verbs::Device& device, std::uint32_t to, std::uint8_t timeout_code,
               std::uint8_t retries) {
    const verbs::PortChoice& port = device.port();
    ibv_port_attr local{};
    if (ibv_query_port(device.context(), port.port, &local) != 0) return false;
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = port.port;
    a.qp_access_flags = remote_access;
    if (ibv_modify_qp(qp_.get(), &a,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
      return false;
    }
    a = {};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = local.active_mtu;
    a.dest_qp_num = to;
    a.max_dest_rd_atomic = 1;
    a.min_rnr_timer = 12;
    a.ah_attr.port_num = port.port;
    a.ah_attr.dlid = local.lid;
    a.ah_attr.is_global = 1;
    a.ah_attr.grh.hop_limit = 64;
    a.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(port.gid.index);
    std::memcpy(a.ah_attr.grh.dgid.raw, port.gid.raw.data(), port.gid.raw.size());
    if (ibv_modify_qp(qp_.get(), &a,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
      return false;
    }
    a = {};
    a.qp_state = IBV_QPS_RTS;
    a.timeout = timeout_code;
    a.retry_cnt = retries;
    a.rnr_retry = 7;
    a.max_rd_atomic = 1;
    return ibv_modify_qp(qp_.get(), &a,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  }

  std::vector<std::uint64_t> memory_;
  CompletionQueue cq_;
  MemoryRegion mr_;
  QueuePair qp_;
  bool ready_ = false;
};

std::string outcome(const std::optional<ibv_wc_status>& status) {
  if (!status) return fmt::format("nothing came back for {} ms", patience.count());
  return *status == IBV_WC_SUCCESS ? "the data is wrong" : ibv_wc_status_str(*status);
}

}  // namespace

Findings probe_rdma(const verbs::Device& device) {
  constexpr const char* fix = "update the driver and firmware; eager messages do not need it";
  constexpr std::size_t from = 0, to = 256;
  constexpr std::uint32_t bytes = 1024;
  Findings findings;
  const auto report = [&](const char* name, bool good, const std::optional<ibv_wc_status>& status) {
    findings.push_back(good
                           ? ok(name, fmt::format("an RDMA {} works", name))
                           : warn(name, fmt::format("no RDMA {}: {}", name, outcome(status)), fix));
  };
  // Each on a pair of its own: an error ends a queue pair.
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    const bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const char* name = atomic ? "atomic" : opcode == IBV_WR_RDMA_WRITE ? "write" : "read";
    if (atomic && device.limits().atomic_cap == IBV_ATOMIC_NONE) {
      findings.push_back(warn(name, "the device has no RDMA atomics", fix));
      continue;
    }
    PlainPair pair(device, 0, 14, 6);
    if (!pair.ready()) {
      findings.push_back(warn(
          name, fmt::format("no queue pair for an RDMA {}: {}", name, std::strerror(errno)), fix));
      continue;
    }
    // A write goes from `from` to `to`, a read brings `to` to `from`.
    std::uint64_t* const source = pair.at(opcode == IBV_WR_RDMA_WRITE ? from : to);
    for (std::size_t i = 0; i < bytes / 8; ++i) source[i] = i * 0x9e3779b97f4a7c15 + 1;
    const std::uint64_t first = source[0];
    const auto status = pair.run(opcode, from, to, atomic ? 8 : bytes, patience);
    const bool right = atomic ? *pair.at(from) == first && *pair.at(to) == first + 1
                              : std::memcmp(pair.at(from), pair.at(to), bytes) == 0;
    report(name, status == IBV_WC_SUCCESS && right, status);
  }
  return findings;
}

Findings probe_retries(const verbs::Device& device) {
  constexpr const char* name = "dead peer";
  constexpr const char* fix =
      "weir gives a peer up after btl_weir_peer_timeout by itself; update the driver and firmware";
  // A number that just was somebody's, and is nobody's now.
  std::uint32_t dead = 0;
  if (PlainPair gone(device, 0, 14, 1); gone.ready()) dead = gone.number();
  if (dead == 0) return {warn(name, "no queue pair to try it with", fix)};
  PlainPair pair(device, dead, 14, 1);
  if (!pair.ready()) return {warn(name, "no queue pair to try it with", fix)};
  const auto start = Clock::now();
  constexpr milliseconds limit{5000};
  const auto status = pair.run(IBV_WR_RDMA_WRITE, 0, 256, 64, limit);
  if (!status) {
    return {warn(name,
                 fmt::format("no error {} ms after a write to a queue pair that is not there",
                             limit.count()),
                 fix)};
  }
  if (*status == IBV_WC_SUCCESS) {
    return {warn(name, "a write to a queue pair that is not there succeeds", fix)};
  }
  return {ok(name, fmt::format("a peer that is not there is an error after {:.0f} ms ({}; one "
                               "retry, timer 67 ms)",
                               ms_since(start), ibv_wc_status_str(*status)))};
}

}  // namespace weir::tools::doctor
