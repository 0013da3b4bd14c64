/* What the files of the adapter library know of each other. adapter.c is the seam to libibverbs,
 * variants.c says how the adapter behaves, completions.c and fork.c are the two large variants.
 *
 * Any thread may call everything. */
#ifndef WEIR_TESTS_ADAPTER_H
#define WEIR_TESTS_ADAPTER_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* How this adapter differs from Soft-RoCE. 0 means that it does not. A number N counts the calls of
 * a process, or is a time in microseconds. */
struct behaviour {
  long post_send_fails;     /* the Nth fails, once */
  long post_srq_recv_fails; /* the Nth fails, once */
  long arm_fails;           /* every one from the Nth on */
  long registration_fails;  /* every one from the Nth on */
  long cq_error;            /* the event comes with the Nth post; then there are no completions */
  long srq_error;           /* the event comes with the Nth post */
  long pair_fatal;          /* likewise, for the queue pair of that post */
  long device_fatal;        /* likewise; then there are no completions, and no post succeeds */
  long device_gone;         /* with the Nth post all its descriptors are in error, for good */
  long port_error;          /* likewise; a moment later the port is active again */
  long poll_fails;          /* the Nth poll says that the queue is broken, and so do all later */
  long limit_at_once;       /* the limit event comes at once if armed below the limit */
  long limit_lost;          /* the limit event never comes */
  long last_wqe_lost;       /* LAST_WQE_REACHED never comes */
  long completions_late;    /* completions are seen this long after they came */
  long completions_burst;   /* completions are seen only once in this time */
  long completions_mixed;   /* completions of different queue pairs overtake each other */
  long flushes_late;        /* a queue pair in error completes what it had this long afterwards */
  long destroy_cleans;      /* what a queue pair left in the completion queue goes with it */
  long no_inline;           /* queue pairs that want inline data are refused */
  long inline_most;         /* those that want more bytes than this are refused */
  long inline_lowered;      /* those that want more get this, and are not refused */
  long errno_kept;          /* a refused queue pair leaves errno alone */
  long negative_errors;     /* posts that fail return the negative of the error */
  long half_chain;          /* the Nth chain of sends fails in its middle, once */
  long no_resize;           /* completion queues keep their size */
  long limit_by_post;       /* a limit is armed by the next post that leaves more receives */
  long empty_is_error;      /* an SRQ without receives raises SRQ_ERR */
  long destroyed_aborts;    /* to poll a completion of a destroyed queue pair is fatal */
  long no_srq;
  long iwarp;  /* so many devices, from the first on, say that they are iWARP */
  long vendor; /* the number of the vendor */
  long reads;  /* so many reads and atomics at a time at most */
  long no_atomics;
  long queue_pairs;      /* so many at a time */
  long queue_pairs_gone; /* other processes have them all */
  long no_receive_queue; /* other processes have all shared receive queues; 2: but of device 0 */
  long queue_entries;    /* so many in a completion queue */
  long path_forgets;     /* queries of a queue pair give no service level, no traffic class */
  long relaxed_refused;  /* registrations with relaxed ordering */
  long fork_unprotected; /* the kernel does not copy pinned pages for a child */
};
extern struct behaviour behaviour;

/* Reads ADAPTER and ADAPTER_RANK, once. Ends the process if they are wrong. */
void read_behaviour(void);
/* Says so on stderr: then the log of a test shows that the variant took effect. */
void say(const char* what);

long long now_ns(void);

typedef int (*poll_function)(struct ibv_cq*, int, struct ibv_wc*);

/* Polls as the behaviour wants it. `dead`: the adapter makes no completions any more. */
int poll_as_wanted(poll_function real, bool dead, struct ibv_cq* queue, int most,
                   struct ibv_wc* found);
/* So many receives have completed and were not polled yet. */
int receives_unpolled(poll_function real, struct ibv_cq* queue);
/* This queue pair goes into error: what was not polled of it is to come later. */
void delay_completions(struct ibv_cq* queue, unsigned queue_pair);
/* Forgets what was not polled yet of this queue pair. */
void clean_completions(poll_function real, struct ibv_cq* queue, unsigned queue_pair);
/* The queue ends. */
void forget_completions(struct ibv_cq* queue);

/* Memory is registered, or no longer. */
void on_registered(const struct ibv_mr* region);
void on_deregister(const struct ibv_mr* region);

#endif
