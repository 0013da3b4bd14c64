#include <algorithm>
#include <cstring>

#include "tests/adapter/strict/objects.h"

namespace strict {
namespace {

// ---- steps of a queue pair (reliable connection) ----

constexpr int always = IBV_QP_STATE | IBV_QP_CUR_STATE;
constexpr int of_path = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

struct Step {
  ibv_qp_state from, to;
  int requires_, takes;
};

// From every state there is a step to RESET and to ERR, which takes nothing else.
constexpr Step steps[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     of_path | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, of_path | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, of_path | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     of_path | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PORT | IBV_QP_AV |
         IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PKEY_INDEX},
};

const char* name(ibv_qp_state state) {
  constexpr const char* names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state <= IBV_QPS_ERR ? names[state] : "no state";
}

void check_mask(const Pair& pair, ibv_qp_state to, int mask) {
  Step found{pair.state, to, 0, 0};
  if (to != IBV_QPS_RESET && to != IBV_QPS_ERR) {
    const auto* const step = std::find_if(std::begin(steps), std::end(steps), [&](const Step& s) {
      return s.from == pair.state && s.to == to;
    });
    EXPECT(step != std::end(steps), Rule::step, pair, "from %s to %s, attributes %#x",
           name(pair.state), name(to), mask);
    if (step == std::end(steps)) return;
    found = *step;
  }
  EXPECT((mask & found.requires_) == found.requires_, Rule::step_lacks, pair,
         "from %s to %s without %#x", name(pair.state), name(to), found.requires_ & ~mask);
  const int others = mask & ~(always | found.requires_ | found.takes);
  EXPECT(others == 0, Rule::step_refuses, pair, "from %s to %s with %#x", name(pair.state),
         name(to), others);
}

void check_path(const Pair& pair, const ibv_ah_attr& path, const ibv_port_attr& port) {
  const bool ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  constexpr std::uint8_t nobody[16]{};
  const bool has_gid = std::memcmp(path.grh.dgid.raw, nobody, sizeof nobody) != 0;
  EXPECT(!ethernet || (path.is_global && has_gid), Rule::grh, pair, "is_global %d", path.is_global);
  EXPECT(ethernet || (path.dlid > 0 && path.dlid < 0xc000), Rule::lid, pair, "dlid %#x", path.dlid);
  EXPECT(path.sl < (ethernet ? 8 : 16), Rule::service_level, pair, "sl %d", path.sl);
  if (!path.is_global) return;
  EXPECT(path.grh.sgid_index < port.gid_tbl_len, Rule::gid_index, pair, "sgid_index %d of %d",
         path.grh.sgid_index, port.gid_tbl_len);
  EXPECT(path.grh.hop_limit > 1, Rule::hop_limit, pair, "hop_limit %d", path.grh.hop_limit);
}

void check_values(const Pair& pair, const ibv_qp_attr& to, int mask) {
  const Device& device = *pair.domain->device;
  const std::uint8_t number = (mask & IBV_QP_PORT) != 0 ? to.port_num : pair.port;
  constexpr int of_port = IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MTU | IBV_QP_AV;
  if ((mask & of_port) != 0) {
    EXPECT(number >= 1 && number <= device.limits.phys_port_cnt, Rule::port, pair, "port_num %d",
           number);
    if ((mask & IBV_QP_AV) != 0) {
      EXPECT(to.ah_attr.port_num == number, Rule::port, pair, "port_num %d of its path, not %d",
             to.ah_attr.port_num, number);
    }
    ibv_port_attr port{};
    if (ibv_query_port(device.context, number, &port) != 0) return;
    EXPECT((mask & IBV_QP_PKEY_INDEX) == 0 || to.pkey_index < port.pkey_tbl_len, Rule::pkey_index,
           pair, "pkey_index %d of %d", to.pkey_index, port.pkey_tbl_len);
    EXPECT((mask & IBV_QP_PATH_MTU) == 0 ||
               (to.path_mtu >= IBV_MTU_256 && to.path_mtu <= port.active_mtu),
           Rule::path_mtu, pair, "path_mtu %d, active %d (codes)", to.path_mtu, port.active_mtu);
    if ((mask & IBV_QP_AV) != 0) check_path(pair, to.ah_attr, port);
  }
  const auto fits = [&](int bit, unsigned value, unsigned most, Rule rule, const char* what) {
    EXPECT((mask & bit) == 0 || value <= most, rule, pair, "%s %u, at most %u", what, value, most);
  };
  fits(IBV_QP_TIMEOUT, to.timeout, 31, Rule::timers, "timeout");
  fits(IBV_QP_MIN_RNR_TIMER, to.min_rnr_timer, 31, Rule::timers, "min_rnr_timer");
  fits(IBV_QP_RETRY_CNT, to.retry_cnt, 7, Rule::timers, "retry_cnt");
  fits(IBV_QP_RNR_RETRY, to.rnr_retry, 7, Rule::timers, "rnr_retry");
  fits(IBV_QP_SQ_PSN, to.sq_psn, 0xffffff, Rule::numbers, "sq_psn");
  fits(IBV_QP_RQ_PSN, to.rq_psn, 0xffffff, Rule::numbers, "rq_psn");
  fits(IBV_QP_DEST_QPN, to.dest_qp_num, 0xffffff, Rule::numbers, "dest_qp_num");
  fits(IBV_QP_MAX_QP_RD_ATOMIC, to.max_rd_atomic,
       static_cast<unsigned>(device.limits.max_qp_init_rd_atom), Rule::reads_at_once,
       "max_rd_atomic");
  fits(IBV_QP_MAX_DEST_RD_ATOMIC, to.max_dest_rd_atomic,
       static_cast<unsigned>(device.limits.max_qp_rd_atom), Rule::reads_at_once,
       "max_dest_rd_atomic");
}

// ---- memory ----

Region* find(const std::unordered_map<std::uint32_t, Region*>& regions, std::uint32_t key) {
  const auto found = regions.find(key);
  return found != regions.end() ? found->second : nullptr;
}

void check_piece(const Object& object, const Domain& domain, const ibv_sge& piece,
                 bool is_written) {
  const Region* const region = find(domain.device->adapter->by_lkey, piece.lkey);
  EXPECT(region != nullptr, Rule::key_unknown, object, "lkey %#x", piece.lkey);
  if (region == nullptr) return;
  EXPECT(region->domain == &domain, Rule::key_domain, object, "lkey %#x", piece.lkey);
  EXPECT(region->holds(piece.addr, piece.length), Rule::key_bounds, object,
         "%u bytes at %#lx, lkey %#x, of %#lx bytes at %#lx", piece.length, piece.addr, piece.lkey,
         region->bytes, region->begin);
  EXPECT(!is_written || (region->access & IBV_ACCESS_LOCAL_WRITE) != 0, Rule::key_rights, object,
         "%u bytes at %#lx, lkey %#x, rights %#x", piece.length, piece.addr, piece.lkey,
         region->access);
}

// Where the peer is in this process.
void check_target(const Pair& pair, std::uint64_t address, std::uint64_t bytes, std::uint32_t rkey,
                  unsigned right) {
  const auto found = pair.adapter().by_number.find(pair.destination);
  if (!pair.stays || bytes == 0 || found == pair.adapter().by_number.end()) return;
  const Pair& peer = *found->second;
  if (!peer.alive) return;
  const Region* const region = find(pair.adapter().by_rkey, rkey);
  const bool good = region != nullptr && region->domain == peer.domain &&
                    region->holds(address, bytes) && (region->access & peer.access & right) != 0;
  EXPECT(good, Rule::remote_region, pair, "%lu bytes at %#lx, rkey %#x, right %#x", bytes, address,
         rkey, right);
}

std::uint64_t checksum(const std::vector<ibv_sge>& pieces) {
  std::uint64_t sum = 1469598103934665603u;
  for (const ibv_sge& piece : pieces) {
    const auto* at = reinterpret_cast<const char*>(piece.addr);
    for (std::uint32_t left = piece.length; left > 0;) {
      std::uint64_t word = 0;
      const std::uint32_t count = std::min<std::uint32_t>(left, sizeof word);
      std::memcpy(&word, at, count);
      sum = (sum ^ word) * 1099511628211u;
      sum ^= sum >> 29;
      at += count;
      left -= count;
    }
  }
  return sum;
}

// The regions of its pieces are in use from now on, or no longer.
void hold(const Domain& domain, const Work& work, int change) {
  for (const ibv_sge& piece : work.pieces) {
    Region* const region = find(domain.device->adapter->by_lkey, piece.lkey);
    if (region != nullptr) region->posted += change;
  }
}

void conclude(Pair& pair) {
  const Work& work = pair.sends.front();
  hold(*pair.domain, work, -1);
  if (work.is_read && is_slow()) {
    EXPECT(checksum(work.pieces) == work.checksum, Rule::buffer_changed, pair,
           "send %#lx, %u bytes at %#lx", work.id, work.pieces[0].length, work.pieces[0].addr);
  }
  pair.sends.pop_front();
  --pair.send_queue->sends;
}

void take_receive(const Domain& domain, Receives& receives, std::uint64_t id) {
  const auto found = receives.posted.find(id);
  if (found == receives.posted.end()) return;
  hold(domain, found->second, -1);
  receives.posted.erase(found);
}

unsigned right_wanted(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_READ: return IBV_ACCESS_REMOTE_READ;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_ACCESS_REMOTE_WRITE;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_ACCESS_REMOTE_ATOMIC;
    default: return 0;
  }
}

}  // namespace

void check_step(Pair& pair, const ibv_qp_attr& to, int mask) {
  pair.history.note("modify_qp: attributes %#lx, state %lu, if that is one of them",
                    static_cast<unsigned>(mask), to.qp_state);
  check_mask(pair, (mask & IBV_QP_STATE) != 0 ? to.qp_state : pair.state, mask);
  check_values(pair, to, mask);
}

void on_step(Pair& pair, const ibv_qp_attr& to, int mask) {
  if ((mask & IBV_QP_PORT) != 0) pair.port = to.port_num;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) pair.access = to.qp_access_flags;
  if ((mask & IBV_QP_DEST_QPN) != 0) pair.destination = to.dest_qp_num;
  if ((mask & IBV_QP_AV) != 0) {
    ibv_gid own{};
    pair.stays = to.ah_attr.is_global != 0 &&
                 ibv_query_gid(pair.domain->device->context, pair.port, to.ah_attr.grh.sgid_index,
                               &own) == 0 &&
                 std::memcmp(own.raw, to.ah_attr.grh.dgid.raw, sizeof own.raw) == 0;
  }
  if ((mask & IBV_QP_STATE) == 0) return;
  pair.state = to.qp_state;
  if (pair.state == IBV_QPS_RESET) {
    forget_sends(pair);
    forget_receives(*pair.domain, pair.own);
  }
}

void on_send(Pair& pair, const ibv_send_wr& work) {
  const bool is_inline = (work.send_flags & IBV_SEND_INLINE) != 0;
  const unsigned right = right_wanted(work.opcode);
  const bool is_atomic = right == IBV_ACCESS_REMOTE_ATOMIC;
  const bool is_written = is_atomic || right == IBV_ACCESS_REMOTE_READ;
  Work kept{
      work.wr_id, pair.all_signalled || (work.send_flags & IBV_SEND_SIGNALED) != 0, {}, false, 0};
  std::uint64_t bytes = 0;
  for (int i = 0; i < work.num_sge; ++i) bytes += work.sg_list[i].length;
  pair.history.note("post_send: id %#lx, opcode and flags %#lx, %lu bytes", work.wr_id,
                    static_cast<std::uint64_t>(work.opcode) << 8 | work.send_flags, bytes);

  EXPECT(pair.state >= IBV_QPS_RTS, Rule::send_state, pair, "in %s", name(pair.state));
  EXPECT(pair.sends.size() < pair.cap.max_send_wr, Rule::send_queue_full, pair,
         "send %#lx; of %u asked for are used", work.wr_id, pair.cap.max_send_wr);
  EXPECT(work.num_sge >= 0 && static_cast<unsigned>(work.num_sge) <= pair.cap.max_send_sge,
         Rule::send_pieces, pair, "%d of %u", work.num_sge, pair.cap.max_send_sge);
  EXPECT(bytes <= pair.domain->device->longest_message, Rule::message_size, pair, "%lu bytes of %u",
         bytes, pair.domain->device->longest_message);
  if (is_inline) {
    EXPECT(!is_written, Rule::inline_opcode, pair, "opcode %d", work.opcode);
    EXPECT(bytes <= pair.cap.max_inline_data, Rule::inline_size, pair, "%lu bytes of %u", bytes,
           pair.cap.max_inline_data);
  }
  if (is_atomic) {
    EXPECT(work.num_sge == 1 && bytes == 8, Rule::atomic_length, pair, "%d pieces, %lu bytes",
           work.num_sge, bytes);
    EXPECT(work.wr.atomic.remote_addr % 8 == 0, Rule::atomic_alignment, pair, "target %#lx",
           work.wr.atomic.remote_addr);
    check_target(pair, work.wr.atomic.remote_addr, 8, work.wr.atomic.rkey, right);
  } else if (right != 0) {
    check_target(pair, work.wr.rdma.remote_addr, bytes, work.wr.rdma.rkey, right);
  }
  for (int i = 0; i < work.num_sge; ++i) {
    EXPECT(work.sg_list[i].length > 0, Rule::piece_empty, pair, "piece %d of opcode %d", i,
           work.opcode);
    if (!is_inline) check_piece(pair, *pair.domain, work.sg_list[i], is_written);
  }

  if (!is_inline) {
    kept.pieces.assign(work.sg_list, work.sg_list + work.num_sge);
    kept.is_read = !is_written && work.num_sge > 0;
    if (kept.is_read && is_slow()) kept.checksum = checksum(kept.pieces);
    hold(*pair.domain, kept, 1);
  }
  pair.sends.push_back(std::move(kept));
  ++pair.send_queue->sends;
  EXPECT(pair.sends.size() < pair.cap.max_send_wr ||
             std::any_of(pair.sends.begin(), pair.sends.end(),
                         [](const Work& one) { return one.signalled; }),
         Rule::never_freed, pair, "%zu sends", pair.sends.size());
}

void undo_send(Pair& pair) {
  hold(*pair.domain, pair.sends.back(), -1);
  pair.sends.pop_back();
  --pair.send_queue->sends;
}

void on_receive(Object& object, Receives& receives, const ibv_recv_wr& work) {
  object.history.note("post of a receive: id %#lx, %lu pieces, %lu posted", work.wr_id,
                      static_cast<unsigned>(work.num_sge), receives.posted.size());
  EXPECT(receives.posted.size() < receives.most, Rule::receive_queue_full, object,
         "receive %#lx; %u were asked for", work.wr_id, receives.most);
  EXPECT(work.num_sge >= 0 && static_cast<unsigned>(work.num_sge) <= receives.pieces,
         Rule::receive_pieces, object, "%d of %u", work.num_sge, receives.pieces);
  for (int i = 0; i < work.num_sge; ++i) {
    EXPECT(work.sg_list[i].length > 0, Rule::piece_empty, object, "piece %d of a receive", i);
    check_piece(object, *receives.domain, work.sg_list[i], true);
  }
  const Work kept{work.wr_id, true, {work.sg_list, work.sg_list + work.num_sge}, false, 0};
  hold(*receives.domain, kept, 1);
  receives.posted.emplace(work.wr_id, kept);
}

void undo_receive(Receives& receives, std::uint64_t id) {
  take_receive(*receives.domain, receives, id);
}

void check_room(const Queue& queue) {
  if (!queue.alive) return;
  std::size_t receives = 0;
  for (const Receives* const one : queue.receives) receives += one->posted.size();
  EXPECT(queue.sends + receives <= queue.entries, Rule::completion_queue_full, queue,
         "%zu sends and %zu receives; %zu entries were asked for", queue.sends, receives,
         queue.entries);
}

void on_completion(Queue& queue, const ibv_wc& done) {
  const auto found = queue.device->adapter->by_number.find(done.qp_num);
  if (found == queue.device->adapter->by_number.end()) return;
  Pair& pair = *found->second;
  pair.history.note("completion: id %#lx, status %lu, opcode %lu", done.wr_id, done.status,
                    done.opcode);
  EXPECT(pair.alive, Rule::polled_after_destroy, pair, "completion %#lx, status %s", done.wr_id,
         ibv_wc_status_str(done.status));
  const bool is_good = done.status == IBV_WC_SUCCESS;
  if (!is_good) pair.state = IBV_QPS_ERR;
  // Of one that failed, the opcode is not defined.
  const auto send = std::find_if(pair.sends.begin(), pair.sends.end(), [&](const Work& work) {
    return work.id == done.wr_id && (work.signalled || !is_good);
  });
  if (send == pair.sends.end() || (is_good && (done.opcode & IBV_WC_RECV) != 0)) {
    Receives& receives = pair.receives();
    if (pair.shared == nullptr || pair.shared->alive) {
      take_receive(*receives.domain, receives, done.wr_id);
    }
    return;
  }
  for (auto left = send - pair.sends.begin(); left >= 0; --left) conclude(pair);
}

void forget_sends(Pair& pair) {
  while (!pair.sends.empty()) undo_send(pair);
}

void forget_receives(Domain& domain, Receives& receives) {
  for (const auto& [id, work] : receives.posted) hold(domain, work, -1);
  receives.posted.clear();
}

}  // namespace strict
