// The settings of a core. The driver fills them in: the plugin from its keys, the simulator from a
// plan, a test by hand.
//
// A value.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "flowctl/admission.h"
#include "flowctl/eager_window.h"
#include "rendezvous/scheduler.h"
#include "srq/window_controller.h"
#include "transport/lane/send_queue.h"
#include "transport/wire/hello.h"

namespace weir {

struct CoreConfig {
  PeerName self;
  wire::Key key{};                    // ours: a process needs it to ask for a connection
  std::uint32_t buffer_bytes = 8192;  // one receive buffer = the largest frame
  WindowController::Config window;
  EagerWindow::Config credits;
  std::uint8_t rnr_code = 12;  // RNR NAK timer that we advertise, at first
  bool rnr_auto = false;       // then follow how long reposts take
  SendQueue::Config queue;
  std::uint32_t inline_bytes = 256;           // frames up to this size are inlined
  std::uint32_t bundle_bytes = 8192;          // a bundle of small messages grows up to this size
  // Messages up to this size are bundled. Two in a frame gain nothing: 6 KiB take as long as twice
  // 3 KiB.
  static constexpr std::uint32_t bundled_part = 3;
  std::uint32_t bundle_message_bytes = bundle_bytes / bundled_part;
  std::uint32_t burst_frames = 4;             // frames to a peer at once in a round of a flood
  std::uint32_t flood_messages = 16;          // to a peer in one round: the next is of a flood
  std::uint32_t pending_frames = 1024;        // cap of a peer's pending queue
  Scheduler::Config transfers;
  Admission::Config admission;
  std::uint32_t max_rd_atomic = 16;     // most reads and atomics that a queue pair of ours starts
  std::uint32_t fetches_answered = 16;  // most that it answers for a peer's queue pair; 1 to 255
  std::uint32_t paths =
      1;  // lanes for the chunks of large gets; 1: the lanes that there are anyway
  std::uint64_t spread_bytes = 256 << 10;  // a get from this size on asks for these lanes
  // Which frames of peers are to wake the event thread.
  wire::Wakes wakes = wire::Wakes::none;
  // Gets and atomics use a lane without sends and writes: when Soft-RoCE repeats an earlier send,
  // it takes the get or atomic behind it for complete without its data.
  bool fetches_apart = false;
  // Soft-RoCE may deliver a frame twice, and the second one is ignored. With any other adapter that
  // is a fault, and the peer is given up.
  bool frames_may_repeat = true;
  std::uint32_t window_unattended = 128;  // beyond this W grows only if the application receives
  std::uint32_t window_unasked = UINT32_MAX;   // beyond this W grows only for a burst to us
  Duration shrink_after = seconds(2);          // W shrinks if hardly used so long; 0: never
  std::uint32_t connections_max = 0;           // beyond this idle ones part; 0: any number
  Duration attempt_timeout = seconds(2);       // then a connection is asked for again
  Duration connect_timeout = seconds(30);      // then the peer is given up
  Duration peer_timeout = seconds(30);         // a peer silent so long, though probed, is given up
  bool resumes = false;                        // a connection that breaks is made again
  // There are other rails. So a peer that is given up here may be asked again, and the layer above
  // hears when connections come and go, to carry frames over another rail.
  bool among_rails = false;
  Duration repeats_for{};                      // how long an adapter repeats before it gives up
  // The number of a session's first frame, and of the first frame given to a relay. The same in all
  // processes. Other than 0 only where these numbers are to wrap soon.
  std::uint32_t first_frame = 0;
  std::uint32_t first_relayed = 0;
  bool proxy = false;                          // leave room for what a relay adds to a frame
  Duration server_silence = milliseconds(50);  // then we go on without a silent server
};

// What of it may change while the core runs.
struct CoreLimits {
  WindowController::Config window;
  std::uint32_t window_unasked = UINT32_MAX;
  BudgetController::Config reads;
  std::uint32_t tokens = 0;
  std::uint64_t bytes_per_second = 0;  // most that goes to the adapter; 0: no limit
};

}  // namespace weir
