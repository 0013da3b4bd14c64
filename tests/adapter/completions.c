/* Completions as other adapters may show them: late, in bursts, in another order, or never. What
 * the device has is taken out at once and kept here, in its order, until it may be seen.
 *
 * A lock of its own; a process has few completion queues. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/adapter/adapter.h"

struct kept {
  struct ibv_wc completion;
  long long came_ns;
};

static struct queue {
  struct ibv_cq* queue;
  struct kept* list;
  int count, room;
  long long taken_ns; /* the last time: what is found later came later */
  long long opens_ns; /* of bursts: when completions may be seen next */
  unsigned stopped;   /* the queue pair that went into error last, */
  long long flush_ns; /* and when its completions come */
  unsigned drawn;     /* of random numbers */
} queues[16];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* With the lock held. */
static struct queue* find(struct ibv_cq* queue) {
  struct queue* empty = NULL;
  for (unsigned i = 0; i < sizeof queues / sizeof *queues; ++i) {
    if (queues[i].queue == queue) return &queues[i];
    if (queues[i].queue == NULL && empty == NULL) empty = &queues[i];
  }
  if (empty == NULL) abort();
  empty->queue = queue;
  return empty;
}

/* Takes what the device has. The device's error, if it has one. */
static int take(poll_function real, struct queue* q) {
  struct ibv_wc found[32];
  const long long came = q->taken_ns; /* at the earliest */
  q->taken_ns = now_ns();
  for (;;) {
    const int count = real(q->queue, 32, found);
    if (count <= 0) return count;
    if (q->count + count > q->room) {
      q->room = (q->count + count) * 2;
      q->list = realloc(q->list, (size_t)q->room * sizeof *q->list);
      if (q->list == NULL) abort();
    }
    for (int i = 0; i < count; ++i) q->list[q->count++] = (struct kept){found[i], came};
  }
}

static void remove_at(struct queue* q, int at) {
  memmove(&q->list[at], &q->list[at + 1], (size_t)(q->count - at - 1) * sizeof *q->list);
  --q->count;
}

/* The next one to show: the oldest, or the oldest of a queue pair drawn at random. */
static int choose(struct queue* q) {
  if (!behaviour.completions_mixed) return 0;
  q->drawn = q->drawn * 1103515245u + 12345u;
  const int any = (int)((q->drawn >> 16) % (unsigned)q->count);
  for (int i = 0; i < any; ++i) {
    if (q->list[i].completion.qp_num == q->list[any].completion.qp_num) return i;
  }
  return any;
}

int poll_as_wanted(poll_function real, bool dead, struct ibv_cq* queue, int most,
                   struct ibv_wc* found) {
  if (dead) return 0;
  pthread_mutex_lock(&lock);
  struct queue* const q = find(queue);
  const int problem = take(real, q);
  const long long now = now_ns();
  int count = 0;
  bool open = true;
  if (behaviour.completions_burst > 0) {
    open = now >= q->opens_ns;
    if (open && q->count > 0) q->opens_ns = now + behaviour.completions_burst * 1000;
  }
  while (open && count < most && q->count > 0) {
    const int next = choose(q);
    if (now - q->list[next].came_ns < behaviour.completions_late * 1000) break;
    if (q->list[next].completion.qp_num == q->stopped && now < q->flush_ns) break;
    found[count++] = q->list[next].completion;
    remove_at(q, next);
  }
  pthread_mutex_unlock(&lock);
  return count == 0 && problem < 0 ? problem : count;
}

int receives_unpolled(poll_function real, struct ibv_cq* queue) {
  pthread_mutex_lock(&lock);
  struct queue* const q = find(queue);
  take(real, q);
  int count = 0;
  for (int i = 0; i < q->count; ++i) count += (q->list[i].completion.opcode & IBV_WC_RECV) != 0;
  pthread_mutex_unlock(&lock);
  return count;
}

void delay_completions(struct ibv_cq* queue, unsigned queue_pair) {
  pthread_mutex_lock(&lock);
  struct queue* const q = find(queue);
  q->stopped = queue_pair;
  q->flush_ns = now_ns() + behaviour.flushes_late * 1000;
  pthread_mutex_unlock(&lock);
}

void clean_completions(poll_function real, struct ibv_cq* queue, unsigned queue_pair) {
  pthread_mutex_lock(&lock);
  struct queue* const q = find(queue);
  take(real, q);
  int cleaned = 0;
  for (int i = q->count; i-- > 0;) {
    if (q->list[i].completion.qp_num != queue_pair) continue;
    remove_at(q, i);
    ++cleaned;
  }
  pthread_mutex_unlock(&lock);
  if (cleaned > 0) say("a queue pair took completions along that nobody had polled");
}

void forget_completions(struct ibv_cq* queue) {
  pthread_mutex_lock(&lock);
  struct queue* const q = find(queue);
  free(q->list);
  memset(q, 0, sizeof *q);
  pthread_mutex_unlock(&lock);
}
