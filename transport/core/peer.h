// The record of one other process, which all parts of the core share. Each part has a room of its
// own in it; the other parts may only read that room.
//
// The table finds records by name and by id. Records never move, and their ids never change.
//
// Pure; the caller serialises. Only `Peers::find_or_make` of a new name allocates.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/ids.h"
#include "base/list.h"
#include "base/stable_vector.h"
#include "flowctl/eager_window.h"
#include "rendezvous/transfer_peer.h"
#include "transport/core/connection.h"
#include "transport/core/fetch_lane.h"
#include "transport/core/outgoing.h"
#include "transport/core/relayed.h"

namespace weir {

struct Peer {
  PeerId id;
  PeerName name;
  void* above = nullptr;     // the record of the layer above; never looked at
  Connection connection;     // connector.h
  Outgoing outgoing;         // sender.h
  EagerWindow::Share share;  // receiver.h: what the peer may send to us
  FetchLane fetch_lane;      // fetch_lanes.h
  std::unique_ptr<FurtherLanes> further;  // likewise; none before there are large gets
  TransferPeer transfers;    // rendezvous/scheduler.h
  bool fetches = false;      // transfers.h: there was a get or an atomic
  std::uint64_t seen_use = 0;  // places.h: as the hand of its clock last saw it
  Relayed relayed;           // relay_task.h, relayed_arrivals.h

  Link<Peer> held;   // the sender's: a frame waits for the next round and for more messages
  Link<Peer> owed;   // the sender's: the peer may be due for a control frame
  Link<Peer> lent;   // the sender's: the peer sent something, so it may hold more than its least
  Link<Peer> waits;  // the node line's: frames for the peer wait for tokens of the node
  Link<Peer> round;  // the places': the connection may be asked to part
  Link<Peer> spreads;  // the transfers': chunks are under way on further lanes
  Link<Peer> wants;  // the connector's: the peer waits for a place for its connection
};

class Peers {
 public:
  Peers() = default;
  // As CoreConfig has them.
  Peers(std::uint32_t first_frame, std::uint32_t first_relayed)
      : first_frame_(first_frame), first_relayed_(first_relayed) {}

  Peer& find_or_make(PeerName name) {
    const auto [found, is_new] = by_name_.try_emplace(key(name), PeerId{size()});
    if (is_new) {
      Peer& peer = peers_.emplace_back();
      peer.id = found->second;
      peer.name = name;
      peer.connection = Connection(first_frame_);
      peer.relayed = Relayed(first_relayed_);
    }
    return (*this)[found->second];
  }

  // None if the name is not known.
  PeerId find(PeerName name) const {
    const auto found = by_name_.find(key(name));
    return found == by_name_.end() ? PeerId::none : found->second;
  }

  Peer& operator[](PeerId id) { return peers_[index(id)]; }
  const Peer& operator[](PeerId id) const { return peers_[index(id)]; }
  Peer& at(std::uint32_t i) { return peers_[i]; }
  const Peer& at(std::uint32_t i) const { return peers_[i]; }
  std::uint32_t size() const { return peers_.size(); }

 private:
  static std::uint64_t key(PeerName name) { return std::uint64_t{name.job} << 32 | name.rank; }

  std::uint32_t first_frame_ = 0;
  std::uint32_t first_relayed_ = 0;
  StableVector<Peer> peers_;
  std::unordered_map<std::uint64_t, PeerId> by_name_;
};

}  // namespace weir
