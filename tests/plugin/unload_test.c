/* A plugin with a registration cache comes and goes, as Open MPI's components do. UCX has patched
 * libc meanwhile and may have a thread: what is left must work without the plugin.
 *
 * usage: unload_test MODULE */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int faults = 0;

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "unload_test: %s\n", what);
  faults = 1;
}

static int thread_count(void) {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == NULL) return -1;
  while (readdir(tasks) != NULL) ++count;
  closedir(tasks);
  return count;
}

static char* map(size_t bytes) {
  void* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

/* Calls of all that was patched. */
static void use_memory(void) {
  const size_t bytes = 1 << 20;
  char* at = map(bytes);
  check(at != NULL, "mmap");
  memset(at, 1, bytes);
  check(madvise(at, bytes, MADV_DONTNEED) == 0, "madvise");
  at = mremap(at, bytes, 64 * bytes, MREMAP_MAYMOVE);
  check(at != MAP_FAILED, "mremap");
  check(munmap(at, 64 * bytes) == 0, "munmap");
  void* volatile block = malloc(64 << 20);
  memset(block, 1, 64 << 20);
  free(block);
  malloc_trim(0);
  const pid_t child = fork(); /* UCX's fork handlers */
  if (child == 0) _exit(0);
  int status = -1;
  waitpid(child, &status, 0);
  check(status == 0, "fork");
}

static void on_fault(int signal) { _exit(signal); }

static int fault_handler_is_ours(void) {
  struct sigaction now;
  return sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == on_fault;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: unload_test MODULE\n");
    return 2;
  }
  const int threads = thread_count();
  signal(SIGSEGV, on_fault);
  for (int round = 0; round < 3; ++round) {
    void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) {
      fprintf(stderr, "unload_test: %s\n", dlerror());
      return 1;
    }
    if (round == 0) {
      check(dlopen("libucs.so.0", RTLD_NOW | RTLD_NOLOAD) == NULL, "UCX is loaded with the plugin");
    }
    int (*use_cache)(void*, size_t) = NULL;
    *(void**)&use_cache = dlsym(plugin, "use_cache");
    char* at = map(1 << 16);
    check(use_cache != NULL && use_cache(at, 1 << 16) == 0, "the cache does not work");
    munmap(at, 1 << 16);
    check(fault_handler_is_ours(), "UCX has taken over SIGSEGV");
    use_memory();
    check(dlclose(plugin) == 0, "dlclose failed");
    check(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL, "dlclose did not unload it");
    check(thread_count() == threads, "a thread is left");
    use_memory();
  }
  printf("unload_test: libucs %s, libucm %s\n",
         dlopen("libucs.so.0", RTLD_NOW | RTLD_NOLOAD) != NULL ? "stays" : "is unloaded",
         dlopen("libucm.so.0", RTLD_NOW | RTLD_NOLOAD) != NULL ? "stays" : "is unloaded");
  if (faults == 0) printf("unload_test: ok\n");
  return faults;
}
