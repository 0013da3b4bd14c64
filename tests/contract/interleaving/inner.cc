#include "tests/contract/interleaving/inner.h"

#include "tests/expose.h"

namespace weir::interleaving {
namespace {

WEIR_EXPOSE(PeersOf, Core::peers_);
WEIR_EXPOSE(StaysUntil, Connection::stays_until_);
WEIR_EXPOSE(SessionOf, Connection::session_);
WEIR_EXPOSE(BrokeIn, Connection::broke_in_);
WEIR_EXPOSE(IsOut, Connection::is_out_);
WEIR_EXPOSE(WantedAhead, Connection::wanted_ahead_);
WEIR_EXPOSE(Told, Connection::told_);
WEIR_EXPOSE(EndedAt, Connection::ended_at_);
WEIR_EXPOSE(Futile, Connection::futile_);
WEIR_EXPOSE(SentOf, Connection::sent_);
WEIR_EXPOSE(AttemptOf, Connection::attempt_);
WEIR_EXPOSE(AttemptSeen, Connection::attempt_seen_);
WEIR_EXPOSE(Since, Connection::since_);
WEIR_EXPOSE(Silences, Connection::silences_);
WEIR_EXPOSE(VainHolds, Connection::vain_holds_);
WEIR_EXPOSE(Deadline, Connection::attempt_deadline_);
WEIR_EXPOSE(TroubleOf, Connection::trouble_);
WEIR_EXPOSE(RailsOf, Handover::rails_);
WEIR_EXPOSE(HandoverOf, Links::handover_);
WEIR_EXPOSE(CarriedOf, Links::carried_);

#undef WEIR_EXPOSE

const Peer& peer_in(const Core& core, PeerId id) { return (core.*inner(PeersOf{}))[id]; }

}  // namespace

std::array<bool, connection_table::count>& rules_taken() {
  static std::array<bool, connection_table::count> taken{};
  return taken;
}

void note_rules(const Core& core) {
  const auto& taken = core.rules_taken();
  for (std::size_t i = 0; i < taken.size(); ++i) rules_taken()[i] |= taken[i];
}

std::uint64_t attempt_of(const Core& core, PeerId peer) {
  return peer_in(core, peer).connection.*inner(AttemptOf{});
}

std::uint64_t attempt_seen_by(const Core& core, PeerId peer) {
  return peer_in(core, peer).connection.*inner(AttemptSeen{});
}

void describe(const Core& core, PeerId id, Time now, const Attempts& ours, const Attempts& theirs,
              Digest& digest) {
  const Peer& peer = peer_in(core, id);
  const Connection& connection = peer.connection;
  const Duration unit = core.config().attempt_timeout;
  digest.add(connection.state(), connection.asked_to_part(), connection.has_moved(),
             connection.received(), connection.lane() != LaneId::none,
             connection.*inner(SessionOf{}), connection.*inner(BrokeIn{}),
             connection.*inner(IsOut{}), connection.*inner(WantedAhead{}),
             connection.*inner(Told{}), connection.*inner(EndedAt{}), connection.*inner(Futile{}),
             connection.*inner(SentOf{}));
  digest.add(ours.rank(connection.*inner(AttemptOf{})),
             theirs.rank(connection.*inner(AttemptSeen{})));
  digest.add(coarse(connection.*inner(Deadline{}), now, unit),
             now < connection.*inner(StaysUntil{}));
  if (connection.is_pending()) {
    digest.add(coarse(connection.*inner(Since{}), now, unit), connection.*inner(Silences{}),
               connection.*inner(TroubleOf{}), connection.*inner(VainHolds{}));
  }
  digest.add(peer.outgoing.pending_frames(), peer.outgoing.frames_in_doubt(),
             peer.outgoing.credits(), peer.outgoing.control_credits(), peer.share.out,
             peer.held.linked, peer.owed.linked, peer.wants.linked);
  const PeerRow row = core.row(id);
  digest.add(row.frames_sent, row.frames_received, row.requests_out);
}

void describe(const Links& links, Digest& digest) {
  digest.add(links.up(), links.down(), links.is_lost(0), links.is_lost(1),
             (links.*inner(CarriedOf{})).load());
  for (const auto& rail : (links.*inner(HandoverOf{})).*inner(RailsOf{})) {
    digest.add(rail.up, rail.broke, rail.moved, rail.stage);
    if (static_cast<int>(rail.stage) != 0) digest.add(rail.over, rail.received, rail.exchange);
  }
}

}  // namespace weir::interleaving
