// stream: checked traffic for some seconds, for tests in which the fabric or a process fails
// meanwhile. It says when it is under way, and how long the longest pause was.
//
//   mpirun -n 6 stream [--seconds 10] [--roles traffic,receive,compute] [--largest 20000]
//                      [--slow-ms 0] [--end exit|segfault|abort|kill] [--victim 0]
//                      [--connect-on-signal] [--no-atomics] [--posted 0] [--counters]
//
// Ranks 2i and 2i+1 are a pair; without a role for it, a pair has the last one.
//   traffic  both send and receive, all the time, every byte checked; ends together
//   receive  the even one waits in MPI_Recv for what never comes; the odd one does, too
//   compute  the even one waits like that; the odd one sleeps, makes no call of MPI, and receives
//            only --seconds later
//   beside   the odd one makes no call of MPI for --seconds; the even one sends to it all the time, a
//            few messages a second, some of them large, and waits for the answer to the last one;
//            with --posted the odd one has posted so many receives before
//   gather   all ranks flood rank 0, which sleeps for --slow-ms now and then; a role for all or none
//   rma      both put into a window of the other, get it back and add (unless --no-atomics), every
//            byte checked, while the other does the same and never waits; for all or none, except
//   target   the same of the even one alone; the odd one makes no call of MPI for --seconds
// The waiting roles end by an error only: they are for a fabric that breaks. "stream: ready" comes
// once all are at it. "stream: longest pause N ms" is of the traffic of all pairs.
//
// With --end, the victim ends like that after --seconds, in the middle of it. With
// --connect-on-signal, a rank sends and receives nothing before a SIGUSR1. SIGUSR2 is to a rank as
// if its --seconds were over.

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <sstream>
#include <vector>

#include "check.h"
#include "pvars.h"
#include "window.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr int kTag = 3, kNever = 4, kLast = 5, kWindow = 8;

int rank, size;
std::size_t largest;
double longest_pause_s = 0, seconds = 0;
std::atomic<bool> told_to_end = false;
bool is_victim = false, adds = true;
std::size_t posted = 0;
std::string ending;

bool has_time(double begin) { return MPI_Wtime() - begin < seconds && !told_to_end; }

void compute(double begin) {
  while (has_time(begin)) usleep(10000);
  std::fprintf(stderr, "stream: rank %d has computed\n", rank);
}

[[noreturn]] void end_badly() {
  std::fprintf(stderr, "stream: rank %d ends by %s\n", rank, ending.c_str());
  if (ending == "exit") std::exit(0);
  if (ending == "abort") std::abort();
  if (ending == "segfault") raise(SIGSEGV);
  raise(SIGKILL);
  std::abort();
}

void await_signal() {
  static std::atomic<bool> came = false;
  std::signal(SIGUSR1, [](int) { came = true; });
  std::fprintf(stderr, "stream: rank %d connects on a signal, pid %d\n", rank,
               static_cast<int>(getpid()));
  while (!came) usleep(10000);
}

std::size_t bytes_of(std::uint32_t seq) {
  check::Random random(check::seed * 31 + seq);
  return random.chance(70) ? random.below(200) : random.below(static_cast<std::uint32_t>(largest));
}

// Windows of messages both ways. Rank 2i says in each when it is the last.
void traffic(int partner) {
  const double begin = MPI_Wtime();
  double last = begin;
  bool more = true;
  for (std::uint32_t round = 0; more; ++round) {
    Bytes out[kWindow], in[kWindow];
    MPI_Request requests[2 * kWindow];
    MPI_Status statuses[2 * kWindow];
    for (std::uint32_t i = 0; i < kWindow; ++i) {
      const std::uint32_t seq = round * kWindow + i;
      const int n = static_cast<int>(bytes_of(seq));
      out[i].resize(static_cast<std::size_t>(n)), in[i].resize(static_cast<std::size_t>(n) + 1);
      check::fill(out[i].data(), out[i].size(), {rank, partner, kTag, seq});
      MPI_Irecv(in[i].data(), n + 1, MPI_BYTE, partner, kTag, check::world, &requests[i]);
      MPI_Isend(out[i].data(), n, MPI_BYTE, partner, kTag, check::world, &requests[kWindow + i]);
    }
    MPI_Waitall(2 * kWindow, requests, statuses);
    for (std::uint32_t i = 0; i < kWindow; ++i) {
      check::verify_status(statuses[i], partner, kTag, out[i].size(), "stream");
      check::verify(in[i].data(), out[i].size(), {partner, rank, kTag, round * kWindow + i},
                    "stream");
    }
    const double now = MPI_Wtime();
    longest_pause_s = std::max(longest_pause_s, now - last);
    last = now;
    if (is_victim && now - begin > seconds) end_badly();
    int go_on = has_time(begin) || !ending.empty();
    if (rank % 2 == 0) {
      MPI_Send(&go_on, 1, MPI_INT, partner, kTag, check::world);
    } else {
      MPI_Recv(&go_on, 1, MPI_INT, partner, kTag, check::world, MPI_STATUS_IGNORE);
    }
    more = go_on != 0;
  }
}

// Each is in memory of its own until the end, because the receiver takes nothing before.
void send_beside_computation(int partner) {
  constexpr double interval_s = 0.25;
  constexpr std::uint32_t large_every = 8;
  const auto bytes_at = [](std::uint32_t i, int tag) {
    return tag == kLast || i % large_every == 3 ? largest : bytes_of(i) % 4096;
  };
  const double begin = MPI_Wtime();
  std::uint32_t count = 0, received = 0;
  int tag = kTag;
  if (rank % 2 == 1) {
    std::vector<Bytes> in(posted + 1, Bytes(largest + 1));
    std::vector<MPI_Request> requests(posted + 1);
    const auto receive = [&](std::size_t i) {
      MPI_Irecv(in[i].data(), static_cast<int>(in[i].size()), MPI_BYTE, partner, MPI_ANY_TAG,
                check::world, &requests[i]);
    };
    for (std::size_t i = 0; i < posted; ++i) receive(i);
    compute(begin);
    for (; tag != kLast; ++received) {
      const auto at = std::min<std::size_t>(received, posted);
      const Bytes& bytes = in[at];
      MPI_Status status;
      if (at == posted) receive(at);
      MPI_Wait(&requests[at], &status);
      tag = status.MPI_TAG;
      check::verify_status(status, partner, tag, bytes_at(received, tag), "beside");
      check::verify(bytes.data(), bytes_at(received, tag), {partner, rank, tag, received}, "beside");
    }
    for (std::size_t i = received; i < posted; ++i) {
      MPI_Cancel(&requests[i]);
      MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    MPI_Send(&received, 1, MPI_UINT32_T, partner, kTag, check::world);
    return;
  }
  std::vector<Bytes> out;
  std::vector<MPI_Request> requests;
  std::vector<int> which;
  for (; tag != kLast; ++count) {
    while (has_time(begin) && MPI_Wtime() - begin < count * interval_s) {
      int done = 0;
      which.resize(requests.size());
      MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &done, which.data(),
                   MPI_STATUSES_IGNORE);
      for (int i = 0; done != MPI_UNDEFINED && i < done; ++i)
        if (const auto at = static_cast<std::uint32_t>(which[static_cast<std::size_t>(i)]);
            bytes_at(at, kTag) == largest)
          std::fprintf(stderr, "stream: message %u, a large one, has moved\n", at);
      usleep(10000);
    }
    if (!has_time(begin)) tag = kLast;
    Bytes& bytes = out.emplace_back(bytes_at(count, tag));
    check::fill(bytes.data(), bytes.size(), {rank, partner, tag, count});
    MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, partner, tag, check::world,
              &requests.emplace_back());
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  MPI_Recv(&received, 1, MPI_UINT32_T, partner, kTag, check::world, MPI_STATUS_IGNORE);
  CHECK(received == count, "of %u messages %u were received", count, received);
}

[[noreturn]] void receive_nothing(int partner) {
  int nothing;
  MPI_Recv(&nothing, 1, MPI_INT, partner, kNever, check::world, MPI_STATUS_IGNORE);
  check::fail("received what was never sent");
}

void gather(long slow_ms) {
  constexpr std::uint32_t per_round = 100;
  const double begin = MPI_Wtime();
  double last = begin;
  for (std::uint32_t round = 0;; ++round) {
    int go_on = has_time(begin);
    MPI_Bcast(&go_on, 1, MPI_INT, 0, check::world);
    if (!go_on) return;
    if (rank != 0) {
      Bytes out(largest);
      for (std::uint32_t i = 0; i < per_round; ++i) {
        const std::uint32_t seq = round * per_round + i;
        out.resize(bytes_of(seq));
        check::fill(out.data(), out.size(), {rank, 0, kTag, seq});
        MPI_Send(out.data(), static_cast<int>(out.size()), MPI_BYTE, 0, kTag, check::world);
      }
      continue;
    }
    Bytes in(largest + 1);
    for (std::uint32_t i = 0; i < per_round; ++i) {
      for (int from = 1; from < size; ++from) {
        const std::uint32_t seq = round * per_round + i;
        MPI_Status status;
        MPI_Recv(in.data(), static_cast<int>(in.size()), MPI_BYTE, from, kTag, check::world,
                 &status);
        check::verify_status(status, from, kTag, bytes_of(seq), "gather");
        check::verify(in.data(), bytes_of(seq), {from, 0, kTag, seq}, "gather");
      }
      if (i % 10 == 0) usleep(static_cast<unsigned>(slow_ms) * 1000);
    }
    longest_pause_s = std::max(longest_pause_s, MPI_Wtime() - last);
    last = MPI_Wtime();
  }
}

// What a rank puts, it gets back at once, so either would show. The window's owner looks at it at
// the end.
void one_sided(int partner, bool odd_computes) {
  const std::size_t slot = (largest + 7) / 8 * 8;
  Window window("create", 8 + slot);
  const double begin = MPI_Wtime();
  double last = begin;
  std::uint32_t round = 0;
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  const bool computes = odd_computes && rank % 2 == 1;
  if (computes) compute(begin);
  for (; !computes && (has_time(begin) || !ending.empty()); ++round) {
    Bytes out(slot), in(slot);
    check::fill(out.data(), slot, {rank, partner, kTag, round});
    const auto put = [&](std::size_t from, std::size_t bytes) {
      const int n = static_cast<int>(bytes);
      MPI_Put(out.data() + from, n, MPI_BYTE, partner, static_cast<MPI_Aint>(8 + from), n, MPI_BYTE,
              window);
    };
    const std::size_t cut = bytes_of(round) / 8 * 8;
    put(cut, slot - cut);
    put(0, cut);
    if (is_victim && MPI_Wtime() - begin > seconds) end_badly();
    MPI_Win_flush(partner, window);
    const int n = static_cast<int>(slot);
    MPI_Get(in.data(), n, MPI_BYTE, partner, 8, n, MPI_BYTE, window);
    const std::int64_t one = 1;
    std::int64_t seen = -1;
    if (adds) MPI_Fetch_and_op(&one, &seen, MPI_INT64_T, partner, 0, MPI_SUM, window);
    MPI_Win_flush(partner, window);
    check::verify(in.data(), slot, {rank, partner, kTag, round}, "what was put");
    CHECK(!adds || seen == round, "counted to %lld in round %u", static_cast<long long>(seen),
          round);
    const double now = MPI_Wtime();
    longest_pause_s = std::max(longest_pause_s, now - last);
    last = now;
  }
  MPI_Win_unlock_all(window);
  MPI_Sendrecv_replace(&round, 1, MPI_UINT32_T, partner, kTag, partner, kTag, check::world,
                       MPI_STATUS_IGNORE);
  MPI_Barrier(check::world);
  if (round > 0)
    check::verify(window.at(8), slot, {partner, rank, kTag, round - 1}, "what was put last");
}

}  // namespace

MPI_TEST(stream) {
  check::Session session(argc, argv, "stream");
  seconds = static_cast<double>(session.options.number("seconds", 10));
  largest = static_cast<std::size_t>(session.options.number("largest", 20000));
  const long slow_ms = session.options.number("slow-ms", 0);
  std::istringstream list(session.options.text("roles", "traffic"));
  ending = session.options.text("end", "");
  const bool on_signal = session.options.flag("connect-on-signal");
  posted = static_cast<std::size_t>(session.options.number("posted", 0));
  adds = !session.options.flag("no-atomics");
  const bool show_counters = session.options.flag("counters");
  is_victim = !ending.empty() && session.rank == session.options.number("victim", 0);
  session.options.done();
  rank = session.rank, size = session.size;

  std::string role, next;
  for (int pair = 0; pair <= rank / 2 && std::getline(list, next, ','); ++pair) role = next;
  CHECK(role == "traffic" || role == "receive" || role == "compute" || role == "beside" ||
            role == "gather" || role == "rma" || role == "target",
        "there is no role '%s'", role.c_str());
  CHECK(size % 2 == 0, "ranks come in pairs");
  const int partner = rank ^ 1;

  std::signal(SIGUSR2, [](int) { told_to_end = true; });
  Counters counters;
  if (on_signal) await_signal();
  check::phase("the first exchange");
  int token = rank;
  MPI_Sendrecv_replace(&token, 1, MPI_INT, partner, kTag, partner, kTag, check::world,
                       MPI_STATUS_IGNORE);
  CHECK(token == partner, "%d came from %d", token, partner);
  MPI_Barrier(check::world);
  std::fprintf(stderr, "stream: rank %d ready, pid %d\n", rank, static_cast<int>(getpid()));

  const bool waits = role == "receive" || role == "compute";
  check::phase(waits ? "waiting for what never comes" : "the traffic");
  if (role == "traffic") {
    traffic(partner);
  } else if (role == "beside") {
    send_beside_computation(partner);
  } else if (role == "gather") {
    gather(slow_ms);
  } else if (role == "rma" || role == "target") {
    one_sided(partner, role == "target");
  } else {
    if (role == "compute" && rank % 2 == 1) compute(MPI_Wtime());
    receive_nothing(partner);
  }

  check::phase("the longest pause");
  double longest = 0;
  MPI_Reduce(&longest_pause_s, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, check::world);
  if (rank == 0) std::printf("stream: longest pause %.0f ms\n", longest * 1e3);
  if (show_counters) counters.print(check::world);
  counters.close();
  return session.finish();
}
