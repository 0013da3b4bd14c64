// What carries the messages of adapters to each other. An adapter hands over whole messages; they
// arrive whole, and those of a stream in the order in which they were handed over. What is lost on
// the way never arrives; to repeat it is the adapters' business.
//
// Single-threaded; what arrives is an event of the fabric.
#pragma once

#include <cstdint>
#include <functional>

#include "tools/sim/event_queue.h"

namespace weir::sim {

using Node = std::uint32_t;  // a process with its adapter

class Wire {
 public:
  // The messages of one queue pair, one way: what it asks, or what it answers.
  enum class Stream : std::uint32_t {};

  enum class Kind : std::uint8_t {
    data,     // goes into memory
    control,  // for the adapter alone: a request to read, an acknowledgement
  };

  using Action = EventQueue::Action;
  // Asked when a message leaves: what to do when it arrives. Empty: there is nothing to send.
  using Load = std::function<Action()>;

  struct Counts {
    std::uint64_t events = 0;  // of packets, if there are any
    std::uint64_t hash = 0;    // of everything that happened
  };

  virtual ~Wire() = default;

  virtual Stream open(Node from, Node to) = 0;
  // How long a queue pair is busy with a message before it takes up the next one.
  virtual Duration line_time(std::uint32_t bytes) const = 0;
  // The message leaves now.
  virtual void send(Stream stream, Kind kind, std::uint32_t bytes, Action arrive) = 0;
  // The message takes its place in the order now, and leaves at `leaves`.
  virtual void send_at(Time leaves, Stream stream, Kind kind, std::uint32_t bytes, Load load) = 0;

  // Lets a wire with a clock of its own come up to the next event of the fabric.
  virtual void catch_up() {}
  // Whether nothing was lost or made that should not be.
  virtual bool adds_up() const { return true; }
  virtual Counts counts() const { return {}; }
};

}  // namespace weir::sim
