// What all parts of one simulated world share: the clock, how long things take, what goes wrong,
// and the list of broken promises that the test looks at in the end.
//
// Single-threaded.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "tools/sim/event_queue.h"
#include "tools/sim/random.h"

namespace weir::sim {

class Nic;

using Node = std::uint32_t;  // a process with its adapter

// What carries the messages of adapters to each other. An adapter hands over whole messages; they
// arrive whole, as events of the fabric, and those of a stream in the order in which they were
// handed over. What is lost on the way never arrives; to repeat it is the adapters' business.
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

// How an adapter behaves where adapters differ.
enum class SrqLimitStyle : std::uint8_t {
  hardware,  // armed when already below the limit: fires at once
  rxe,       // looks only when a receive is consumed; armed when below: silent until then
};

struct Timing {
  Duration link = microseconds(2);    // one way
  Duration jitter = microseconds(1);  // up to so much more
  std::uint32_t slow_permille = 0;    // packets that take `slow` more (lost and repeated)
  Duration slow = microseconds(500);
  Duration per_frame = {200};            // the adapter's work for one frame
  std::int64_t bytes_per_us = 12500;     // 100 Gbit/s
  Duration rnr = microseconds(640);      // RNR NAK of an adapter that was told no timer
  Duration retries = milliseconds(500);  // no answer for so long: retry_exc_err
  Duration connection_message = microseconds(100);
  Duration connection_jitter = microseconds(200);
  Duration connection_repeat = milliseconds(200);  // a lost message of the connection manager
  std::uint32_t connection_tries = 8;
  Duration connection_service{};  // what a request takes the event thread that accepts it
  Duration event_thread = microseconds(20);  // up to so long until an event is looked at
};

// Something that goes wrong at random, and how often it did.
struct Hazard {
  std::uint32_t permille = 0;
  std::uint64_t struck = 0;
};

// What goes wrong at random. What goes wrong at a given time is in world.h.
struct Hazards {
  Hazard lost_limit;
  Hazard doubled_limit;
  Hazard lost_connection_message;
  Hazard rnr_storm;     // RNR NAKs although there are receives
  Hazard lost_request;  // of adapters; they are repeated
  Hazard lost_answer;
  Hazard missed_bulk_pair;    // queue pairs for second lanes that fail
  Hazard delayed_completion;  // completions that the poll sees later
  Hazard send_again;          // SENDs received again, in full or empty
  Hazard lost_event;          // solicited events, of which one stands for all until it is taken
  Hazard late_event;          // that come up to `Nic::latest_event` later
};

class Fabric {
 public:
  Fabric(const Timing& timing, const Hazards& hazards, std::uint64_t seed);

  EventQueue events;
  Timing timing;
  Hazards hazards;
  Random random;
  std::vector<Nic*> nics;      // by node; nullptr: none or dead
  std::unique_ptr<Wire> wire;  // Links, if nobody puts in another one before the first adapter

  // As EventQueue's, with what the wire does meanwhile.
  bool step();
  void run_until(Time until);

  // Whether it goes wrong this time; counted.
  bool strikes(Hazard& hazard) {
    const bool wrong = random.chance(hazard.permille);
    hazard.struck += wrong ? 1 : 0;
    return wrong;
  }

  // Something that must never happen did; the text says what.
  void violation(const std::string& text) {
    if (violations.size() < 20) violations.push_back(text);
  }
  std::vector<std::string> violations;

  // A line for a person who follows one run; nothing is written while there is no sink.
  std::function<void(const std::string&)> trace_sink;
  template <typename... Parts>
  void trace(Node node, const Parts&... parts) {
    if (!trace_sink) return;
    std::string line = fmt::format("{} node {}: ", events.now().ns, node);
    ((line += fmt::format("{}", parts)), ...);
    trace_sink(line);
  }

  // What a process decided and heard, in order, as one number: equal for runs that are the same.
  template <typename... Values>
  void note(const Values&... values) {
    ((hash = mix(hash ^ static_cast<std::uint64_t>(values))), ...);
  }
  std::uint64_t hash = 0;

  bool is_cut(Node a, Node b) const { return cuts_.contains(std::minmax(a, b)); }
  // Nothing passes between the two from now on, and nobody is told.
  void cut(Node a, Node b) { cuts_.insert(std::minmax(a, b)); }
  // One cut between them is over.
  void mend(Node a, Node b) { cuts_.erase(cuts_.find(std::minmax(a, b))); }

  Duration latency() {
    Duration d = {timing.link.ns + random.up_to(timing.jitter).ns};
    if (random.chance(timing.slow_permille)) d.ns += timing.slow.ns;
    return d;
  }

 private:
  std::multiset<std::pair<Node, Node>> cuts_;  // the lower one first
};

}  // namespace weir::sim
