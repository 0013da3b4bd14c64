// The contract on the simulator, once for each kind of adapter.
#include "tests/contract/contract_suite.h"
#include "tools/sim/engine.h"

namespace weir::contract {
namespace {

class SimSide : public Side, public sim::Upcalls {
 public:
  SimSide(sim::Fabric& fabric, sim::Connections& connections, sim::Node node,
          sim::Engine::Config config)
      : fabric_(fabric), engine_(fabric, connections, node, named(config, node)) {
    peer_ = engine_.add_peer({1, 1 - node}, 1 - node);
    engine_.expect_peers(1);
  }

  Status send(std::span<const std::byte> payload, std::uint8_t tag, bool waited) override {
    const auto size = static_cast<std::uint32_t>(payload.size());
    if (size > max_payload_bytes()) return Status::too_large;
    const auto fill = [&](std::byte* at) { std::copy(payload.begin(), payload.end(), at); };
    if (!waited) return engine_.send_filled(peer_, size, tag, fill);
    SendSlot* slot = engine_.acquire(size);
    slot->notify = true;
    fill(slot->payload());
    const Status status = engine_.send(peer_, slot, size, tag, false);
    if (status != Status::ok) engine_.discard(slot);
    return status;
  }

  void progress() override { engine_.progress(*this); }

  bool close() override {
    const Time deadline = fabric_.events.now() + seconds(10);
    while (!engine_.try_close_all()) {
      if (fabric_.events.now() >= deadline) return false;
      progress();
      fabric_.events.run_until(fabric_.events.now() + microseconds(5));
    }
    return true;
  }

  const Counters& counters() const override { return engine_.core().counters(); }
  std::uint32_t max_payload_bytes() const override { return engine_.core().max_payload_bytes(); }
  sim::Engine& engine() { return engine_; }

  void on_message(const Delivery& delivery) override {
    received.push_back(
        {delivery.tag, {delivery.payload, delivery.payload + delivery.length_bytes}});
    if (delivery.last) engine_.release(delivery.buffer);
  }
  void on_retired(SendSlot* slot, bool was_delivered) override {
    ++(was_delivered ? delivered : undelivered);
    engine_.discard(slot);
  }
  void on_failure(const Failure& failure) override { failures.push_back(failure.reason); }

 private:
  static sim::Engine::Config named(sim::Engine::Config config, sim::Node node) {
    config.core.self = {1, node};
    return config;
  }

  sim::Fabric& fabric_;
  sim::Engine engine_;
  PeerId peer_;
};

class SimPair : public Pair {
 public:
  SimPair(const Options& options, sim::SrqLimitStyle style)
      : fabric_({}, {}, 1),
        connections_(fabric_),
        left_(fabric_, connections_, 0, config(options, style)),
        right_(fabric_, connections_, 1, config(options, style)) {}

  ~SimPair() override {
    for (const std::string& text : fabric_.violations) ADD_FAILURE() << text;
    EXPECT_TRUE(left_.engine().core().conserved());
    EXPECT_TRUE(right_.engine().core().conserved());
    EXPECT_EQ(left_.engine().nic().rnr_naks() + right_.engine().nic().rnr_naks(), 0u);
  }

  Side& left() override { return left_; }
  Side& right() override { return right_; }
  void pass(Duration time) override { fabric_.events.run_until(fabric_.events.now() + time); }
  Time now() const override { return fabric_.events.now(); }
  bool kill_right() override {
    right_.engine().kill(false);
    return true;
  }

 private:
  static sim::Engine::Config config(const Options& options, sim::SrqLimitStyle style) {
    sim::Engine::Config config;
    config.core.buffer_bytes = options.buffer_bytes;
    config.core.window = {.initial = options.window_initial, .max = options.window_max};
    config.core.pending_frames = options.pending_frames;
    config.core.shrink_after = options.shrink_after;
    config.core.rnr_auto = true;
    config.nic.srq_depth = options.window_max;
    config.nic.limit_style = style;
    return config;
  }

  sim::Fabric fabric_;
  sim::Connections connections_;
  SimSide left_;
  SimSide right_;
};

template <sim::SrqLimitStyle style>
struct SimBackend {
  static std::unique_ptr<Pair> make(const Options& options) {
    return std::make_unique<SimPair>(options, style);
  }
};

using Backends =
    ::testing::Types<SimBackend<sim::SrqLimitStyle::hardware>, SimBackend<sim::SrqLimitStyle::rxe>>;

struct Names {
  template <typename Backend>
  static std::string GetName(int i) {
    return i == 0 ? "hardware" : "rxe";
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Sim, Contract, Backends, Names);

}  // namespace
}  // namespace weir::contract
