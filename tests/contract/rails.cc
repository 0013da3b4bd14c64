#include "tests/contract/rails.h"

#include <algorithm>
#include <utility>

#include "transport/lane/train.h"

namespace weir::sim {

// A peer over all rails (rail/frames.h).
class Rails::Ways {
 public:
  Ways(Rails& rails, Peer& peer) : rails_(rails), peer_(peer), id_(id_of(peer.node)) {}

  std::size_t count() const { return rails_.count(); }
  std::optional<std::uint32_t> hold(std::size_t rail, bool even_if_ready) {
    return rails_.engine(rail).hold(id_, even_if_ready);
  }
  std::optional<std::uint32_t> received_before_end(std::size_t rail) {
    return rails_.engine(rail).received_before_end(id_);
  }
  auto give_away(std::size_t rail, std::uint32_t received) {
    return rails_.engine(rail).give_away(id_, received);
  }
  auto take_unsent(std::size_t rail) { return rails_.engine(rail).take_unsent(id_); }
  void let_go(std::size_t rail) { rails_.engine(rail).let_go(id_); }
  bool send(std::size_t over, const HandoverMessage& message) {
    return rails_.engine(over).send_handover(id_, message);
  }
  Status carry(std::size_t over, const SendSlot& frame) {
    rails_.upcalls_.on_carried(peer_.node, frame);
    return rails_.engine(over).carry(id_, frame);
  }
  void discard(std::size_t rail, SendSlot* slot) { rails_.engine(rail).discard(slot); }
  void connect(std::size_t rail) { rails_.engine(rail).connect(id_); }
  void withdraw(std::size_t rail) { rails_.withdraw(peer_, rail); }
  void on_way_lost(std::size_t rail, FailReason) { peer_.ways[rail].lose(now()); }
  void on_given_away(std::size_t, std::size_t frames, std::size_t lost) {
    rails_.counts_.frames_carried += frames;
    if (lost > 0) rails_.fabric_.violation("frames that were given away found no rail");
  }

 private:
  Time now() const { return rails_.fabric_.events.now(); }

  Rails& rails_;
  Peer& peer_;
  PeerId id_;
};

class Rails::RailUpcalls : public sim::Upcalls {
 public:
  RailUpcalls(Rails& rails, std::size_t rail) : rails_(rails), rail_(rail) {}

  void on_message(const Delivery& message) override {
    rails_.upcalls_.on_message(index(message.peer), rail_, message);
    if (message.last) rails_.engine(rail_).release(message.buffer);
  }
  void on_retired(SendSlot* slot, bool delivered) override {
    void* const user = slot->user;
    rails_.engine(rail_).discard(slot);
    rails_.upcalls_.on_delivered(user, delivered);
  }
  void on_transfer(const TransferEnd& end) override { rails_.end(end.token, end.ok); }
  void on_failure(const Failure& failure) override {
    rails_.lose_peer(rails_.peer_of(failure.peer), rail_, failure);
  }

 private:
  Rails& rails_;
  std::size_t rail_;
};

Rails::Rails(Fabric& fabric, Connections& connections, Node process, Node processes,
             std::size_t rails, const Engine::Config& config, bool spread, Upcalls& upcalls)
    : fabric_(fabric), upcalls_(upcalls), self_{7, process}, spread_(spread) {
  for (std::size_t rail = 0; rail < rails; ++rail) {
    Engine::Config own = config;
    own.core.self = self_;
    own.core.among_rails = rails > 1;
    const Node base = static_cast<Node>(rail) * processes;
    engines_.push_back(std::make_unique<Engine>(fabric, connections, base + process, own));
    Engine& engine = *engines_.back();
    engine.expect_peers(processes);
    for (Node other = 0; other < processes; ++other) engine.add_peer({7, other}, base + other);
    if (rails > 1) engine.watch_links([this] { serve_links(); });
  }
  for (Node other = 0; other < processes; ++other) {
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->node = other;
    peers_.back()->links.set_first(process < other);
  }
}

// ---- frames ----

std::size_t Rails::turn_for(Peer& peer) {
  if (!spread_) return 0;
  Ways ways(*this, peer);
  return RailFrames(peer.links, ways).next_in_turn();
}

Status Rails::send(Node to, std::uint32_t length_bytes, std::uint8_t tag,
                   const std::function<void(std::byte*, std::size_t)>& write) {
  Peer& peer = *peers_[to];
  return peer.links.send(count(), turn_for(peer), [&](std::size_t rail) {
    return engine(rail).send_filled(id_of(to), length_bytes, tag,
                                    [&](std::byte* at) { write(at, rail); });
  });
}

bool Rails::want_trains() const {
  return std::all_of(engines_.begin(), engines_.end(),
                     [](const auto& engine) { return engine->core().wants_trains(); });
}

Status Rails::send_train(Node to, std::uint32_t number, std::uint32_t length_bytes,
                         std::uint8_t tag, const WritePart& write) {
  const Train train(number, length_bytes, tag, 0, engine(0).core().max_payload_bytes());
  Peer& peer = *peers_[to];
  return peer.links.send(count(), turn_for(peer), [&](std::size_t rail) {
    return engine(rail).send_train(id_of(to), train.cars(), [&](std::uint32_t car, std::byte* at) {
      return train.write_car(car, at,
                             [&](std::byte* part, std::uint32_t offset, std::uint32_t bytes) {
                               write(part, offset, bytes, rail);
                             });
    });
  });
}

void Rails::let_train(Node peer, bool may) {
  for (const auto& engine : engines_) engine->let_train(id_of(peer), may);
}

Status Rails::send_told(Node to, std::uint32_t length_bytes, std::uint8_t tag, void* user,
                        const std::function<void(std::byte*, std::size_t)>& write) {
  Peer& peer = *peers_[to];
  return peer.links.send(count(), turn_for(peer), [&](std::size_t rail) {
    SendSlot* const slot = engine(rail).acquire(length_bytes);
    slot->notify = true;
    slot->user = user;
    write(slot->payload(), rail);
    const Status status = engine(rail).send(id_of(to), slot, length_bytes, tag, true);
    if (status != Status::ok) engine(rail).discard(slot);
    return status;
  });
}

void Rails::serve_links() {
  if (std::exchange(serving_, true)) return;
  for (bool more = true; more;) {
    more = false;
    for (std::size_t rail = 0; rail < count(); ++rail) {
      for (const LinkNews& news : engine(rail).take_links()) {
        more = true;
        Peer& peer = peer_of(news.peer);
        Ways ways(*this, peer);
        RailFrames(peer.links, ways).on_news(rail, news);
      }
    }
  }
  serving_ = false;
}

void Rails::lose_peer(Peer& peer, std::size_t rail, const Failure& failure) {
  if (leaving_) return;
  if (count() > 1) {
    serve_links();
    Ways ways(*this, peer);
    if (RailFrames(peer.links, ways)
            .outlives(rail, failure.reason, failure.lost_work, failure.in_doubt)) {
      ++counts_.given_up;
      if (rail > 0) peer.ways[rail].lose(fabric_.events.now());
      return;
    }
  }
  upcalls_.on_peer_lost(peer.node, rail, failure);
}

// ---- transfers ----

RailKeys Rails::register_memory(void* memory, std::uint64_t bytes, Access access) {
  RailKeys keys{};
  for (std::size_t rail = 0; rail < count(); ++rail) {
    const auto address = reinterpret_cast<std::uint64_t>(memory);
    keys[rail].rkey = engine(rail).nic().register_memory(address, bytes, access);
  }
  return keys;
}

RailTransfers::Mask Rails::others_of(const RailKeys& keys) {
  RailTransfers::Mask others = 0;
  for (std::size_t rail = 1; rail < most_rails; ++rail) {
    if (keys[rail].rkey != 0) others |= RailTransfers::bit_of(rail);
  }
  return others;
}

std::uint64_t Rails::begin(const Operation& operation) {
  operations_.push_back(operation);
  return operations_.size() - 1;
}

void Rails::transfer(Node to, TransferRequest request, const RailKeys& keys, std::uint8_t fenced) {
  Peer& peer = *peers_[to];
  request.peer = id_of(to);
  request.rkey = keys[0].rkey;
  Operation whole{.peer = &peer, .request = request, .keys = keys, .fenced = fenced};
  const RailTransfers::Mask others = request.length_bytes > 0 ? others_of(keys) : 0;
  if (!RailTransfers::keeps_to_first(request, others, peer.links)) return divide(whole);
  whole.request.movable = request.movable = others != 0;
  request.token = begin(whole);
  engine(0).transfer(request);
  look_back(peer, 0, others);
}

void Rails::divide(const Operation& whole) {
  Peer& peer = *whole.peer;
  const Time now = fabric_.events.now();
  RailTransfers::Usable may{};
  for (std::size_t rail = 0; rail < count(); ++rail) {
    may[rail] =
        RailTransfers::is_open(now, rail, peer.ways, peer.links) &&
        (rail == 0 || (whole.keys[rail].rkey != 0 && engine(rail).connect(id_of(peer.node))));
  }
  TransferRequest request = whole.request;
  request.token = begin(whole);  // the parts' own
  const Divisions::Parts parts =
      transfers_.begin(now, request, may, peer.ways, {}, whole.keys, whole.fenced);
  for (std::size_t rail = count(); rail-- > 0;) {
    if (parts[rail] != nullptr) submit(*parts[rail], operations_[request.token]);
  }
}

void Rails::submit(Divisions::Part& part, const Operation& whole) {
  Peer& peer = *whole.peer;
  const std::size_t rail = part.over();
  TransferRequest request = part.request();
  request.peer = id_of(peer.node);
  if (part.step() != Divisions::Step::bytes) {
    request.local_address = reinterpret_cast<std::uint64_t>(&sinks_[rail]);
  }
  counts_.parts += rail > 0 ? 1 : 0;
  Operation operation{.peer = &peer, .request = whole.request, .keys = whole.keys, .part = &part};
  request.token = begin(operation);
  engine(rail).transfer(request);
  look_back(peer, rail, others_of(operation.keys));
}

void Rails::look_back(Peer& peer, std::size_t rail, RailTransfers::Mask others) {
  if (RailTransfers::came_too_late(rail, others, peer.links)) withdraw(peer, rail);
}

void Rails::withdraw(Peer& peer, std::size_t rail) {
  for (const TransferRequest& request : engine(rail).withdraw(id_of(peer.node))) {
    Operation& operation = operations_[request.token];
    operation.over = true;
    ++counts_.parts_again;
    operation.part == nullptr ? divide(Operation(operation)) : finish(operation, false);
  }
}

void Rails::end(std::uint64_t token, bool ok) {
  if (operations_[token].over) fabric_.violation("a transfer ended twice");
  operations_[token].over = true;
  const Operation& done = operations_[token];
  done.part == nullptr ? upcalls_.on_transfer({done.request.token, ok}) : finish(done, ok);
}

void Rails::finish(const Operation& done, bool ok) {
  using Kind = RailTransfers::Next::Kind;
  Peer& peer = *done.peer;
  const RailTransfers::Next next =
      transfers_.end_of_step(fabric_.events.now(), *done.part, ok, true, peer.links, peer.ways);
  switch (next.kind) {
    case Kind::going: return;
    case Kind::again:
    case Kind::step: return submit(*done.part, done);
    case Kind::over: break;
  }
  operations_[next.token].over = true;
  upcalls_.on_transfer({operations_[next.token].request.token, next.ok});
}

// ---- progress and end ----

int Rails::progress() {
  serve_links();
  const Time now = fabric_.events.now();
  if (now - asked_again_ >= first_rail_asked_every) {
    asked_again_ = now;
    for (const auto& peer : peers_) {
      if (peer->links.is_lost(0) && !leaving_) engine(0).connect(id_of(peer->node));
    }
  }
  int count = 0;
  for (std::size_t rail = 0; rail < this->count(); ++rail) {
    RailUpcalls upcalls(*this, rail);
    count += engine(rail).progress(upcalls);
  }
  return count;
}

bool Rails::idle() const {
  return std::all_of(engines_.begin(), engines_.end(),
                     [](const auto& engine) { return engine->idle(); }) &&
         parts_out() == 0;
}

bool Rails::try_close_all() {
  bool all = true;
  for (std::size_t rail = count(); rail-- > 1;) all = engine(rail).try_close_all() && all;
  return all && engine(0).try_close_all();
}

void Rails::abandon_all() {
  for (const auto& engine : engines_) engine->abandon_all();
}

}  // namespace weir::sim
