// rma_windows: all kinds of windows at the same time: created, allocated, dynamic and shared ones,
// on the world and on halves of it, of different sizes (none too) and units, made and freed again.
//
//   mpirun -n 4 rma_windows [--rounds 5] [--without-dynamic] [--many 0] [--made 0] [--counters]
//
// --many: so many at the same time, each of a page of its own; --made: so many, one after the
// other.

#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr int kPut = 1, kGet = 2, kShared = 3;

int rank, size;
std::uint32_t seq;  // counted alike by all ranks

int count_of(std::size_t n) { return static_cast<int>(n); }
std::size_t unit_of(int r) { return std::size_t{1} << r % 4; }
// Every third rank gives nothing.
std::size_t bytes_of(int r) {
  return r % 3 == 2 ? 0 : 8 * (1000 + 30000 * static_cast<std::size_t>(r));
}

// A rank's half of its memory is for the rank on its left to write, the other half to be read.
struct Half {
  std::size_t at, bytes;
  int disp(int owner) const { return static_cast<int>(at / unit_of(owner)); }
};
Half written(int r) { return {0, bytes_of(r) / 2}; }
Half readable(int r) { return {bytes_of(r) / 2, bytes_of(r) / 2}; }

void prepare(unsigned char* memory) {
  std::memset(memory, 0, bytes_of(rank));
  check::fill(memory + readable(rank).at, readable(rank).bytes, {rank, -1, kGet, seq});
}

// `addresses`: where the memory of each rank is, for dynamic windows.
void use(MPI_Win win, unsigned char* memory, const std::vector<MPI_Aint>* addresses) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  const auto place = [&](const Half& half) {
    return addresses != nullptr
               ? (*addresses)[static_cast<std::size_t>(right)] + static_cast<MPI_Aint>(half.at)
               : MPI_Aint{half.disp(right)};
  };
  Bytes out(written(right).bytes), in(readable(right).bytes);
  check::fill(out.data(), out.size(), {rank, right, kPut, seq});
  MPI_Win_fence(0, win);
  MPI_Put(out.data(), count_of(out.size()), MPI_BYTE, right, place(written(right)),
          count_of(out.size()), MPI_BYTE, win);
  MPI_Get(in.data(), count_of(in.size()), MPI_BYTE, right, place(readable(right)),
          count_of(in.size()), MPI_BYTE, win);
  MPI_Win_fence(0, win);
  check::verify(in.data(), in.size(), {right, -1, kGet, seq}, "get");
  check::verify(memory, written(rank).bytes, {left, rank, kPut, seq}, "put");
  MPI_Barrier(check::world);
}

// Made in one order, freed in another, and all there at the same time.
void created_and_allocated() {
  check::phase("several windows at a time");
  constexpr std::size_t count = 4;
  MPI_Win wins[2 * count];
  unsigned char* memory[2 * count];
  ++seq;
  const auto size_of = static_cast<MPI_Aint>(bytes_of(rank));
  const int unit = count_of(unit_of(rank));
  for (std::size_t i = 0; i < count; ++i) {
    // Memory that the program simply has: not even aligned.
    memory[i] = new unsigned char[bytes_of(rank) + 64] + 8 * i;
    MPI_Win_create(memory[i], size_of, unit, MPI_INFO_NULL, check::world, &wins[i]);
    MPI_Win_allocate(size_of, unit, MPI_INFO_NULL, check::world, &memory[count + i],
                     &wins[count + i]);
    prepare(memory[i]);
    prepare(memory[count + i]);
  }
  for (std::size_t i = 2 * count; i-- > 0;) use(wins[i], memory[i], nullptr);
  for (std::size_t i : {5, 0, 7, 2, 1, 6, 3, 4}) {
    MPI_Win_free(&wins[i]);
    if (i < count) delete[](memory[i] - 8 * i);
  }
}

// Two windows over the same memory, and over a part of it.
void overlapping() {
  check::phase("windows over the same memory");
  ++seq;
  Bytes memory(bytes_of(rank) + 1);
  MPI_Win whole, again;
  const auto size_of = static_cast<MPI_Aint>(bytes_of(rank));
  MPI_Win_create(memory.data(), size_of, count_of(unit_of(rank)), MPI_INFO_NULL, check::world,
                 &whole);
  MPI_Win_create(memory.data(), size_of, count_of(unit_of(rank)), MPI_INFO_NULL, check::world,
                 &again);
  prepare(memory.data());
  use(whole, memory.data(), nullptr);
  MPI_Win_free(&whole);
  ++seq;
  prepare(memory.data());
  use(again, memory.data(), nullptr);
  MPI_Win_free(&again);
}

// Memory attached and detached while the window lives.
void dynamic() {
  check::phase("a dynamic window");
  MPI_Win win;
  MPI_Win_create_dynamic(MPI_INFO_NULL, check::world, &win);
  for (int i = 0; i < 3; ++i) {
    ++seq;
    auto* const memory = new unsigned char[bytes_of(rank) + 64];
    // A region of nothing cannot be attached everywhere.
    MPI_Win_attach(win, memory, static_cast<MPI_Aint>(bytes_of(rank) + 64));
    prepare(memory);
    MPI_Aint address;
    std::vector<MPI_Aint> addresses(static_cast<std::size_t>(size));
    MPI_Get_address(memory, &address);
    MPI_Allgather(&address, 1, MPI_AINT, addresses.data(), 1, MPI_AINT, check::world);
    use(win, memory, &addresses);
    MPI_Win_detach(win, memory);
    delete[] memory;
  }
  MPI_Win_free(&win);
}

// Loads and stores among the ranks of a node, in the middle of one-sided traffic of all.
void shared_beside() {
  check::phase("a shared window beside another");
  ++seq;
  MPI_Comm node;
  MPI_Comm_split_type(check::world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  int here, count;
  MPI_Comm_rank(node, &here);
  MPI_Comm_size(node, &count);
  constexpr std::size_t bytes = 5000;
  unsigned char* own;
  MPI_Win shared;
  MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, node, &own, &shared);
  std::vector<int> world(static_cast<std::size_t>(count));
  MPI_Allgather(&rank, 1, MPI_INT, world.data(), 1, MPI_INT, node);

  Bytes memory(bytes_of(rank) + 1);
  MPI_Win other;
  MPI_Win_create(memory.data(), static_cast<MPI_Aint>(bytes_of(rank)), count_of(unit_of(rank)),
                 MPI_INFO_NULL, check::world, &other);
  prepare(memory.data());
  MPI_Win_fence(0, shared);
  const int neighbour = (here + 1) % count;
  unsigned char* theirs;
  MPI_Aint their_bytes;
  int unit;
  MPI_Win_shared_query(shared, neighbour, &their_bytes, &unit, &theirs);
  CHECK(their_bytes == static_cast<MPI_Aint>(bytes), "%ld bytes are shared",
        static_cast<long>(their_bytes));
  check::fill(theirs, bytes, {rank, world[static_cast<std::size_t>(neighbour)], kShared, seq});
  use(other, memory.data(), nullptr);
  MPI_Win_fence(0, shared);
  const int writer = world[static_cast<std::size_t>((here + count - 1) % count)];
  check::verify(own, bytes, {writer, rank, kShared, seq}, "shared memory");
  MPI_Win_free(&other);
  MPI_Win_free(&shared);
  MPI_Comm_free(&node);
}

// Halves of the world at the same time, with ranks numbered backwards.
void on_halves() {
  check::phase("windows of halves");
  ++seq;
  MPI_Comm half;
  MPI_Comm_split(check::world, rank % 2, -rank, &half);
  int here, count;
  MPI_Comm_rank(half, &here);
  MPI_Comm_size(half, &count);
  std::vector<int> world(static_cast<std::size_t>(count));
  MPI_Allgather(&rank, 1, MPI_INT, world.data(), 1, MPI_INT, half);
  constexpr std::size_t bytes = 40000;
  Bytes memory(bytes), out(bytes);
  MPI_Win win;
  // Made one after the other: osc/rdma 4.1 names a file in /dev/shm by node, job and context id,
  // which two halves share, and takes the other half's for its own.
  for (int turn = 0; turn < 2; ++turn) {
    if (rank % 2 == turn) MPI_Win_create(memory.data(), bytes, 1, MPI_INFO_NULL, half, &win);
    MPI_Barrier(check::world);
  }
  const int to = (here + 1) % count, from = (here + count - 1) % count;
  check::fill(out.data(), bytes, {rank, world[static_cast<std::size_t>(to)], kPut, seq});
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
  MPI_Put(out.data(), bytes, MPI_BYTE, to, 0, bytes, MPI_BYTE, win);
  MPI_Win_unlock(to, win);
  MPI_Barrier(half);
  check::verify(memory.data(), bytes, {world[static_cast<std::size_t>(from)], rank, kPut, seq},
                "put within a half");
  MPI_Barrier(half);
  MPI_Win_free(&win);
  MPI_Comm_free(&half);
}

// Memory that the program itself may only read: others may read it, too.
void read_only(bool refused) {
  check::phase("windows of read-only memory");
  constexpr std::size_t bytes = 300000;
  const int right = (rank + 1) % size;
  for (const bool all : {false, true}) {
    ++seq;
    auto* const memory = static_cast<unsigned char*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(memory != MAP_FAILED, "mmap: %s", std::strerror(errno));
    check::fill(memory, bytes, {rank, -1, kGet, seq});
    if (all || rank == 0) mprotect(memory, bytes, PROT_READ);
    MPI_Win win;
    MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, check::world, &win);
    Bytes in(bytes);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
    MPI_Get(in.data(), bytes, MPI_BYTE, right, 0, bytes, MPI_BYTE, win);
    MPI_Win_unlock(right, win);
    check::verify(in.data(), bytes, {right, -1, kGet, seq}, "get of read-only memory");
    if (refused && (all || right == 0)) {
      const std::int64_t one = 1;
      MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
      MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
      CHECK(MPI_Accumulate(&one, 1, MPI_INT64_T, right, 0, 1, MPI_INT64_T, MPI_SUM, win) !=
                MPI_SUCCESS,
            "a sum in read-only memory is no error");
      MPI_Win_unlock(right, win);
    }
    MPI_Win_free(&win);
    munmap(memory, bytes);
  }
}

// One of many windows, each of which is a page.
constexpr std::size_t page = 4096;
void use_page(MPI_Win win, unsigned char* at) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  Bytes out(page / 2);
  ++seq;
  check::fill(out.data(), out.size(), {rank, right, kPut, seq});
  MPI_Win_fence(0, win);
  MPI_Put(out.data(), count_of(out.size()), MPI_BYTE, right, 0, count_of(out.size()), MPI_BYTE,
          win);
  MPI_Win_fence(0, win);
  check::verify(at, out.size(), {left, rank, kPut, seq}, "put into one of many");
}

void many(std::size_t alive, std::size_t made) {
  check::phase("many windows at a time");
  auto* const memory = static_cast<unsigned char*>(mmap(
      nullptr, (alive + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(memory != MAP_FAILED, "mmap: %s", std::strerror(errno));
  const auto create = [&](std::size_t i) {
    MPI_Win win;
    MPI_Win_create(memory + i * page, page, 1, MPI_INFO_NULL, check::world, &win);
    return win;
  };
  std::vector<MPI_Win> wins(alive);
  for (std::size_t i = 0; i < alive; ++i) wins[i] = create(i);
  for (std::size_t i = 0; i < alive; i += 50) use_page(wins[i], memory + i * page);
  for (MPI_Win& win : wins) MPI_Win_free(&win);
  check::phase("many windows one after the other");
  for (std::size_t i = 0; i < made; ++i) {
    const std::size_t place = i % (alive + 1);
    MPI_Win win = create(place);
    if (i % 50 == 0) use_page(win, memory + place * page);
    MPI_Win_free(&win);
  }
  munmap(memory, (alive + 1) * page);
}

}  // namespace

MPI_TEST(rma_windows) {
  check::Session session(argc, argv, "rma_windows");
  const int rounds = static_cast<int>(session.options.number("rounds", 5));
  const bool without_dynamic = session.options.flag("without-dynamic");
  const auto alive = static_cast<std::size_t>(session.options.number("many", 0));
  const bool refused = session.options.flag("refused");
  const auto made = static_cast<std::size_t>(session.options.number("made", 0));
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  seq = 0;
  rank = session.rank, size = session.size;

  Counters counters;
  for (int round = 0; round < rounds; ++round) {
    created_and_allocated();
    overlapping();
    shared_beside();
    on_halves();
    read_only(refused);
    if (!without_dynamic) dynamic();
  }
  if (alive + made > 0) many(alive, made);

  if (show_counters) counters.print(check::world);
  counters.close();
  return session.finish();
}
