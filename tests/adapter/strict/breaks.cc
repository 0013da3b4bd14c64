// Breaks a rule on purpose: strict_breaks RULE, with strict.so preloaded. It is ended for that; if
// it is not, it exits with 0. On the first port of the first device.
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

namespace {

constexpr std::uint32_t depth = 4, most_inline = 32;

template <typename T>
T* made(T* object, const char* what) {
  if (object == nullptr) {
    std::perror(what);
    std::exit(2);
  }
  return object;
}

// A device, and what a connection needs.
struct World {
  ibv_context* context = [] {
    ibv_device** const devices = made(ibv_get_device_list(nullptr), "devices");
    return made(ibv_open_device(made(devices[0], "a device")), "open");
  }();
  ibv_pd* domain = made(ibv_alloc_pd(context), "alloc_pd");
  ibv_comp_channel* channel = made(ibv_create_comp_channel(context), "channel");
  ibv_cq* queue = made(ibv_create_cq(context, 32, nullptr, channel, 0), "create_cq");
  ibv_srq* shared = [this] {
    ibv_srq_init_attr attributes{};
    attributes.attr = {8, 1, 0};
    return made(ibv_create_srq(domain, &attributes), "create_srq");
  }();
  alignas(4096) char memory[16384]{};
  ibv_mr* region = enter(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                         IBV_ACCESS_REMOTE_ATOMIC);
  ibv_mr* read_only = enter(0);

  ibv_mr* enter(int rights) {
    return made(ibv_reg_mr(domain, memory, sizeof memory / 2, rights), "reg_mr");
  }

  ibv_qp* pair(ibv_qp_state state) {
    ibv_qp_init_attr wish{};
    wish.send_cq = wish.recv_cq = queue;
    wish.srq = shared;
    wish.qp_type = IBV_QPT_RC;
    wish.cap = {depth, 0, 1, 0, most_inline};
    ibv_qp* const pair = made(ibv_create_qp(domain, &wish), "create_qp");
    for (const ibv_qp_state next : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      if (state >= next) step(pair, next);
    }
    return pair;
  }

  // To itself. `change` spoils the attributes; `add` and `less` are for the mask.
  void step(ibv_qp* pair, ibv_qp_state next, const std::function<void(ibv_qp_attr&)>& change = {},
            int add = 0, int less = 0) {
    ibv_port_attr port{};
    ibv_query_port(context, 1, &port);
    ibv_qp_attr to{};
    to.qp_state = next;
    to.port_num = to.ah_attr.port_num = 1;
    to.qp_access_flags =
        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    to.path_mtu = port.active_mtu;
    to.dest_qp_num = pair->qp_num;
    to.ah_attr.is_global = 1;
    to.ah_attr.grh.hop_limit = 64;
    while (ibv_query_gid(context, 1, to.ah_attr.grh.sgid_index, &to.ah_attr.grh.dgid) == 0 &&
           to.ah_attr.grh.dgid.global.interface_id == 0) {
      ++to.ah_attr.grh.sgid_index;
    }
    to.max_rd_atomic = to.max_dest_rd_atomic = 1;
    to.timeout = 14;
    to.retry_cnt = to.rnr_retry = 7;
    if (change) change(to);
    int mask = IBV_QP_STATE;
    if (next == IBV_QPS_INIT) mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (next == IBV_QPS_RTR) {
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    if (next == IBV_QPS_RTS) {
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
              IBV_QP_MAX_QP_RD_ATOMIC;
    }
    if (ibv_modify_qp(pair, &to, (mask | add) & ~less) != 0) made<void>(nullptr, "modify_qp");
  }

  // A send of 8 bytes, or what `change` makes of it.
  static int post(ibv_qp* pair, ibv_sge piece,
                  const std::function<void(ibv_send_wr&)>& change = {}) {
    ibv_send_wr work{}, *bad = nullptr;
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    work.send_flags = IBV_SEND_SIGNALED;
    if (change) change(work);
    return ibv_post_send(pair, &work, &bad);
  }
  ibv_sge piece(std::uint32_t bytes = 8) const {
    return {reinterpret_cast<std::uint64_t>(memory), bytes, region->lkey};
  }

  int receive(ibv_sge piece, int pieces = 1) const {
    ibv_recv_wr work{0, nullptr, &piece, pieces}, *bad = nullptr;
    return ibv_post_srq_recv(shared, &work, &bad);
  }

  // Waits for a completion.
  ibv_wc poll() const {
    ibv_wc done{};
    while (ibv_poll_cq(queue, 1, &done) == 0) usleep(1000);
    return done;
  }
};

// A step of a new pair to `state`, spoilt.
auto spoilt(ibv_qp_state state, const std::function<void(ibv_qp_attr&)>& change, int add = 0,
            int less = 0) {
  return [=](World& world) {
    world.step(world.pair(static_cast<ibv_qp_state>(state - 1)), state, change, add, less);
  };
}

// A read, write or atomic to the memory of this process.
auto to_memory(ibv_wr_opcode opcode, const World& world, std::uint64_t offset = 0,
               std::uint32_t rkey = 0) {
  const std::uint64_t at = world.piece().addr + offset;
  if (rkey == 0) rkey = world.region->rkey;
  return [=](ibv_send_wr& work) {
    work.opcode = opcode;
    if (opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
      work.wr.atomic = {at, 0, 0, rkey};
    } else {
      work.wr.rdma = {at, rkey};
    }
  };
}

// The port is another one from now on.
using Query = decltype(verbs_context::query_port);
Query real_query;
std::function<void(ibv_port_attr&)> pretence;
void pretend(ibv_context* context, std::function<void(ibv_port_attr&)> change) {
  Query& query = verbs_get_ctx(context)->query_port;
  real_query = query;
  pretence = std::move(change);
  query = [](ibv_context* of, std::uint8_t number, ibv_port_attr* port, std::size_t bytes) {
    const int result = real_query(of, number, port, bytes);
    pretence(*port);
    return result;
  };
}

const std::map<std::string, std::function<void(World&)>> breaks = {
    {"gone",
     [](World& w) {
       ibv_pd* const domain = ibv_alloc_pd(w.context);
       ibv_dealloc_pd(domain);
       ibv_dealloc_pd(domain);
     }},
    {"in_use",
     [](World& w) {
       w.pair(IBV_QPS_RESET);
       ibv_destroy_cq(w.queue);
     }},
    {"region_in_use",
     [](World& w) {
       w.receive(w.piece());
       ibv_dereg_mr(w.region);
     }},
    {"unacknowledged",
     [](World& w) {
       ibv_cq* queue = nullptr;
       void* ignored = nullptr;
       ibv_qp* const pair = w.pair(IBV_QPS_RTS);
       ibv_req_notify_cq(w.queue, 0);
       World::post(pair, {}, [&](ibv_send_wr& work) {
         to_memory(IBV_WR_RDMA_WRITE, w)(work);
         work.num_sge = 0;
       });
       ibv_get_cq_event(w.channel, &queue, &ignored);
       w.poll();
       ibv_destroy_qp(pair);
       ibv_destroy_cq(queue);
     }},
    {"polled_after_destroy",
     [](World& w) {
       ibv_qp* const pair = w.pair(IBV_QPS_RTS);
       World::post(pair, w.piece(), to_memory(IBV_WR_RDMA_WRITE, w));
       ibv_destroy_qp(pair);
       w.poll();
     }},
    {"forked",
     [](World& w) {
       const pid_t child = fork();
       if (child == 0) {
         ibv_dealloc_pd(w.domain);
         _exit(0);
       }
       int status = 0;
       waitpid(child, &status, 0);
       if (status != 0) std::exit(3);  // it was ended
     }},
    {"thread_domain",
     [](World& w) {
       ibv_td_init_attr nothing{};
       ibv_alloc_td(w.context, &nothing);
       const auto poll_long = [&] {
         ibv_wc done{};
         for (int i = 0; i < 1000000; ++i) ibv_poll_cq(w.queue, 1, &done);
       };
       std::thread(poll_long).detach();
       poll_long();
     }},
    {"region_empty", [](World& w) { ibv_reg_mr(w.domain, w.memory, 0, 0); }},
    {"srq_limit",
     [](World& w) {
       ibv_srq_attr attributes{0, 0, 9};
       ibv_modify_srq(w.shared, &attributes, IBV_SRQ_LIMIT);
     }},

    {"step", [](World& w) { w.step(w.pair(IBV_QPS_INIT), IBV_QPS_RTS); }},
    {"step_lacks", spoilt(IBV_QPS_RTR, {}, 0, IBV_QP_MIN_RNR_TIMER)},
    {"step_refuses", spoilt(IBV_QPS_INIT, {}, IBV_QP_MIN_RNR_TIMER)},
    {"port", spoilt(IBV_QPS_INIT, [](ibv_qp_attr& to) { to.port_num = 9; })},
    {"pkey_index", spoilt(IBV_QPS_INIT, [](ibv_qp_attr& to) { to.pkey_index = 999; })},
    {"path_mtu",
     [](World& w) {
       pretend(w.context, [](ibv_port_attr& port) { port.active_mtu = IBV_MTU_512; });
       w.step(w.pair(IBV_QPS_INIT), IBV_QPS_RTR,
              [](ibv_qp_attr& to) { to.path_mtu = IBV_MTU_1024; });
     }},
    {"timers", spoilt(IBV_QPS_RTS, [](ibv_qp_attr& to) { to.retry_cnt = 8; })},
    {"numbers", spoilt(IBV_QPS_RTR, [](ibv_qp_attr& to) { to.rq_psn = 1 << 24; })},
    {"reads_at_once", spoilt(IBV_QPS_RTS, [](ibv_qp_attr& to) { to.max_rd_atomic = 255; })},
    {"grh", spoilt(IBV_QPS_RTR, [](ibv_qp_attr& to) { to.ah_attr.is_global = 0; })},
    {"gid_index",
     [](World& w) {
       pretend(w.context, [](ibv_port_attr& port) { port.gid_tbl_len = 0; });
       w.pair(IBV_QPS_RTR);
     }},
    {"hop_limit", spoilt(IBV_QPS_RTR, [](ibv_qp_attr& to) { to.ah_attr.grh.hop_limit = 1; })},
    {"lid",
     [](World& w) {
       pretend(w.context, [](ibv_port_attr& port) { port.link_layer = IBV_LINK_LAYER_INFINIBAND; });
       w.pair(IBV_QPS_RTR);
     }},
    {"service_level", spoilt(IBV_QPS_RTR, [](ibv_qp_attr& to) { to.ah_attr.sl = 8; })},

    {"send_state", [](World& w) { World::post(w.pair(IBV_QPS_RTR), w.piece()); }},
    {"receive_state",
     [](World& w) {
       ibv_recv_wr work{}, *bad = nullptr;
       ibv_post_recv(w.pair(IBV_QPS_RESET), &work, &bad);
     }},
    {"send_queue_full",
     [](World& w) {
       ibv_qp* const pair = w.pair(IBV_QPS_RTS);
       for (std::uint32_t i = 0; i <= depth; ++i) World::post(pair, w.piece());
     }},
    {"never_freed",
     [](World& w) {
       ibv_qp* const pair = w.pair(IBV_QPS_RTS);
       for (std::uint32_t i = 0; i < depth; ++i) {
         World::post(pair, w.piece(), [](ibv_send_wr& work) { work.send_flags = 0; });
       }
     }},
    {"receive_queue_full",
     [](World& w) {
       for (int i = 0; i <= 8; ++i) w.receive(w.piece());
     }},
    {"completion_queue_full",
     [](World& w) {
       ibv_resize_cq(w.queue, 4);
       w.pair(IBV_QPS_INIT);
       for (int i = 0; i <= 4; ++i) w.receive(w.piece());
     }},
    {"send_pieces",
     [](World& w) {
       World::post(w.pair(IBV_QPS_RTS), w.piece(), [](ibv_send_wr& work) { work.num_sge = 2; });
     }},
    {"receive_pieces", [](World& w) { w.receive(w.piece(), 2); }},
    {"piece_empty", [](World& w) { World::post(w.pair(IBV_QPS_RTS), w.piece(0)); }},
    {"inline_opcode",
     [](World& w) {
       World::post(w.pair(IBV_QPS_RTS), w.piece(), [&](ibv_send_wr& work) {
         to_memory(IBV_WR_RDMA_READ, w)(work);
         work.send_flags |= IBV_SEND_INLINE;
       });
     }},
    {"inline_size",
     [](World& w) {
       World::post(w.pair(IBV_QPS_RTS), w.piece(most_inline + 1),
                   [](ibv_send_wr& work) { work.send_flags |= IBV_SEND_INLINE; });
     }},
    {"message_size", [](World& w) { World::post(w.pair(IBV_QPS_RTS), w.piece((1u << 31) - 1)); }},
    {"atomic_length",
     [](World& w) {
       World::post(w.pair(IBV_QPS_RTS), w.piece(16), to_memory(IBV_WR_ATOMIC_FETCH_AND_ADD, w));
     }},
    {"atomic_alignment",
     [](World& w) {
       World::post(w.pair(IBV_QPS_RTS), w.piece(), to_memory(IBV_WR_ATOMIC_FETCH_AND_ADD, w, 4));
     }},

    {"key_unknown",
     [](World& w) {
       const ibv_sge piece = w.piece();
       ibv_dereg_mr(w.region);
       World::post(w.pair(IBV_QPS_RTS), piece);
     }},
    {"key_domain",
     [](World& w) {
       ibv_pd* const other = ibv_alloc_pd(w.context);
       ibv_sge piece = w.piece();
       piece.lkey = ibv_reg_mr(other, w.memory, 8, IBV_ACCESS_LOCAL_WRITE)->lkey;
       w.receive(piece);
     }},
    {"key_bounds", [](World& w) { w.receive(w.piece(sizeof w.memory / 2 + 1)); }},
    {"key_rights",
     [](World& w) {
       ibv_sge piece = w.piece();
       piece.lkey = w.read_only->lkey;
       World::post(w.pair(IBV_QPS_RTS), piece, to_memory(IBV_WR_RDMA_READ, w));
     }},
    {"order_relaxed",
     [](World& w) {
       w.enter(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
     }},
    {"remote_region",
     [](World& w) {
       World::post(w.pair(IBV_QPS_RTS), w.piece(),
                   to_memory(IBV_WR_RDMA_READ, w, sizeof w.memory / 2));
     }},
    {"buffer_changed",
     [](World& w) {
       World::post(w.pair(IBV_QPS_RTS), w.piece(), to_memory(IBV_WR_RDMA_WRITE, w, 64));
       ++w.memory[0];
       w.poll();
     }},
};

// Breaks no rule: with none of them off, this exits with 0.
void abide(World& w) {
  ibv_qp* const pair = w.pair(IBV_QPS_RTS);
  const ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                   IBV_WR_ATOMIC_FETCH_AND_ADD};
  for (int i = 0; i < 100; ++i) {
    const ibv_wr_opcode opcode = opcodes[i % 4];
    if (opcode == IBV_WR_SEND) w.receive(w.piece());
    World::post(pair, w.piece(), to_memory(opcode, w, 64));
    for (int left = opcode == IBV_WR_SEND ? 2 : 1; left > 0; --left) {
      if (w.poll().status != IBV_WC_SUCCESS) std::exit(3);
    }
  }
  w.receive(w.piece());
  World::post(pair, w.piece(), to_memory(IBV_WR_RDMA_WRITE, w, 64));
  w.step(pair, IBV_QPS_ERR);
  w.poll();
  ibv_destroy_qp(pair);
  ibv_wc done{};
  ibv_poll_cq(w.queue, 1, &done);
  ibv_destroy_srq(w.shared);
  ibv_destroy_cq(w.queue);
  ibv_destroy_comp_channel(w.channel);
  ibv_dereg_mr(w.region);
  ibv_dereg_mr(w.read_only);
  ibv_dealloc_pd(w.domain);
  ibv_close_device(w.context);
}

}  // namespace

int main(int count, char** words) {
  const std::string rule = count == 2 ? words[1] : "";
  static World world;
  if (rule == "none") {
    abide(world);
  } else if (breaks.count(rule) != 0) {
    breaks.at(rule)(world);
  } else {
    std::fprintf(stderr, "nothing here breaks a rule '%s'\n", rule.c_str());
    return 2;
  }
  std::printf("nobody minded\n");
}
