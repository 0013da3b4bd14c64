// A thread that stands in for an application that computes outside of MPI, so that large messages
// move meanwhile. The announcement of a large message has to be matched, and only ob1 can do that.
//
//   event thread: something waits, and the application has been away for a while ──bell──▶
//   this thread: hands up, lets go, looks again; nothing waits: sleeps until the bell
//
// It hands up as an application thread would, a few messages at a time. A thread that calls MPI
// goes first. Events that may end the job, such as a lost peer, are left for the application. With
// `overlap: all` it then calls Open MPI's progress, for example for the next round of a
// non-blocking collective operation. For this, every frame wakes the event thread.
//
// While this runs, ob1 has to lock as for threads. The thread must not be in an upcall before MPI
// is initialised, nor after MPI_Finalize has begun to end the parts of MPI.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "transport/btl/compat.h"
#include "transport/config/settings.h"
#include "transport/drive/absence.h"
#include "transport/drive/stand_in_loop.h"
#include "transport/engine/doze.h"
#include "transport/engine/thread_mark.h"
#include "transport/wire/hello.h"

namespace weir::btl {

struct Module;

class Overlap : private StandInLoop<Overlap> {
 public:
  // Which frames wake the thread. none: the settings do not want the thread here, or Open MPI does
  // not allow it. If the settings ask for it in vain, `why` gets the reason. Makes Open MPI lock,
  // if the settings ask for the thread. Call it in btl_init, because locking must not change while
  // a thread holds a lock.
  static wire::Wakes wanted(const config::Settings& settings, std::string& why);

  // The module's engine is not started yet, and outlives this.
  Overlap(Module& module, wire::Wakes wakes);
  ~Overlap();

  // Starts the thread, once the engine is. False if there is none.
  bool start(std::string& why);

  // The caller is this thread: in an upcall, or in a call of Open MPI's progress.
  bool is_here() const { return thread_id_.load(std::memory_order_relaxed) == this_thread(); }
  // For this thread alone.
  bool is_in_upcall() const { return in_upcall_; }
  // Hands up what waits, a few messages, if the application is still away. For this thread alone.
  int hand_up();

  // MPI is initialised, MPI_Finalize has not begun, and `end` was not called.
  bool may_go_on() const {
    return mpi_state() == mpi_is_ready && !ending_.load(std::memory_order_relaxed);
  }

  // Ends the thread for good if MPI_Finalize has begun: its first act is to wait for the others,
  // which calls this. Not from this thread.
  void end_with_mpi() {
    if (mpi_state() > mpi_is_ready && !ended_.load(std::memory_order_acquire)) [[unlikely]]
      end();
  }
  // The application has visited the engine. Not from this thread.
  void after_visit() {
    if (doze_.ends_by_visit()) [[unlikely]]
      ring();
  }
  // Ends the thread, after the upcall that it may be in.
  void end();

 private:
  void run();
  bool await_bell();
  bool doze(UnaskedTurns& turns);
  void ring();
  void stand_in();
  // For StandInLoop.
  friend class StandInLoop<Overlap>;
  bool waits(std::uint64_t& visits);
  int hand_up_some(std::uint64_t visits);
  void called_in_vain();
  void progress_all();
  std::int32_t mpi_state() const { return __atomic_load_n(mpi_state_, __ATOMIC_ACQUIRE); }

  Module& module_;
  const std::int32_t* const mpi_state_;
  const opal_pointer_array_t* const windows_;  // of MPI; nullptr: unknown
  const bool moves_all_;
  int bell_ = -1;
  std::uint64_t visits_ = 0;  // of the application, when this thread last took its turn
  Duration spent_;            // handing up, and not counted yet: less than 1 us
  bool in_upcall_ = false;
  std::thread thread_;
  std::atomic<ThreadMark> thread_id_{ThreadMark::none};
  Doze doze_;  // while it waits for long
  std::atomic<bool> ending_{false};
  std::atomic<bool> ended_{false};
  std::mutex end_lock_;
};

}  // namespace weir::btl
