#include "transport/btl/overlap.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <exception>
#include <optional>
#include <system_error>

#include "transport/btl/module.h"
#include "transport/drive/absence.h"
#include "transport/verbs/blocked_signals.h"

namespace weir::btl {
namespace {

// Messages handed up at a time. An application that comes back waits for at most these.
constexpr int most_in_a_turn = 32;

// A visit wakes the thread from a pause of at least this length, because that is a system call.
constexpr Duration worth_a_call = milliseconds(1);

void sleep_for(Duration duration) {
  const timespec time{duration.ns / 1000000000, duration.ns % 1000000000};
  nanosleep(&time, nullptr);
}

// nullptr if it cannot be found. Looked up at run time, because a program may have loaded libmpi
// privately.
const void* variable_of_mpi(const char* name) {
  void* const libmpi = dlopen(libmpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (libmpi == nullptr) return nullptr;
  const void* const variable = dlsym(libmpi, name);
  dlclose(libmpi);
  return variable;
}

const std::int32_t* state_of_mpi() {
  return static_cast<const std::int32_t*>(variable_of_mpi("ompi_mpi_state"));
}

// Once MPI_Init is over, it stays loaded or not.
bool osc_pt2pt_is_loaded() {
  static const bool is_loaded = [] {
    void* const component = dlopen("mca_osc_pt2pt.so", RTLD_LAZY | RTLD_NOLOAD);
    if (component != nullptr) dlclose(component);
    return component != nullptr;
  }();
  return is_loaded;
}

// Why no thread of ours may call ob1 here, whatever the settings; "" if it may.
std::string why_unsound() {
  if (*why_no_second_thread != '\0') return why_no_second_thread;
  const std::int32_t* const state = state_of_mpi();
  if (state == nullptr) return "the state of MPI cannot be seen (ompi_mpi_state)";
  // Nothing would tell when MPI_Session_finalize begins.
  if (__atomic_load_n(state, __ATOMIC_ACQUIRE) < mpi_is_being_made) {
    return "MPI_Session_init was called before MPI_Init";
  }
  return "";
}

}  // namespace

wire::Wakes Overlap::wanted(const config::Settings& settings, std::string& why) {
  using wire::Wakes;
  if (settings.overlap == "off") return Wakes::none;
  const bool asked = settings.overlap != "auto";
  // Where neither settings nor program ask for threads, Open MPI's locks stay idle.
  // On a full node the thread would take a CPU from a process that has work.
  if (!asked && (!opal_using_threads() || node_is_full())) return Wakes::none;
  why = why_unsound();
  if (why.empty() && asked && !may_be_used_by_ob1()) why = "the PML is not ob1 (--mca pml ob1)";
  if (!why.empty()) {
    if (!asked) why.clear();
    return Wakes::none;
  }
  // Open MPI sets it before it opens BTLs, if at all, and never takes it back. While it opens them
  // it holds no lock that this makes real: 5.0's instance_lock is always real.
  if (asked) opal_set_using_threads(true);
  return settings.overlap == "all" ? Wakes::all : Wakes::answers;
}

Overlap::Overlap(Module& module, wire::Wakes wakes)
    : module_(module),
      mpi_state_(state_of_mpi()),
      windows_(static_cast<const opal_pointer_array_t*>(variable_of_mpi("ompi_mpi_windows"))),
      moves_all_(wakes == wire::Wakes::all) {}

Overlap::~Overlap() {
  end();
  if (bell_ >= 0) ::close(bell_);
}

bool Overlap::start(std::string& why) {
  bell_ = eventfd(0, EFD_CLOEXEC);
  if (bell_ < 0) {
    why = std::string("cannot make an eventfd: ") + std::strerror(errno);
    return false;
  }
  const verbs::BlockedSignals blocked;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& problem) {
    why = std::string("cannot start its thread: ") + problem.what();
  }
  if (thread_.joinable()) {
    module_.for_each_engine([&](Engine& engine) { engine.set_bell(bell_, *module_.engine); });
  }
  return thread_.joinable();
}

void Overlap::end() {
  std::lock_guard guard(end_lock_);
  if (thread_.joinable()) {
    ending_.store(true, std::memory_order_release);
    ring();
    thread_.join();
  }
  ended_.store(true, std::memory_order_release);
}

void Overlap::run() {
  pthread_setname_np(pthread_self(), "weir-overlap");
  prctl(PR_SET_TIMERSLACK, 1000ul);
  thread_id_.store(this_thread(), std::memory_order_relaxed);
  while (await_bell()) stand_in();
}

// Waits for the bell, which a visit may ring, too. False: the thread is to end.
bool Overlap::await_bell() {
  UnaskedTurns turns;
  while (moves_all_ && doze(turns)) {
  }
  std::uint64_t rings = 0;
  if (::read(bell_, &rings, sizeof rings) < 0 && errno != EINTR) return false;
  return !ending_.load(std::memory_order_acquire);
}

// Lets Open MPI make progress if the application computes, then waits for a while. False: the bell
// was rung.
bool Overlap::doze(UnaskedTurns& turns) {
  visits_ = module_.engine->visits();
  const Duration pause = turns.pause(Engine::clock(), visits_);
  if (turns.is_away() && may_go_on()) progress_all();
  pollfd bell{bell_, POLLIN, 0};
  const timespec patience{pause.ns / 1000000000, pause.ns % 1000000000};
  const bool is_woken = turns.is_away() && pause >= worth_a_call;
  const auto is_visited = [this] { return module_.engine->visited_since(visits_); };
  if (is_woken && !doze_.begin(is_visited)) return true;
  const bool is_rung = ::ppoll(&bell, 1, &patience, nullptr) != 0;
  doze_.end();
  return !is_rung;
}

void Overlap::ring() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(bell_, &one, sizeof one);
}

void Overlap::stand_in() {
  module_.engine->count(&Counters::overlap_wakeups);
  std::uint64_t seen = 0;
  module_.for_each_engine([&](Engine& engine) { seen = std::max(seen, engine.visits_when_rung()); });
  begin(seen);
  while (const std::optional<Duration> pause = turn()) sleep_for(*pause);
}

bool Overlap::waits(std::uint64_t& visits) {
  bool any = false;
  module_.for_each_engine([&](Engine& engine) { any = engine.waits_for_application(visits) || any; });
  return any && !ending_.load(std::memory_order_acquire) && mpi_state() <= mpi_is_ready;
}

int Overlap::hand_up_some(std::uint64_t visits) {
  if (!may_go_on()) return 0;
  const Time since = Engine::clock();
  visits_ = visits;
  const int count = hand_up();
  if (moves_all_ && count > 0) progress_all();
  spent_.ns += (Engine::clock() - since).ns;
  module_.engine->count(&Counters::overlap_time, static_cast<std::uint64_t>(spent_.ns / 1000));
  spent_.ns %= 1000;
  return count;
}

// The progress of osc/pt2pt, which 4.1 has, is not for two threads: it takes messages from a list
// under a lock and handles them without one (open-mpi/ompi#2614). It begins with the first window.
void Overlap::progress_all() {
  const auto used = [this] {
    return __atomic_load_n(&windows_->size, __ATOMIC_RELAXED) -
           __atomic_load_n(&windows_->number_free, __ATOMIC_RELAXED);
  };
  const bool has_windows = windows_ == nullptr || used() > 1;  // MPI_WIN_NULL is one of them
  if (has_windows && osc_pt2pt_is_loaded()) return;
  opal_progress();
}

void Overlap::called_in_vain() {
  module_.for_each_engine([](Engine& engine) { engine.rang_in_vain(); });
}

int Overlap::hand_up() {
  in_upcall_ = true;
  const int count = stand_in_for_application(module_, visits_, most_in_a_turn);
  in_upcall_ = false;
  if (count > 0) {
    module_.engine->count(&Counters::overlap_upcalls, static_cast<std::uint64_t>(count));
  }
  return count;
}

}  // namespace weir::btl
