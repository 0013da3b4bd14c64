// The connection manager between the processes of a world: request, answer (or refusal),
// established, and later disconnected. Every message takes a while, may be lost and is repeated a
// few times; requests of two sides cross freely.
//
//   asker:     connect ──▶ answered ─establish | rejected | failed  … later: disconnected
//   acceptor:  requested ─accept──▶ established | failed       … later: disconnected
//
// Whoever drops its end is told nothing any more; the other end learns of it, if the message
// arrives. An end lives until it is dropped, rejected, or disconnected.
//
// Single-threaded; everything happens in events of the fabric.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "tools/sim/fabric.h"
#include "tools/sim/nic.h"
#include "transport/wire/hello.h"

namespace weir::sim {

// One end of one connection attempt.
enum class EndId : std::uint64_t { none = 0 };

// What a process hears of an end.
struct ConnectionNews {
  enum class Kind : std::uint8_t { requested, answered, established, rejected, failed, gone };
  Kind kind;
  wire::Hello hello{};  // of the other side, if it was requested or answered
  wire::Reject reject{};
  FailReason reason{};  // of what failed
};

class Connections {
 public:
  explicit Connections(Fabric& fabric) : fabric_(fabric) {}

  using Listener = std::function<void(EndId end, const ConnectionNews& news)>;
  void listen(Node node, Listener listener) {
    if (listeners_.size() <= node) listeners_.resize(node + 1);
    listeners_[node] = std::move(listener);
  }
  // The process is gone. With `told`, its kernel says goodbye for it.
  void kill(Node node, bool told);

  EndId connect(Node from, Node to, QpNumber qp, const wire::Hello& hello);
  // False if the request was withdrawn meanwhile.
  bool accept(EndId end, QpNumber qp, const wire::Hello& hello);
  // The asker takes the answer: its queue pair is connected, the acceptor will hear of it.
  bool establish(EndId end);
  void reject(EndId end, wire::Reject reason);
  // Answers nothing to a request.
  void forget(EndId end) { ends_.erase(end); }
  void drop(EndId end);

 private:
  enum class Phase : std::uint8_t { asking, requested, accepting, answered, established, failed };

  struct End {
    Node node;
    Node remote_node;
    EndId remote = EndId::none;  // of the asker: known with the answer
    QpNumber qp = QpNumber::none;
    QpNumber remote_qp = QpNumber::none;
    Phase phase;
  };

  struct Message {
    Node from;
    Node to;
    EndId fails;                  // if no try gets through; perhaps none
    EndId for_end = EndId::none;  // nothing is repeated once this is gone
    std::uint32_t tries = 0;      // 0: as often as it is usual
  };

  End* find(EndId id) {
    const auto found = ends_.find(id);
    return found == ends_.end() ? nullptr : &found->second;
  }
  EndId add(const End& end) {
    const EndId id{next_++};
    ends_[id] = end;
    return id;
  }
  bool listens(Node node) const { return node < listeners_.size() && listeners_[node]; }
  void tell(Node node, EndId end, const ConnectionNews& news) {
    if (listens(node)) listeners_[node](end, news);
  }
  // Runs `arrive` after a while, on the other side.
  void send(const Message& message, EventQueue::Action arrive);
  void request(EndId asker, const End& from, const wire::Hello& hello);
  void answer(EndId asker, EndId acceptor, QpNumber qp, const wire::Hello& hello);
  void fail(EndId id, FailReason reason);
  void hang_up(const End& end, EndId remote);

  Fabric& fabric_;
  std::vector<Listener> listeners_;  // by node
  std::map<EndId, End> ends_;
  std::map<EndId, EndId> acceptor_of_;  // asker → acceptor, once the request arrived
  std::map<std::pair<Node, Node>, Time> last_arrival_;  // messages of one path do not overtake
  std::uint64_t next_ = 1;
};

}  // namespace weir::sim
