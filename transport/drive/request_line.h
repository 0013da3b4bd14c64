// Connection requests that wait for their turn. A queue pair takes long to make, and a process that
// has waited too long asks again: of two requests of one process only the newer is kept, in the
// place of the older, so that no pair is made for a request whose sender no longer waits. Requests
// that resume a session go first: they need no connection to end, and others wait for what the
// session holds.
//
// Pure; the caller serialises. Allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/ids.h"
#include "transport/wire/hello.h"

namespace weir {

class RequestLine {
 public:
  struct Waiting {
    RequestId request;
    wire::Hello hello;
  };

  // Returns the older of two requests of one process, which may be this one; the caller refuses it
  // as crossed. Without the key no process can displace another's request.
  std::optional<RequestId> add(const Waiting& asked) {
    const wire::Hello& hello = asked.hello;
    const auto earlier = std::find_if(line_.begin(), line_.end(), [&](const Waiting& one) {
      return hello.attempt != 0 && one.hello.from == hello.from && one.hello.to == hello.to &&
             one.hello.key == hello.key;
    });
    if (earlier == line_.end()) {
      hello.resumes ? line_.push_front(asked) : line_.push_back(asked);
      return std::nullopt;
    }
    if (hello.attempt <= earlier->hello.attempt) return asked.request;
    const RequestId old = earlier->request;
    *earlier = asked;
    return old;
  }

  // The first. There must be one.
  Waiting take() {
    const Waiting asked = line_.front();
    line_.pop_front();
    return asked;
  }
  // Takes out the request of a process that has accepted ours, and so gave up its own.
  std::optional<RequestId> drop(PeerName from) {
    const auto found = std::find_if(line_.begin(), line_.end(),
                                    [&](const Waiting& one) { return one.hello.from == from; });
    if (found == line_.end()) return std::nullopt;
    const RequestId request = found->request;
    line_.erase(found);
    return request;
  }

  // Puts it behind the others.
  void pass_over() { line_.push_back(take()); }
  // What the first one asks.
  const wire::Hello& first() const { return line_.front().hello; }

  bool empty() const { return line_.empty(); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(line_.size()); }

 private:
  std::deque<Waiting> line_;
};

}  // namespace weir
