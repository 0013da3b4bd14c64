/* Preloaded, makes Soft-RoCE behave as other adapters may: README.md. This file stands between a
 * program and libibverbs, as a provider would: some functions of the library, and the provider's
 * own (ibv_context.ops) for what the library's inline functions call.
 *
 * Any thread. One lock guards the table of devices; calls for work count without it. */
#define _GNU_SOURCE
#include "tests/adapter/adapter.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* REAL(name) is libibverbs' own function. The headers have a macro over ibv_reg_mr. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#undef ibv_reg_mr

enum { most_devices = 16, most_events = 4 };

static struct device {
  struct ibv_context* context;
  struct ibv_cq* queue;     /* the last one made */
  struct ibv_srq* receives; /* likewise */
  struct ibv_qp* broken;    /* of the event QP_FATAL */
  atomic_int posted;        /* receives */
  atomic_int limit;         /* to be armed by the next post */
  atomic_bool dead;
  int device_fd, signal_fd;                   /* in `context` is one that both can wake */
  struct ibv_async_event events[most_events]; /* not yet taken */
  int event_count;
} devices[most_devices];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct ibv_context_ops real_ops; /* of the one provider there is */
static atomic_long sends, receive_posts, polls, arms, registrations, queue_pairs, failing_posts,
    chains;

static bool is_turn(atomic_long* count, long wanted) {
  return wanted > 0 && atomic_fetch_add(count, 1) + 1 == wanted;
}
static bool is_over(atomic_long* count, long wanted) {
  return wanted > 0 && atomic_fetch_add(count, 1) + 1 >= wanted;
}

static struct device* device_of(const struct ibv_context* context) {
  for (int i = 0; i < most_devices; ++i) {
    if (devices[i].context == context) return &devices[i];
  }
  return NULL;
}

/* Whether the queue pair with this number was destroyed. */
static atomic_bool* is_gone(unsigned number) {
  static atomic_bool gone[1 << 24];
  return &gone[number % (sizeof gone / sizeof *gone)];
}

/* ---- events ---- */

/* libibverbs takes events from the device's own descriptor, and names it to the kernel with each
 * queue that it makes: one thread at a time. */
static pthread_mutex_t fd_lock = PTHREAD_MUTEX_INITIALIZER;
static int show_device_fd(struct ibv_context* context) {
  const struct device* const device = device_of(context);
  if (device == NULL || device->signal_fd <= 0) return -1;
  pthread_mutex_lock(&fd_lock);
  const int ours = context->async_fd;
  context->async_fd = device->device_fd;
  return ours;
}
static void show_our_fd(struct ibv_context* context, int ours) {
  if (ours < 0) return;
  context->async_fd = ours;
  pthread_mutex_unlock(&fd_lock);
}

static void raise_event(struct device* device, enum ibv_event_type type) {
  struct ibv_async_event event = {.event_type = type};
  if (type == IBV_EVENT_CQ_ERR) {
    event.element.cq = device->queue;
  } else if (type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED) {
    event.element.srq = device->receives;
  } else if (type == IBV_EVENT_QP_FATAL) {
    event.element.qp = device->broken;
  } else {
    event.element.port_num = 1;
  }
  pthread_mutex_lock(&lock);
  if (device->event_count < most_events) device->events[device->event_count++] = event;
  pthread_mutex_unlock(&lock);
  eventfd_write(device->signal_fd, 1);
  say(ibv_event_type_str(type));
}

static void* activate_port(void* device) {
  usleep(50000);
  raise_event(device, IBV_EVENT_PORT_ACTIVE);
  return NULL;
}

/* The end of a pipe that nobody reads is in error, too. */
static void lose_descriptors(struct device* device) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  close(ends[0]);
  dup2(ends[1], device->context->async_fd);
  dup2(ends[1], device->queue->channel->fd);
  close(ends[1]);
  say("the device is gone");
}

static void raise_due_events(struct device* device, struct ibv_qp* pair) {
  const long sent = atomic_fetch_add(&sends, 1) + 1;
  if (sent == behaviour.cq_error) {
    atomic_store(&device->dead, true);
    raise_event(device, IBV_EVENT_CQ_ERR);
  }
  if (sent == behaviour.srq_error) raise_event(device, IBV_EVENT_SRQ_ERR);
  if (sent == behaviour.pair_fatal) {
    device->broken = pair;
    raise_event(device, IBV_EVENT_QP_FATAL);
  }
  if (sent == behaviour.device_fatal) {
    atomic_store(&device->dead, true);
    raise_event(device, IBV_EVENT_DEVICE_FATAL);
  }
  if (sent == behaviour.device_gone) {
    atomic_store(&device->dead, true);
    lose_descriptors(device);
  }
  if (sent == behaviour.port_error) {
    raise_event(device, IBV_EVENT_PORT_ERR);
    pthread_t later;
    if (pthread_create(&later, NULL, activate_port, device) == 0) pthread_detach(later);
  }
}

static bool makes_events(void) {
  return behaviour.cq_error || behaviour.srq_error || behaviour.pair_fatal ||
         behaviour.device_fatal || behaviour.port_error || behaviour.limit_at_once ||
         behaviour.empty_is_error;
}

static bool take_event(struct device* device, struct ibv_async_event* event) {
  pthread_mutex_lock(&lock);
  const bool any = device->event_count > 0;
  if (any) {
    *event = device->events[0];
    --device->event_count;
    memmove(device->events, device->events + 1,
            (size_t)device->event_count * sizeof *device->events);
    eventfd_t ignored;
    if (device->event_count == 0) eventfd_read(device->signal_fd, &ignored);
  }
  pthread_mutex_unlock(&lock);
  return any;
}

/* The library counts acknowledgements, and must not hear of those of our events. A program
 * acknowledges an event before it asks for the next one. */
static _Thread_local bool last_is_ours;

void ibv_ack_async_event(struct ibv_async_event* event) {
  if (!last_is_ours) REAL(ibv_ack_async_event)(event);
}

int ibv_get_async_event(struct ibv_context* context, struct ibv_async_event* event) {
  struct device* const device = device_of(context);
  last_is_ours = device != NULL && device->signal_fd > 0 && take_event(device, event);
  if (last_is_ours) return 0;
  const int ours = show_device_fd(context);
  int result;
  do {
    result = REAL(ibv_get_async_event)(context, event);
    const bool swallowed =
        result == 0 &&
        ((event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED && behaviour.limit_lost) ||
         (event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED && behaviour.last_wqe_lost));
    if (!swallowed) break;
    REAL(ibv_ack_async_event)(event);
  } while (true);
  show_our_fd(context, ours);
  return result;
}

/* ---- work ---- */

/* As this adapter returns it. */
static int error(int number) { return behaviour.negative_errors ? -number : number; }

static bool is_too_much_inline(const struct ibv_send_wr* work) {
  if ((work->send_flags & IBV_SEND_INLINE) == 0) return false;
  if (behaviour.no_inline) return true;
  const long most = behaviour.inline_lowered ? behaviour.inline_lowered : behaviour.inline_most;
  return most > 0 && work->num_sge > 0 && work->sg_list->length > most;
}

/* Posts the first half, and refuses the rest. */
static int post_half(struct ibv_qp* pair, struct ibv_send_wr* chain, struct ibv_send_wr** bad) {
  int count = 0;
  for (const struct ibv_send_wr* work = chain; work != NULL; work = work->next) ++count;
  struct ibv_send_wr* last = chain;
  for (int i = 1; i < count / 2; ++i) last = last->next;
  struct ibv_send_wr* const rest = last->next;
  last->next = NULL;
  say("half a chain of sends fails with ENOMEM");
  const int result = real_ops.post_send(pair, chain, bad);
  last->next = rest;
  if (result != 0) return result;
  *bad = rest;
  return error(ENOMEM);
}

static int post_send(struct ibv_qp* pair, struct ibv_send_wr* chain, struct ibv_send_wr** bad) {
  struct device* const device = device_of(pair->context);
  *bad = chain;
  if (is_turn(&failing_posts, behaviour.post_send_fails)) {
    say("a post of sends fails with ENOMEM");
    return error(ENOMEM);
  }
  raise_due_events(device, pair);
  if (behaviour.device_fatal && atomic_load(&device->dead)) return EIO;
  for (struct ibv_send_wr* work = chain; work != NULL; work = work->next) {
    if (is_too_much_inline(work)) return error(EINVAL);
    if (behaviour.no_atomics && (work->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                                 work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)) {
      return EINVAL;
    }
  }
  if (chain->next != NULL && is_turn(&chains, behaviour.half_chain)) {
    return post_half(pair, chain, bad);
  }
  return real_ops.post_send(pair, chain, bad);
}

static int post_srq_recv(struct ibv_srq* receives, struct ibv_recv_wr* chain,
                         struct ibv_recv_wr** bad) {
  struct device* const device = device_of(receives->context);
  *bad = chain;
  if (is_turn(&receive_posts, behaviour.post_srq_recv_fails)) {
    say("a post of receives fails with ENOMEM");
    return error(ENOMEM);
  }
  if (behaviour.device_fatal && atomic_load(&device->dead)) return EIO;
  for (struct ibv_recv_wr* work = chain; work != NULL; work = work->next) {
    atomic_fetch_add(&device->posted, 1);
  }
  const int result = real_ops.post_srq_recv(receives, chain, bad);
  const int limit = atomic_load(&device->limit);
  if (limit > 0 && atomic_load(&device->posted) > limit) {
    atomic_store(&device->limit, 0);
    struct ibv_srq_attr armed = {.srq_limit = (unsigned)limit};
    REAL(ibv_modify_srq)(receives, &armed, IBV_SRQ_LIMIT);
  }
  return result;
}

static bool keeps_completions(void) {
  return behaviour.completions_late || behaviour.completions_burst || behaviour.completions_mixed ||
         behaviour.flushes_late || behaviour.destroy_cleans || behaviour.limit_at_once;
}

static int poll_cq(struct ibv_cq* queue, int most, struct ibv_wc* found) {
  struct device* const device = device_of(queue->context);
  if (is_over(&polls, behaviour.poll_fails)) {
    if (atomic_load(&polls) == behaviour.poll_fails) say("a poll finds a broken queue");
    return -1;
  }
  const bool dead = atomic_load(&device->dead);
  const int count = dead || keeps_completions()
                        ? poll_as_wanted(real_ops.poll_cq, dead, queue, most, found)
                        : real_ops.poll_cq(queue, most, found);
  for (int i = 0; i < count; ++i) {
    if ((found[i].opcode & IBV_WC_RECV) != 0 && atomic_fetch_sub(&device->posted, 1) == 1 &&
        behaviour.empty_is_error) {
      raise_event(device, IBV_EVENT_SRQ_ERR);
    }
    if (behaviour.destroyed_aborts && atomic_load(is_gone(found[i].qp_num))) {
      say("a completion of a destroyed queue pair is polled");
      abort();
    }
  }
  return count;
}

int ibv_modify_srq(struct ibv_srq* receives, struct ibv_srq_attr* attributes, int mask) {
  const bool arms_limit = (mask & IBV_SRQ_LIMIT) != 0;
  if (arms_limit && is_over(&arms, behaviour.arm_fails)) return errno = EINVAL;
  struct device* const device = device_of(receives->context);
  if (arms_limit && behaviour.limit_by_post) {
    atomic_store(&device->limit, (int)attributes->srq_limit);
    return 0;
  }
  const int result = REAL(ibv_modify_srq)(receives, attributes, mask);
  if (result == 0 && arms_limit && behaviour.limit_at_once && device->queue != NULL) {
    const int left =
        atomic_load(&device->posted) - receives_unpolled(real_ops.poll_cq, device->queue);
    if (left < (int)attributes->srq_limit) raise_event(device, IBV_EVENT_SRQ_LIMIT_REACHED);
  }
  return result;
}

/* ---- limits and features of the device ---- */

struct ibv_device** ibv_get_device_list(int* count) {
  read_behaviour();
  int found;
  struct ibv_device** const list = REAL(ibv_get_device_list)(&found);
  if (count != NULL) *count = found;
  for (int i = 0; list != NULL && i < found && i < behaviour.iwarp; ++i) {
    list[i]->transport_type = IBV_TRANSPORT_IWARP;
  }
  return list;
}

struct ibv_context* ibv_open_device(struct ibv_device* wanted) {
  read_behaviour();
  struct ibv_context* const context = REAL(ibv_open_device)(wanted);
  if (context == NULL) return NULL;
  pthread_mutex_lock(&lock);
  struct device* const device = device_of(NULL);
  if (device == NULL) abort();
  memset(device, 0, sizeof *device);
  device->context = context;
  if (context->ops.post_send != post_send) real_ops = context->ops;
  context->ops.post_send = post_send;
  context->ops.post_srq_recv = post_srq_recv;
  context->ops.poll_cq = poll_cq;
  if (makes_events()) {
    device->device_fd = context->async_fd;
    fcntl(device->device_fd, F_SETFL, fcntl(device->device_fd, F_GETFL) | O_NONBLOCK);
    device->signal_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    context->async_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event readable = {.events = EPOLLIN};
    epoll_ctl(context->async_fd, EPOLL_CTL_ADD, device->device_fd, &readable);
    epoll_ctl(context->async_fd, EPOLL_CTL_ADD, device->signal_fd, &readable);
  }
  pthread_mutex_unlock(&lock);
  return context;
}

int ibv_close_device(struct ibv_context* context) {
  pthread_mutex_lock(&lock);
  struct device* const device = device_of(context);
  if (device != NULL && device->signal_fd > 0) {
    close(context->async_fd);
    close(device->signal_fd);
    context->async_fd = device->device_fd;
  }
  if (device != NULL) device->context = NULL;
  pthread_mutex_unlock(&lock);
  return REAL(ibv_close_device)(context);
}

int ibv_query_device(struct ibv_context* context, struct ibv_device_attr* attributes) {
  const int result = REAL(ibv_query_device)(context, attributes);
  if (result != 0) return result;
  if (behaviour.reads) {
    attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = (int)behaviour.reads;
  }
  if (behaviour.no_atomics) attributes->atomic_cap = IBV_ATOMIC_NONE;
  if (behaviour.queue_pairs) attributes->max_qp = (int)behaviour.queue_pairs;
  if (behaviour.queue_entries) attributes->max_cqe = (int)behaviour.queue_entries;
  if (behaviour.no_srq) attributes->max_srq = attributes->max_srq_wr = attributes->max_srq_sge = 0;
  if (behaviour.vendor) attributes->vendor_id = (unsigned)behaviour.vendor;
  return 0;
}

struct ibv_cq* ibv_create_cq(struct ibv_context* context, int entries, void* cq_context,
                             struct ibv_comp_channel* channel, int vector) {
  if (behaviour.queue_entries && entries > behaviour.queue_entries) {
    errno = EINVAL;
    return NULL;
  }
  const int ours = show_device_fd(context);
  struct ibv_cq* const queue = REAL(ibv_create_cq)(context, entries, cq_context, channel, vector);
  show_our_fd(context, ours);
  struct device* const device = device_of(context);
  if (queue != NULL && device != NULL) device->queue = queue;
  return queue;
}

int ibv_resize_cq(struct ibv_cq* queue, int entries) {
  if (behaviour.queue_entries && entries > behaviour.queue_entries) return EINVAL;
  if (behaviour.no_resize) return EOPNOTSUPP;
  return REAL(ibv_resize_cq)(queue, entries);
}

int ibv_destroy_cq(struct ibv_cq* queue) {
  struct device* const device = device_of(queue->context);
  if (device != NULL && device->queue == queue) device->queue = NULL;
  forget_completions(queue);
  return REAL(ibv_destroy_cq)(queue);
}

struct ibv_srq* ibv_create_srq(struct ibv_pd* domain, struct ibv_srq_init_attr* attributes) {
  if (behaviour.no_srq) {
    errno = EOPNOTSUPP;
    return NULL;
  }
  const char* const name = ibv_get_device_name(domain->context->device);
  if (behaviour.no_receive_queue == 1 || (behaviour.no_receive_queue == 2 && !strchr(name, '0'))) {
    errno = ENOMEM;
    return NULL;
  }
  const int ours = show_device_fd(domain->context);
  struct ibv_srq* const receives = REAL(ibv_create_srq)(domain, attributes);
  show_our_fd(domain->context, ours);
  struct device* const device = device_of(domain->context);
  if (receives != NULL && device != NULL) device->receives = receives;
  return receives;
}

struct ibv_qp* ibv_create_qp(struct ibv_pd* domain, struct ibv_qp_init_attr* attributes) {
  const long wanted = attributes->cap.max_inline_data;
  if ((behaviour.no_inline && wanted > 0) ||
      (behaviour.inline_most && wanted > behaviour.inline_most)) {
    if (!behaviour.errno_kept) errno = EINVAL;
    return NULL;
  }
  const bool used = behaviour.queue_pairs && atomic_load(&queue_pairs) >= behaviour.queue_pairs;
  if (used || behaviour.queue_pairs_gone) {
    errno = ENOMEM;
    return NULL;
  }
  const int ours = show_device_fd(domain->context);
  struct ibv_qp* const pair = REAL(ibv_create_qp)(domain, attributes);
  show_our_fd(domain->context, ours);
  if (pair == NULL) return NULL;
  atomic_fetch_add(&queue_pairs, 1);
  atomic_store(is_gone(pair->qp_num), false);
  if (behaviour.inline_lowered && wanted > behaviour.inline_lowered) {
    attributes->cap.max_inline_data = (unsigned)behaviour.inline_lowered;
  }
  return pair;
}

int ibv_destroy_qp(struct ibv_qp* pair) {
  if (behaviour.destroy_cleans) clean_completions(real_ops.poll_cq, pair->send_cq, pair->qp_num);
  atomic_store(is_gone(pair->qp_num), true);
  const int result = REAL(ibv_destroy_qp)(pair);
  if (result == 0) atomic_fetch_sub(&queue_pairs, 1);
  return result;
}

int ibv_modify_qp(struct ibv_qp* pair, struct ibv_qp_attr* attributes, int mask) {
  const long most = behaviour.reads;
  if (most &&
      (((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && attributes->max_rd_atomic > most) ||
       ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && attributes->max_dest_rd_atomic > most))) {
    return errno = EINVAL;
  }
  if (behaviour.path_forgets && (mask & IBV_QP_AV) != 0) {
    char path[80];
    snprintf(path, sizeof path, "a path with service level %d, traffic class %d",
             attributes->ah_attr.sl, attributes->ah_attr.grh.traffic_class);
    say(path);
  }
  if (behaviour.flushes_late && (mask & IBV_QP_STATE) != 0 && attributes->qp_state == IBV_QPS_ERR) {
    delay_completions(pair->send_cq, pair->qp_num);
  }
  return REAL(ibv_modify_qp)(pair, attributes, mask);
}

int ibv_query_qp(struct ibv_qp* pair, struct ibv_qp_attr* attributes, int mask,
                 struct ibv_qp_init_attr* made) {
  const int result = REAL(ibv_query_qp)(pair, attributes, mask, made);
  if (behaviour.path_forgets) {
    attributes->ah_attr.sl = 0;
    attributes->ah_attr.grh.traffic_class = 0;
  }
  return result;
}

/* ---- memory ---- */

static atomic_bool relaxed_told;

static bool refuses_region(unsigned access) {
  if (behaviour.relaxed_refused && (access & IBV_ACCESS_RELAXED_ORDERING) != 0) {
    if (!atomic_exchange(&relaxed_told, true)) say("relaxed ordering is refused");
    errno = EOPNOTSUPP;
    return true;
  }
  if (!is_over(&registrations, behaviour.registration_fails)) return false;
  if (atomic_load(&registrations) == behaviour.registration_fails) {
    say("registrations fail with ENOMEM from now on");
  }
  errno = ENOMEM;
  return true;
}

struct ibv_mr* ibv_reg_mr(struct ibv_pd* domain, void* address, size_t bytes, int access) {
  if (refuses_region((unsigned)access)) return NULL;
  struct ibv_mr* const region = REAL(ibv_reg_mr)(domain, address, bytes, access);
  if (region != NULL) on_registered(region);
  return region;
}

struct ibv_mr* ibv_reg_mr_iova2(struct ibv_pd* domain, void* address, size_t bytes,
                                uint64_t virtual_address, unsigned access) {
  if (refuses_region(access)) return NULL;
  struct ibv_mr* const region =
      REAL(ibv_reg_mr_iova2)(domain, address, bytes, virtual_address, access);
  if (region != NULL) on_registered(region);
  return region;
}

int ibv_dereg_mr(struct ibv_mr* region) {
  on_deregister(region);
  return REAL(ibv_dereg_mr)(region);
}
