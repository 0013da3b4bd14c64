// Preloaded, watches what a program asks of its adapter, and ends it when that breaks a rule
// (rules.h): README.md. This file stands between the program and libibverbs, or whatever is
// preloaded behind this.
//
// Here an adapter grants what is asked for and no more. Any thread; one lock.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <new>
#include <tuple>
#include <utility>

#include "tests/adapter/strict/objects.h"
#include "tests/adapter/strict/thread_domains.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

// The function behind ours.
#define REAL(name) reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name))

namespace strict {

std::recursive_mutex lock;
int process = 0;

namespace {

using Locked = std::lock_guard<std::recursive_mutex>;

// In the child the thread that has the lock has another number.
[[maybe_unused]] const int prepared = pthread_atfork([] { lock.lock(); }, [] { lock.unlock(); },
                                                     [] {
                                                       new (&lock) std::recursive_mutex;
                                                       ++process;
                                                     });

// Objects by their handles. One that ended stays until its handle is used again: its history tells.
// Then it is the new one, so nobody points to freed memory.
template <typename T>
class Table {
 public:
  explicit Table(const char* kind) : kind_(kind) {}

  T& add(const void* handle) {
    std::unique_ptr<T>& place = objects_[handle];
    if (place == nullptr) place = std::make_unique<T>();
    *place = T{};
    place->kind = kind_;
    place->handle = handle;
    return *place;
  }

  // Or nullptr. It may have ended.
  T* find(const void* handle) const {
    const auto found = objects_.find(handle);
    return found != objects_.end() ? found->second.get() : nullptr;
  }

  // The object that a call is for.
  T& get(const void* handle, const char* call) {
    T* const found = find(handle);
    if (found == nullptr) {
      Object unknown;
      unknown.kind = kind_;
      unknown.handle = handle;
      breach(Rule::gone, unknown, "%s", call);
      std::abort();  // there is nothing to go on with
    }
    T& object = *found;
    EXPECT(object.alive, Rule::gone, object, "%s", call);
    EXPECT(object.made_in == process, Rule::forked, object, "%s", call);
    return object;
  }

 private:
  const char* kind_;
  std::unordered_map<const void*, std::unique_ptr<T>> objects_;
};

// Never destroyed: the program may call until its last moment.
struct Tables {
  Table<Device> devices{"device"};
  Table<Domain> domains{"protection domain"};
  Table<Region> regions{"region"};
  Table<Channel> channels{"completion channel"};
  Table<Queue> queues{"completion queue"};
  Table<SharedReceives> shared{"shared receive queue"};
  Table<Pair> pairs{"queue pair"};
  std::map<std::string, Adapter> adapters;
};
Tables& tables() {
  static Tables& all = *new Tables;
  return all;
}

// The domain whose memory and queues it shares, and itself if it is a parent.
std::pair<Domain*, Domain*> domains_of(const ibv_pd* handle, const char* call) {
  Domain& named = tables().domains.get(handle, call);
  if (named.parent_of == nullptr) return {&named, nullptr};
  return {named.parent_of, &named};
}

// A call that works on queues.
class Turn {
 public:
  Turn(ibv_context* context, const char* call) : context_(context) {
    if (enter_queues(context)) return;
    const Locked locked(lock);
    breach(Rule::thread_domain, tables().devices.get(context, call), "%s", call);
  }
  ~Turn() { leave_queues(context_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  ibv_context* context_;
};

// Before it ends, which may take long: without the lock.
void end(Object& object, const char* call) {
  object.history.note(call);
  EXPECT(object.users == 0, Rule::in_use, object, "%s; objects made of it: %d", call, object.users);
  EXPECT(object.unacknowledged == 0, Rule::unacknowledged, object, "%s; events: %d", call,
         object.unacknowledged);
  object.alive = false;
}

// ---- work: the provider's own functions ----

int post_send(ibv_qp* handle, ibv_send_wr* chain, ibv_send_wr** bad) {
  const Turn turn(handle->context, "ibv_post_send");
  const Locked locked(lock);
  Pair& pair = tables().pairs.get(handle, "ibv_post_send");
  if (pair.state == IBV_QPS_ERR && pair.sends.size() >= pair.cap.max_send_wr) {
    *bad = chain;  // nobody can know how full it is while it is flushed
    return ENOMEM;
  }
  for (const ibv_send_wr* work = chain; work != nullptr; work = work->next) on_send(pair, *work);
  check_room(*pair.send_queue);
  const int error = pair.domain->device->ops.post_send(handle, chain, bad);
  if (error != 0) {
    for (const ibv_send_wr* work = *bad; work != nullptr; work = work->next) undo_send(pair);
    pair.history.note("post_send failed: %ld", static_cast<std::uint64_t>(error));
  }
  return error;
}

template <typename Handle, typename Post>
int post_receives(Object& object, Receives& receives, Handle* handle, ibv_recv_wr* chain,
                  ibv_recv_wr** bad, Post post) {
  for (const ibv_recv_wr* work = chain; work != nullptr; work = work->next) {
    on_receive(object, receives, *work);
  }
  const int error = post(handle, chain, bad);
  if (error != 0) {
    for (const ibv_recv_wr* work = *bad; work != nullptr; work = work->next) {
      undo_receive(receives, work->wr_id);
    }
  }
  return error;
}

int post_recv(ibv_qp* handle, ibv_recv_wr* chain, ibv_recv_wr** bad) {
  const Turn turn(handle->context, "ibv_post_recv");
  const Locked locked(lock);
  Pair& pair = tables().pairs.get(handle, "ibv_post_recv");
  EXPECT(pair.state != IBV_QPS_RESET, Rule::receive_state, pair, "receive %#lx", chain->wr_id);
  const int error =
      post_receives(pair, pair.own, handle, chain, bad, pair.domain->device->ops.post_recv);
  check_room(*pair.receive_queue);
  return error;
}

int post_srq_recv(ibv_srq* handle, ibv_recv_wr* chain, ibv_recv_wr** bad) {
  const Turn turn(handle->context, "ibv_post_srq_recv");
  const Locked locked(lock);
  SharedReceives& shared = tables().shared.get(handle, "ibv_post_srq_recv");
  const int error =
      post_receives(shared, shared, handle, chain, bad, shared.domain->device->ops.post_srq_recv);
  for (const Queue* const queue : shared.queues) check_room(*queue);
  return error;
}

int poll_cq(ibv_cq* handle, int most, ibv_wc* found) {
  const Turn turn(handle->context, "ibv_poll_cq");
  const Locked locked(lock);
  Queue& queue = tables().queues.get(handle, "ibv_poll_cq");
  if (queue.lost != nullptr) {
    breach(Rule::polled_after_destroy, *queue.lost, "ibv_poll_cq");
    queue.lost = nullptr;
  }
  const int count = queue.device->ops.poll_cq(handle, most, found);
  for (int i = 0; i < count; ++i) on_completion(queue, found[i]);
  return count;
}

int req_notify_cq(ibv_cq* handle, int solicited) {
  const Turn turn(handle->context, "ibv_req_notify_cq");
  const Locked locked(lock);
  Queue& queue = tables().queues.get(handle, "ibv_req_notify_cq");
  queue.history.note("req_notify_cq: solicited %lu", static_cast<std::uint64_t>(solicited));
  return queue.device->ops.req_notify_cq(handle, solicited);
}

ibv_mr* note_region(ibv_pd* handle, ibv_mr* made, std::uint64_t begin, unsigned access) {
  if (made == nullptr) return nullptr;
  const Locked locked(lock);
  const Region* const known = tables().regions.find(made);
  if (known != nullptr && known->alive) return made;  // libibverbs' functions call each other
  Domain& domain = tables().domains.get(handle, "ibv_reg_mr");
  Region& region = tables().regions.add(made);
  region.domain = &domain;
  region.begin = begin;
  region.bytes = made->length;
  region.access = access;
  region.lkey = made->lkey;
  region.rkey = made->rkey;
  region.history.note("reg_mr: %lu bytes at %#lx, rights %#lx", made->length, begin, access);
  ++domain.users;
  domain.device->adapter->by_lkey[made->lkey] = &region;
  domain.device->adapter->by_rkey[made->rkey] = &region;
  return made;
}

void check_registration(ibv_pd* handle, std::size_t bytes, unsigned access) {
  constexpr unsigned by_peers = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  const Locked locked(lock);
  const Domain& domain = tables().domains.get(handle, "ibv_reg_mr");
  EXPECT(bytes > 0, Rule::region_empty, domain, "ibv_reg_mr");
  EXPECT((access & IBV_ACCESS_RELAXED_ORDERING) == 0 || (access & by_peers) == 0,
         Rule::order_relaxed, domain, "rights %#x", access);
}

std::array<Object*, 5> used_by(const Pair& pair) {
  return {pair.domain, pair.parent, pair.send_queue, pair.receive_queue, pair.shared};
}

// What an event of the device is about.
Object* concerned(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: return &tables().queues.get(event.element.cq, "an event");
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: return &tables().shared.get(event.element.srq, "an event");
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: return &tables().pairs.get(event.element.qp, "an event");
    default: return nullptr;
  }
}

}  // namespace

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* parts) {
  const Locked locked(lock);
  Domain& whole = tables().domains.get(parts->pd, "ibv_alloc_parent_domain");
  Domain& parent = tables().domains.add(new ibv_pd(*parts->pd));
  parent.device = &tables().devices.get(context, "ibv_alloc_parent_domain");
  parent.parent_of = &whole;
  ++whole.users;
  ++parent.device->users;
  return static_cast<ibv_pd*>(const_cast<void*>(parent.handle));
}

}  // namespace strict

// ---- libibverbs' functions ----

using namespace strict;
#pragma GCC visibility push(default)
extern "C" {

ibv_context* ibv_open_device(ibv_device* wanted) {
  ibv_context* const context = REAL(ibv_open_device)(wanted);
  if (context == nullptr) return nullptr;
  const Locked locked(lock);
  Device& device = tables().devices.add(context);
  device.adapter = &tables().adapters[wanted->name];
  device.context = context;
  device.ops = context->ops;
  context->ops.post_send = post_send;
  context->ops.post_recv = post_recv;
  context->ops.post_srq_recv = post_srq_recv;
  context->ops.poll_cq = poll_cq;
  context->ops.req_notify_cq = req_notify_cq;
  offer_thread_domains(context);
  ibv_port_attr port{};
  if (ibv_query_device(context, &device.limits) != 0 || ibv_query_port(context, 1, &port) != 0) {
    return context;
  }
  device.longest_message = port.max_msg_sz;
  return context;
}

int ibv_close_device(ibv_context* context) {
  {
    const Locked locked(lock);
    end(tables().devices.get(context, "ibv_close_device"), "close_device");
    forget_thread_domains(context);
  }
  return REAL(ibv_close_device)(context);
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  ibv_pd* const made = REAL(ibv_alloc_pd)(context);
  if (made == nullptr) return nullptr;
  const Locked locked(lock);
  Device& device = tables().devices.get(context, "ibv_alloc_pd");
  tables().domains.add(made).device = &device;
  ++device.users;
  return made;
}

int ibv_dealloc_pd(ibv_pd* handle) {
  {
    const Locked locked(lock);
    Domain& domain = tables().domains.get(handle, "ibv_dealloc_pd");
    end(domain, "dealloc_pd");
    --domain.device->users;
    if (domain.parent_of != nullptr) {
      --domain.parent_of->users;
      delete handle;
      return 0;
    }
  }
  return REAL(ibv_dealloc_pd)(handle);
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, size_t bytes, int access) {
  check_registration(domain, bytes, static_cast<unsigned>(access));
  return note_region(domain, REAL(ibv_reg_mr)(domain, address, bytes, access),
                     reinterpret_cast<std::uintptr_t>(address), static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* domain, void* address, size_t bytes, uint64_t begin, int access) {
  check_registration(domain, bytes, static_cast<unsigned>(access));
  return note_region(domain, REAL(ibv_reg_mr_iova)(domain, address, bytes, begin, access), begin,
                     static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, size_t bytes, uint64_t begin,
                         unsigned access) {
  check_registration(domain, bytes, access);
  return note_region(domain, REAL(ibv_reg_mr_iova2)(domain, address, bytes, begin, access), begin,
                     access);
}

int ibv_dereg_mr(ibv_mr* handle) {
  {
    const Locked locked(lock);
    Region& region = tables().regions.get(handle, "ibv_dereg_mr");
    EXPECT(region.posted == 0, Rule::region_in_use, region, "ibv_dereg_mr of %#lx bytes at %#lx",
           region.bytes, region.begin);
    end(region, "dereg_mr");
    region.domain->device->adapter->by_lkey.erase(region.lkey);
    region.domain->device->adapter->by_rkey.erase(region.rkey);
    --region.domain->users;
  }
  return REAL(ibv_dereg_mr)(handle);
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  ibv_comp_channel* const made = REAL(ibv_create_comp_channel)(context);
  if (made == nullptr) return nullptr;
  const Locked locked(lock);
  Device& device = tables().devices.get(context, "ibv_create_comp_channel");
  tables().channels.add(made).device = &device;
  ++device.users;
  return made;
}

int ibv_destroy_comp_channel(ibv_comp_channel* handle) {
  {
    const Locked locked(lock);
    Channel& channel = tables().channels.get(handle, "ibv_destroy_comp_channel");
    end(channel, "destroy_comp_channel");
    --channel.device->users;
  }
  return REAL(ibv_destroy_comp_channel)(handle);
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* of_program,
                      ibv_comp_channel* channel, int vector) {
  ibv_cq* const made = REAL(ibv_create_cq)(context, entries, of_program, channel, vector);
  if (made == nullptr) return nullptr;
  const Locked locked(lock);
  Device& device = tables().devices.get(context, "ibv_create_cq");
  Queue& queue = tables().queues.add(made);
  queue.device = &device;
  queue.entries = static_cast<std::size_t>(entries);
  queue.history.note("create_cq: %lu entries, %lu granted", queue.entries,
                     static_cast<unsigned>(made->cqe));
  made->cqe = entries;
  ++device.users;
  if (channel != nullptr) {
    queue.channel = &tables().channels.get(channel, "ibv_create_cq");
    ++queue.channel->users;
  }
  return made;
}

int ibv_resize_cq(ibv_cq* handle, int entries) {
  const Locked locked(lock);
  Queue& queue = tables().queues.get(handle, "ibv_resize_cq");
  queue.history.note("resize_cq: %lu entries", static_cast<unsigned>(entries));
  const int result = REAL(ibv_resize_cq)(handle, entries);
  if (result == 0) {
    queue.entries = static_cast<std::size_t>(handle->cqe = entries);
    check_room(queue);
  }
  return result;
}

int ibv_destroy_cq(ibv_cq* handle) {
  {
    const Locked locked(lock);
    Queue& queue = tables().queues.get(handle, "ibv_destroy_cq");
    end(queue, "destroy_cq");
    --queue.device->users;
    if (queue.channel != nullptr) --queue.channel->users;
  }
  return REAL(ibv_destroy_cq)(handle);
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** handle, void** of_program) {
  const int result = REAL(ibv_get_cq_event)(channel, handle, of_program);
  const Locked locked(lock);
  if (result == 0) ++tables().queues.get(*handle, "ibv_get_cq_event").unacknowledged;
  return result;
}

void ibv_ack_cq_events(ibv_cq* handle, unsigned count) {
  {
    const Locked locked(lock);
    tables().queues.get(handle, "ibv_ack_cq_events").unacknowledged -= static_cast<int>(count);
  }
  REAL(ibv_ack_cq_events)(handle, count);
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  const int result = REAL(ibv_get_async_event)(context, event);
  const Locked locked(lock);
  if (Object* const object = result == 0 ? concerned(*event) : nullptr) {
    ++object->unacknowledged;
    object->history.note("event %lu", event->event_type);
  }
  return result;
}

void ibv_ack_async_event(ibv_async_event* event) {
  {
    const Locked locked(lock);
    if (Object* const object = concerned(*event)) --object->unacknowledged;
  }
  REAL(ibv_ack_async_event)(event);
}

ibv_srq* ibv_create_srq(ibv_pd* handle, ibv_srq_init_attr* attributes) {
  const ibv_srq_attr asked = attributes->attr;
  ibv_srq* const made = REAL(ibv_create_srq)(handle, attributes);
  if (made == nullptr) return nullptr;
  const Locked locked(lock);
  SharedReceives& shared = tables().shared.add(made);
  std::tie(shared.domain, shared.parent) = domains_of(handle, "ibv_create_srq");
  shared.most = attributes->attr.max_wr = std::min(asked.max_wr, attributes->attr.max_wr);
  shared.pieces = attributes->attr.max_sge = std::min(asked.max_sge, attributes->attr.max_sge);
  shared.history.note("create_srq: %lu receives", shared.most);
  ++shared.domain->users;
  if (shared.parent != nullptr) ++shared.parent->users;
  return made;
}

int ibv_modify_srq(ibv_srq* handle, ibv_srq_attr* attributes, int mask) {
  const Locked locked(lock);
  SharedReceives& shared = tables().shared.get(handle, "ibv_modify_srq");
  shared.history.note("modify_srq: limit %lu, receives %lu, mask %lu", attributes->srq_limit,
                      attributes->max_wr, static_cast<unsigned>(mask));
  EXPECT((mask & IBV_SRQ_LIMIT) == 0 || attributes->srq_limit <= shared.most, Rule::srq_limit,
         shared, "srq_limit %u of %u", attributes->srq_limit, shared.most);
  const std::uint32_t asked = attributes->max_wr;
  const int result = REAL(ibv_modify_srq)(handle, attributes, mask);
  if (result == 0 && (mask & IBV_SRQ_MAX_WR) != 0) shared.most = asked;
  return result;
}

int ibv_destroy_srq(ibv_srq* handle) {
  {
    const Locked locked(lock);
    SharedReceives& shared = tables().shared.get(handle, "ibv_destroy_srq");
    end(shared, "destroy_srq");
    forget_receives(*shared.domain, shared);
    --shared.domain->users;
    if (shared.parent != nullptr) --shared.parent->users;
    for (Queue* const queue : shared.queues) queue->receives.erase(&shared);
  }
  return REAL(ibv_destroy_srq)(handle);
}

ibv_qp* ibv_create_qp(ibv_pd* handle, ibv_qp_init_attr* attributes) {
  const ibv_qp_cap asked = attributes->cap;
  ibv_qp* const made = REAL(ibv_create_qp)(handle, attributes);
  if (made == nullptr) return nullptr;
  const Locked locked(lock);
  if (const Pair* const old = tables().pairs.find(made))
    old->adapter().by_number.erase(old->number);
  Pair& pair = tables().pairs.add(made);
  std::tie(pair.domain, pair.parent) = domains_of(handle, "ibv_create_qp");
  pair.send_queue = &tables().queues.get(attributes->send_cq, "ibv_create_qp");
  pair.receive_queue = &tables().queues.get(attributes->recv_cq, "ibv_create_qp");
  ibv_qp_cap& cap = attributes->cap;
  cap = {std::min(asked.max_send_wr, cap.max_send_wr), std::min(asked.max_recv_wr, cap.max_recv_wr),
         std::min(asked.max_send_sge, cap.max_send_sge),
         std::min(asked.max_recv_sge, cap.max_recv_sge),
         std::min(asked.max_inline_data, cap.max_inline_data)};
  pair.cap = cap;
  pair.own = {pair.domain, cap.max_recv_wr, cap.max_recv_sge, {}};
  pair.all_signalled = attributes->sq_sig_all != 0;
  pair.number = made->qp_num;
  if (attributes->srq != nullptr) {
    pair.shared = &tables().shared.get(attributes->srq, "ibv_create_qp");
    pair.shared->queues.insert(pair.receive_queue);
  }
  pair.receive_queue->receives.insert(&pair.receives());
  pair.history.note("create_qp: number %#lx, %lu sends, %lu bytes inline", pair.number,
                    cap.max_send_wr, cap.max_inline_data);
  pair.adapter().by_number[pair.number] = &pair;
  for (Object* const used : used_by(pair)) {
    if (used != nullptr) ++used->users;
  }
  check_room(*pair.receive_queue);
  return made;
}

int ibv_modify_qp(ibv_qp* handle, ibv_qp_attr* to, int mask) {
  const Locked locked(lock);
  Pair& pair = tables().pairs.get(handle, "ibv_modify_qp");
  check_step(pair, *to, mask);
  const int result = REAL(ibv_modify_qp)(handle, to, mask);
  if (result == 0) on_step(pair, *to, mask);
  return result;
}

int ibv_destroy_qp(ibv_qp* handle) {
  {
    const Locked locked(lock);
    Pair& pair = tables().pairs.get(handle, "ibv_destroy_qp");
    end(pair, "destroy_qp");
    if (!pair.sends.empty()) pair.send_queue->lost = &pair;
    forget_sends(pair);
    forget_receives(*pair.domain, pair.own);
    pair.receive_queue->receives.erase(&pair.own);
    for (Object* const used : used_by(pair)) {
      if (used != nullptr) --used->users;
    }
  }
  return REAL(ibv_destroy_qp)(handle);
}

}  // extern "C"
#pragma GCC visibility pop
