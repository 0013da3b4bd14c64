/* The variants: how adapters may behave that Soft-RoCE does not resemble, and where that is known
 * from. The profiles: which of these a provider of rdma-core has. ADAPTER=name or
 * ADAPTER=name:number chooses one, several with commas between them; ADAPTER_RANK=n keeps it to one
 * rank of an MPI job.
 *
 * Read once, before the first device is opened; then constant. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/adapter/adapter.h"

struct behaviour behaviour;

/* name, what it sets, the number if none is given */
static const struct variant {
  const char* name;
  long* sets;
  long usual;
} variants[] = {
    /* rdma-core providers/mlx5/qp.c, _mlx5_post_send: ENOMEM if the send queue is full; others say
     * EINVAL, or EIO once the device is gone. [IBTA 10.8.2: insufficient resources] */
    {"post-send-fails", &behaviour.post_send_fails, 50},
    /* providers/mlx5/srq.c, mlx5_post_srq_recv: ENOMEM if head meets tail. */
    {"post-srq-recv-fails", &behaviour.post_srq_recv_fails, 3},
    /* Kernel drivers without the limit: irdma_modify_srq and others return EINVAL or EOPNOTSUPP.
     * [IBTA 11.2.3.3: SRQ limit out of range] */
    {"arm-fails", &behaviour.arm_fails, 1},
    /* ENOMEM from ibv_reg_mr: locked memory, or the adapter's table of keys. [IBTA 11.2.8.1] */
    {"registration-fails", &behaviour.registration_fails, 4},
    /* Affiliated asynchronous errors [IBTA 11.6.3.1]: the queue overran or cannot be written,
     * or a queue pair's is broken. */
    {"cq-error", &behaviour.cq_error, 50},
    {"srq-error", &behaviour.srq_error, 50},
    {"pair-fatal", &behaviour.pair_fatal, 50},
    /* Unaffiliated: local catastrophic error [IBTA 11.6.3.3]; mlx5_ib sends IBV_EVENT_DEVICE_FATAL
     * when firmware health fails, and its uverbs file answers EIO from then on. */
    {"device-fatal", &behaviour.device_fatal, 50},
    /* Linux' drivers/infiniband/core/uverbs_main.c, ib_uverbs_event_poll and ib_uverbs_remove_one:
     * once the device is removed, its files are in error (EPOLLERR). */
    {"device-gone", &behaviour.device_gone, 50},
    {"port-error", &behaviour.port_error, 50},
    /* providers/mlx5/cq.c: CQ_POLL_ERR, if the queue names a queue pair that is not there. */
    {"poll-fails", &behaviour.poll_fails, 500},
    /* [IBTA 10.2.9.1] leaves open the effect of a limit that is passed when it is armed. mlx5 sends
     * the event at once. */
    {"limit-at-once", &behaviour.limit_at_once, 1},
    /* providers without the event (efa, hns before v3), and older firmware of mlx4. */
    {"limit-lost", &behaviour.limit_lost, 1},
    /* [IBTA 11.6.3.2]; Linux's rxe and siw send it in some states only. */
    {"last-wqe-lost", &behaviour.last_wqe_lost, 1},
    /* An adapter owes no time: PCIe with relaxed ordering, interrupt moderation, CQE compression of
     * mlx5 (several completions at once). Order holds within a work queue only [IBTA 10.8.5]. */
    {"completions-late", &behaviour.completions_late, 2000},
    {"completions-in-bursts", &behaviour.completions_burst, 3000},
    {"completions-mixed", &behaviour.completions_mixed, 1},
    /* A queue pair in error completes what it has in hand in its own time. [IBTA 10.3.1.5] */
    {"flushes-late", &behaviour.flushes_late, 5000},
    /* providers/mlx5/verbs.c, mlx5_destroy_qp, and mlx4 and mthca likewise: they take a queue
     * pair's completions out of the queue. */
    {"destroy-cleans", &behaviour.destroy_cleans, 1},
    /* providers/hns and ocrdma refuse what exceeds max_inline_data; some have none. */
    {"no-inline", &behaviour.no_inline, 1},
    /* providers/bnxt_re, irdma: max_inline_data above theirs is EINVAL. */
    {"inline-most", &behaviour.inline_most, 96},
    /* kernel hw/hns, hw/vmw_pvrdma: they lower it; then a post of more fails, or sends nothing. */
    {"inline-lowered", &behaviour.inline_lowered, 32},
    /* providers/bnxt_re/verbs.c, bnxt_re_create_qp: NULL without errno. */
    {"errno-kept", &behaviour.errno_kept, 1},
    /* providers/bnxt_re, qedr: -ENOMEM, -EINVAL. */
    {"negative-errors", &behaviour.negative_errors, 1},
    /* All of them: what precedes `bad_wr` is posted. */
    {"half-chain", &behaviour.half_chain, 20},
    /* libibverbs/dummy_ops.c, for hns, qedr, erdma, mana, efa, pvrdma, and bnxt_re before v46. */
    {"no-resize", &behaviour.no_resize, 1},
    /* providers/bnxt_re/verbs.c, bnxt_re_post_srq_recv. */
    {"limit-by-post", &behaviour.limit_by_post, 1},
    /* kernel hw/qedr/main.c: ROCE_ASYNC_EVENT_SRQ_EMPTY. */
    {"empty-is-error", &behaviour.empty_is_error, 1},
    /* providers/qedr/qelr_verbs.c: a completion has the address of its queue pair. */
    {"destroyed-aborts", &behaviour.destroyed_aborts, 1},
    /* libibverbs/dummy_ops.c, for mana, and irdma before generation 3. */
    {"no-srq", &behaviour.no_srq, 1},
    /* providers/cxgb4, erdma, siw. */
    {"iwarp", &behaviour.iwarp, 1},
    /* weir looks at it: Soft-RoCE's is 0xffffff. */
    {"vendor", &behaviour.vendor, 0x15b3},
    /* Old mthca and some iWARP adapters: max_qp_rd_atom 1. [IBTA 11.2.1.2] */
    {"one-read", &behaviour.reads, 1},
    /* IBV_ATOMIC_NONE: iWARP, efa, ocrdma. [IBTA 9.4.5: optional] */
    {"no-atomics", &behaviour.no_atomics, 1},
    /* Virtual functions get a share of the adapter: of queue pairs, of completion entries. */
    {"few-queue-pairs", &behaviour.queue_pairs, 2},
    {"queue-pairs-gone", &behaviour.queue_pairs_gone, 1},
    {"no-receive-queue", &behaviour.no_receive_queue, 1},
    {"small-cq", &behaviour.queue_entries, 300},
    /* mlx5_ib gives sl 0 for RoCE: qp.c, query_qp_attr reads the path's service level only for
     * InfiniBand; providers/mlx5 over DevX fills in no address vector at all. */
    {"path-forgets", &behaviour.path_forgets, 1},
    /* Linux' drivers/infiniband/sw/rxe/rxe_verbs.c, since 6.3: EOPNOTSUPP for rights it does not know. */
    {"relaxed-refused", &behaviour.relaxed_refused, 1},
    /* Linux before 5.12 (70e806e4e645): a page that is pinned and shared with a child moves away
     * from its parent when the parent writes to it. libibverbs/memory.c: ibv_fork_init. */
    {"fork-unprotected", &behaviour.fork_unprotected, 1},
};

/* The habits of a provider of rdma-core, as far as Soft-RoCE can play them. */
static const struct profile {
  const char* name;
  const char* variants;
} profiles[] = {
    {"mlx5", "vendor,destroy-cleans,limit-at-once,completions-mixed,path-forgets"},
    {"mlx4", "vendor,destroy-cleans,limit-lost"},
    {"bnxt_re",
     "vendor:0x14e4,no-resize,inline-most:96,errno-kept,negative-errors,limit-by-post,"
     "destroy-cleans,flushes-late:1000"},
    {"irdma", "vendor:0x8086,destroy-cleans,inline-most:101"},
    {"hns", "vendor:0x19e5,destroy-cleans,no-resize,inline-lowered:32"},
    {"qedr",
     "vendor:0x1077,last-wqe-lost,no-resize,empty-is-error,destroyed-aborts,negative-errors"},
    {"pvrdma", "vendor:0x15ad,destroy-cleans,no-resize,inline-lowered:1"},
    {"mana", "vendor:0x1414,no-srq,no-atomics,no-inline,no-resize"},
    {"erdma", "vendor:0x1ded,iwarp,no-srq,no-atomics,no-resize"},
};

static void wrong(const char* word) {
  fprintf(stderr, "adapter: there is no variant '%s'; there are:", word);
  for (unsigned i = 0; i < sizeof variants / sizeof *variants; ++i) {
    fprintf(stderr, " %s", variants[i].name);
  }
  fprintf(stderr, "; and the profiles:");
  for (unsigned i = 0; i < sizeof profiles / sizeof *profiles; ++i) {
    fprintf(stderr, " %s", profiles[i].name);
  }
  fprintf(stderr, "\n");
  _Exit(2);
}

static void choose(const char* wanted) {
  char* const copy = strdup(wanted);
  char* rest = copy;
  for (char* word; (word = strsep(&rest, ",")) != NULL;) {
    unsigned profile = 0;
    while (profile < sizeof profiles / sizeof *profiles &&
           strcmp(word, profiles[profile].name) != 0) {
      ++profile;
    }
    if (profile < sizeof profiles / sizeof *profiles) {
      choose(profiles[profile].variants);
      continue;
    }
    char* const name = strsep(&word, ":");
    unsigned i = 0;
    while (i < sizeof variants / sizeof *variants && strcmp(name, variants[i].name) != 0) ++i;
    if (i == sizeof variants / sizeof *variants) wrong(name);
    *variants[i].sets = word != NULL ? strtol(word, NULL, 0) : variants[i].usual;
  }
  free(copy);
}

static void read_once(void) {
  const char* const rank = getenv("OMPI_COMM_WORLD_RANK");
  const char* const only = getenv("ADAPTER_RANK");
  const char* const chosen = getenv("ADAPTER");
  if (chosen == NULL || (only != NULL && (rank == NULL || strcmp(rank, only) != 0))) return;
  choose(chosen);
}

void read_behaviour(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_once);
}

void say(const char* what) { fprintf(stderr, "adapter: %s\n", what); }

long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}
