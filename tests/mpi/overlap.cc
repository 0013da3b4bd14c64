// overlap: large messages beside computation without MPI calls. [OVL §4]
//
//   mpirun -n 2 overlap [--bytes 1M] [--count 1] [--gaps] [--compute-ms 500] [--repeat 3]
//                       [--sleep] [--counters]
//   mpirun -n 2 overlap --demand [--bytes 1M] [--count 4] [--gaps] [--threads] [--repeat 3]
//
// Rank r and rank r^1 are a pair; the even one sends. It measures who computes (the sender, the
// receiver, both), and when the announcement comes: before the computation begins, with a receive
// posted or not, or in its midst. The overlap is IMB-NBC's: what the transfer does not add to the
// computation, of the shorter of the two.
//
// With --gaps what is sent lies in blocks with gaps between them, so that ob1 copies it into
// fragments.
//
// With --demand a computation ends only when the transfer is over: when every byte is in the
// receiver's buffer, and, where the sender does not compute, its MPI_Waitall has returned. Time has
// no part in it: without overlap the program does not end. The pairs tell each other by plain
// stores to shared memory, so all ranks have to be on one node. --threads asks for the least level
// at which Open MPI locks.

#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

struct Case {
  const char* name;
  bool sender_computes;
  bool receiver_computes;
  bool posted;  // the receives are posted before the messages are sent
  bool late;    // the messages are sent when the receiver computes already
};

constexpr Case kCases[] = {
    {"sender computes", true, false, true, false},
    {"receiver computes, announced before, not posted", false, true, false, false},
    {"receiver computes, announced before, posted", false, true, true, false},
    {"receiver computes, announced meanwhile", false, true, true, true},
    {"both compute, announced meanwhile", true, true, true, true},
    {"both compute, announced before, not posted", true, true, false, false},
};

constexpr int kLateMs = 20;
constexpr int kLockingLevel = OMPI_MAJOR_VERSION < 5 ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE;
constexpr std::size_t kBlock = 1024;

int rank, partner;
bool sends, sleeps, gaps;
MPI_Datatype blocks;
std::size_t bytes;
int count;
double compute_s;
std::uint32_t sequence;
std::vector<std::vector<unsigned char>> buffers;
std::vector<std::vector<unsigned char>> scattered;  // what is sent, with gaps

// What a pair knows of each other without MPI.
struct Flags {
  std::atomic<std::uint32_t> filled;  // the receiver has so many rounds' bytes
  std::atomic<std::uint32_t> sent;    // the sender's MPI_Waitall has returned so many times
};

void compute() {
  if (sleeps) {
    usleep(static_cast<useconds_t>(compute_s * 1e6));
    return;
  }
  const double begin = MPI_Wtime();
  volatile double sum = 0;
  while (MPI_Wtime() - begin < compute_s)
    for (int i = 0; i < 1000; ++i) sum = sum + i;
}

check::Envelope envelope(int i) {
  return {sends ? rank : partner, sends ? partner : rank, 7,
          sequence * static_cast<std::uint32_t>(count) + static_cast<std::uint32_t>(i)};
}

// One round of a case; `work` is what a computing rank does meanwhile. Returns how long this rank
// took from when the round could begin.
template <typename Work>
double run(const Case& the, Work&& work) {
  ++sequence;
  std::vector<MPI_Request> requests(static_cast<std::size_t>(count), MPI_REQUEST_NULL);
  const auto n = static_cast<int>(bytes);
  const auto start = [&] {
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (sends) {
        if (gaps) {
          MPI_Isend(scattered[at].data(), 1, blocks, partner, i, check::world, &requests[at]);
        } else {
          MPI_Isend(buffers[at].data(), n, MPI_BYTE, partner, i, check::world, &requests[at]);
        }
      } else {
        MPI_Irecv(buffers[at].data(), n, MPI_BYTE, partner, i, check::world, &requests[at]);
      }
    }
  };
  for (int i = 0; i < count; ++i) {
    auto& buffer = buffers[static_cast<std::size_t>(i)];
    if (sends) {
      check::fill(buffer.data(), bytes, envelope(i));
      for (std::size_t at = 0; gaps && at < bytes; at += kBlock)
        std::memcpy(&scattered[static_cast<std::size_t>(i)][2 * at], &buffer[at], kBlock);
    } else {
      std::fill(buffer.begin(), buffer.end(), static_cast<unsigned char>(0));
    }
  }
  const auto settle = [] {  // the announcements are there, and were looked at
    usleep(10000);
    MPI_Barrier(check::world);
  };
  MPI_Barrier(check::world);
  double begin = 0;
  if (!the.posted) {
    if (sends) start();
    settle();
    begin = MPI_Wtime();
    if (!sends) start();
  } else if (the.late) {
    if (!sends) start();
    MPI_Barrier(check::world);
    if (sends) usleep(kLateMs * 1000);
    begin = MPI_Wtime();
    if (sends) start();
  } else {
    if (!sends) start();
    settle();
    begin = MPI_Wtime();
    if (sends) start();
    // Until the announcement has come, and the transfer is under way.
    int done = 0;
    while (the.receiver_computes && !sends && MPI_Wtime() - begin < 0.02)
      MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
    if (!sends) begin = MPI_Wtime();
  }
  if (sends ? the.sender_computes : the.receiver_computes) work();
  MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
  const double took = MPI_Wtime() - begin;
  if (!sends)
    for (int i = 0; i < count; ++i)
      check::verify(buffers[static_cast<std::size_t>(i)].data(), bytes, envelope(i), "message");
  return took;
}

void measure(const Case& the, int repeat) {
  check::phase(the.name);
  std::vector<double> alone, beside;
  for (int i = 0; i < repeat; ++i) alone.push_back(run(the, [] {}));
  for (int i = 0; i < repeat; ++i) beside.push_back(run(the, compute));
  std::sort(alone.begin(), alone.end());
  std::sort(beside.begin(), beside.end());
  double pure = alone[alone.size() / 2], total = beside[beside.size() / 2];
  if (the.late) {  // alone, the receiver also waits for the sender to begin
    double other = 0;
    MPI_Sendrecv(&pure, 1, MPI_DOUBLE, partner, 9, &other, 1, MPI_DOUBLE, partner, 9, check::world,
                 MPI_STATUS_IGNORE);
    if (!sends) pure = other;
  }
  const bool computes = sends ? the.sender_computes : the.receiver_computes;
  double share = 100 * std::clamp((pure + compute_s - total) / std::min(pure, compute_s), 0.0, 1.0);
  double rest = 1e3 * (total - compute_s);
  // Of a sender that does not compute: how much longer than alone it waits.
  if (!computes) share = -1, rest = 1e3 * (total - pure);
  double of_both[2] = {share, rest}, of_partner[2];
  MPI_Sendrecv(of_both, 2, MPI_DOUBLE, partner, 9, of_partner, 2, MPI_DOUBLE, partner, 9,
               check::world, MPI_STATUS_IGNORE);
  if (rank != 0) return;
  std::printf("overlap: %d x %zu KiB, alone %.1f ms, %s:", count, bytes >> 10, 1e3 * pure,
              the.name);
  const auto say = [](const char* who, const double* of, bool it_computes) {
    if (it_computes) {
      std::printf(" %s %.0f %% (%.1f ms on top)", who, of[0], of[1]);
    } else {
      std::printf(" %s waits %.1f ms longer than alone", who, std::max(0.0, of[1]));
    }
  };
  say("sender", of_both, the.sender_computes);
  std::printf(";");
  say("receiver", of_partner, the.receiver_computes);
  std::printf("\n");
  std::fflush(stdout);
}

// What the transport takes of a core while nothing moves and nobody calls MPI.
void idle() {
  check::phase("idle");
  MPI_Barrier(check::world);
  sleep(1);  // what was under way is over
  const auto cpu_s = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  };
  const double begin = MPI_Wtime(), before = cpu_s();
  sleep(5);
  double share = 100 * (cpu_s() - before) / (MPI_Wtime() - begin), most = 0;
  MPI_Reduce(&share, &most, 1, MPI_DOUBLE, MPI_MAX, 0, check::world);
  if (rank == 0) std::printf("overlap: idle, %.3f %% of a core\n", most);
}

// Computes until it is over, however long that takes.
void demand(const Case& the, Flags& flags) {
  check::phase(the.name);
  run(the, [&] {
    if (sends) {
      while (flags.filled.load() < sequence) usleep(100);
      return;
    }
    for (int i = 0; i < count; ++i) {
      const auto& buffer = buffers[static_cast<std::size_t>(i)];
      while (check::first_wrong(buffer.data(), bytes, envelope(i)) < bytes) usleep(1000);
    }
    flags.filled.store(sequence);
    if (!the.sender_computes)
      while (flags.sent.load() < sequence) usleep(100);
  });
  (sends ? flags.sent : flags.filled).store(sequence);
}

}  // namespace

MPI_TEST(overlap) {
  const bool threads = std::find(argv, argv + argc, std::string("--threads")) != argv + argc;
  check::Session session(argc, argv, "overlap", threads ? kLockingLevel : MPI_THREAD_SINGLE);
  session.options.flag("threads");
  bytes = static_cast<std::size_t>(session.options.number("bytes", 1 << 20));
  compute_s = static_cast<double>(session.options.number("compute-ms", 500)) / 1e3;
  const bool demands = session.options.flag("demand");
  count = static_cast<int>(session.options.number("count", demands ? 4 : 1));
  const int repeat = static_cast<int>(session.options.number("repeat", 3));
  sleeps = session.options.flag("sleep");
  gaps = session.options.flag("gaps");
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  CHECK(session.size % 2 == 0, "ranks come in pairs");
  rank = session.rank, partner = rank ^ 1, sends = rank % 2 == 0;
  sequence = 0;
  buffers.assign(static_cast<std::size_t>(count), std::vector<unsigned char>(bytes));

  CHECK(!gaps || bytes % kBlock == 0, "with --gaps whole KiB are sent");
  if (gaps)
    scattered.assign(static_cast<std::size_t>(count), std::vector<unsigned char>(2 * bytes));
  MPI_Type_vector(static_cast<int>(bytes / kBlock), kBlock, 2 * kBlock, MPI_BYTE, &blocks);
  MPI_Type_commit(&blocks);

  if (demands) {
    MPI_Win win;
    void* own = nullptr;
    MPI_Win_allocate_shared(sends ? sizeof(Flags) : 0, 1, MPI_INFO_NULL, check::world, &own, &win);
    MPI_Aint size;
    int unit;
    void* at = nullptr;
    MPI_Win_shared_query(win, sends ? rank : partner, &size, &unit, &at);
    auto* const flags = static_cast<Flags*>(at);
    if (sends) new (flags) Flags{};
    MPI_Barrier(check::world);
    for (int i = 0; i < repeat; ++i)
      for (const Case& the : kCases) demand(the, *flags);
    MPI_Win_free(&win);
  } else {
    for (const Case& the : kCases) measure(the, repeat);
    idle();
  }
  MPI_Type_free(&blocks);
  if (show_counters) print_counters(check::world);
  return session.finish();
}
