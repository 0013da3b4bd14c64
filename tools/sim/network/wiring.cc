#include "tools/sim/network/wiring.h"

namespace weir::sim::network {
namespace {

// Of the links of a group, the one to another: group numbers with a gap at its own.
constexpr std::uint32_t link_to(std::uint32_t group, std::uint32_t other) {
  return other < group ? other : other - 1;
}

// A dragonfly: groups of routers that are all connected to each other, and one link between any two
// groups [RDRP §4.1]. A router's ports: p nodes, a - 1 local, h global.
//
// Virtual channels follow the order of hops, so no packet waits for one behind it:
//
//   channel 0            1                     2                     3
//   local, global  ──▶   local, global  ──▶    local, global  ──▶    local, the node
//   on the shortest      in the first group,   in the group          in the last group
//   path so far          off the shortest      it goes by
class Dragonfly final : public Wiring {
 public:
  explicit Dragonfly(const FabricConfig& config)
      : Wiring(config.topology.nodes(),
               config.topology.groups() * config.topology.a *
                   (config.topology.p + config.topology.a - 1 + config.topology.h)),
        config_(config),
        p_(config.topology.p),
        a_(config.topology.a),
        groups_(config.topology.groups()),
        radix_(p_ + a_ - 1 + config.topology.h) {
    for (std::uint32_t group = 0; group < groups_; ++group) {
      for (std::uint32_t r = 0; r < a_; ++r) {
        const std::uint32_t router = group * a_ + r;
        for (std::uint32_t i = 0; i < p_; ++i) {
          connect(router * radix_ + i, port_of(router * p_ + i), config.node_cycles);
        }
        for (std::uint32_t s = r + 1; s < a_; ++s) {
          connect(local(group, r, s), local(group, s, r), config.local_cycles);
        }
      }
      for (std::uint32_t other = group + 1; other < groups_; ++other) {
        const std::uint32_t there = link_to(group, other) / config.topology.h;
        const std::uint32_t back = link_to(other, group) / config.topology.h;
        connect(towards(group, there, other), towards(other, back, group), config.global_cycles);
      }
    }
  }

  Hop route(Port in, Packet& packet, const Queued& queued, Random& random) const override {
    const std::uint32_t router = in / radix_;
    const std::uint32_t group = router / a_;
    const std::uint32_t r = router - group * a_;
    const std::uint32_t last_router = packet.target / p_;
    const std::uint32_t last = last_router / a_;
    const bool in_first = group == packet.source / p_ / a_;
    if (in_first && !packet.passed_via && group != last) {
      choose(group, r, last, packet, queued, random);
    }
    if (group == packet.via) packet.passed_via = true;
    const bool detour = packet.via != none && !packet.passed_via;
    if (!detour && router == last_router) {
      return {router * radix_ + packet.target - last_router * p_, 3};
    }
    if (!detour && group == last) return {local(group, r, last_router - last * a_), 3};
    const Port port = towards(group, r, detour ? packet.via : last);
    if (!in_first) return {port, 2};
    return {port, detour ? 1u : 0u};
  }

 private:
  // The port of router `from` towards group `to` from group `group`.
  Port towards(std::uint32_t group, std::uint32_t from, std::uint32_t to) const {
    const std::uint32_t link = link_to(group, to);
    const std::uint32_t owner = link / config_.topology.h;
    if (owner != from) return local(group, from, owner);
    return (group * a_ + from) * radix_ + p_ + a_ - 1 + link - owner * config_.topology.h;
  }

  Port local(std::uint32_t group, std::uint32_t from, std::uint32_t to) const {
    return (group * a_ + from) * radix_ + p_ + (to < from ? to : to - 1);
  }

  // Whether it leaves the shortest path, and by way of which group, while it is in its first group.
  void choose(std::uint32_t group, std::uint32_t router, std::uint32_t last, Packet& packet,
              const Queued& queued, Random& random) const {
    if (config_.routing == Routing::minimal || packet.via != none || groups_ < 3) return;
    // One of the groups that is neither this one nor the last.
    auto via = static_cast<std::uint32_t>(random.below(groups_ - 2));
    const std::uint32_t low = group < last ? group : last;
    const std::uint32_t high = group < last ? last : group;
    if (via >= low) ++via;
    if (via >= high) ++via;
    if (config_.routing != Routing::valiant) {
      const std::int32_t shortest = queued[towards(group, router, last)];
      const std::int32_t other = queued[towards(group, router, via)];
      if (shortest <= config_.bias * other + config_.threshold) return;
    }
    packet.via = via;
  }

  FabricConfig config_;
  std::uint32_t p_;
  std::uint32_t a_;
  std::uint32_t groups_;
  std::uint32_t radix_;
};

bool single(const Topology& t) { return t.shape == Shape::single_switch; }
std::uint32_t nodes_a_leaf(const Topology& t) { return single(t) ? t.ports : t.p; }
std::uint32_t leaves(const Topology& t) { return single(t) ? 1 : t.leaves; }
std::uint32_t spines(const Topology& t) { return single(t) ? 0 : t.spines; }

// A fat tree of two levels, or a single switch (a leaf without spines). A leaf's ports: p nodes,
// then one to each spine. The way up is where routing has a choice: the same spine for a pair of
// nodes (minimal), a random one (valiant), or the least loaded (the adaptive ones).
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

std::unique_ptr<Wiring> Wiring::make(const FabricConfig& config) {
  if (config.topology.shape == Shape::dragonfly) return std::make_unique<Dragonfly>(config);
  return std::make_unique<Tree>(config);
}

}  // namespace weir::sim::network
