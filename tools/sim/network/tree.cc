// A fat tree of two levels, or a single switch (a leaf without spines). A leaf's ports: p nodes,
// then one to each spine. The way up is where routing has a choice: the same spine for a pair of
// nodes (minimal), a random one (valiant), or the least loaded (the adaptive ones).
#include "tools/sim/network/wiring.h"

namespace weir::sim::network {
namespace {

bool single(const Topology& t) { return t.shape == Shape::single_switch; }
std::uint32_t nodes_a_leaf(const Topology& t) { return single(t) ? t.ports : t.p; }
std::uint32_t leaves(const Topology& t) { return single(t) ? 1 : t.leaves; }
std::uint32_t spines(const Topology& t) { return single(t) ? 0 : t.spines; }

class Tree final : public Wiring {
 public:
  explicit Tree(const FabricConfig& config)
      : Wiring(config.topology.nodes(), leaves(config.topology) * (nodes_a_leaf(config.topology) +
                                                                   2 * spines(config.topology))),
        p_(nodes_a_leaf(config.topology)),
        leaves_(leaves(config.topology)),
        spines_(spines(config.topology)),
        routing_(config.routing) {
    for (std::uint32_t leaf = 0; leaf < leaves_; ++leaf) {
      const Port first = leaf * (p_ + spines_);
      for (std::uint32_t i = 0; i < p_; ++i) {
        connect(first + i, port_of(leaf * p_ + i), config.node_cycles);
      }
      for (std::uint32_t s = 0; s < spines_; ++s) {
        connect(first + p_ + s, down(s, leaf), config.local_cycles);
      }
    }
  }

  Hop route(Port in, Packet& packet, const Queued& queued, Random& random) const override {
    const std::uint32_t leaf_of_target = packet.target / p_;
    if (in >= first_spine()) return {down((in - first_spine()) / leaves_, leaf_of_target), 1};
    const std::uint32_t leaf = in / (p_ + spines_);
    const Port first = leaf * (p_ + spines_);
    if (leaf == leaf_of_target) return {first + packet.target % p_, 2};
    const Port up = first + p_;
    if (routing_ == Routing::minimal) {
      return {up + static_cast<Port>(mix(packet.source * 65537ull + packet.target) % spines_), 0};
    }
    // The search begins anywhere, so that equals are taken in turn.
    auto best = static_cast<std::uint32_t>(random.below(spines_));
    if (routing_ == Routing::valiant) return {up + best, 0};
    for (std::uint32_t i = 1, s = best; i < spines_; ++i) {
      s = s + 1 == spines_ ? 0 : s + 1;
      if (queued[up + s] < queued[up + best]) best = s;
    }
    return {up + best, 0};
  }

 private:
  Port first_spine() const { return leaves_ * (p_ + spines_); }
  Port down(std::uint32_t spine, std::uint32_t leaf) const {
    return first_spine() + spine * leaves_ + leaf;
  }

  std::uint32_t p_;
  std::uint32_t leaves_;
  std::uint32_t spines_;
  Routing routing_;
};

}  // namespace

std::unique_ptr<Wiring> Wiring::tree(const FabricConfig& config) {
  return std::make_unique<Tree>(config);
}

}  // namespace weir::sim::network
