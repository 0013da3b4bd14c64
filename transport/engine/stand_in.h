// Between the application and the thread that stands in for it while it computes
// (drive/absence.h): how often the application came, the bell that calls the other, and who gives
// way to whom.
//
// Thread rule: the engine's lock, except for `visits` and `application_visits`.
#pragma once

#include <unistd.h>

#include <cstdint>

#include "base/atomic.h"
#include "base/time.h"
#include "transport/drive/absence.h"
#include "transport/engine/thread_mark.h"

namespace weir {

class StandIn {
 public:
  // `bell`, an eventfd, is rung from now on. `visited` hears of the application's visits.
  void set_bell(int bell, const StandIn& visited) {
    bell_ = bell;
    application_visits_ = &visited.visits_;
  }
  bool has_bell() const { return bell_ >= 0; }

  // The application visits.
  void visit() { visits_.store(visits_.load(relaxed) + 1, relaxed); }
  std::uint64_t visits() const { return visits_.load(relaxed); }
  std::uint64_t application_visits() const { return application_visits_->load(relaxed); }

  // This thread stands in.
  void begin(ThreadMark self) { thread_ = self; }
  // The application found this thread handing up. True if it is to give way: it has to wait for
  // the one who stands in for it, who may be waiting for this very core.
  [[gnu::cold]] bool meets(ThreadMark other) {
    return other == thread_ && ++meetings_ % polls_per_yield == 0;
  }

  // The event thread has looked, as in Absence. Rings if something waits and the application is
  // away. There is a bell.
  void look(Time now, bool heard, bool waits) {
    if (absence_.calls(now, application_visits(), heard, waits)) ring();
  }
  bool listens() const { return absence_.listens(); }
  Duration nap(Duration nap, Time now) const { return absence_.nap(nap, now); }

  // Who stands in has looked whether something waits.
  bool on_look(bool waits) { return absence_.still_waits(waits); }
  std::uint64_t visits_when_rung() const { return absence_.visits_when_called(); }
  void was_in_vain() { absence_.was_in_vain(); }

 private:
  static constexpr std::memory_order relaxed = std::memory_order_relaxed;
  // Visits that find another thread standing in, until the application gives way.
  static constexpr unsigned polls_per_yield = 16;

  void ring() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(bell_, &one, sizeof one);
  }

  Atomic<std::uint64_t> visits_{0};
  const Atomic<std::uint64_t>* application_visits_ = &visits_;
  int bell_ = -1;
  Absence absence_;
  ThreadMark thread_ = ThreadMark::none;
  unsigned meetings_ = 0;
};

}  // namespace weir
