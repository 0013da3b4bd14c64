/* A kernel that does not copy pinned pages for a child. After a fork the first write of the parent
 * moves the page away from under the adapter, which goes on with the old one. Here all registered
 * pages move at once, whoever would have written to them; except where libibverbs keeps them from
 * the child (ibv_fork_init): the child then has no such pages.
 *
 * A lock of its own. Fork handlers run in the thread that forks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/adapter/adapter.h"

enum { most_regions = 4096 };

static struct region {
  char* begin;
  size_t bytes;
} regions[most_regions];
static bool protects; /* somebody called ibv_fork_init in time */
static bool registered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct region pages_of(const struct ibv_mr* region) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t begin = (size_t)region->addr & ~(page - 1);
  const size_t end = ((size_t)region->addr + region->length + page - 1) & ~(page - 1);
  return (struct region){(char*)begin, end - begin};
}

/* By system calls of its own, because hooks into these functions would say that memory is gone. */
static void move_away(struct region from) {
  char* const to = (char*)syscall(SYS_mmap, NULL, from.bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (to == MAP_FAILED) return;
  /* Registered memory may be gone meanwhile; a plain copy would crash. */
  const struct iovec whole = {from.begin, from.bytes}, copy = {to, from.bytes};
  if (process_vm_readv(getpid(), &copy, 1, &whole, 1, 0) != (ssize_t)from.bytes) {
    syscall(SYS_munmap, to, from.bytes);
    return;
  }
  syscall(SYS_mremap, to, from.bytes, from.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, from.begin);
}

static void in_parent(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < most_regions && !protects; ++i) {
    if (regions[i].bytes > 0) move_away(regions[i]);
  }
  pthread_mutex_unlock(&lock);
  say(protects ? "a fork, and registered pages stayed" : "a fork moved registered pages");
}

void on_registered(const struct ibv_mr* region) {
  if (!behaviour.fork_unprotected || region->length == 0) return;
  pthread_mutex_lock(&lock);
  if (!registered) pthread_atfork(NULL, in_parent, NULL);
  registered = true;
  for (int i = 0; i < most_regions; ++i) {
    if (regions[i].bytes > 0) continue;
    regions[i] = pages_of(region);
    if (protects) madvise(regions[i].begin, regions[i].bytes, MADV_DONTFORK);
    break;
  }
  pthread_mutex_unlock(&lock);
}

void on_deregister(const struct ibv_mr* region) {
  if (!behaviour.fork_unprotected) return;
  const struct region pages = pages_of(region);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < most_regions; ++i) {
    if (regions[i].begin != pages.begin || regions[i].bytes != pages.bytes) continue;
    if (protects) madvise(pages.begin, pages.bytes, MADV_DOFORK);
    regions[i].bytes = 0;
    break;
  }
  pthread_mutex_unlock(&lock);
}

/* As libibverbs' own, on such a kernel. */
int ibv_fork_init(void) {
  read_behaviour();
  if (!behaviour.fork_unprotected) {
    int (*const real)(void) = (int (*)(void))dlsym(RTLD_NEXT, "ibv_fork_init");
    return real();
  }
  pthread_mutex_lock(&lock);
  const bool late = registered && !protects;
  if (!late) protects = true;
  pthread_mutex_unlock(&lock);
  return late ? EINVAL : 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void) {
  read_behaviour();
  if (!behaviour.fork_unprotected) {
    enum ibv_fork_status (*const real)(void) =
        (enum ibv_fork_status(*)(void))dlsym(RTLD_NEXT, "ibv_is_fork_initialized");
    return real();
  }
  return protects ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}
