/* Stand-in for a header of Open MPI 5 and 6 that Debian's libopenmpi-dev lacks: what the headers
 * beside it need of it, with pthreads, which Debian's Open MPI uses. Found only where there is no
 * other. C, for tests include it. */
#ifndef WEIR_THREADS_PTHREADS_MUTEX_H
#define WEIR_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t* mutex) {
  return pthread_mutex_trylock(mutex) != 0;
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t* mutex) {
  pthread_mutex_lock(mutex);
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t* mutex) {
  pthread_mutex_unlock(mutex);
}

#endif
