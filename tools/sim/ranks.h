// What ranks above the transport do, where one waits for another: which message a process may send
// now, and what follows when one is there. A message is eager, or announced and then fetched by its
// receiver, who tells the sender when it has it: ob1's rendezvous.
//
//   next ─ handed over ─▶ sent │ arrived ─ its receive is posted ─▶ eager: received
//                                                                  announced: next_fetch ─▶ fetched
//                              finished ◀─ the receiver's word ─┘
//
// The messages from one process to another arrive in the order they were sent.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tools/sim/wire.h"

namespace weir::sim {

class Ranks {
 public:
  using MessageId = std::uint32_t;

  struct Sending {
    Node to;
    std::uint32_t frame_bytes;
  };
  struct Fetch {
    MessageId message;
    Node from;
    std::uint32_t bytes;
  };

  virtual ~Ranks() = default;

  // The traffic begins. `wake`: a process may have more to do than when it was asked last.
  virtual void begin(std::function<void(Node)> wake) = 0;

  // What it may send now, if anything; it stays the next one until it was `sent`.
  virtual std::optional<Sending> next(Node from) const = 0;
  virtual void sent(Node from) = 0;
  // Of the next message to arrive.
  virtual std::uint32_t frame_bytes(Node from, Node to) const = 0;
  virtual void arrived(Node from, Node to) = 0;
  // What it may fetch now, once.
  virtual std::optional<Fetch> next_fetch(Node to) = 0;
  virtual void fetched(MessageId message) = 0;
  // Its sender was told.
  virtual void finished(MessageId message) = 0;
  // It does nothing else until then.
  virtual Time computes_until(Node node) const = 0;

  // Every message was received, and every sender knows.
  virtual bool over() const = 0;
  // From the start of the send to the end of the receive, of those that were received.
  virtual std::vector<Duration> latencies() const = 0;
};

}  // namespace weir::sim
