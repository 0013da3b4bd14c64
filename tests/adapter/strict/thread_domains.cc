#include "tests/adapter/strict/thread_domains.h"

#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "tests/adapter/strict/objects.h"

namespace strict {
namespace {

// Found without a lock, because a lock would keep two threads from meeting.
struct Place {
  std::atomic<ibv_context*> context{nullptr};
  std::atomic<int> domains{0};
  std::atomic<int> thread{0};  // that works on the queues
};
std::array<Place, 256> places;

Place& place_of(ibv_context* context) {
  for (Place& place : places) {
    if (place.context.load(std::memory_order_acquire) == context) return place;
  }
  std::abort();  // more devices than places
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* /*nothing*/) {
  ++place_of(context).domains;
  return new ibv_td{context};
}

int dealloc_td(ibv_td* domain) {
  --place_of(domain->context).domains;
  delete domain;
  return 0;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wish) {
  if ((wish->wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return reinterpret_cast<ibv_cq_ex*>(ibv_create_cq(context, static_cast<int>(wish->cqe),
                                                    wish->cq_context, wish->channel,
                                                    static_cast<int>(wish->comp_vector)));
}

}  // namespace

void offer_thread_domains(ibv_context* context) {
  ibv_context* none = nullptr;
  for (Place& place : places) {
    if (place.context.compare_exchange_strong(none, context)) break;
    none = nullptr;
  }
  verbs_context* const more = verbs_get_ctx(context);
  more->alloc_td = alloc_td;
  more->dealloc_td = dealloc_td;
  more->alloc_parent_domain = alloc_parent_domain;
  more->create_cq_ex = create_cq_ex;
}

void forget_thread_domains(ibv_context* context) {
  Place& place = place_of(context);
  place.domains = place.thread = 0;
  place.context = nullptr;
}

bool enter_queues(ibv_context* context) {
  Place& place = place_of(context);
  if (place.domains == 0) return true;
  int nobody = 0;
  return place.thread.compare_exchange_strong(nobody, gettid()) || nobody == gettid();
}

void leave_queues(ibv_context* context) { place_of(context).thread = 0; }

}  // namespace strict
