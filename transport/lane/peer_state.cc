#include "transport/lane/peer_state.h"

namespace weir {
namespace {

using enum PeerState;

struct Edges {
  PeerStates from;
  PeerStates to;
};

constexpr Edges edges[] = {
    {idle, connecting | accepting | held | closed | failed},
    {closed, idle | connecting | accepting | held},
    {connecting, idle | connecting | waiting | accepting | ready | held | closed | failed},
    {waiting, idle | connecting | accepting | held | closed | failed},
    {accepting, accepting | any_broken | ready | closed | failed},
    {held, connecting | closed | failed},
    {any_broken, any_broken | idle | connecting | waiting | held | closed | failed},
    {ready, any_broken | left | parting | parted | closing | closed | failed},
    {left, closed | failed},
    {parting, ready | any_broken | parted | idle | closed | failed},
    {parted, any_broken | idle | closed | failed},
    {closing, any_broken | said | closed | failed},
    {said, any_broken | closed | failed},
    {failed, closed},
};

}  // namespace

const char* to_text(PeerState state) {
  switch (state) {
    case idle: return "idle";
    case closed: return "closed";
    case connecting: return "connecting";
    case waiting: return "waiting";
    case accepting: return "accepting";
    case held: return "held";
    case broken_ask:
    case broken_wait:
    case broken_hold:
    case broken_end:
    case broken_part:
    case broken_leave:
    case broken_fail: return "broken";
    case parting: return "parting";
    case parted: return "parted";
    case failed: return "failed";
    case closing:
    case said: return "closing";
    case ready: return "ready";
    case left: return "left";
  }
  return "unknown";
}

bool allowed(PeerState from, PeerState to) {
  for (const Edges& some : edges) {
    if (some.from.has(from)) return some.to.has(to);
  }
  return false;
}

}  // namespace weir
