#include "tools/sim/application.h"

#include <algorithm>
#include <cstring>

namespace weir::sim {
namespace {

constexpr Duration longest_sleep = microseconds(500);
constexpr Duration close_timeout = seconds(10);

}  // namespace

Application::Application(Fabric& fabric, Engine& engine, const Script& script,
                         std::uint64_t content_seed)
    : fabric_(fabric),
      engine_(engine),
      script_(script),
      content_seed_(content_seed),
      random_(fabric.random.fork(engine.node())),
      one_sided_(fabric, engine, script.one_sided) {
  // A sleeping program looks again when something arrived.
  engine_.nic().on_completion = [this] {
    if (quiet_turns_ == 0 || computing_) return;
    quiet_turns_ = 0;
    schedule(script_.turn);
  };
}

void Application::add_peer(Node node, PeerId id) {
  if (peers_.size() <= node) peers_.resize(node + 1);
  if (node_of_.size() <= index(id)) node_of_.resize(index(id) + 1);
  peers_[node].id = id;
  node_of_[index(id)] = node;
}

// ---- messages both ends can compute ----

std::uint32_t Application::size_of(std::uint64_t content_seed, const Script& sender, Node from,
                                   Node to, std::uint64_t number, std::uint32_t most) {
  if (sender.bytes > 0) return std::min(sender.bytes, most);
  Random random(mix(content_seed + 1) ^
                mix(std::uint64_t{from} << 40 | std::uint64_t{to} << 32 | number));
  if (random.chance(sender.small_permille)) return random.between(0, std::min(64u, most));
  if (random.chance(100)) return most;
  return random.between(0, most);
}

void Application::fill(std::byte* at, std::uint32_t size, std::uint64_t key) {
  for (std::uint32_t i = 0; i < size; i += 8) {
    key = key * 6364136223846793005ull + 1442695040888963407ull;
    std::memcpy(at + i, &key, std::min(8u, size - i));
  }
}

// ---- phases ----

void Application::begin(Phase phase, const std::vector<std::uint32_t>& expected,
                        std::uint32_t most) {
  phase_ = phase;
  closed_ = false;
  closing_since_ = fabric_.events.now();
  for (Node node = 0; node < peers_.size(); ++node) {
    Peer& peer = peers_[node];
    if (peer.id == PeerId::none || phase != Phase::traffic) continue;
    peer.to_send = node < script_.messages.size() ? std::min(script_.messages[node], most) : 0;
    peer.to_receive = node < expected.size() ? expected[node] : 0;
  }
  computing_ = false;
  schedule(random_.up_to(script_.start));
}

bool Application::is_done(Node node) const {
  const Peer& peer = peers_[node];
  if (peer.failed || peer.forgotten) return true;
  return peer.to_send == 0 && peer.to_receive == 0 && peer.notifications == 0 &&
         one_sided_.is_done(node);
}

bool Application::finished() const {
  if (stopped_ || phase_ == Phase::over) return true;
  if (phase_ == Phase::closing) return closed_;
  if (!engine_.idle() || !kept_.empty()) return false;
  for (Node node = 0; node < peers_.size(); ++node) {
    if (!is_done(node)) return false;
  }
  return true;
}

// ---- turns ----

void Application::schedule(Duration delay) {
  const std::uint64_t number = ++scheduled_;
  fabric_.events.after(delay, [this, number] {
    if (number == scheduled_ && !stopped_ && !engine_.dead()) turn();
  });
}

void Application::turn() {
  ++turns_;
  computing_ = false;
  while (!kept_.empty() && kept_.front().until_turn <= turns_) {
    engine_.release(kept_.front().buffer);
    kept_.pop_front();
  }
  const std::uint64_t sent_before = scheduled_;
  const int heard = engine_.progress(*this);
  if (phase_ == Phase::traffic) {
    send_some();
    for (Node node = 0; node < peers_.size(); ++node) {
      if (peers_[node].id != PeerId::none) one_sided_.start_some(node, peers_[node].id);
    }
  }
  if (phase_ == Phase::closing && !closed_) {
    closed_ = engine_.try_close_all();
    if (!closed_ && fabric_.events.now() - closing_since_ > close_timeout) {
      if (!excused()) fabric_.violation("a connection could not be closed in time");
      engine_.abandon_all();
      closed_ = true;
    }
  }
  if (sent_before != scheduled_) return;  // somebody scheduled already
  if (random_.chance(script_.compute_permille)) {
    computing_ = true;
    return schedule(random_.up_to(script_.compute));
  }
  const bool wants_more = heard > 0 || !kept_.empty() ||
                          std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
                            return peer.to_send > 0 && !peer.failed && !peer.forgotten;
                          });
  if (script_.spins && (!finished() || deals_with_node())) {
    quiet_turns_ = 0;
    return schedule(script_.turn);
  }
  quiet_turns_ = wants_more && quiet_turns_ < 4 ? (heard > 0 ? 0 : quiet_turns_ + 1)
                                                : std::min(quiet_turns_ + 1, 20u);
  schedule(std::min(longest_sleep, script_.turn * (std::int64_t{1} << quiet_turns_)));
}

void Application::send_some() {
  const std::uint32_t count = random_.between(1, script_.burst);
  const auto start = static_cast<Node>(random_.below(peers_.size()));
  const bool stick = random_.chance(500);  // a burst to one, or one to each
  Node to = start;
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::size_t tries = 0; tries < peers_.size() && !send_one(to, peers_[to]); ++tries) {
      to = static_cast<Node>((to + 1) % peers_.size());
    }
    if (!stick) to = static_cast<Node>((to + 1) % peers_.size());
  }
}

bool Application::send_one(Node to, Peer& peer) {
  if (peer.to_send == 0 || peer.failed) return false;
  const std::uint32_t size = size_of(content_seed_, script_, engine_.node(), to, peer.sent,
                                     engine_.core().max_payload_bytes());
  const std::uint64_t content = key(engine_.node(), to, peer.sent);
  const auto tag = static_cast<std::uint8_t>(peer.sent);
  const bool notify = random_.chance(script_.notify_permille);
  Status status;
  if (notify) {
    SendSlot* slot = engine_.acquire(size);
    slot->notify = true;
    slot->wakes = script_.wakes;
    slot->user = &peer;
    fill(slot->payload(), size, content);
    const bool must_take = random_.chance(300);
    status = engine_.send(peer.id, slot, size, tag, must_take);
    if (status == Status::ok) {
      ++peer.notifications;
    } else {
      engine_.discard(slot);
      if (must_take && status == Status::back_pressure) {
        fabric_.violation("back-pressure although the message had to be taken");
      }
    }
  } else {
    status =
        engine_.send_filled(peer.id, size, tag, [&](std::byte* at) { fill(at, size, content); });
  }
  if (status == Status::too_large) fabric_.violation("a message of a legal size was too large");
  if (status == Status::peer_failed) {
    if (!peer.may_fail) fabric_.violation("a send to a healthy peer was refused as failed");
    peer.to_send = 0;
  }
  if (status != Status::ok) return false;
  ++peer.sent;
  --peer.to_send;
  return true;
}

// ---- upcalls ----

void Application::on_message(const Delivery& delivery) {
  const Node from = node_of_[index(delivery.peer)];
  Peer& peer = peers_[from];
  const std::uint64_t number = peer.arrived++;
  const std::uint32_t size = size_of(content_seed_, *scripts[from], from, engine_.node(), number,
                                     engine_.core().max_payload_bytes());
  if (delivery.length_bytes != size || delivery.tag != static_cast<std::uint8_t>(number) ||
      !matches(delivery.payload, size, key(from, engine_.node(), number))) {
    fabric_.violation(fmt::format("node {}: message {} from node {} is not what was sent",
                                  engine_.node(), number, from));
  }
  if (peer.to_receive == 0) fabric_.violation("more messages arrived than were sent");
  peer.to_receive -= peer.to_receive > 0 ? 1 : 0;
  ++received_;
  last_message_ = fabric_.events.now();
  if (scripts[from]->one_sided.announced_bytes > 0) one_sided_.fetch(from);
  if (!delivery.last) return;
  if (random_.chance(script_.keep_permille)) {
    const std::uint64_t until = turns_ + random_.between(1, script_.keep_turns);
    kept_.push_back(
        {delivery.buffer, kept_.empty() ? until : std::max(until, kept_.back().until_turn)});
  } else {
    engine_.release(delivery.buffer);
  }
}

void Application::on_retired(SendSlot* slot, bool delivered) {
  Peer& peer = *static_cast<Peer*>(slot->user);
  if (peer.notifications == 0) fabric_.violation("a slot came back twice");
  --peer.notifications;
  if (!delivered && !peer.may_fail) fabric_.violation("a message to a healthy peer was dropped");
  engine_.discard(slot);
}

void Application::on_failure(const Failure& failure) {
  Peer& peer = peers_[node_of_[index(failure.peer)]];
  if (!peer.may_fail) {
    fabric_.violation(fmt::format("a healthy peer was given up: {}, {}", to_text(failure.reason),
                                  to_text(failure.completion)));
  }
  if (peer.failed) fabric_.violation("a failure was reported twice");
  peer.failed = true;
  one_sided_.give_up(node_of_[index(failure.peer)]);
}

void Application::on_transfer(const TransferEnd& end) {
  last_message_ = fabric_.events.now();
  if (one_sided_.on_end(end)) return;
  if (!excused()) fabric_.violation("an operation on a healthy peer failed");
}

bool Application::excused() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.may_fail; });
}

std::string Application::describe() const {
  std::string text = fmt::format("node {}:", engine_.node());
  if (engine_.dead()) return text + " dead";
  const Core& core = engine_.core();
  for (Node node = 0; node < peers_.size(); ++node) {
    const Peer& peer = peers_[node];
    if (peer.id == PeerId::none) continue;
    const Core::Standing standing = core.standing(peer.id);
    text += fmt::format(" [peer {} {} to send {} to receive {} notices {}{}", node,
                        to_text(core.state(peer.id)), peer.to_send, peer.to_receive,
                        peer.notifications, peer.failed ? " failed" : "");
    text += fmt::format(" pending {} credits {}/{} out {}]", standing.pending_frames,
                        standing.credits, standing.control_credits, standing.credits_out);
  }
  const Core::ProxyStanding proxy = core.proxy_standing();
  text += fmt::format(" given {}{}{} in hand {}", proxy.given, proxy.jammed ? " jammed" : "",
                      proxy.serves ? " serves" : "", proxy.in_hand);
  const Counters& counters = core.counters();
  return text + fmt::format(" window {} posted {} (adapter {}) credits out {} kept {}",
                            counters.window, counters.receives_posted, engine_.nic().posted(),
                            counters.credits_out, kept_.size());
}

}  // namespace weir::sim
