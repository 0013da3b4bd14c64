// Thread domains, which Soft-RoCE has not: every device has them under the strict library.
//
// Any thread, without `lock`.
#pragma once

#include <infiniband/verbs.h>

namespace strict {

// A device opens, or closes. `close` is for devices that opened.
void offer_thread_domains(ibv_context* context);
void forget_thread_domains(ibv_context* context);

// A call that works on queues begins. False: another thread is in such a call, though the device
// has a thread domain.
bool enter_queues(ibv_context* context);
void leave_queues(ibv_context* context);

}  // namespace strict
