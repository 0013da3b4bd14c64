// What all parts of one simulated world share: the clock, how long things take, what goes wrong,
// and the list of broken promises that the test looks at in the end.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "tools/sim/event_queue.h"
#include "tools/sim/random.h"
#include "tools/sim/wire.h"

namespace weir::sim {

class Nic;

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
    std::string line = std::to_string(events.now().ns) + " node " + std::to_string(node) + ": ";
    (append(line, parts), ...);
    trace_sink(line);
  }

  // What a process decided and heard, in order, as one number: equal for runs that are the same.
  template <typename... Values>
  void note(const Values&... values) {
    ((hash = mix(hash ^ static_cast<std::uint64_t>(values))), ...);
  }
  std::uint64_t hash = 0;

  bool is_cut(Node a, Node b) const {
    for (const Cut& cut : cuts) {
      if ((cut.a == a && cut.b == b) || (cut.a == b && cut.b == a)) return true;
    }
    return false;
  }
  // Nothing passes between the two from now on, and nobody is told.
  void cut(Node a, Node b) { cuts.push_back({a, b}); }
  // One cut between them is over.
  void mend(Node a, Node b) {
    const auto found = std::find_if(cuts.begin(), cuts.end(),
                                    [&](const Cut& cut) { return cut.a == a && cut.b == b; });
    if (found != cuts.end()) cuts.erase(found);
  }

  Duration latency() {
    Duration d = {timing.link.ns + random.up_to(timing.jitter).ns};
    if (random.chance(timing.slow_permille)) d.ns += timing.slow.ns;
    return d;
  }

 private:
  static void append(std::string& line, const char* text) { line += text; }
  static void append(std::string& line, std::uint64_t number) { line += std::to_string(number); }
  static void append(std::string& line, const std::string& text) { line += text; }

  struct Cut {
    Node a;
    Node b;
  };
  std::vector<Cut> cuts;
};

}  // namespace weir::sim
