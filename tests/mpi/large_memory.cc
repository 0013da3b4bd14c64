// large_memory: large messages from and to memory that was not there before: freed and allocated,
// unmapped and mapped at the same address, moved, given back to the system, read-only, overlapping,
// shared with a child. A transport that remembers registered memory too long sends, or writes to,
// pages that are gone.
//
//   mpirun -n 2 large_memory [--rounds 6] [--largest 3M] [--unseen] [--counters]
//
// --unseen: pages are replaced behind the back of libc, too. Registrations do not survive that.
// Even ranks exchange with odd ones, both ways at the same time; an odd one out only watches.

#include <fcntl.h>
#include <malloc.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

constexpr int kTag = 5;
constexpr std::size_t kLeast = 100000;

int partner;
std::size_t largest, page;
std::uint32_t seq;  // counted alike by both of a pair
check::Random sizes(1);

// The same sequence at both ends.
std::size_t next_bytes() {
  return kLeast + sizes.below(static_cast<std::uint32_t>(largest - kLeast));
}
std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

void fill(unsigned char* memory, std::size_t bytes) {
  check::fill(memory, bytes, {check::rank, partner, kTag, seq});
}

// `out` is filled; `in` may be anything.
void exchange(const unsigned char* out, unsigned char* in, std::size_t bytes, const char* what) {
  MPI_Status status;
  const auto n = static_cast<int>(bytes);
  MPI_Sendrecv(out, n, MPI_BYTE, partner, kTag, in, n, MPI_BYTE, partner, kTag, check::world,
               &status);
  check::verify_status(status, partner, kTag, bytes, what);
  check::verify(in, bytes, {partner, check::rank, kTag, seq}, what);
  check::verify(out, bytes, {check::rank, partner, kTag, seq}, what);
  ++seq;
}

unsigned char* map(std::size_t bytes, void* at = nullptr, int flags = 0) {
  void* const memory =
      mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  CHECK(memory != MAP_FAILED, "mmap of %zu bytes: %s", bytes, std::strerror(errno));
  return static_cast<unsigned char*>(memory);
}

void allocated(const char* what) {
  check::phase(what);
  const std::size_t bytes = next_bytes();
  auto* const out = static_cast<unsigned char*>(std::malloc(bytes));
  auto* const in = static_cast<unsigned char*>(std::malloc(bytes));
  fill(out, bytes);
  exchange(out, in, bytes, what);
  std::free(out);
  std::free(in);
}

// From the heap proper, which shrinks with each free.
void heap_shrinks() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 0);
  for (int i = 0; i < 3; ++i) allocated("malloc and free, brk");
  mallopt(M_MMAP_THRESHOLD, 64 << 10);
  mallopt(M_TRIM_THRESHOLD, 128 << 10);
  for (int i = 0; i < 3; ++i) allocated("malloc and free, mmap");
}

void grows() {
  check::phase("realloc");
  const std::size_t first = next_bytes(), second = first + next_bytes(), third = first / 2 + 1;
  unsigned char *out = nullptr, *in = nullptr;
  for (std::size_t bytes : {first, second, third}) {
    out = static_cast<unsigned char*>(std::realloc(out, bytes));
    in = static_cast<unsigned char*>(std::realloc(in, bytes));
    fill(out, bytes);
    exchange(out, in, bytes, "after realloc");
  }
  std::free(out);
  std::free(in);
}

// Other pages at the same address, in each way there is.
void same_address() {
  check::phase("the same address");
  const std::size_t bytes = whole_pages(next_bytes());
  unsigned char* out = map(bytes);
  unsigned char* in = map(bytes);
  fill(out, bytes);
  exchange(out, in, bytes, "newly mapped");

  munmap(out, bytes), munmap(in, bytes);
  out = map(bytes, out, MAP_FIXED), in = map(bytes, in, MAP_FIXED);
  fill(out, bytes);
  exchange(out, in, bytes, "unmapped and mapped again");

  out = map(bytes, out, MAP_FIXED), in = map(bytes, in, MAP_FIXED);
  fill(out, bytes);
  exchange(out, in, bytes, "mapped over");

  madvise(out, bytes, MADV_DONTNEED), madvise(in, bytes, MADV_DONTNEED);
  fill(out, bytes);
  exchange(out, in, bytes, "after MADV_DONTNEED");

  // A hole in the middle.
  const std::size_t third = whole_pages(bytes / 3);
  munmap(out + third, third), munmap(in + third, third);
  map(third, out + third, MAP_FIXED), map(third, in + third, MAP_FIXED);
  fill(out, bytes);
  exchange(out, in, bytes, "with a part mapped anew");

  // Moved elsewhere, and others in its place.
  void* const elsewhere = map(bytes);
  void* const moved = mremap(out, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
  CHECK(moved == elsewhere, "mremap: %s", std::strerror(errno));
  unsigned char* const fresh = map(bytes, out, MAP_FIXED);
  fill(fresh, bytes);
  exchange(fresh, in, bytes, "in the place of what was moved");
  fill(static_cast<unsigned char*>(moved), bytes);
  exchange(static_cast<unsigned char*>(moved), in, bytes, "what was moved");
  munmap(moved, bytes), munmap(fresh, bytes), munmap(in, bytes);
}

// Sent from and received into, and then again after the pages have been replaced.
void replaced(const char* how, void* memory, std::size_t bytes,
              const std::function<bool(void*)>& replace) {
  check::phase(how);
  CHECK(memory != MAP_FAILED, "there is no memory: %s", std::strerror(errno));
  auto* const at = static_cast<unsigned char*>(memory);
  unsigned char* const other = map(bytes);
  for (const bool again : {false, true}) {
    if (again) {
      // Some need a newer kernel; the partner has the same.
      if (!replace(at)) break;
    }
    fill(at, bytes);
    exchange(at, other, bytes, "from there");
    fill(other, bytes);
    exchange(other, at, bytes, "to there");
  }
  munmap(other, bytes);
}

// By all that libc has for it; what this libc does not name has its number here.
void replaced_in_all_ways() {
  constexpr int dontneed_locked = 24, guard_install = 102, guard_remove = 103;
  const std::size_t bytes = whole_pages(next_bytes());
  constexpr int plain = MAP_PRIVATE | MAP_ANONYMOUS, shared = MAP_SHARED | MAP_ANONYMOUS;
  const auto make = [&](int flags) {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  };
  const auto advise = [&](const char* name, int flags, int advice) {
    void* const at = make(flags);
    replaced(name, at, bytes, [&](void* from) {
      return madvise(from, bytes, advice) == 0 &&
             (advice != guard_install || madvise(from, bytes, guard_remove) == 0);
    });
    munmap(at, bytes);
  };
  advise("MADV_FREE", plain, MADV_FREE);
  advise("MADV_REMOVE", shared, MADV_REMOVE);
  advise("MADV_DONTNEED_LOCKED", plain, dontneed_locked);
  advise("MADV_GUARD_INSTALL", plain, guard_install);

  void* at = make(plain);
  void* elsewhere = MAP_FAILED;
  replaced("MREMAP_DONTUNMAP", at, bytes, [&](void* from) {
    elsewhere = mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr);
    return elsewhere != MAP_FAILED;
  });
  if (elsewhere != MAP_FAILED) munmap(elsewhere, bytes);
  replaced("mremap onto it", at, bytes, [&](void* over) {
    return mremap(make(plain), bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, over) == over;
  });
  munmap(at, bytes);

  const auto attach = [&](const void* to, int flags) {
    const int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
    void* const segment = shmat(id, to, flags);
    shmctl(id, IPC_RMID, nullptr);
    return segment;
  };
  at = attach(nullptr, 0);
  replaced("shmdt and shmat", at, bytes,
           [&](void* from) { return shmdt(from) == 0 && attach(from, 0) == from; });
  replaced("SHM_REMAP", at, bytes, [&](void* over) { return attach(over, SHM_REMAP) == over; });
  shmdt(at);
}

// In ways that no patch of libc can see.
void replaced_unseen() {
  const std::size_t bytes = whole_pages(next_bytes());
  const auto size = static_cast<off_t>(bytes);
  void* at = map(bytes);
  replaced("madvise by syscall", at, bytes,
           [&](void* from) { return syscall(SYS_madvise, from, bytes, MADV_DONTNEED) == 0; });
  munmap(at, bytes);
  const int file = memfd_create("large_memory", 0);
  CHECK(file >= 0 && ftruncate(file, size) == 0, "memfd: %s", std::strerror(errno));
  at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  replaced("ftruncate", at, bytes,
           [&](void*) { return ftruncate(file, 0) == 0 && ftruncate(file, size) == 0; });
  replaced("fallocate", at, bytes, [&](void*) {
    return fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size) == 0;
  });
  munmap(at, bytes);
  close(file);
}

// Memory that may only be read can be sent; later it may be written to and received into.
void read_only() {
  check::phase("read-only memory");
  const std::size_t bytes = whole_pages(next_bytes());
  unsigned char* const out = map(bytes);
  unsigned char* const in = map(bytes);
  fill(out, bytes);
  mprotect(out, bytes, PROT_READ);
  exchange(out, in, bytes, "from read-only memory");
  mprotect(out, bytes, PROT_READ | PROT_WRITE);
  fill(in, bytes);
  exchange(in, out, bytes, "into what was read-only");
  fill(out, bytes);
  mprotect(out, bytes, PROT_READ);
  exchange(out, in, bytes, "from memory that became read-only");
  munmap(out, bytes), munmap(in, bytes);

  char name[] = "/dev/shm/weir-large-memory-XXXXXX";
  const int file = mkstemp(name);
  CHECK(file >= 0, "mkstemp: %s", std::strerror(errno));
  unlink(name);
  CHECK(ftruncate(file, static_cast<off_t>(bytes)) == 0, "ftruncate: %s", std::strerror(errno));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(memory != MAP_FAILED, "mmap of a file: %s", std::strerror(errno));
  fill(static_cast<unsigned char*>(memory), bytes);
  munmap(memory, bytes);
  for (int flags : {MAP_SHARED, MAP_PRIVATE}) {
    memory = mmap(nullptr, bytes, PROT_READ, flags, file, 0);
    CHECK(memory != MAP_FAILED, "mmap of a file: %s", std::strerror(errno));
    unsigned char* const to = map(bytes);
    const std::uint32_t of_file = seq;
    exchange(static_cast<const unsigned char*>(memory), to, bytes, "from a read-only file");
    seq = of_file;
    munmap(memory, bytes), munmap(to, bytes);
  }
  close(file);
  ++seq;
}

// Parts of a buffer before and after the whole, and parts that reach beyond what was used so far.
void overlapping() {
  check::phase("overlapping buffers");
  const std::size_t bytes = next_bytes() + 4 * kLeast;
  std::vector<unsigned char> out(bytes), in(bytes);
  const std::size_t places[][2] = {{bytes / 3, bytes / 3},     {bytes / 3 + 100, bytes / 4},
                                   {bytes / 5, bytes / 2},     {0, bytes / 2 + 1},
                                   {bytes / 2 - 7, bytes / 2}, {0, bytes},
                                   {13, bytes - 27},           {bytes / 2, kLeast}};
  for (const auto& [at, length] : places) {
    fill(out.data() + at, length);
    exchange(out.data() + at, in.data() + at, length, "a part");
  }
  // Several parts at the same time, which share pages.
  constexpr std::size_t parts = 5;
  const std::size_t part = bytes / parts;
  MPI_Request requests[2 * parts];
  for (std::size_t i = 0; i < parts; ++i)
    MPI_Irecv(in.data() + i * part, static_cast<int>(part), MPI_BYTE, partner, kTag, check::world,
              &requests[i]);
  for (std::size_t i = 0; i < parts; ++i) {
    check::fill(out.data() + i * part, part,
                {check::rank, partner, kTag, seq + static_cast<std::uint32_t>(i)});
    MPI_Isend(out.data() + i * part, static_cast<int>(part), MPI_BYTE, partner, kTag, check::world,
              &requests[parts + i]);
  }
  MPI_Waitall(2 * parts, requests, MPI_STATUSES_IGNORE);
  for (std::size_t i = 0; i < parts; ++i, ++seq)
    check::verify(in.data() + i * part, part, {partner, check::rank, kTag, seq}, "of many parts");
}

// A child with copies of the buffers writes to them, and lives until the exchange is over.
void forks() {
  check::phase("fork");
  const std::size_t bytes = next_bytes();
  std::vector<unsigned char> out(bytes), in(bytes);
  fill(out.data(), bytes);
  exchange(out.data(), in.data(), bytes, "before a fork");
  int over[2];
  CHECK(pipe(over) == 0, "pipe: %s", std::strerror(errno));
  const pid_t child = fork();
  CHECK(child >= 0, "fork: %s", std::strerror(errno));
  if (child == 0) {
    close(over[1]);
    std::fill(out.begin(), out.end(), 0xee), std::fill(in.begin(), in.end(), 0xee);
    char none;
    const bool told = read(over[0], &none, 1) == 0;
    const auto own = [](unsigned char byte) { return byte == 0xee; };
    const bool kept =
        std::all_of(out.begin(), out.end(), own) && std::all_of(in.begin(), in.end(), own);
    _exit(told && kept ? 0 : 1);
  }
  close(over[0]);
  for (int i = 0; i < 3; ++i) {
    fill(out.data(), bytes);
    exchange(out.data(), in.data(), bytes, "while a child has copies");
  }
  close(over[1]);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the child lost its copies: status %d",
        status);
}

void on_the_stack() {
  check::phase("the stack");
  unsigned char out[200000], in[200000];
  fill(out, sizeof out);
  exchange(out, in, sizeof out, "on the stack");
}

// Freed by the receiver while others of its kind are still on their way.
void freed_meanwhile() {
  check::phase("freed while others are under way");
  constexpr std::size_t count = 6;
  const std::size_t bytes = whole_pages(next_bytes());
  unsigned char *out[count], *in[count];
  MPI_Request sends[count], receives[count];
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = map(bytes), in[i] = map(bytes);
    check::fill(out[i], bytes, {check::rank, partner, kTag, seq + static_cast<std::uint32_t>(i)});
    MPI_Irecv(in[i], static_cast<int>(bytes), MPI_BYTE, partner, kTag, check::world, &receives[i]);
  }
  for (std::size_t i = 0; i < count; ++i)
    MPI_Isend(out[i], static_cast<int>(bytes), MPI_BYTE, partner, kTag, check::world, &sends[i]);
  for (std::size_t left = count; left > 0; --left) {
    int which;
    MPI_Waitany(count, receives, &which, MPI_STATUS_IGNORE);
    const auto i = static_cast<std::size_t>(which);
    check::verify(in[i], bytes,
                  {partner, check::rank, kTag, seq + static_cast<std::uint32_t>(which)},
                  "freed at once");
    munmap(in[i], bytes);
  }
  for (std::size_t left = count; left > 0; --left) {
    int which;
    MPI_Waitany(count, sends, &which, MPI_STATUS_IGNORE);
    munmap(out[static_cast<std::size_t>(which)], bytes);
  }
  seq += count;
}

}  // namespace

MPI_TEST(large_memory) {
  check::Session session(argc, argv, "large_memory");
  const int rounds = static_cast<int>(session.options.number("rounds", 6));
  largest = static_cast<std::size_t>(session.options.number("largest", 3 << 20));
  const bool unseen = session.options.flag("unseen");
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  seq = 0;
  page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  partner = session.rank ^ 1;
  sizes = check::Random(check::seed * 65537 + static_cast<std::uint64_t>(session.rank / 2));

  Counters counters;
  for (int round = 0; round < rounds && partner < session.size; ++round) {
    heap_shrinks();
    grows();
    same_address();
    replaced_in_all_ways();
    if (unseen) replaced_unseen();
    read_only();
    overlapping();
    forks();
    on_the_stack();
    freed_meanwhile();
  }

  if (show_counters) counters.print(check::world);
  counters.close();
  return session.finish();
}
