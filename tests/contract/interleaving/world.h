// Two processes, A and B, on one rail or two, and everything that may happen next. A world is
// played from its beginning by choices; what it then is may be told in a number, and it may be left
// to itself, to see whether it comes to an end.
//
// The layer above does as transport/btl does: messages go over the first rail that takes them, and
// what the cores say of their connections goes to rail/frames.h.
//
// Single-threaded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/contract/interleaving/rail.h"
#include "transport/rail/frames.h"

namespace weir::interleaving {

// How often something happens at most, of each end or of both.
struct Budget {
  std::uint8_t messages[2] = {1, 1};  // that A and B send
  std::uint8_t closes[2] = {0, 0};
  std::uint8_t third[2] = {0, 0};     // messages to a third process, which takes a place
  std::uint8_t connects[2] = {0, 0};  // asked for before anything needs them
  std::uint8_t breaks = 0;            // of queue pairs
  std::uint8_t losses = 0;            // of messages of the connection manager
  std::uint8_t timers = 0;            // jumps to the next deadline
  std::uint8_t strangers = 0;         // frames that are none
};

struct Scenario {
  const char* name;
  std::size_t rails = 1;
  Budget budget{};
  bool ready = false;     // both begin with connections that are ready
  bool late = false;      // frames may arrive while a queue pair is being destroyed
  bool computes = false;  // an end may stay away from its application for long
  bool may_end = false;   // an outage may last longer than a peer may be silent
  bool gone = false;      // a rail of which a queue pair breaks is gone for good
  bool reorders = false;  // messages of different attempts overtake each other
  bool steady = false;    // nobody has a cause to end a connection that is whole
  std::uint32_t places[2] = {0, 0};
  std::uint32_t credits = 4;
  std::uint32_t signal_interval = 2;  // frames that one completion tells of
  std::size_t depth = 100;
};

struct Choice {
  enum class Kind : std::uint8_t {
    deliver_message,
    lose_message,
    handle_answer,
    serve,
    deliver_frame,
    ack,
    break_pair,
    exhaust,
    send,
    look,
    serve_links,
    stand_in,
    close,
    third,
    connect,
    stranger,
    timer,
  };
  Kind kind;
  std::uint8_t end = 0;
  std::uint8_t rail = 0;
  bool late = false;
  std::uint16_t which = 0;
};

inline const char* name(std::size_t end) { return end == 0 ? "A" : "B"; }

class World {
 public:
  explicit World(const Scenario& scenario);
  ~World();

  void listen(std::function<void(const std::string&)> note) { stage_.note = std::move(note); }
  std::vector<Choice> choices() const;
  std::string text(const Choice& choice) const;
  void apply(const Choice& choice);
  std::string text() const;
  // What is wrong; empty: nothing.
  const std::string& violation() const { return stage_.violation; }
  std::uint64_t digest() const;

  // The fabric is whole from now on, and time passes. `away`: that end's application computes for
  // longer than a peer may be silent.
  void settle(std::optional<std::size_t> away);
  // Steps of the longest way to an end so far.
  std::size_t steps() const { return steps_; }

 private:
  struct End {
    Links links;
    Time asked_again{};
    std::uint32_t sent = 0;
    std::set<std::uint32_t> got;
    bool closing = false;
    bool asked = false;      // for a connection that nothing needs
    bool was_ready = false;  // since then
    bool closed = false;
    bool has_ended = false;  // the job
  };
  class Ways;

  Side& side(std::size_t end, std::size_t rail) { return rails_[rail]->side(end); }
  const Side& side(std::size_t end, std::size_t rail) const { return rails_[rail]->side(end); }
  void send(std::size_t end);
  void look(std::size_t end);
  void take(std::size_t end, std::size_t rail);
  void take_message(std::size_t end, const Side::Message& message);
  void serve_links(std::size_t end);
  void on_news(std::size_t end, std::size_t rail, const LinkNews& news);
  void on_failure(std::size_t end, std::size_t rail, const Failure& failure);
  void close(std::size_t end);
  void pass_time();
  Time next_deadline() const;
  void note_ready();
  void check_now();

  void make_ready();
  void run_all(std::optional<std::size_t> away);
  bool step_all(std::optional<std::size_t> away);
  bool is_over() const;
  void check_end();
  std::string what_lacks() const;

  const Scenario& scenario_;
  Stage stage_;
  std::vector<std::unique_ptr<Rail>> rails_;
  std::array<End, 2> ends_;
  Budget left_;
  std::size_t steps_ = 0;
  struct Held {
    Time since{};
    unsigned in_vain = 0;  // before, since there was a connection
  };
  Held held_[2][2];  // by rail and end
};

}  // namespace weir::interleaving
