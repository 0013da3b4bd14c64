/* Stand-in for a header of Open MPI 5 and 6 that Debian's libopenmpi-dev lacks, as
 * threads_pthreads_mutex.h beside it. */
#ifndef WEIR_THREADS_PTHREADS_THREADS_H
#define WEIR_THREADS_PTHREADS_THREADS_H

#include <pthread.h>
#include <sched.h>

static inline void opal_thread_yield(void) { sched_yield(); }

#endif
