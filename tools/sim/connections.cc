#include "tools/sim/connections.h"

#include <algorithm>

namespace weir::sim {

using News = ConnectionNews::Kind;

void Connections::kill(Node node, bool told) {
  listen(node, nullptr);
  std::vector<EndId> mine;
  for (const auto& [id, end] : ends_) {
    if (end.node == node) mine.push_back(id);
  }
  for (const EndId id : mine) {
    if (told) {
      drop(id);
    } else {
      ends_.erase(id);
    }
  }
}

void Connections::send(const Message& message, EventQueue::Action arrive) {
  const Duration delay = {fabric_.timing.connection_message.ns +
                          fabric_.random.up_to(fabric_.timing.connection_jitter).ns};
  if (!fabric_.is_cut(message.from, message.to) &&
      !fabric_.strikes(fabric_.hazards.lost_connection_message)) {
    Time& last = last_arrival_[{message.from, message.to}];
    last = std::max(last, fabric_.events.now() + delay);
    fabric_.events.at(last, std::move(arrive));
    return;
  }
  fabric_.events.after(fabric_.timing.connection_repeat, [=, this] {
    if (message.for_end != EndId::none && find(message.for_end) == nullptr) return;
    Message again = message;
    again.tries = (again.tries == 0 ? fabric_.timing.connection_tries : again.tries) - 1;
    if (again.tries > 0) return send(again, arrive);
    fail(message.fails, FailReason::connect_timeout);
  });
}

EndId Connections::connect(Node from, Node to, QpNumber qp, const wire::Hello& hello) {
  const End end{.node = from, .remote_node = to, .qp = qp, .phase = Phase::asking};
  const EndId id = add(end);
  send({from, to, id, id}, [this, id, end, hello] { request(id, end, hello); });
  return id;
}

// A request arrives. The asker may have dropped its end meanwhile; sometimes the news of that has
// overtaken the request, sometimes not.
void Connections::request(EndId asker, const End& from, const wire::Hello& hello) {
  if (find(asker) == nullptr && fabric_.random.chance(500)) return;
  if (!listens(from.remote_node)) {
    return send({from.remote_node, from.node, asker},
                [this, asker] { fail(asker, FailReason::connect_refused); });
  }
  const EndId id = add({.node = from.remote_node,
                        .remote_node = from.node,
                        .remote = asker,
                        .remote_qp = from.qp,
                        .phase = Phase::requested});
  if (find(asker) != nullptr) acceptor_of_[asker] = id;
  tell(from.remote_node, id, {.kind = News::requested, .hello = hello});
}

bool Connections::accept(EndId id, QpNumber qp, const wire::Hello& hello) {
  End* end = find(id);
  if (end == nullptr || end->phase != Phase::requested) return false;
  end->qp = qp;
  end->phase = Phase::accepting;
  if (Nic* nic = fabric_.nics[end->node]) nic->connect_qp(qp, end->remote_node, end->remote_qp);
  const EndId asker = end->remote;
  send({end->node, end->remote_node, id, id},
       [this, asker, id, qp, hello] { answer(asker, id, qp, hello); });
  return true;
}

// An answer arrives at the asker.
void Connections::answer(EndId asker, EndId acceptor, QpNumber qp, const wire::Hello& hello) {
  End* end = find(asker);
  if (end == nullptr || end->phase != Phase::asking) {  // dropped meanwhile: says so
    if (const End* other = find(acceptor)) {
      send({other->remote_node, other->node, acceptor},
           [this, acceptor] { fail(acceptor, FailReason::connect_timeout); });
    }
    return;
  }
  end->phase = Phase::answered;
  end->remote = acceptor;
  end->remote_qp = qp;
  acceptor_of_.erase(asker);
  tell(end->node, asker, {.kind = News::answered, .hello = hello});
}

bool Connections::establish(EndId asker) {
  End* end = find(asker);
  if (end == nullptr || end->phase != Phase::answered) return false;
  end->phase = Phase::established;
  const EndId acceptor = end->remote;
  if (Nic* nic = fabric_.nics[end->node])
    nic->connect_qp(end->qp, end->remote_node, end->remote_qp);
  send({end->node, end->remote_node, acceptor}, [this, acceptor] {
    End* other = find(acceptor);
    if (other == nullptr || other->phase != Phase::accepting) return;
    other->phase = Phase::established;
    tell(other->node, acceptor, {.kind = News::established});
  });
  return true;
}

void Connections::reject(EndId id, wire::Reject reason) {
  const End* end = find(id);
  if (end == nullptr) return;
  const EndId asker = end->remote;
  const Message message{end->node, end->remote_node, asker};
  ends_.erase(id);
  send(message, [this, asker, reason] {
    const End* other = find(asker);
    if (other == nullptr || other->phase != Phase::asking) return;
    const Node node = other->node;
    ends_.erase(asker);
    acceptor_of_.erase(asker);
    tell(node, asker, {.kind = News::rejected, .reject = reason});
  });
}

// An attempt came to nothing; the process drops its end when it hears of it.
void Connections::fail(EndId id, FailReason reason) {
  End* end = find(id);
  if (end == nullptr || end->phase == Phase::established || end->phase == Phase::failed) return;
  end->phase = Phase::failed;
  tell(end->node, id, {.kind = News::failed, .reason = reason});
}

void Connections::drop(EndId id) {
  const End* found = find(id);
  if (found == nullptr) return;
  const End end = *found;
  EndId remote = end.remote;
  if (const auto it = acceptor_of_.find(id); it != acceptor_of_.end()) {
    if (remote == EndId::none) remote = it->second;
    acceptor_of_.erase(it);
  }
  ends_.erase(id);
  hang_up(end, remote);
}

// Tells the other end: a connection that was established goes down, an attempt fails. Only once:
// the kernel repeats nothing for an end that is gone.
void Connections::hang_up(const End& end, EndId remote) {
  if (remote == EndId::none) return;
  const bool was_established = end.phase == Phase::established;
  send({.from = end.node, .to = end.remote_node, .fails = EndId::none, .tries = 1},
       [this, remote, was_established] {
         const End* other = find(remote);
         if (other == nullptr) return;
         if (!was_established && other->phase != Phase::established) {
           return fail(remote, FailReason::connect_timeout);
         }
         const Node node = other->node;
         ends_.erase(remote);
         tell(node, remote, {.kind = News::gone});
       });
}

}  // namespace weir::sim
