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
  X(trains_sent, "messages",                                                                       \
    "Messages longer than a frame sent without asking, in several frames")                         \
  X(trains_waited, "messages", "Of these, messages for which the peer lacked buffers at first")    \
  X(trains_refused, "messages",                                                                    \
    "Messages longer than a frame announced instead, because others waited already")               \
  X(trains_halted, "times",                                                                        \
    "Times a peer was told to send none of these: many wait, or it is reading a stream")           \
  X(messages_bundled, "messages", "Messages that shared a frame with an earlier one")              \
  X(frames_inlined, "frames", "Frames copied into the work request while posting")                 \
  X(control_sent, "frames", "Control frames sent: credits, recalls, lane ends, goodbyes")          \
  X(control_received, "frames", "Control frames received")                                         \
  X(frames_twice, "frames", "Frames dropped because the device had delivered them before")         \
  X(probes_sent, "probes", "Zero-length writes to peers that were silent for long")                \
  X(doorbells, "calls", "ibv_post_send calls: chains of work requests")                            \
  X(sends_signalled, "frames", "Work requests that asked for a completion")                        \
  X(credit_stalls, "times", "Times a peer's sends had to wait for eager credits")                  \
  X(queue_stalls, "times", "Times a peer's sends had to wait for a send queue slot")               \
  X(back_pressure, "times", "Sends turned back because a pending queue was at its cap")            \
  X(pending_peak, "frames", "Longest pending queue of a peer so far")                              \
  X(credits_out, "credits", "Eager credits the peers hold now")                                    \
  X(credits_overcommitted, "credits", "Credits granted although the window did not cover them")    \
  X(window, "buffers", "Receive window W now")                                                     \
  X(window_peak, "buffers", "Largest receive window so far")                                       \
  X(window_grows, "times", "Times the receive window grew")                                        \
  X(window_demands, "times", "Times lack of credits, or many credit frames, made the window grow") \
  X(window_shrinks, "times", "Times the receive window was halved because little of it was used")  \
  X(credit_recalls, "frames", "Control frames that asked a peer for unused credits")               \
  X(receives_posted, "buffers", "Receive buffers posted now")                                      \
  X(receives_held, "buffers", "Receive buffers with messages not yet taken by the MPI layer")      \
  X(receives_held_peak, "buffers", "Most receive buffers that ever waited for the MPI layer")      \
  X(srq_limit_events, "events", "SRQ limit events from the device")                                \
  X(srq_limit_self_raised, "events",                                                               \
    "SRQ limit events raised by weir because the device's was lost")                               \
  X(repost_ns_peak, "ns", "Longest time for which the SRQ was empty")                              \
  X(rnr_timer_ns, "ns", "RNR NAK timer advertised to the peers now")                               \
  X(rnr_timer_changes, "times", "Times the advertised RNR NAK timer was changed (rnr_timer auto)") \
  X(receive_bytes, "bytes", "Registered receive memory now")                                       \
  X(receive_bytes_peak, "bytes", "Most registered receive memory so far")                          \
  X(send_bytes, "bytes", "Registered send memory now")                                             \
  X(slab_failures, "times", "Times memory for buffers could not be allocated or registered")       \
  X(gets, "transfers", "Gets handed over: large messages, MPI_Get")                                \
  X(get_bytes, "bytes", "Payload of gets")                                                         \
  X(puts, "transfers", "Puts handed over")                                                         \
  X(put_bytes, "bytes", "Payload of puts")                                                         \
  X(atomics, "operations", "Atomic operations handed over")                                        \
  X(chunks_sent, "chunks", "RDMA work requests posted for gets, puts and atomics")                 \
  X(chains, "operations", "Gets that the adapter executed as a chain of reads")                    \
  X(bulk_lanes, "lanes", "Second lanes: for chains, or for all gets and atomics")                  \
  X(token_requests, "requests", "Requests that took tokens of the node")                           \
  X(token_waits, "times", "Times sends had to wait for tokens of the node")                        \
  X(tokens_out, "tokens", "Tokens of the node that this process holds now")                        \
  X(tokens_excused, "tokens",                                                                      \
    "Tokens not waited for, because the process that holds them stood still")                      \
  X(rate_waits, "times",                                                                           \
    "Times a request had to wait because it came too soon after the last one")                     \
  X(lanes_left, "lanes", "Further lanes for large gets (paths) no longer used: slow, or broken")   \
  X(node_read_waits, "times", "Times a read had to wait for reads of the node's other processes")  \
  X(reads_out, "chunks", "RDMA reads and atomics outstanding now")                                 \
  X(reads_out_peak, "chunks", "Most RDMA reads and atomics that were ever outstanding")            \
  X(read_window, "bytes", "Read budget now: most bytes of reads outstanding")                      \
  X(proxy_submitted, "frames", "Frames given to a server of the node")                             \
  X(proxy_repeated, "frames", "Of these, frames that the process sent by itself in the end")       \
  X(proxy_stuck, "times", "Times a server died or stopped, and its frames were taken back")        \
  X(proxy_full, "times", "Times a frame had to wait for room in the servers' queue")               \
  X(proxy_served, "frames",                                                                        \
    "Frames of the node's processes that this one took to send, as a server")                      \
  X(proxy_refused, "frames", "Of these, frames given back to their process")                       \
  X(proxy_sends, "frames", "SEND work requests posted for these frames")                           \
  X(proxy_sent_in_place, "frames",                                                                 \
    "Of these, sends from the process's own memory, without a copy")                               \
  X(proxy_coalesced, "frames", "Relayed frames that shared a send with an earlier one")            \
  X(proxy_terms, "times", "Times this process became a server of the node")                        \
  X(proxy_duplicates, "frames", "Relayed frames dropped because they had arrived before")          \
  X(flushes_late, "times", "Queue pairs destroyed before all their work requests had completed")   \
  X(connections, "connections", "Connections established")                                         \
  X(connections_broken, "connections", "Connections that broke, for weir to make again")           \
  X(connections_resumed, "connections", "Of these, connections made again")                        \
  X(frames_resent, "frames", "Frames sent once more because the peer had not received them")       \
  X(chunks_again, "chunks", "RDMA work requests posted once more after a queue pair was lost")     \
  X(connections_accepted, "connections", "Connections that the peer asked for")                    \
  X(connections_crossed, "connections", "Simultaneous connection attempts resolved")               \
  X(connections_open, "connections", "Connections now, including those being made or ended")       \
  X(connections_parted, "connections", "Idle connections ended to make room (connections_max)")    \
  X(connections_kept, "times", "Times a peer refused to end its idle connection")                  \
  X(connections_over, "connections", "Connections beyond connections_max: all others were in use") \
  X(requests_stale, "times", "Connection requests dropped because the peer has sent a newer one")  \
  X(requests_refused, "times",                                                                     \
    "Connection requests refused: from strangers, or from another version")                        \
  X(refusals_dropped, "times", "Refusals not sent, because there were too many at a time")         \
  X(connect_retries, "times", "Connection attempts repeated")                                      \
  X(connect_ns_sum, "ns", "Time from the first send to the connection, summed over connections")   \
  X(overlap_wakeups, "wake-ups",                                                                   \
    "Times the overlap thread woke: something waited, or with 'all' the application was back")     \
  X(overlap_in_vain, "wake-ups",                                                                   \
    "Of these, times the application came first, or nothing was left to do")                       \
  X(overlap_upcalls, "upcalls",                                                                    \
    "Messages and ends of transfers handed up while the application computed")                     \
  X(overlap_time, "us", "Time spent in these upcalls")                                             \
  X(late_flushes, "times", "Waiting frames posted by the event thread instead of an MPI call")     \
  X(peer_failures, "peers", "Peers given up")

struct Counters {
#define WEIR_X(name, unit, help) std::uint64_t name = 0;
  WEIR_COUNTERS(WEIR_X)
#undef WEIR_X
};

}  // namespace weir
