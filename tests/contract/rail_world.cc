#include "tests/contract/rail_world.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <tuple>

#include "tests/contract/rails.h"
#include "tools/sim/one_sided.h"
#include "transport/lane/assembly.h"
#include "transport/lane/train.h"

namespace weir::sim {
namespace {

constexpr Duration longest_sleep = milliseconds(20);
constexpr Duration agree_within = seconds(30);
constexpr Duration close_within = seconds(10);

// What a message begins with.
struct Head {
  std::uint32_t number;  // of all from there to here
  std::uint32_t rail;    // that took it
  std::uint32_t place;   // among those that rail took
  std::uint32_t bytes;
};

class World;

// A process: it sends what is planned, gets and puts, and checks all that comes.
class Program : public Rails::Upcalls {
 public:
  Program(World& world, Node self, const RailPlan& plan);

  void meet();
  void start() { schedule(random_.up_to(microseconds(50))); }
  void begin_traffic();
  // Everything it waits for has come.
  bool is_done() const;
  void close() {
    closing_ = true;
    closing_since_ = now();
    rails_.leave();
    schedule(random_.up_to(microseconds(50)));
  }
  bool is_closed() const { return closed_; }
  void stop() { stopped_ = true; }
  void check_end();
  std::string text() const;

  Rails& rails() { return rails_; }
  std::uint64_t received() const { return received_; }

  void on_message(Node from, std::size_t rail, const Delivery& message) override;
  void on_delivered(void* user, bool delivered) override;
  void on_transfer(const TransferEnd& end) override;
  void on_peer_lost(Node peer, std::size_t rail, const Failure& failure) override;
  void on_carried(Node to, const SendSlot& frame) override;

 private:
  enum class Kind : std::uint8_t { get, put, add };
  struct Operation {
    Kind kind;
    Node to;
    std::uint64_t offset;
    AlignedBytes memory;
    bool over = false;
  };
  struct Peer {
    std::uint32_t to_send = 0;
    std::uint32_t to_do = 0;  // operations
    std::uint32_t sent = 0;
    std::uint32_t got = 0;
    std::array<std::uint32_t, most_rails> taken{};   // by each rail, of what we send
    std::array<std::uint32_t, most_rails> placed{};  // of what came over each
    std::vector<bool> has;
    bool putting = false;
    AlignedBytes put;  // the last one that is over
  };

  Time now() const;
  void schedule(Duration delay);
  void turn();
  void send_some();
  bool send_one(Node to);
  bool send_train(Node to);
  void take(Node from, std::size_t rail, const Delivery& message);
  void do_some();
  void start(Node to, Kind kind);
  std::byte* slot_at(Node to) const;
  std::byte page_byte(std::uint64_t offset) const {
    return static_cast<std::byte>((offset * 131 + offset / 251 + self_ * 17) & 0xff);
  }
  void check_put(Node to);

  World& world_;
  const Node self_;
  const RailPlan& plan_;
  Script script_;
  Random random_;
  Random of_trains_;
  Assembly assembly_;
  Rails rails_;
  std::vector<Peer> peers_;
  std::vector<Operation> operations_;
  std::uint32_t under_way_ = 0;
  std::uint32_t owed_ = 0;  // sends whose ends are to be told
  std::set<std::pair<Node, std::uint32_t>> carried_;
  std::uint64_t received_ = 0;
  std::uint64_t scheduled_ = 0;
  std::uint32_t quiet_ = 0;
  bool computing_ = false;
  bool closing_ = false;
  bool closed_ = false;
  bool stopped_ = false;
  Time closing_since_{};

  AlignedBytes pages_;
  AlignedBytes slots_;
  std::uint64_t counter_ = 0;
  std::uint64_t added_ = 0;
  RailKeys pages_keys_{};
  RailKeys slots_keys_{};
  RailKeys counter_keys_{};

  friend class World;
};

class World {
 public:
  World(const RailPlan& plan, std::function<void(const std::string&)> trace)
      : plan(plan),
        fabric(plan.base.timing, plan.base.hazards, mix(plan.base.seed)),
        connections(fabric) {
    fabric.trace_sink = std::move(trace);
    const auto count = static_cast<Node>(plan.base.scripts.size());
    for (Node node = 0; node < count; ++node) {
      programs.push_back(std::make_unique<Program>(*this, node, plan));
    }
    for (const auto& program : programs) program->meet();
  }

  Outcome run() {
    // Everybody meets everybody before anything goes wrong.
    for (const auto& program : programs) program->start();
    const bool met = go_on("stuck while meeting", seconds(30), [&] { return all_done(); });
    if (!met) return outcome();
    const Duration after = fabric.events.now() - Time{};
    for (const RailFault& fault : plan.faults) {
      fabric.events.at(fault.when + after, [this, &fault] { strike(fault); });
      last_fault_ = std::max(last_fault_, fault.when + after + fault.lasts);
    }
    for (const auto& program : programs) program->begin_traffic();
    if (!go_on("stuck", seconds(120), [&] { return all_done(); })) return outcome();
    if (!go_on("", seconds(120), [&] { return fabric.events.now() > last_fault_; })) {
      return outcome();
    }
    if (!go_on("the ends of a rail never agree", agree_within,
               [&] { return all_done() && agree(); })) {
      return outcome();
    }
    for (const auto& program : programs) program->check_end();
    for (const auto& program : programs) program->close();
    const bool closed = go_on("stuck while closing", seconds(60), [&] {
      return std::all_of(programs.begin(), programs.end(),
                         [](const auto& one) { return one->is_closed(); });
    });
    if (closed) settle();
    return outcome();
  }

  // Whether that rail between the two may be lost.
  bool is_gone(std::size_t rail, Node a, Node b) const {
    return std::any_of(plan.faults.begin(), plan.faults.end(), [&](const RailFault& fault) {
      return fault.kind == RailFault::Kind::gone && fault.rail == rail &&
             (fault.all || std::minmax(fault.process, fault.other) == std::minmax(a, b));
    });
  }
  bool has_gone() const {
    return std::any_of(plan.faults.begin(), plan.faults.end(),
                       [](const RailFault& fault) { return fault.kind == RailFault::Kind::gone; });
  }

  const RailPlan& plan;
  Fabric fabric;
  Connections connections;
  std::vector<std::unique_ptr<Program>> programs;

 private:
  Node node_of(std::size_t rail, Node process) const {
    return static_cast<Node>(rail * programs.size()) + process;
  }
  template <typename Visit>
  void for_pairs(const RailFault& fault, Visit&& visit) {
    const auto count = static_cast<Node>(programs.size());
    if (!fault.all) {
      return visit(node_of(fault.rail, fault.process), node_of(fault.rail, fault.other));
    }
    for (Node a = 0; a < count; ++a) {
      for (Node b = a + 1; b < count; ++b) visit(node_of(fault.rail, a), node_of(fault.rail, b));
    }
  }

  void strike(const RailFault& fault) {
    if (fault.kind == RailFault::Kind::break_pair) {
      const bool broke = programs[fault.process]
                             ->rails()
                             .engine(fault.rail)
                             .nic()
                             .break_some_qp(fault.pick, CompletionStatus::retry_exc_err);
      outcome_.broken_pairs += broke ? 1 : 0;
      return;
    }
    fabric.trace(0, "rail ", fault.rail, " is black");
    for_pairs(fault, [&](Node a, Node b) { fabric.cut(a, b); });
    if (fault.told) {
      for (const auto& program : programs) program->rails().engine(fault.rail).lose_port();
    }
    if (fault.kind == RailFault::Kind::gone) {
      ++outcome_.cuts;
      return;
    }
    ++outcome_.outages;
    fabric.events.after(fault.lasts, [this, &fault] {
      fabric.trace(0, "rail ", fault.rail, " is back");
      for_pairs(fault, [&](Node a, Node b) { fabric.mend(a, b); });
    });
  }

  bool all_done() const {
    return std::all_of(programs.begin(), programs.end(),
                       [](const auto& one) { return one->is_done(); });
  }

  template <typename Until>
  bool go_on(const char* why_not, Duration within, Until&& until) {
    const Time deadline = fabric.events.now() + within;
    for (std::uint64_t steps = 0; !until(); ++steps) {
      if (!fabric.violations.empty()) return false;
      if (fabric.step() && fabric.events.now() < deadline && steps < plan.base.most_steps) continue;
      fabric.violation(why_not);
      for (const auto& program : programs) fabric.violation(program->text());
      return false;
    }
    return fabric.violations.empty();
  }

  // Nobody holds anything, or is about to make or end something.
  bool agree() const {
    const auto has_none = [](PeerState state) {
      return state == PeerState::idle || state == PeerState::closed;
    };
    const auto count = static_cast<Node>(programs.size());
    for (Node a = 0; a < count; ++a) {
      for (Node b = a + 1; b < count; ++b) {
        for (std::size_t rail = 0; rail < plan.rails; ++rail) {
          if (is_gone(rail, a, b)) continue;
          const PeerState one = state_of(rail, a, b);
          const PeerState other = state_of(rail, b, a);
          const bool ready = one == PeerState::ready && other == PeerState::ready;
          if (!ready && !(has_none(one) && has_none(other))) return false;
          if (plan.rails == 1) continue;
          if (programs[a]->rails_.links(b).is_up(rail) != ready ||
              programs[b]->rails_.links(a).is_up(rail) != ready) {
            return false;
          }
        }
      }
    }
    return true;
  }
  PeerState state_of(std::size_t rail, Node at, Node of) const {
    return programs[at]->rails_.engine(rail).core().state(PeerId{of});
  }

  void settle() {
    fabric.run_until(fabric.events.now() + milliseconds(5));
    for (const auto& program : programs) {
      program->stop();
      for (int look = 0; look < 3; ++look) program->rails().progress();
    }
    if (!fabric.wire->adds_up()) fabric.violation("the wire lost or made something");
    for (const auto& program : programs) {
      Rails& rails = program->rails();
      if (rails.parts_out() > 0) fabric.violation("a part of a transfer never ended");
      for (std::size_t rail = 0; rail < rails.count(); ++rail) {
        rails.engine(rail).check_at_rest();
      }
    }
  }

  Outcome outcome() {
    outcome_.violations = fabric.violations;
    outcome_.steps = fabric.events.steps();
    outcome_.end = fabric.events.now();
    outcome_.hash = mix(fabric.hash ^ outcome_.steps);
    for (const auto& program : programs) {
      outcome_.messages += program->received();
      const Rails::Counts& counts = program->rails().counts();
      outcome_.rails.frames_carried += counts.frames_carried;
      outcome_.rails.parts += counts.parts;
      outcome_.rails.parts_again += counts.parts_again;
      outcome_.rails.given_up += counts.given_up;
      for (std::size_t rail = 0; rail < plan.rails; ++rail) {
        const Engine& engine = program->rails().engine(rail);
        outcome_.rnr_naks += engine.nic().rnr_naks();
        for (const auto& counter : counter_table) {
          outcome_.total.*counter.field += engine.core().counters().*counter.field;
        }
      }
    }
    outcome_.hazards = fabric.hazards;
    outcome_.wire = fabric.wire->counts();
    return outcome_;
  }

  Outcome outcome_;
  Time last_fault_{};
};

Engine::Config config_of(const RailPlan& plan, Node self) {
  Engine::Config config = plan.base.engine;
  config.nic.limit_style = plan.base.limit_styles[self];
  config.nic.loses_fetches = config.nic.limit_style == SrqLimitStyle::rxe;
  config.core.fetches_apart = config.nic.loses_fetches;
  config.nic.srq_depth = std::max(config.core.window.max, config.core.window.most);
  config.nic.max_rd_atomic = config.core.fetches_answered = config.core.max_rd_atomic;
  return config;
}

Program::Program(World& world, Node self, const RailPlan& plan)
    : world_(world),
      self_(self),
      plan_(plan),
      script_(plan.base.scripts[self]),
      random_(world.fabric.random.fork(self)),
      of_trains_(mix(plan.base.seed) + self),
      assembly_(1000, Train::most_bytes(plan.base.engine.core.buffer_bytes), 8),
      rails_(world.fabric, world.connections, self, static_cast<Node>(plan.base.scripts.size()),
             plan.rails, config_of(plan, self), plan.spread, *this),
      peers_(plan.base.scripts.size()) {
  for (std::size_t rail = 0; rail < plan.rails; ++rail) {
    // A sleeping program looks again when something arrived.
    rails_.engine(rail).nic().on_completion = [this] {
      if (quiet_ == 0 || computing_) return;
      quiet_ = 0;
      schedule(script_.turn);
    };
  }
}

void Program::meet() {
  pages_ = AlignedBytes(2 * plan_.largest);
  for (std::size_t i = 0; i < pages_.size(); ++i) pages_.data()[i] = page_byte(i);
  slots_ = AlignedBytes(peers_.size() * plan_.largest);
  pages_keys_ = rails_.register_memory(pages_.data(), pages_.size(), Access::remote_read);
  slots_keys_ =
      rails_.register_memory(slots_.data(), slots_.size(),
                             Access::local_write | Access::remote_read | Access::remote_write);
  counter_keys_[0] = rails_.register_memory(&counter_, sizeof counter_,
                                            Access::local_write | Access::remote_atomic)[0];
  for (Node to = 0; to < peers_.size(); ++to) peers_[to].to_send = to != self_ ? 1 : 0;
}

void Program::begin_traffic() {
  for (Node to = 0; to < peers_.size(); ++to) {
    peers_[to].to_send += script_.messages[to];
    peers_[to].to_do = to != self_ ? plan_.operations : 0;
  }
  quiet_ = 0;
  if (!computing_) schedule(script_.turn);
}

bool Program::is_done() const {
  if (computing_ || !rails_.idle() || under_way_ > 0 || owed_ > 0) return false;
  for (Node node = 0; node < peers_.size(); ++node) {
    const Peer& peer = peers_[node];
    const Peer& mirror = world_.programs[node]->peers_[self_];
    if (peer.to_send > 0 || peer.to_do > 0 || mirror.to_send > 0 || peer.got != mirror.sent) {
      return false;
    }
  }
  return true;
}

Time Program::now() const { return world_.fabric.events.now(); }

// ---- turns ----

void Program::schedule(Duration delay) {
  const std::uint64_t number = ++scheduled_;
  world_.fabric.events.after(delay, [this, number] {
    if (number == scheduled_ && !stopped_) turn();
  });
}

void Program::turn() {
  computing_ = false;
  quiet_ = std::max(quiet_, 1u);
  const std::uint64_t before = scheduled_;
  const int heard = rails_.progress();
  if (closing_ && !closed_) {
    closed_ = rails_.try_close_all();
    if (!closed_ && now() - closing_since_ > close_within) {
      if (!world_.has_gone()) world_.fabric.violation("a connection could not be closed in time");
      rails_.abandon_all();
      closed_ = true;
    }
  } else {
    send_some();
    do_some();
    if (of_trains_.chance(plan_.halts_permille)) {
      rails_.let_train(static_cast<Node>(of_trains_.below(peers_.size())), of_trains_.chance(500));
    }
  }
  if (scheduled_ != before) return;
  if (!closing_ && random_.chance(script_.compute_permille)) {
    computing_ = true;
    return schedule(random_.up_to(script_.compute));
  }
  if (!closing_ && plan_.pace.ns > 0 && random_.chance(300)) {
    return schedule(random_.up_to(plan_.pace));
  }
  const bool wants = heard > 0 || std::any_of(peers_.begin(), peers_.end(),
                                              [](const Peer& peer) { return peer.to_send > 0; });
  quiet_ = heard > 0 ? 1 : std::min(quiet_ + 1, wants ? 8u : 20u);
  schedule(std::min(longest_sleep, script_.turn * (std::int64_t{1} << quiet_)));
}

void Program::send_some() {
  for (std::uint32_t left = random_.between(1, script_.burst); left > 0; --left) {
    Node to = static_cast<Node>(random_.below(peers_.size()));
    for (std::size_t tries = 0; tries < peers_.size() && !send_one(to); ++tries) {
      to = static_cast<Node>((to + 1) % peers_.size());
    }
  }
}

std::uint64_t key_of(Node from, Node to, std::uint32_t number) {
  return mix(mix(std::uint64_t{from} << 40 | std::uint64_t{to} << 32 | number));
}

// False: it may not go now, and another message goes in its place.
bool Program::send_train(Node to) {
  // Now and then it has begun just before they were unwanted.
  if (!rails_.want_trains() && !of_trains_.chance(100)) return false;
  Peer& peer = peers_[to];
  const std::uint32_t frame = rails_.engine(0).core().max_payload_bytes();
  if (frame < 2 * sizeof(Head)) return false;
  const std::uint32_t bytes = of_trains_.between(frame + 1, frame * 8);
  std::size_t taker = 0;
  std::vector<std::byte> whole(bytes);
  const auto write = [&](std::byte* at, std::uint32_t offset, std::uint32_t part,
                         std::size_t rail) {
    taker = rail;
    if (offset == 0) {
      const Head head{peer.sent, static_cast<std::uint32_t>(rail), peer.taken[rail] + 1, bytes};
      std::memcpy(whole.data(), &head, sizeof head);
      Application::fill(whole.data() + sizeof head, bytes - static_cast<std::uint32_t>(sizeof head),
                        key_of(self_, to, peer.sent));
    }
    std::memcpy(at, whole.data() + offset, part);
  };
  const auto tag = static_cast<std::uint8_t>(peer.sent % wire::car_tag);
  const Status status = rails_.send_train(to, peer.sent, bytes, tag, write);
  if (status != Status::ok) return false;
  ++peer.taken[taker];
  ++peer.sent;
  --peer.to_send;
  return true;
}

bool Program::send_one(Node to) {
  Peer& peer = peers_[to];
  if (peer.to_send == 0) return false;
  if (of_trains_.chance(plan_.trains_permille) && send_train(to)) return true;
  const std::uint32_t most = rails_.engine(0).core().max_payload_bytes();
  constexpr std::uint32_t least = sizeof(Head);
  const std::uint32_t bytes =
      random_.between(least, random_.chance(script_.small_permille) ? std::min(128u, most) : most);
  std::size_t taker = 0;
  const auto write = [&](std::byte* at, std::size_t rail) {
    taker = rail;
    const Head head{peer.sent, static_cast<std::uint32_t>(rail), peer.taken[rail] + 1, bytes};
    std::memcpy(at, &head, sizeof head);
    Application::fill(at + sizeof head, bytes - least, key_of(self_, to, peer.sent));
  };
  const auto tag = static_cast<std::uint8_t>(peer.sent % wire::car_tag);
  const bool told = random_.chance(script_.notify_permille);
  const Status status =
      told ? rails_.send_told(to, bytes, tag, &peer, write) : rails_.send(to, bytes, tag, write);
  if (status == Status::back_pressure && !told) return false;
  if (status != Status::ok) {
    world_.fabric.violation("a message was refused: " + std::string(to_text(status)));
    return false;
  }
  owed_ += told ? 1 : 0;
  ++peer.taken[taker];
  ++peer.sent;
  --peer.to_send;
  return true;
}

// ---- one-sided ----

std::byte* Program::slot_at(Node to) const {
  return world_.programs[to]->slots_.data() + std::size_t{self_} * plan_.largest;
}

void Program::do_some() {
  for (Node to = 0; to < peers_.size(); ++to) {
    Peer& peer = peers_[to];
    while (peer.to_do > 0 && under_way_ < plan_.at_a_time) {
      const auto kind = static_cast<Kind>(random_.below(plan_.atomics ? 3 : 2));
      if (kind == Kind::put && peer.putting) break;
      --peer.to_do;
      start(to, kind);
    }
  }
}

void Program::start(Node to, Kind kind) {
  const Program& target = *world_.programs[to];
  const std::uint32_t bytes =
      random_.chance(300) ? random_.between(0, 64) : random_.between(0, plan_.largest);
  Operation operation{.kind = kind, .to = to, .offset = 0, .memory = AlignedBytes(bytes)};
  TransferRequest request{.length_bytes = bytes, .token = operations_.size()};
  const RailKeys* keys = nullptr;
  switch (kind) {
    case Kind::get:
      operation.offset = random_.between(0, plan_.largest);
      request.remote_address =
          reinterpret_cast<std::uint64_t>(target.pages_.data()) + operation.offset;
      keys = &target.pages_keys_;
      break;
    case Kind::put:
      check_put(to);
      peers_[to].putting = true;
      Application::fill(operation.memory.data(), bytes, random_.next());
      request.kind = TransferKind::put;
      request.opcode = Opcode::write;
      request.remote_address = reinterpret_cast<std::uint64_t>(slot_at(to));
      keys = &target.slots_keys_;
      break;
    case Kind::add:
      operation.memory = AlignedBytes(8);
      request.length_bytes = 8;
      request.opcode = Opcode::fetch_add;
      request.operand = 1;
      request.remote_address = reinterpret_cast<std::uint64_t>(&target.counter_);
      keys = &target.counter_keys_;
      break;
  }
  request.local_address = reinterpret_cast<std::uint64_t>(operation.memory.data());
  operations_.push_back(std::move(operation));
  ++under_way_;
  rails_.transfer(to, request, *keys, kind == Kind::put || kind == Kind::get ? plan_.fenced : 0);
}

// What the last put that is over has put is still there: nothing older came behind it.
void Program::check_put(Node to) {
  const AlignedBytes& put = peers_[to].put;
  if (peers_[to].putting || std::equal(put.begin(), put.end(), slot_at(to))) return;
  world_.fabric.violation("what was put is not there, or was overwritten");
}

void Program::on_transfer(const TransferEnd& end) {
  Operation& operation = operations_[end.token];
  if (std::exchange(operation.over, true)) world_.fabric.violation("an operation ended twice");
  --under_way_;
  if (!end.ok) return world_.fabric.violation("an operation failed");
  const Program& target = *world_.programs[operation.to];
  switch (operation.kind) {
    case Kind::get:
      for (std::size_t i = 0; i < operation.memory.size(); ++i) {
        if (operation.memory.data()[i] == target.page_byte(operation.offset + i)) continue;
        return world_.fabric.violation("a get ended with wrong bytes");
      }
      operation.memory = AlignedBytes();
      return;
    case Kind::put:
      // A shorter one leaves the rest of the last one there.
      peers_[operation.to].put = std::move(operation.memory);
      peers_[operation.to].putting = false;
      return check_put(operation.to);
    case Kind::add: ++added_; return;
  }
}

// ---- what comes up ----

void Program::on_message(Node from, std::size_t rail, const Delivery& message) {
  if (message.tag != wire::car_tag) return take(from, rail, message);
  Assembly::Whole whole;
  const Assembly::Took took = assembly_.take(from, message.payload, message.length_bytes, whole);
  if (took == Assembly::Took::part) return;
  if (took != Assembly::Took::whole) return world_.fabric.violation("a car is out of turn");
  Delivery as_one = message;
  as_one.payload = whole.bytes;
  as_one.length_bytes = whole.length_bytes;
  as_one.tag = whole.tag;
  take(from, rail, as_one);
  assembly_.give_back(whole);
}

void Program::take(Node from, std::size_t rail, const Delivery& message) {
  Peer& peer = peers_[from];
  Program& sender = *world_.programs[from];
  Head head{};
  if (message.length_bytes < sizeof head) {
    return world_.fabric.violation("a message is too short");
  }
  std::memcpy(&head, message.payload, sizeof head);
  const std::string name = "message " + std::to_string(head.number) + " from process " +
                           std::to_string(from) + " to " + std::to_string(self_);
  if (head.bytes != message.length_bytes ||
      message.tag != static_cast<std::uint8_t>(head.number % wire::car_tag) ||
      head.number >= sender.peers_[self_].sent + 1 ||
      !Application::matches(message.payload + sizeof head,
                            head.bytes - static_cast<std::uint32_t>(sizeof head),
                            key_of(from, self_, head.number))) {
    return world_.fabric.violation(name + " is not what was sent");
  }
  if (peer.has.size() <= head.number) peer.has.resize(head.number + 1);
  if (peer.has[head.number]) world_.fabric.violation(name + " came twice");
  peer.has[head.number] = true;
  ++peer.got;
  ++received_;
  if (sender.carried_.count({self_, head.number}) != 0) return;
  if (head.rail != rail) world_.fabric.violation(name + " came over a rail that it did not go by");
  if (head.place <= peer.placed[rail]) world_.fabric.violation(name + " came out of order");
  peer.placed[rail] = head.place;
}

void Program::on_delivered(void*, bool delivered) {
  --owed_;
  if (!delivered && !closing_) world_.fabric.violation("a message was dropped");
}

void Program::on_peer_lost(Node peer, std::size_t rail, const Failure& failure) {
  world_.fabric.violation("process " + std::to_string(self_) + " loses process " +
                          std::to_string(peer) + " over rail " + std::to_string(rail) + ": " +
                          to_text(failure.reason) + ", " + to_text(failure.completion) +
                          (failure.lost_work ? ", with work" : "") +
                          (failure.in_doubt ? ", in doubt" : ""));
}

void Program::on_carried(Node to, const SendSlot& frame) {
  std::uint32_t at = wire::frame_header_bytes;
  for (std::uint16_t i = 0; i < frame.messages; ++i) {
    at = static_cast<std::uint32_t>(wire::next_message_offset(at));
    const wire::MessageHeader header = wire::get_message_header(frame.frame + at);
    const std::byte* const message = frame.frame + at + wire::message_header_bytes;
    if (header.tag == wire::car_tag) {
      carried_.insert({to, wire::get_car(message, header.length_bytes)->train});
    } else {
      Head head;
      std::memcpy(&head, message, sizeof head);
      carried_.insert({to, head.number});
    }
    at += static_cast<std::uint32_t>(wire::message_header_bytes) + header.length_bytes;
  }
}

void Program::check_end() {
  for (Node to = 0; to < peers_.size(); ++to) check_put(to);
  if (assembly_.bytes() != 0) world_.fabric.violation("a train is half here at the end");
  if (self_ != 0) return;
  std::uint64_t added = 0;
  std::uint64_t counted = 0;
  for (const auto& one : world_.programs) {
    added += one->added_;
    counted += one->counter_;
  }
  if (added != counted) world_.fabric.violation("fetch-and-adds were lost or done twice");
}

std::string Program::text() const {
  std::string text = "process " + std::to_string(self_) + ":" + (computing_ ? " computes" : "") +
                     " under way " + std::to_string(under_way_) + " owed " + std::to_string(owed_) +
                     " parts " + std::to_string(rails_.parts_out());
  for (Node node = 0; node < peers_.size(); ++node) {
    const Peer& peer = peers_[node];
    const weir::Links& links = rails_.links(node);
    text += " [to " + std::to_string(node) + ": to send " + std::to_string(peer.to_send) +
            ", to do " + std::to_string(peer.to_do) + ", lacks " +
            std::to_string(world_.programs[node]->peers_[self_].sent - peer.got) + ", up " +
            std::to_string(links.up()) + ", down " + std::to_string(links.down());
    for (std::size_t rail = 0; rail < rails_.count(); ++rail) {
      const Core& core = rails_.engine(rail).core();
      text += std::string("; ") + to_text(core.state(PeerId{node})) +
              (core.is_held(PeerId{node}) ? " (held)" : "") + " pending " +
              std::to_string(core.standing(PeerId{node}).pending_frames);
    }
    text += "]";
  }
  return text;
}

}  // namespace

Outcome run(const RailPlan& plan, std::function<void(const std::string&)> trace) {
  return World(plan, std::move(trace)).run();
}

}  // namespace weir::sim
