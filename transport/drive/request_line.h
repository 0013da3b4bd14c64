// Connection requests that wait for their turn. A queue pair takes long to make, and a process that
// has waited too long asks again: of two requests of one process only the newer is kept, in the
// place of the older, so that no pair is made for a request that nobody waits for any more.
//
// Pure; the caller serialises. Allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "transport/base/ids.h"
#include "transport/wire/hello.h"

namespace weir {

class RequestLine {
 public:
  struct Waiting {
    RequestId request;
    wire::Hello hello;
  };

  // The request that is out of date because of this one, or this one: the caller refuses it as
  // crossed. Nobody can put out another's request without knowing the key.
  std::optional<RequestId> add(const Waiting& asked) {
    const wire::Hello& hello = asked.hello;
    const auto earlier = std::find_if(line_.begin(), line_.end(), [&](const Waiting& one) {
      return hello.attempt != 0 && one.hello.from == hello.from && one.hello.to == hello.to &&
             one.hello.key == hello.key;
    });
    if (earlier == line_.end()) {
      line_.push_back(asked);
      return std::nullopt;
    }
    ++stale_;
    if (hello.attempt <= earlier->hello.attempt) return asked.request;
    const RequestId old = earlier->request;
    *earlier = asked;
    return old;
  }

  // The one that has waited longest.
  std::optional<Waiting> take() {
    if (line_.empty()) return std::nullopt;
    const Waiting first = line_.front();
    line_.pop_front();
    return first;
  }

  bool empty() const { return line_.empty(); }
  // How many requests were out of date.
  std::uint64_t stale() const { return stale_; }

 private:
  std::deque<Waiting> line_;
  std::uint64_t stale_ = 0;
};

}  // namespace weir
