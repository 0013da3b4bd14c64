// One way between two ends, over weir's engine or over verbs alone: messages, puts, gets and
// fetch-and-adds of one size at a time. It starts them and counts what has ended; measure.h times
// them.
//
// Messages are flow-controlled alike: at most `window()` are not acknowledged, and the receiver
// acknowledges by the dozen. Bytes and counts of the other end are untrusted.
//
// Nothing waits. Thread rule: one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "tools/perf/memory.h"

namespace weir::tools::perf {

enum class Operation : std::uint8_t { send, put, get, add };

class Way {
 public:
  explicit Way(const Memory& memory) : memory_(memory) {}
  virtual ~Way() = default;

  // What follows has so many bytes, on both ends. `replies`: each message is answered by one.
  // `check`: each byte is looked at.
  virtual void begin(std::uint64_t bytes, bool replies, bool check) {
    bytes_ = bytes;
    replies_ = replies;
    check_ = check;
  }
  std::uint32_t window() const { return memory_.places_for(bytes_); }

  // Tells the other end that this one has begun.
  void greet() {
    ++greetings;
    send_greeting();
  }
  // False: not now, poll first.
  virtual bool send() = 0;
  virtual bool start(Operation operation) = 0;
  virtual void poll() = 0;
  // Everything came: acknowledges it.
  virtual void finish() = 0;
  // Whether `poll` has sent what `greet` and `finish` have asked for.
  virtual bool settled() const = 0;
  // Rises while something moves, even if nothing has ended yet.
  virtual std::uint64_t moved() const = 0;

  // Of all sizes since the ends met.
  std::uint64_t greetings = 0;
  std::uint64_t greeted = 0;  // by the other end
  std::uint64_t sent = 0;
  std::uint64_t acknowledged = 0;  // of these
  std::uint64_t received = 0;
  std::uint64_t started = 0;  // puts, gets and fetch-and-adds
  std::uint64_t ended = 0;
  std::string why;  // nothing works any more

 protected:
  virtual void send_greeting() = 0;
  // So many messages are acknowledged at once.
  std::uint64_t batch() const { return std::max(1u, window() / 4); }
  void fail(const std::string& reason) {
    if (why.empty()) why = reason;
  }
  // With `check`: what an operation that ended has brought here. `added`: how many fetch-and-adds
  // went before.
  void look_at(Operation operation, std::uint64_t number, std::uint64_t added) {
    if (!check_) return;
    const std::byte* const at = memory_.at(memory_.place(number, bytes_));
    std::uint64_t found = 0;
    std::memcpy(&found, at, std::min<std::uint64_t>(bytes_, sizeof found));
    if (operation == Operation::get && !memory_.is_as_sent(at, bytes_, number)) fail_check();
    if (operation == Operation::add && found != added) fail_check();
  }
  void fail_check() { fail("the data is wrong"); }

  const Memory& memory_;
  std::uint64_t bytes_ = 1;
  bool replies_ = false;
  bool check_ = false;
};

}  // namespace weir::tools::perf
