// What weir counts, in one table, which MPI_T, `weir top`, its export for Prometheus and the
// quickstart read. A counter is one line here.
//
// Counters are written under the engine's lock and may be read without it (a torn read is not
// possible on the 64-bit machines RDMA runs on).
#pragma once

#include <array>
#include <cstdint>

namespace weir {

// What the values of several processes make together, and whether a rate says anything.
enum class CounterKind : std::uint8_t {
  sum,   // of what has happened so far: only rises
  now,   // the value at the moment
  most,  // the largest value so far
};

// A line of a table of counters; `Group` has the fields.
template <typename Group>
struct CounterLine {
  const char* name;
  const char* unit;
  CounterKind kind;
  const char* help;  // one sentence, with the unit
  std::uint64_t Group::*field;

  // What a monitor calls a gauge, the others counters.
  bool is_gauge() const { return kind != CounterKind::sum; }
};

// X(name, unit, kind, sentence)
#define WEIR_COUNTERS(X)                                                                         \
  X(messages_sent, "messages", sum, "Messages handed over for sending")                          \
  X(messages_received, "messages", sum, "Messages delivered to the MPI layer")                   \
  X(bytes_sent, "bytes", sum, "Payload handed over for sending")                                 \
  X(bytes_received, "bytes", sum, "Payload delivered to the MPI layer")                          \
  X(frames_sent, "frames", sum, "SEND work requests posted with messages in them")               \
  X(frames_received, "frames", sum, "Receive buffers that arrived with messages in them")        \
  X(trains_sent, "messages", sum,                                                                \
    "Messages longer than a frame sent without asking, in several frames")                       \
  X(trains_waited, "messages", sum,                                                              \
    "Of these, messages for which the peer lacked buffers at first")                             \
  X(trains_refused, "messages", sum,                                                             \
    "Messages longer than a frame announced instead, because others waited already")             \
  X(trains_halted, "times", sum,                                                                 \
    "Times a peer was told to send none of these: many wait, or it is reading a stream")         \
  X(messages_bundled, "messages", sum, "Messages that shared a frame with an earlier one")       \
  X(frames_inlined, "frames", sum, "Frames copied into the work request while posting")          \
  X(control_sent, "frames", sum, "Control frames sent: credits, recalls, lane ends, goodbyes")   \
  X(control_received, "frames", sum, "Control frames received")                                  \
  X(frames_twice, "frames", sum, "Frames dropped because the device had delivered them before")  \
  X(probes_sent, "probes", sum, "Zero-length writes to peers that were silent for long")         \
  X(doorbells, "calls", sum, "ibv_post_send calls: chains of work requests")                     \
  X(sends_signalled, "frames", sum, "Work requests that asked for a completion")                 \
  X(credit_stalls, "times", sum, "Times a peer's sends had to wait for eager credits")           \
  X(queue_stalls, "times", sum, "Times a peer's sends had to wait for a send queue slot")        \
  X(back_pressure, "times", sum, "Sends turned back because a pending queue was at its cap")     \
  X(pending_peak, "frames", most, "Longest pending queue of a peer so far")                      \
  X(credits_out, "credits", now, "Eager credits the peers hold now")                             \
  X(credits_overcommitted, "credits", sum,                                                       \
    "Credits granted although the window did not cover them")                                    \
  X(window, "buffers", now, "Receive window W now")                                              \
  X(window_peak, "buffers", most, "Largest receive window so far")                               \
  X(window_grows, "times", sum, "Times the receive window grew")                                 \
  X(window_demands, "times", sum,                                                                \
    "Times lack of credits, or many credit frames, made the window grow")                        \
  X(window_shrinks, "times", sum,                                                                \
    "Times the receive window was halved because little of it was used")                         \
  X(credit_recalls, "frames", sum, "Control frames that asked a peer for unused credits")        \
  X(receives_posted, "buffers", now, "Receive buffers posted now")                               \
  X(receives_held, "buffers", now,                                                               \
    "Receive buffers with messages not yet taken by the MPI layer")                              \
  X(receives_held_peak, "buffers", most,                                                         \
    "Most receive buffers that ever waited for the MPI layer")                                   \
  X(srq_limit_events, "events", sum, "SRQ limit events from the device")                         \
  X(srq_limit_self_raised, "events", sum,                                                        \
    "SRQ limit events raised by weir because the device's was lost")                             \
  X(repost_ns_peak, "ns", most, "Longest time for which the SRQ was empty")                      \
  X(rnr_timer_ns, "ns", now, "RNR NAK timer advertised to the peers now")                        \
  X(rnr_timer_changes, "times", sum,                                                             \
    "Times the advertised RNR NAK timer was changed (rnr_timer auto)")                           \
  X(rnr_timer_refusals, "queue pairs", sum,                                                      \
    "Queue pairs whose RNR NAK timer the adapter did not change")                                \
  X(receive_bytes, "bytes", now, "Registered receive memory now")                                \
  X(receive_bytes_peak, "bytes", most, "Most registered receive memory so far")                  \
  X(send_bytes, "bytes", now, "Registered send memory now")                                      \
  X(slab_failures, "times", sum,                                                                 \
    "Times memory for buffers could not be allocated or registered")                             \
  X(gets, "transfers", sum, "Gets handed over: large messages, MPI_Get")                         \
  X(get_bytes, "bytes", sum, "Payload of gets")                                                  \
  X(puts, "transfers", sum, "Puts handed over")                                                  \
  X(put_bytes, "bytes", sum, "Payload of puts")                                                  \
  X(atomics, "operations", sum, "Atomic operations handed over")                                 \
  X(chunks_sent, "chunks", sum, "RDMA work requests posted for gets, puts and atomics")          \
  X(chains, "operations", sum, "Gets that the adapter executed as a chain of reads")             \
  X(bulk_lanes, "lanes", sum, "Second lanes: for chains, or for all gets and atomics")           \
  X(token_requests, "requests", sum, "Requests that took tokens of the node")                    \
  X(token_waits, "times", sum, "Times sends had to wait for tokens of the node")                 \
  X(tokens_out, "tokens", now, "Tokens of the node that this process holds now")                 \
  X(tokens_excused, "tokens", sum,                                                               \
    "Tokens not waited for, because the process that holds them stood still")                    \
  X(rate_waits, "times", sum,                                                                    \
    "Times a request had to wait because it came too soon after the last one")                   \
  X(lanes_left, "lanes", sum,                                                                    \
    "Further lanes for large gets (paths) no longer used: slow, or broken")                      \
  X(node_read_waits, "times", sum,                                                               \
    "Times a read had to wait for reads of the node's other processes")                          \
  X(reads_out, "chunks", now, "RDMA reads and atomics outstanding now")                          \
  X(reads_out_peak, "chunks", most, "Most RDMA reads and atomics that were ever outstanding")    \
  X(read_window, "bytes", now, "Read budget now: most bytes of reads outstanding")               \
  X(proxy_submitted, "frames", sum, "Frames given to a server of the node")                      \
  X(proxy_repeated, "frames", sum,                                                               \
    "Of these, frames that the process sent by itself in the end")                               \
  X(proxy_stuck, "times", sum, "Times a server died or stopped, and its frames were taken back") \
  X(proxy_full, "times", sum, "Times a frame had to wait for room in the servers' queue")        \
  X(proxy_served, "frames", sum,                                                                 \
    "Frames of the node's processes that this one took to send, as a server")                    \
  X(proxy_refused, "frames", sum, "Of these, frames given back to their process")                \
  X(proxy_sends, "frames", sum, "SEND work requests posted for these frames")                    \
  X(proxy_sent_in_place, "frames", sum,                                                          \
    "Of these, sends from the process's own memory, without a copy")                             \
  X(proxy_coalesced, "frames", sum, "Relayed frames that shared a send with an earlier one")     \
  X(proxy_terms, "times", sum, "Times this process became a server of the node")                 \
  X(proxy_duplicates, "frames", sum, "Relayed frames dropped because they had arrived before")   \
  X(flushes_late, "times", sum,                                                                  \
    "Queue pairs that ended before all their work requests had completed")                       \
  X(connections, "connections", sum, "Connections established")                                  \
  X(connections_broken, "connections", sum, "Connections that broke, for weir to make again")    \
  X(connections_resumed, "connections", sum, "Of these, connections made again")                 \
  X(frames_resent, "frames", sum,                                                                \
    "Frames sent once more because the peer had not received them")                              \
  X(chunks_again, "chunks", sum,                                                                 \
    "RDMA work requests posted once more after a queue pair was lost")                           \
  X(connections_accepted, "connections", sum, "Connections that the peer asked for")             \
  X(connections_crossed, "connections", sum, "Simultaneous connection attempts resolved")        \
  X(connections_open, "connections", now,                                                        \
    "Connections now, including those being made or ended")                                      \
  X(connections_parted, "connections", sum,                                                      \
    "Idle connections ended to make room (connections_max)")                                     \
  X(connections_kept, "times", sum, "Times a peer refused to end its idle connection")           \
  X(connections_over, "connections", sum,                                                        \
    "Connections beyond connections_max: all others were in use")                                \
  X(requests_stale, "times", sum,                                                                \
    "Connection requests dropped because the peer has sent a newer one")                         \
  X(requests_refused, "times", sum,                                                              \
    "Connection requests refused: from strangers, or from another version")                      \
  X(refusals_dropped, "times", sum, "Refusals not sent, because there were too many at a time")  \
  X(connect_retries, "times", sum, "Connection attempts repeated")                               \
  X(connect_ns_sum, "ns", sum,                                                                   \
    "Time from the first send to the connection, summed over connections")                       \
  X(overlap_wakeups, "wake-ups", sum,                                                            \
    "Times the overlap thread woke: something waited, or with 'all' the application was back")   \
  X(overlap_in_vain, "wake-ups", sum,                                                            \
    "Of these, times the application came first, or nothing was left to do")                     \
  X(overlap_upcalls, "upcalls", sum,                                                             \
    "Messages and ends of transfers handed up while the application computed")                   \
  X(overlap_time, "us", sum, "Time spent in these upcalls")                                      \
  X(caps_changed, "times", sum, "Times 'weir set' changed caps of this process")                 \
  X(late_flushes, "times", sum,                                                                  \
    "Waiting frames posted by the event thread instead of an MPI call")                          \
  X(peer_failures, "peers", sum, "Peers given up")

struct Counters {
#define WEIR_X(name, unit, kind, help) std::uint64_t name = 0;
  WEIR_COUNTERS(WEIR_X)
#undef WEIR_X
};

inline constexpr std::array counter_table{
#define WEIR_X(name, unit, kind, help) \
  CounterLine<Counters>{#name, unit, CounterKind::kind, help " [" unit "]", &Counters::name},
    WEIR_COUNTERS(WEIR_X)
#undef WEIR_X
};
#undef WEIR_COUNTERS

}  // namespace weir
