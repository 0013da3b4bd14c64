// A program above the engine, written as data: it sends planned messages to the others, in bursts,
// computes now and then (no progress), keeps buffers for a while, and checks everything that
// arrives. With `one_sided.announced_bytes` a message is ob1's request for a rendezvous: who has it
// fetches so much from its sender. The n-th message from one process to another has a size and a
// content that both ends can compute, so "exactly once and in order" is one comparison.
//
// Single-threaded; runs in events of the fabric.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "tools/sim/engine.h"
#include "tools/sim/fabric.h"
#include "tools/sim/one_sided.h"

namespace weir::sim {

// How one process behaves.
struct Script {
  std::vector<std::uint32_t> messages;  // planned for each destination node, in one round
  std::uint32_t burst = 4;              // messages in one turn, at most
  std::uint32_t small_permille = 800;   // of the messages: up to 64 bytes; the rest: any size
  std::uint32_t bytes = 0;              // of each message, if not 0
  std::uint32_t notify_permille = 100;  // sent from a slot that is to come back
  bool wakes = false;                   // these are to be seen by a receiver that computes
  std::uint32_t compute_permille = 0;   // turns after which it computes
  Duration compute = milliseconds(1);   // at most
  std::uint32_t keep_permille = 0;      // arrived buffers that are kept for some turns
  std::uint32_t keep_turns = 10;        // at most
  Duration start = microseconds(50);    // until its first turn, at most
  Duration turn = microseconds(1);
  // It polls until all is sent and received, as a program in MPI_Wait does, and as long as it waits
  // for tokens or a server, or is one. Otherwise it sleeps longer and longer till something comes.
  bool spins = false;
  OneSidedScript one_sided;
};

class Application : public Upcalls {
 public:
  Application(Fabric& fabric, Engine& engine, const Script& script, std::uint64_t content_seed);

  // A peer by node; messages to and from it are numbered on over all rounds.
  void add_peer(Node node, PeerId id);

  // What a run goes through. The world moves all processes from one phase to the next together.
  enum class Phase : std::uint8_t { traffic, closing, over };
  // Of the messages planned for a destination `most` are sent.
  void begin(Phase phase, const std::vector<std::uint32_t>& expected,
             std::uint32_t most = UINT32_MAX);
  bool finished() const;

  // From here on, this peer may fail (it dies, or the way to it does).
  void expect_trouble(Node node) { peers_[node].may_fail = true; }
  // The runtime tells that the peer is gone: nobody waits for it any more.
  void forget(Node node) {
    peers_[node].forgotten = true;
    one_sided_.give_up(node);
  }
  void stop() { stopped_ = true; }

  std::uint64_t received() const { return received_; }
  Time last_message() const { return last_message_; }
  // For the report of a run that got stuck.
  std::string describe() const;

  static std::uint32_t size_of(std::uint64_t content_seed, const Script& sender, Node from, Node to,
                               std::uint64_t number, std::uint32_t most);
  static void fill(std::byte* at, std::uint32_t size, std::uint64_t key);
  static bool matches(const std::byte* at, std::uint32_t size, std::uint64_t key) {
    std::vector<std::byte> expected(size);
    fill(expected.data(), size, key);
    return std::equal(expected.begin(), expected.end(), at);
  }

  // Upcalls
  void on_message(const Delivery& delivery) override;
  void on_retired(SendSlot* slot, bool delivered) override;
  void on_failure(const Failure& failure) override;
  void on_transfer(const TransferEnd& end) override;

  OneSided& one_sided() { return one_sided_; }

  // By node: how the others send, to know what to expect.
  std::vector<const Script*> scripts;

 private:
  struct Peer {
    PeerId id = PeerId::none;
    std::uint32_t to_send = 0;     // still to be sent in this phase
    std::uint32_t to_receive = 0;  // still expected
    std::uint64_t sent = 0;        // over all phases
    std::uint64_t arrived = 0;
    std::uint32_t notifications = 0;  // slots out that are to come back
    bool may_fail = false;
    bool forgotten = false;
    bool failed = false;
  };

  struct Kept {
    BufferId buffer;
    std::uint64_t until_turn;
  };

  std::uint64_t key(Node from, Node to, std::uint64_t number) const {
    return mix(content_seed_ ^ mix(std::uint64_t{from} << 40 | std::uint64_t{to} << 32 | number));
  }
  void schedule(Duration delay);
  void turn();
  void send_some();
  bool send_one(Node to, Peer& peer);
  bool is_done(Node node) const;
  bool deals_with_node() const {
    const Core& core = engine_.core();
    return core.waits_for_node() || core.waits_for_server() || core.proxy_standing().serves;
  }
  bool excused() const;  // some peer may fail

  Fabric& fabric_;
  Engine& engine_;
  Script script_;
  std::uint64_t content_seed_;
  Random random_;
  std::vector<Peer> peers_;    // by node
  std::vector<Node> node_of_;  // by PeerId
  Phase phase_ = Phase::over;
  bool stopped_ = false;
  bool closed_ = false;
  bool computing_ = false;
  std::uint64_t scheduled_ = 0;  // only the youngest scheduled turn runs
  std::uint64_t turns_ = 0;
  std::uint32_t quiet_turns_ = 0;
  std::uint64_t received_ = 0;
  Time last_message_{};
  Time closing_since_{};
  std::deque<Kept> kept_;
  OneSided one_sided_;
};

}  // namespace weir::sim
