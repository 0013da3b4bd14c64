// ulfm: processes die, and the others go on (MPI's fault tolerance, Open MPI 5: mpirun --with-ft
// ulfm). They see the failure, revoke the communicator, shrink it, agree, and go on with checked
// traffic.
//
//   mpirun --with-ft ulfm -n 5 ulfm [--phase idle] [--victims last|first|odd|RANK] [--at-once 1]
//                                   [--deaths 1] [--replace] [--largest 20000] [--threads]
//
// Phases: what is under way when the victims are killed
//   idle     half of the others wait for a message of the victim, half in a barrier
//   flood    all send to all, up to --largest bytes a message
//   put      the same, each with puts into a window of its neighbour; the window is given up then
//   lock     all others lock the window of the victim, in turn
//   share    the same, with shared locks
//   hold     as flood, while each victim holds a lock of a window of one that lives
//   connect  nobody has sent anything yet, and all begin with all at the time of death; one death
//   finalize all leave; one death
//   cut      as flood, but somebody else cuts the victims off. When they notice, they do nothing
//            more, and wait to be killed; one death
// --deaths: one after the other, each with the next victims. --replace: after each, as many new
// processes are spawned. --timeout is for each death. --threads: a second thread sends beside.
// After each death it says for how long the first error and the shrunk communicator were awaited,
// the longest of all ranks, by one clock of one host. Then weir's counters must say that everything
// of the dead came back: connections, tokens, reads and buffers.

#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#ifdef OMPI_HAVE_MPI_EXT_FTMPI

#include <time.h>

#include <thread>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr int kTag = 3, kNever = 4, kCheck = 5;
constexpr int kWindow = 4;       // messages to each at a time
constexpr int kBytes = 1 << 18;  // of a window that is put to
constexpr double kLead_s = 0.3;  // from the agreement on the time of death to it
constexpr double kComesBack_s = 20;

std::uint64_t largest;
std::string phase, whom;
int at_once;
bool multiple;  // threads
int self;       // by which every byte is made: the number in its world; those of spawned ones go on

double clock_s() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

bool uses_windows() {
  return phase == "put" || phase == "lock" || phase == "share" || phase == "hold";
}

int rank_in(MPI_Comm comm) {
  int rank;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int size_of(MPI_Comm comm) {
  int size;
  MPI_Comm_size(comm, &size);
  return size;
}

int class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  return error_class;
}

bool is_of_a_death(int code) {
  const int error = class_of(code);
  return error == MPIX_ERR_PROC_FAILED || error == MPIX_ERR_PROC_FAILED_PENDING ||
         error == MPIX_ERR_REVOKED;
}

// True: it is a death.
bool failed(int code, const char* what) {
  if (code == MPI_SUCCESS) return false;
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  CHECK(is_of_a_death(code), "%s: %s", what, text);
  return true;
}

// ---- one that dies ------------------------------------------------------------------------------

// The kernel does it, whatever the process is at.
void die_at(double when_s) {
  sigevent kill{};
  kill.sigev_notify = SIGEV_SIGNAL;
  kill.sigev_signo = SIGKILL;
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &kill, &timer) == 0, "no timer");
  itimerspec time{};
  time.it_value.tv_sec = static_cast<time_t>(when_s);
  time.it_value.tv_nsec =
      static_cast<long>((when_s - static_cast<double>(time.it_value.tv_sec)) * 1e9);
  CHECK(timer_settime(timer, TIMER_ABSTIME, &time, nullptr) == 0, "no timer");
}

// ---- traffic ------------------------------------------------------------------------------------

// All to all, checked, until somebody fails or for so many rounds. Keeps what is under way, for
// `drain`.
class Flood {
 public:
  Flood(MPI_Comm comm, int tag)
      : comm_(comm), tag_(tag), size_(size_of(comm)), rank_(rank_in(comm)) {
    numbers_.resize(static_cast<std::size_t>(size_), 0);
  }

  // The numbers of all: what their bytes are made by. False: somebody has failed.
  bool introduce() {
    return !failed(MPI_Allgather(&self, 1, MPI_INT, numbers_.data(), 1, MPI_INT, comm_),
                   "allgather");
  }
  void number_by_rank() {
    for (int i = 0; i < size_; ++i) numbers_[static_cast<std::size_t>(i)] = i;
  }

  // False: somebody has failed.
  bool round(std::uint32_t round, std::uint64_t most) {
    bool good = begin(round, most);
    for (std::size_t i = 0; good && i < requests_.size(); ++i) good = wait(i);
    return good;
  }

  // Rounds from this one on, until somebody fails.
  void on(std::uint32_t from) {
    for (std::uint32_t i = from; round(i, largest); ++i) {
    }
  }

  // Waits for what is under way, on a revoked communicator.
  void drain() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] != MPI_REQUEST_NULL) wait(i);
    }
  }

 private:
  struct Message {
    bool comes;
    check::Envelope envelope;
    Bytes bytes;
  };

  // Each alone: on a revoked communicator MPI_Waitall of Open MPI 5.0.7 frees requests that are
  // under way, and ends the process when they complete.
  bool wait(std::size_t i) {
    MPI_Status status;
    if (failed(MPI_Wait(&requests_[i], &status), "a message")) return false;
    if (messages_[i].comes) check(i, status);
    return true;
  }

  bool begin(std::uint32_t round, std::uint64_t most) {
    messages_.clear();
    requests_.clear();
    for (int shift = 1; shift < size_; ++shift) {
      for (std::uint32_t i = 0; i < kWindow; ++i) {
        add(true, (rank_ + size_ - shift) % size_, round * kWindow + i, most);
        add(false, (rank_ + shift) % size_, round * kWindow + i, most);
      }
    }
    // Only now, because the vector has moved its messages.
    bool good = true;
    for (std::size_t i = 0; good && i < messages_.size(); ++i) {
      Message& message = messages_[i];
      const int n = static_cast<int>(message.bytes.size()), peer = peers_[i];
      if (!message.comes) check::fill(message.bytes.data(), message.bytes.size(), message.envelope);
      const int code =
          message.comes
              ? MPI_Irecv(message.bytes.data(), n, MPI_BYTE, peer, tag_, comm_, &requests_[i])
              : MPI_Isend(message.bytes.data(), n, MPI_BYTE, peer, tag_, comm_, &requests_[i]);
      good = !failed(code, "the start of a message");
    }
    return good;
  }

  void add(bool comes, int peer, std::uint32_t seq, std::uint64_t most) {
    const int other = numbers_[static_cast<std::size_t>(peer)];
    const check::Envelope envelope{comes ? other : self, comes ? self : other, tag_, seq};
    check::Random random(check::key_of(envelope));
    const std::uint64_t bytes = seq % kWindow == 0 ? most : random.below(300);
    peers_.resize(messages_.size() + 1);
    peers_.back() = peer;
    messages_.push_back({comes, envelope, Bytes(bytes)});
    requests_.push_back(MPI_REQUEST_NULL);
  }

  void check(std::size_t i, const MPI_Status& status) {
    const Message& message = messages_[i];
    check::verify_status(status, peers_[i], tag_, message.bytes.size(), "a message");
    check::verify(message.bytes.data(), message.bytes.size(), message.envelope, "a message");
  }

  const MPI_Comm comm_;
  const int tag_, size_, rank_;
  std::vector<int> numbers_, peers_;
  std::vector<Message> messages_;
  std::vector<MPI_Request> requests_;
};

// ---- the phases: each returns when this rank has seen that somebody failed ----------------------

void idle(MPI_Comm comm, int victim) {
  int never = 0;
  const int code = rank_in(comm) % 2 == 0
                       ? MPI_Recv(&never, 1, MPI_INT, victim, kNever, comm, MPI_STATUS_IGNORE)
                       : MPI_Barrier(comm);
  CHECK(failed(code, "waiting for the dead"), "what needs the dead has succeeded");
}

// Before the death: Open MPI 5.0.7 may crash if somebody dies in it. Its memory is never freed,
// because others may write into it for as long as they have not noticed.
MPI_Win open_window(MPI_Comm comm) {
  auto* const memory = new Bytes(kBytes);
  MPI_Win window;
  MPI_Win_create(memory->data(), kBytes, 1, MPI_INFO_NULL, comm, &window);
  MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
  return window;
}

void use_window(MPI_Comm comm, MPI_Win window, Flood& flood, int victim) {
  const bool locks = phase != "put";
  const int kind = phase == "lock" ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
  auto* const mine = new Bytes(kBytes, static_cast<unsigned char>(self));
  const int rank = rank_in(comm), target = locks ? victim : (rank + 1) % size_of(comm);
  if (!locks) MPI_Win_lock_all(0, window);
  for (std::uint32_t round = 0;; ++round) {
    if (target != rank) {
      if (locks) MPI_Win_lock(kind, target, 0, window);
      MPI_Put(mine->data(), kBytes, MPI_BYTE, target, 0, kBytes, MPI_BYTE, window);
      locks ? MPI_Win_unlock(target, window) : MPI_Win_flush(target, window);
    }
    if (!flood.round(round, 100)) return;
  }
}

// A victim locks the window of one that lives, and does not give it back.
void hold_lock(MPI_Comm comm, bool dies) {
  constexpr int n = 1 << 10;
  auto* const memory = new Bytes(n);
  MPI_Win window;
  MPI_Win_create(memory->data(), n, 1, MPI_INFO_NULL, comm, &window);
  if (dies) {
    const int target = (rank_in(comm) + 1) % size_of(comm);
    const int mine = self;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
    MPI_Put(&mine, 1, MPI_INT, target, 0, 1, MPI_INT, window);
    MPI_Win_flush(target, window);
  }
  MPI_Barrier(comm);
}

// A new window of the living: all lock the first one's in turn, and each leaves its rank there.
void use_new_window(MPI_Comm comm) {
  check::phase("a new window");
  const int rank = rank_in(comm), size = size_of(comm);
  std::vector<int> memory(static_cast<std::size_t>(size), -1);
  MPI_Win window;
  CHECK(MPI_Win_create(memory.data(), static_cast<MPI_Aint>(memory.size() * sizeof(int)),
                       sizeof(int), MPI_INFO_NULL, comm, &window) == MPI_SUCCESS,
        "no new window");
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
  MPI_Put(&rank, 1, MPI_INT, 0, rank, 1, MPI_INT, window);
  MPI_Win_unlock(0, window);
  CHECK(MPI_Barrier(comm) == MPI_SUCCESS, "somebody else died");
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
  for (int i = 0; i < size; ++i) {
    CHECK(rank != 0 || memory[static_cast<std::size_t>(i)] == i, "rank %d has put nothing", i);
  }
  MPI_Win_unlock(rank, window);
  MPI_Win_free(&window);
}

// ---- what weir has ------------------------------------------------------------------------------

// Of weir; 0 for other transports.
double counter(const Counters::Values& values, const std::string& name) {
  for (const auto& [known, value] : values) {
    if (known == "btl_weir_" + name) return value;
  }
  return 0;
}

// What is left although nothing is under way among the living; "" if nothing is.
std::string left_over(const Counters::Values& now, int size) {
  const double connections = counter(now, "connections_open");
  if (connections >= size) return std::to_string(connections) + " connections are open";
  const double credits = counter(now, "credits_out"), buffers = counter(now, "receives_posted");
  if (credits > buffers)
    return std::to_string(credits) + " credits for " + std::to_string(buffers) + " buffers";
  for (const char* name : {"tokens_out", "reads_out", "receives_held"}) {
    if (counter(now, name) != 0) return std::string(name) + " is not 0";
  }
  return "";
}

// Nothing of the dead is left. Messages of the living may still come, and another process may have
// told this one of the death before the runtime does, so it may take a moment.
void check_resources(Counters& counters, MPI_Comm comm) {
  check::phase("what weir has comes back");
  std::string left;
  for (const double begin = clock_s(); clock_s() - begin < kComesBack_s;) {
    left = left_over(counters.read(), size_of(comm));
    if (left.empty()) return;
    int any;
    MPI_Iprobe(MPI_ANY_SOURCE, kNever, comm, &any, MPI_STATUS_IGNORE);
  }
  check::fail("%s", left.c_str());
}

// ---- a death ------------------------------------------------------------------------------------

std::vector<int> victims_in(MPI_Comm comm) {
  const int size = size_of(comm);
  std::vector<int> victims;
  for (int i = 0; i < (whom == "odd" ? size / 2 : at_once); ++i) {
    victims.push_back(whom == "last"    ? size - 1 - i
                      : whom == "first" ? i
                      : whom == "odd"   ? 2 * i + 1
                                        : std::stoi(whom) + i);
  }
  return victims;
}

// When it is to be. The agreement needs messages, except while nobody is to send any.
double time_of_death(MPI_Comm comm) {
  if (phase == "connect") return static_cast<double>(static_cast<long>(clock_s()) + 2);
  double when = clock_s() + kLead_s;
  MPI_Bcast(&when, 1, MPI_DOUBLE, 0, comm);
  return when;
}

void check_who_died(MPI_Comm comm, const std::vector<int>& victims) {
  MPI_Group all, dead;
  MPIX_Comm_failure_ack(comm);
  MPIX_Comm_failure_get_acked(comm, &dead);
  MPI_Comm_group(comm, &all);
  int count;
  MPI_Group_size(dead, &count);
  std::vector<int> ranks(static_cast<std::size_t>(count)), numbers(ranks.size());
  for (int i = 0; i < count; ++i) ranks[static_cast<std::size_t>(i)] = i;
  MPI_Group_translate_ranks(dead, count, ranks.data(), all, numbers.data());
  for (const int number : numbers) {
    CHECK(std::find(victims.begin(), victims.end(), number) != victims.end(),
          "rank %d of the communicator counts as dead, and lives", number);
  }
  MPI_Group_free(&all);
  MPI_Group_free(&dead);
}

double most_of_all(double mine, MPI_Comm comm) {
  double most;
  CHECK(MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, comm) == MPI_SUCCESS,
        "allreduce of the living");
  return most;
}

// Of a second thread: until somebody fails.
void flood_beside(MPI_Comm comm) {
  Flood flood(comm, kTag);
  if (flood.introduce()) flood.on(0);
  MPIX_Comm_revoke(comm);
  flood.drain();
}

// As the test waits for it.
template <typename... Values>
void say(const char* format, Values... values) {
  std::fprintf(stderr, "ulfm: rank %d ", self);
  std::fprintf(stderr, format, values...);
  std::fprintf(stderr, "\n");
}

// Some processes of `comm` die. Returns the communicator of the others.
MPI_Comm survive(MPI_Comm comm, std::uint32_t death) {
  const std::vector<int> victims = victims_in(comm);
  const int rank = rank_in(comm), size = size_of(comm);
  const bool dies = std::find(victims.begin(), victims.end(), rank) != victims.end();
  Flood flood(comm, kTag);
  if (phase == "connect") {
    flood.number_by_rank();
  } else {
    CHECK(flood.introduce(), "somebody died before its time");
    CHECK(flood.round(0, 70000), "somebody died before its time");
  }
  MPI_Comm beside = MPI_COMM_NULL;
  std::thread sender;
  if (multiple) {
    CHECK(MPI_Comm_dup(comm, &beside) == MPI_SUCCESS, "somebody died before its time");
    sender = std::thread(flood_beside, beside);
  }
  if (phase == "hold") hold_lock(comm, dies);
  MPI_Win window = MPI_WIN_NULL;
  if (uses_windows() && phase != "hold") window = open_window(comm);
  if (phase == "cut") say("is ready, pid %d", static_cast<int>(getpid()));
  const double begin = time_of_death(comm);
  check::Random random(check::seed * 131 + death);
  const double when = begin + 1e-6 * random.below(20000);
  if (dies && phase != "cut") die_at(when);

  check::phase("waiting for the death");
  if (phase == "connect") usleep(static_cast<useconds_t>(std::max(0.0, begin - clock_s()) * 1e6));
  if (phase == "idle") idle(comm, victims.front());
  if (window != MPI_WIN_NULL) use_window(comm, window, flood, victims.front());
  if (phase == "flood" || phase == "connect" || phase == "hold" || phase == "cut") flood.on(1);
  const double error_s = clock_s() - when;
  if (phase == "cut") say("has an error");
  while (dies && phase == "cut") pause();
  CHECK(!dies, "the victim sees the death of another one");

  check::phase("revoke");
  MPIX_Comm_revoke(comm);
  if (multiple) {
    MPIX_Comm_revoke(beside);
    sender.join();
    MPI_Comm_free(&beside);
  }
  check::phase("what is under way ends");
  flood.drain();
  check::phase("shrink");
  MPI_Comm living;
  CHECK(MPIX_Comm_shrink(comm, &living) == MPI_SUCCESS, "shrink failed");
  MPI_Comm_set_errhandler(living, MPI_ERRORS_RETURN);
  const double shrink_s = clock_s() - when;
  if (phase == "cut") say("has shrunk");
  const int left = size - static_cast<int>(victims.size());
  CHECK(size_of(living) == left, "%d of %d live, and not %d", size_of(living), size, left);
  check_who_died(comm, victims);
  check::phase("agree");
  int flag = ~(1 << rank_in(living));
  CHECK(MPIX_Comm_agree(living, &flag) == MPI_SUCCESS, "agree failed");
  CHECK((flag & ((1 << size_of(living)) - 1)) == 0, "they agree on %x", flag);

  const double first_s = most_of_all(error_s, living), whole_s = most_of_all(shrink_s, living);
  if (rank_in(living) == 0 && phase != "cut") {
    std::printf("ulfm: death %u in %s: error after %.1f ms, shrunk after %.1f ms\n", death,
                phase.c_str(), 1e3 * first_s, 1e3 * whole_s);
    std::fflush(stdout);
  }
  if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
  return living;
}

// The living go on, and weir has nothing of the dead any more.
void go_on(MPI_Comm comm, Counters& counters) {
  check::phase("traffic after the death");
  Flood flood(comm, kCheck);
  CHECK(flood.introduce(), "somebody else died");
  for (std::uint32_t round = 0; round < 10; ++round) {
    // Among many processes a large message each takes long.
    CHECK(flood.round(round, round % 5 == 0 && size_of(comm) < 6 ? 1 << 20 : 4000),
          "somebody else died");
  }
  if (uses_windows()) use_new_window(comm);
  MPI_Barrier(comm);
  check_resources(counters, comm);
}

// Those that spawn, and the spawned ones behind them; all agree on which death is next.
MPI_Comm merge(MPI_Comm with_others, bool is_new, std::uint32_t& death) {
  check::phase("joining");
  MPI_Comm whole;
  CHECK(MPI_Intercomm_merge(with_others, is_new, &whole) == MPI_SUCCESS, "merge failed");
  MPI_Comm_set_errhandler(whole, MPI_ERRORS_RETURN);
  MPI_Comm_free(&with_others);  // else MPI_Finalize waits for the dead among them
  CHECK(MPI_Bcast(&death, 1, MPI_UINT32_T, 0, whole) == MPI_SUCCESS, "broadcast failed");
  return whole;
}

// The living, and behind them new processes in place of the dead.
MPI_Comm replace_dead(MPI_Comm living, char** argv, std::uint32_t next) {
  check::phase("spawn");
  MPI_Comm with_new;
  const double begin = clock_s();
  CHECK(MPI_Comm_spawn(argv[0], argv + 1, at_once, MPI_INFO_NULL, 0, living, &with_new,
                       MPI_ERRCODES_IGNORE) == MPI_SUCCESS,
        "spawn failed");
  const MPI_Comm whole = merge(with_new, false, next);
  const double took_s = most_of_all(clock_s() - begin, living);
  if (rank_in(living) == 0) {
    std::printf("ulfm: replaced after %.1f ms\n", 1e3 * took_s);
    std::fflush(stdout);
  }
  if (living != MPI_COMM_WORLD) MPI_Comm_free(&living);
  return whole;
}

int die_in_finalize(const check::Session& session, Counters& counters) {
  const double when = time_of_death(MPI_COMM_WORLD);
  const std::vector<int> victims = victims_in(MPI_COMM_WORLD);
  if (std::find(victims.begin(), victims.end(), session.rank) != victims.end()) die_at(when);
  counters.close();
  check::phase("MPI_Finalize");
  usleep(static_cast<useconds_t>(std::max(0.0, when - 0.001 - clock_s()) * 1e6));
  MPI_Finalize();
  if (session.rank == (victims.front() == 0 ? at_once : 0)) std::printf("ulfm: ok, all left\n");
  return 0;
}

}  // namespace

MPI_TEST(ulfm) {
  multiple = std::find(argv, argv + argc, std::string("--threads")) != argv + argc;
  check::Session session(argc, argv, "ulfm", multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
  phase = session.options.text("phase", "idle");
  whom = session.options.text("victims", "last");
  at_once = static_cast<int>(session.options.number("at-once", 1));
  const auto deaths = static_cast<std::uint32_t>(session.options.number("deaths", 1));
  const bool replace = session.options.flag("replace");
  largest = static_cast<std::uint64_t>(session.options.number("largest", 20000));
  session.options.flag("threads");
  session.options.done();
  const std::vector<std::string> phases = {"idle", "flood",   "put",      "lock", "share",
                                           "hold", "connect", "finalize", "cut"};
  CHECK(std::find(phases.begin(), phases.end(), phase) != phases.end(), "there is no --phase %s",
        phase.c_str());
  MPI_Comm parent, comm = MPI_COMM_WORLD;
  MPI_Comm_get_parent(&parent);
  std::uint32_t first = 0;
  if (parent != MPI_COMM_NULL) comm = merge(parent, true, first);
  self = check::rank = static_cast<int>(1000 * first) + session.rank;
  CHECK(size_of(comm) > at_once * static_cast<int>(replace ? 1 : deaths) + 1,
        "nobody is left to go on");

  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Counters counters;
  for (std::uint32_t death = first; death < deaths; ++death) {
    alarm(check::limit_s);
    if (phase == "finalize") return die_in_finalize(session, counters);
    comm = survive(comm, death);
    go_on(comm, counters);
    if (replace) comm = replace_dead(comm, argv, death + 1);
  }
  alarm(check::limit_s);
  counters.close();
  check::world = comm;
  session.rank = rank_in(comm);
  return session.finish();
}

#endif
