// A dragonfly: groups of routers that are all connected to each other, and one link between any two
// groups [RDRP §4.1]. A router's ports: p nodes, a - 1 local, h global.
//
// Virtual channels follow the order of hops, so no packet waits for one behind it:
//
//   channel 0            1                     2                     3
//   local, global  ──▶   local, global  ──▶    local, global  ──▶    local, the node
//   on the shortest      in the first group,   in the group          in the last group
//   path so far          off the shortest      it goes by
//
// Immutable once made.
#include "tools/sim/network/wiring.h"

namespace weir::sim::network {
namespace {

// Of the links of a group, the one to another: group numbers with a gap at its own.
constexpr std::uint32_t link_to(std::uint32_t group, std::uint32_t other) {
  return other < group ? other : other - 1;
}

class Dragonfly final : public Wiring {
 public:
  explicit Dragonfly(const FabricConfig& config)
      : Wiring(config.topology.nodes(),
               config.topology.groups() * config.topology.a *
                   (config.topology.p + config.topology.a - 1 + config.topology.h)),
        p_(config.topology.p),
        a_(config.topology.a),
        h_(config.topology.h),
        groups_(config.topology.groups()),
        radix_(p_ + a_ - 1 + h_),
        by_p_(p_),
        by_a_(a_),
        by_h_(h_),
        by_radix_(radix_),
        routing_(config.switching.routing),
        bias_(config.switching.bias),
        threshold_(config.switching.threshold) {
    for (std::uint32_t group = 0; group < groups_; ++group) {
      for (std::uint32_t r = 0; r < a_; ++r) {
        const std::uint32_t router = group * a_ + r;
        for (std::uint32_t i = 0; i < p_; ++i) {
          connect(router * radix_ + i, port_of(router * p_ + i), config.switching.node_cycles);
        }
        for (std::uint32_t s = r + 1; s < a_; ++s) {
          connect(local(group, r, s), local(group, s, r), config.switching.local_cycles);
        }
      }
      for (std::uint32_t other = group + 1; other < groups_; ++other) {
        const std::uint32_t there = link_to(group, other) / h_;
        const std::uint32_t back = link_to(other, group) / h_;
        connect(towards(group, there, other), towards(other, back, group),
                config.switching.global_cycles);
      }
    }
  }

  Hop route(Port in, Packet& packet, const Congestion& congestion, Random& random) const override {
    const std::uint32_t router = by_radix_(in);
    const std::uint32_t group = by_a_(router);
    const std::uint32_t last = by_a_(by_p_(packet.target));
    const bool begins = group == by_a_(by_p_(packet.source)) && !packet.passed_via;
    if (begins && group != last) {
      choose(group, router - group * a_, last, packet, congestion, random);
    }
    if (group == packet.via) packet.passed_via = true;
    const Hop hop = shortest(in, packet);
    if (hop.channel < 2) ++packet.hops;
    return hop;
  }

  // Its way on once it is decided by way of which group, if any.
  Hop shortest(Port in, const Packet& packet) const override {
    const std::uint32_t router = by_radix_(in);
    const std::uint32_t group = by_a_(router);
    const std::uint32_t r = router - group * a_;
    const std::uint32_t last_router = by_p_(packet.target);
    const std::uint32_t last = by_a_(last_router);
    const bool detour = packet.via != none && !packet.passed_via && group != packet.via;
    if (!detour && router == last_router)
      return {router * radix_ + packet.target - last_router * p_, 3};
    if (!detour && group == last) return {local(group, r, last_router - last * a_), 3};
    const Port port = towards(group, r, detour ? packet.via : last);
    if (group != by_a_(by_p_(packet.source))) return {port, 2};
    return {port, detour ? 1u : 0u};
  }

  std::vector<Port> trunks() const override {
    std::vector<Port> ports;
    for (std::uint32_t group = 0; group < groups_; ++group) {
      for (std::uint32_t other = group + 1; other < groups_; ++other) {
        ports.push_back(towards(group, by_h_(link_to(group, other)), other));
      }
    }
    return ports;
  }

 private:
  // The port of router `from` towards group `to` from group `group`.
  Port towards(std::uint32_t group, std::uint32_t from, std::uint32_t to) const {
    const std::uint32_t link = link_to(group, to);
    const std::uint32_t owner = by_h_(link);
    if (owner != from) return local(group, from, owner);
    return (group * a_ + from) * radix_ + p_ + a_ - 1 + link - owner * h_;
  }

  // The one link between two groups is up.
  bool linked(std::uint32_t group, std::uint32_t other, const Congestion& congestion) const {
    return !congestion.down(towards(group, by_h_(link_to(group, other)), other));
  }

  bool is_way(std::uint32_t group, std::uint32_t via, std::uint32_t last,
              const Congestion& congestion) const {
    return linked(group, via, congestion) && linked(via, last, congestion);
  }

  Port local(std::uint32_t group, std::uint32_t from, std::uint32_t to) const {
    return (group * a_ + from) * radix_ + p_ + (to < from ? to : to - 1);
  }

  // Whether it leaves the shortest path, and by way of which group. Before it has made a decision
  // that cannot be taken back: at its first router, or, progressively, in its first group.
  void choose(std::uint32_t group, std::uint32_t router, std::uint32_t last, Packet& packet,
              const Congestion& congestion, Random& random) const {
    if (routing_ == Routing::minimal || packet.via != none || groups_ < 3) return;
    if (packet.hops > 0 && routing_ != Routing::progressive) return;
    // One of the groups that is neither this one nor the last.
    auto via = static_cast<std::uint32_t>(random.below(groups_ - 2));
    const std::uint32_t low = group < last ? group : last;
    const std::uint32_t high = group < last ? last : group;
    if (via >= low) ++via;
    if (via >= high) ++via;
    if (congestion.some_down() && !is_way(group, via, last, congestion)) {
      if (linked(group, last, congestion)) return;
      // No way but round. Any group will do that has both links; few have not.
      for (std::uint32_t i = 0; i < groups_ && packet.via == none; ++i) {
        via = via + 1 == groups_ ? 0 : via + 1;
        if (via != group && via != last && is_way(group, via, last, congestion)) packet.via = via;
      }
      return;
    }
    if (congestion.some_down() && !linked(group, last, congestion)) {
      packet.via = via;
      return;
    }
    if (routing_ != Routing::valiant) {
      const std::int32_t shortest = congestion.queued_flits(towards(group, router, last));
      const std::int32_t other = congestion.queued_flits(towards(group, router, via));
      if (shortest <= bias_ * other + threshold_) return;
    }
    packet.via = via;
  }

  std::uint32_t p_;
  std::uint32_t a_;
  std::uint32_t h_;
  std::uint32_t groups_;
  std::uint32_t radix_;
  Divider by_p_;
  Divider by_a_;
  Divider by_h_;
  Divider by_radix_;
  Routing routing_;
  double bias_;
  std::int32_t threshold_;
};

}  // namespace

std::unique_ptr<Wiring> Wiring::dragonfly(const FabricConfig& config) {
  return std::make_unique<Dragonfly>(config);
}

}  // namespace weir::sim::network
