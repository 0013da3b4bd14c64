/* A process that is slow to receive: preloaded, it lets completions be seen every SLOW_ADAPTER_MS
 * milliseconds only, for a millisecond, until MPI_Finalize. For the benchmark of a slow receiver
 * (rig/rdrp.py).
 *
 * Any thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MS 1000000ll

typedef int (*poll_function)(struct ibv_cq*, int, struct ibv_wc*);

static poll_function real_poll;
static atomic_llong interval_ns;
static atomic_llong opens_at; /* the next time completions may be seen */

static long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 * MS + now.tv_nsec;
}

static int slow_poll(struct ibv_cq* queue, int most, struct ibv_wc* found) {
  const long long now = now_ns();
  const long long opens = atomic_load(&opens_at);
  if (now < opens) return 0;
  if (now >= opens + MS) atomic_store(&opens_at, now + atomic_load(&interval_ns));
  return real_poll(queue, most, found);
}

struct ibv_context* ibv_open_device(struct ibv_device* device) {
  struct ibv_context* (*open)(struct ibv_device*) =
      (struct ibv_context * (*)(struct ibv_device*)) dlsym(RTLD_NEXT, "ibv_open_device");
  struct ibv_context* context = open(device);
  const char* ms = getenv("SLOW_ADAPTER_MS");
  if (context == NULL || ms == NULL || atoll(ms) <= 1) return context;
  atomic_store(&interval_ns, atoll(ms) * MS);
  if (context->ops.poll_cq != slow_poll) {
    real_poll = context->ops.poll_cq;
    context->ops.poll_cq = slow_poll;
  }
  fprintf(stderr, "slow_adapter: completions of %s are seen every %s ms\n", device->name, ms);
  return context;
}

/* A peer's goodbye is a completion: hidden from who asks for it, the peer looks lost. */
int MPI_Finalize(void) {
  int (*finalize)(void) = (int (*)(void))dlsym(RTLD_NEXT, "MPI_Finalize");
  atomic_store(&interval_ns, 0);
  atomic_store(&opens_at, 0);
  return finalize();
}
