// What weir counts. One list feeds the fields, the MPI_T performance variables and the reports.
//
// Counters are written under the engine's lock and may be read without it (a torn read is not
// possible on the 64-bit machines RDMA runs on).
#pragma once

#include <cstdint>

namespace weir {

// X(name, unit, description)
#define WEIR_COUNTERS(X)                                                                           \
  X(messages_sent, "messages", "Messages handed over for sending")                                 \
  X(messages_received, "messages", "Messages delivered to the MPI layer")                          \
  X(bytes_sent, "bytes", "Payload handed over for sending")                                        \
  X(bytes_received, "bytes", "Payload delivered to the MPI layer")                                 \
  X(frames_sent, "frames", "SEND work requests posted with messages in them")                      \
  X(frames_received, "frames", "Receive buffers that arrived with messages in them")               \
  X(trains_sent, "messages", "Messages longer than a frame that went unasked, in several frames")  \
  X(trains_waited, "messages", "Such messages that the peer lacked buffers for at first")          \
  X(trains_refused, "messages", "Messages that were announced instead: such ones waited already")  \
  X(trains_halted, "times", "Times a peer was told to send none: many wait, or it reads a stream") \
  X(messages_bundled, "messages", "Messages that shared a frame with an earlier one")              \
  X(frames_inlined, "frames", "Frames copied into the work request while posting")                 \
  X(control_sent, "frames", "Control frames sent: credits, recalls, lane ends, goodbyes")          \
  X(control_received, "frames", "Control frames received")                                         \
  X(frames_twice, "frames", "Frames that the device delivered a second time, left out")            \
  X(probes_sent, "probes", "Zero-length writes to peers that were silent for long")                \
  X(doorbells, "calls", "ibv_post_send calls: chains of work requests")                            \
  X(sends_signalled, "frames", "Work requests that asked for a completion")                        \
  X(credit_stalls, "times", "Times a peer's sends had to wait for eager credits")                  \
  X(queue_stalls, "times", "Times a peer's sends had to wait for a send queue slot")               \
  X(back_pressure, "times", "Sends turned back because a pending queue was at its cap")            \
  X(pending_peak, "frames", "Longest pending queue of a peer so far")                              \
  X(credits_out, "credits", "Eager credits the peers hold now")                                    \
  X(credits_overcommitted, "credits", "Credits given although the window did not cover them")      \
  X(window, "buffers", "Receive window W now")                                                     \
  X(window_peak, "buffers", "Largest receive window so far")                                       \
  X(window_grows, "times", "Times the receive window grew")                                        \
  X(window_demands, "times", "Times want of credits, or many credit frames, made the window grow") \
  X(window_shrinks, "times", "Times the receive window was halved because little of it was used")  \
  X(credit_recalls, "frames", "Control frames that asked a peer for unused credits")               \
  X(receives_posted, "buffers", "Receive buffers posted now")                                      \
  X(receives_held, "buffers", "Receive buffers with messages not yet taken by the MPI layer")      \
  X(receives_held_peak, "buffers", "Most receive buffers that ever waited for the MPI layer")      \
  X(srq_limit_events, "events", "SRQ limit events from the device")                                \
  X(srq_limit_self_raised, "events", "SRQ limit events raised by ourselves because one was lost")  \
  X(repost_ns_peak, "ns", "Longest time for which the SRQ was empty")                              \
  X(rnr_timer_ns, "ns", "RNR NAK timer advertised to the peers now")                               \
  X(rnr_timer_changes, "times", "Times the advertised RNR NAK timer was changed (rnr_timer auto)") \
  X(receive_bytes, "bytes", "Registered receive memory now")                                       \
  X(receive_bytes_peak, "bytes", "Most registered receive memory so far")                          \
  X(send_bytes, "bytes", "Registered send memory now")                                             \
  X(slab_failures, "times", "Times memory for buffers could not be had or registered")             \
  X(gets, "transfers", "Gets handed over: large messages by RDMA read, MPI_Get")                   \
  X(get_bytes, "bytes", "Payload of gets")                                                         \
  X(puts, "transfers", "Puts handed over")                                                         \
  X(put_bytes, "bytes", "Payload of puts")                                                         \
  X(atomics, "operations", "Atomic operations handed over")                                        \
  X(chunks_sent, "chunks", "RDMA work requests posted for them")                                   \
  X(chains, "operations", "Gets that the adapter worked off as a chain of reads")                  \
  X(bulk_lanes, "lanes", "Second lanes, for such chains, or for all gets and atomics")             \
  X(token_requests, "requests", "Requests that took tokens of the node")                           \
  X(token_waits, "times", "Times sends had to wait for tokens of the node")                        \
  X(tokens_out, "tokens", "Tokens of the node that this process has taken now")                    \
  X(tokens_excused, "tokens", "Tokens of processes that stood still, which were not waited for")   \
  X(rate_waits, "times", "Times a request came too soon after the one before it")                  \
  X(lanes_left, "lanes", "Further lanes for large gets (paths) that were slow or broke, and left") \
  X(node_read_waits, "times", "Times a read had to wait for those of the node's other processes")  \
  X(reads_out, "chunks", "RDMA reads and atomics under way now")                                   \
  X(reads_out_peak, "chunks", "Most RDMA reads and atomics that were ever under way")              \
  X(read_window, "bytes", "Read budget now: bytes of reads kept in the fabric at most")            \
  X(proxy_submitted, "frames", "Frames given to a server of the node")                             \
  X(proxy_repeated, "frames", "Of these, frames sent after all by the process itself")             \
  X(proxy_stuck, "times", "Times a server died or did not move, and its frames were taken back")   \
  X(proxy_full, "times", "Times a frame had to wait for room among those of the servers")          \
  X(proxy_served, "frames", "Frames of the node's processes taken to be sent, as a server")        \
  X(proxy_refused, "frames", "Of these, frames that went back to their process")                   \
  X(proxy_sends, "frames", "SEND work requests posted for them")                                   \
  X(proxy_sent_in_place, "frames",                                                                 \
    "Of these, frames sent from the memory their process put them in")                             \
  X(proxy_coalesced, "frames", "Frames of theirs that shared a send with an earlier one")          \
  X(proxy_terms, "times", "Times this process became a server of the node")                        \
  X(proxy_duplicates, "frames", "Relayed frames that had arrived before, and were dropped")        \
  X(flushes_late, "times", "Queue pairs destroyed before they had completed all they had")         \
  X(connections, "connections", "Connections established")                                         \
  X(connections_broken, "connections", "Connections that broke, and were to be made again")        \
  X(connections_resumed, "connections", "Of these, connections made again")                        \
  X(frames_resent, "frames", "Frames sent once more because the peer had not received them")       \
  X(chunks_again, "chunks", "RDMA work requests posted once more after a queue pair was lost")     \
  X(connections_accepted, "connections", "Of these, connections that the peer asked for")          \
  X(connections_crossed, "connections", "Simultaneous connection attempts resolved")               \
  X(connections_open, "connections", "Connections now, with those that are being made or ended")   \
  X(connections_parted, "connections", "Idle connections ended to make room (connections_max)")    \
  X(connections_kept, "times", "Times a peer that was to part wanted to keep its connection")      \
  X(connections_over, "connections", "Connections beyond connections_max: all others were in use") \
  X(requests_stale, "times", "Connection requests dropped because the asker has asked again")      \
  X(requests_refused, "times", "Connection requests of strangers or of another version refused")   \
  X(refusals_dropped, "times", "Refusals left out because there were too many at a time")          \
  X(connect_retries, "times", "Connection attempts repeated")                                      \
  X(connect_ns_sum, "ns", "Time from first send to connection, summed over connections")           \
  X(overlap_wakeups, "wake-ups",                                                                   \
    "Times that something waited while nobody called MPI, or with 'all' that the application "     \
    "came "                                                                                        \
    "back")                                                                                        \
  X(overlap_in_vain, "wake-ups",                                                                   \
    "Of these, those after which the application took it itself, or nothing was there")            \
  X(overlap_upcalls, "upcalls",                                                                    \
    "Messages and ends of transfers handed up while the application computed")                     \
  X(overlap_time, "us", "Time in these")                                                           \
  X(late_flushes, "times", "Waiting frames posted by the event thread, not by an MPI call")        \
  X(peer_failures, "peers", "Peers given up")

struct Counters {
#define WEIR_X(name, unit, help) std::uint64_t name = 0;
  WEIR_COUNTERS(WEIR_X)
#undef WEIR_X
};

}  // namespace weir
