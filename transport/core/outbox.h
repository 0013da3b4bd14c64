// The work that a step of the core wants done, as values. The engine (or the simulator) carries it
// out, in the order of the fields here, and clears the box. Deliveries wait in the box until the
// application's own call takes them.
//
// The vectors keep their capacity, so a warm box does not allocate.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/link_news.h"
#include "base/status.h"
#include "base/time.h"
#include "base/work.h"
#include "rendezvous/transfer.h"
#include "transport/core/bad_frame.h"
#include "transport/lane/send_slot.h"
#include "transport/wire/frame.h"
#include "transport/wire/hello.h"

namespace weir {

// Something to do with connections.
struct ConnectAction {
  enum class Kind : std::uint8_t {
    connect,   // ask `peer` for a connection with `hello`; its queue pair is `lane`
    accept,    // accept `request` with `hello`; its queue pair is `lane`
    reject,    // refuse `request` with `reason`
    loop,      // connect `lane` to itself: `peer` is this process
    drop,      // destroy the queue pair of `lane`, and its connection if there is one
    lane_end,  // make the queue pair of `lane` unless it exists, connect it to `theirs` if known,
               // by the path of the lane `beside`, and answer with on_lane_end
  };
  Kind kind;
  PeerId peer = PeerId::none;
  LaneId lane = LaneId::none;
  RequestId request = RequestId::none;
  wire::Reject reason = wire::Reject::crossed;
  bool silent = false;  // forget `request` without an answer: too many were refused recently
  wire::Hello hello{};
  LaneId beside = LaneId::none;
  wire::LaneEnd ours{};     // as answered before, if the queue pair exists
  wire::LaneEnd theirs{};   // qp_number 0: unknown
  std::uint32_t reads = 0;  // most reads of ours under way
};

// A message for the layer above. `payload` stays valid until the last message of its buffer
// (`last`) has been released.
struct Delivery {
  PeerId peer;
  BufferId buffer;
  void* above;  // the record that the layer above keeps of the peer, if it has set one (set_above)
  const std::byte* payload;
  std::uint32_t length_bytes;
  std::uint8_t tag;
  bool last;
};

// A slot that the core no longer needs. `delivered` is false if its lane failed first.
struct Retired {
  SendSlot* slot;
  bool delivered;
};

// A peer that was given up; reported once.
struct Failure {
  PeerId peer;
  FailReason reason;
  CompletionStatus completion;
  BadFrame frame{};           // with FailReason::bad_frame
  TransferRequest request{};  // what a failed send was a part of; no peer if it was a frame
  bool lost_work = false;     // frames for the peer, or transfers with it, were not over
  bool lost_atomics = false;  // atomic operations were among these
  bool in_doubt = false;      // bytes of puts may still arrive: the peer may not know yet
};

// An outage: connections broke, and are made again. Reported for the first one that broke, and when
// it is `over`, for the last one made again. The others, and those that the peer ended, are only
// counted.
struct Outage {
  PeerId peer;
  bool over;
  FailReason reason;
  CompletionStatus completion;
  Duration took{};  // from the first to the last, when it is over
};

// A get, put or atomic that is over. If `ok`, all data is in place; if not, the lane is broken and
// no more data can arrive.
struct TransferEnd {
  std::uint64_t token;
  bool ok;
};

struct Outbox {
  bool rare = false;  // there is something besides work, receives, ends and deliveries
  std::uint32_t slabs_dropped = 0;    // how many of the youngest slabs are no longer needed
  std::uint32_t slab_buffers = 0;     // receive buffers wanted: answer with on_slab(_failed) first
  std::vector<ReceivePost> receives;  // post to the SRQ, as one chain
  bool arm = false;                   // then arm the SRQ limit event
  SrqArm srq_arm{};
  bool rnr_changed = false;  // from now on advertise `rnr_code` on all queue pairs
  std::uint8_t rnr_code = 0;
  std::vector<WorkRequest> work;  // post, in order, one chain for each run of one lane
  std::vector<ConnectAction> connects;
  std::vector<Retired> retired;
  std::vector<Failure> failures;
  std::vector<Outage> outages;
  std::vector<LinkNews> links;  // only among rails
  std::vector<TransferEnd> transfers;  // reported only after `connects` were carried out
  std::vector<SendSlot*>
      relays_failed;                 // to Core::on_relay_failed, once `connects` were carried out
  std::vector<PeerName> wanted;      // processes to relay to that `add_peer` has not named yet
  std::vector<Delivery> deliveries;  // to be handed up, in order

  Outbox() {
    receives.reserve(256);
    work.reserve(256);
    connects.reserve(16);
    deliveries.reserve(256);
    retired.reserve(256);
    failures.reserve(16);
    transfers.reserve(256);
    relays_failed.reserve(16);
    wanted.reserve(16);
  }

  void drop_slab() {
    rare = true;
    ++slabs_dropped;
  }
  void want_slab(std::uint32_t buffers) {
    rare = true;
    slab_buffers += buffers;
  }
  void arm_srq(std::uint32_t limit) {
    rare = true;
    arm = true;
    srq_arm = {limit};
  }
  void advertise_rnr_timer(std::uint8_t code) {
    rare = true;
    rnr_changed = true;
    rnr_code = code;
  }
  void act(const ConnectAction& action) {
    rare = true;
    connects.push_back(action);
  }
  void report(const TransferEnd& end) { transfers.push_back(end); }
  void fail_relay(SendSlot* slot) {
    rare = true;
    relays_failed.push_back(slot);
  }
  void want(PeerName name) {
    rare = true;
    wanted.push_back(name);
  }
  void report(const LinkNews& link) {
    rare = true;
    links.push_back(link);
  }
  void report(const Outage& outage) {
    rare = true;
    outages.push_back(outage);
  }
  void report(const Failure& failure) {
    rare = true;
    failures.push_back(failure);
  }

  // Nothing is to be carried out now.
  bool empty() const { return !rare && work.empty() && receives.empty() && !has_ends(); }
  // Ends of frames or transfers are to be reported.
  bool has_ends() const { return !retired.empty() || !transfers.empty(); }
};

}  // namespace weir
