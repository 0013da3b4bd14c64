// What the connector does: a table of event x state -> action. `weir_interleave --table` prints it.
//
// connector.cc carries out the actions, most of them by functions of the same names. A pair of
// event and state without a rule does not compile, and neither do two rules for one pair, except
// that a rule for `others` may follow.
//
// Events tell apart what the state alone does not: whether a request can be current, which of two
// crossing requests wins, whether an error may pass.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "transport/lane/peer_state.h"

namespace weir {

enum class ConnectionEvent : std::uint8_t {
  wanted,           // a connection is wanted
  request,          // from the peer; it may be current, and begins a session or takes up ours
  request_weaker,   // the same, and if it crosses ours, ours wins
  request_anew,     // begins a session, though the peer may have frames of ours that broke
  request_over,     // takes up a session that is over, or that never was
  request_late,     // from before the last one that we accepted, or before frames that have arrived
  due,              // a request that takes up our session is about to be served
  due_anew,         // the same for a request that does not
  answered,         // the peer accepted ours
  confirmed,        // the peer, or our own adapter, says that the connection is there
  first_frame,      // of the peer; it overtook `confirmed`
  refused_crossed,  // the peer refused our request: it has asked, too
  refused_closing,  // it is closing an earlier connection
  refused_over,     // it has ended the session
  refused,          // for good
  attempt_failed,   // below weir, for a reason that may pass
  attempt_spoilt,   // below weir, for good
  deadline,         // of an attempt
  disconnected,     // by the peer or by its death
  broke,            // the lane, or work on it
  fenced,           // the lane is destroyed, and all its work may be done once more
  fenced_in_doubt,  // the lane is destroyed, and an atomic may have been executed
  goodbye,          // of the peer
  part,             // the peer asks whether the connection may end
  stay,             // the peer does not want it to end
  hold,             // the session, for another rail, if the connection is broken
  hold_anyway,      // the same; the peer says that the connection is broken
  give_away,        // the frames go over another rail
  let_go,           // the held session may be taken up
  close,            // we want to leave; comes again until that is over
  went_on,          // something that parting or leaving waited for is over
  abandon,          // we wait no longer for the end of `close`
  fail,             // the peer breaks the rules, does not move, or cannot be reached
};
inline constexpr std::size_t connection_events = 33;

enum class ConnectionAction : std::uint8_t {
  ignore,
  impossible,   // checked: nobody can cause it
  out_of_turn,  // false is returned: a peer that does it breaks the rules
  // attempts
  seek_place,
  accept,
  accept_after_leaving,
  refuse_crossed,
  refuse_closing,
  refuse_over,
  take_answer,
  take_loop,
  become_ready,
  wait,
  try_again,
  try_in_turn,
  hear_it_is_over,
  give_up,
  // sessions
  give_way,
  give_way_unconfirmed,
  lose_lane,
  lose_parted_lane,
  ask,
  wait_a_while,
  stay_held,
  end_unless_in_session,
  fail_as_noted,
  note_failure,
  hold_lane,
  hold_unconfirmed,
  hold_attempt,
  hold_once_fenced,
  hold_longer,
  hold_in_vain,
  give_away,
  ask_once_fenced,
  // parting
  note_left,
  leave_once_fenced,
  part,
  part_as_both_ask,
  answer_part,
  stay,
  stay_in_vain,
  end_if_drained,
  close_unused,
  close_unmade,
  leave,
  say_goodbye,
  finish_if_drained,
  finish,
};

struct ConnectionRule {
  // Who takes the rule in tests: `weir_interleave`, or else a unit test of the connector.
  enum class Reach : std::uint8_t { explorer, unit };

  ConnectionEvent event;
  PeerStates in;
  ConnectionAction action;
  Reach reach = Reach::explorer;
};

namespace connection_table {

using enum ConnectionEvent;
using enum PeerState;
using Do = ConnectionAction;

inline constexpr auto unit = ConnectionRule::Reach::unit;
// All states that no other rule of the event names.
inline constexpr PeerStates others = idle | closed | connecting | waiting | accepting | held |
                                     any_broken | parting | parted | failed | closing | said |
                                     ready | left;

inline constexpr ConnectionRule rules[] = {
    // ---- attempts ----
    {wanted, idle | closed, Do::seek_place},
    {wanted, others, Do::ignore},

    {request, idle | closed | connecting | waiting | accepting, Do::accept},
    {request, ready, Do::refuse_crossed, unit},
    {request, left, Do::accept_after_leaving, unit},
    {request, others, Do::refuse_closing},
    {request_weaker, idle | closed | waiting | accepting, Do::accept},
    {request_weaker, connecting | ready, Do::refuse_crossed},
    {request_weaker, left, Do::accept_after_leaving, unit},
    {request_weaker, others, Do::refuse_closing},
    {request_anew, others, Do::refuse_crossed},
    {request_over, others, Do::refuse_over},
    {request_late, others, Do::refuse_crossed},
    {due, accepting, Do::give_way_unconfirmed},
    {due, ready | parting | parted | closing | said, Do::give_way},
    {due, others, Do::ignore},
    {due_anew, accepting, Do::give_way_unconfirmed},
    {due_anew, others, Do::ignore},

    {answered, connecting, Do::take_answer},
    {answered, others, Do::ignore, unit},
    {confirmed, accepting, Do::become_ready},
    {confirmed, connecting, Do::take_loop, unit},
    {confirmed, others, Do::ignore},
    {first_frame, accepting, Do::become_ready},
    {first_frame, others, Do::impossible},

    {refused_crossed, connecting, Do::wait},
    {refused_crossed, others, Do::ignore, unit},
    {refused_closing, connecting, Do::try_again},
    {refused_closing, others, Do::ignore},
    {refused_over, connecting, Do::hear_it_is_over},
    {refused_over, others, Do::ignore, unit},
    {refused, connecting, Do::give_up, unit},
    {refused, others, Do::ignore, unit},
    {attempt_failed, connecting | accepting, Do::try_again},
    {attempt_failed, others, Do::ignore, unit},
    {attempt_spoilt, accepting, Do::try_again},
    {attempt_spoilt, connecting, Do::give_up, unit},
    {attempt_spoilt, others, Do::ignore, unit},

    {deadline, connecting | accepting, Do::try_again},
    {deadline, waiting, Do::try_in_turn},
    {deadline, held, Do::hold_in_vain},
    {deadline, others, Do::impossible},

    // ---- how a lane ends ----
    {disconnected, connecting | accepting, Do::try_again, unit},
    {disconnected, ready | parting | closing | said, Do::lose_lane},
    {disconnected, parted, Do::lose_parted_lane},
    {disconnected, left, Do::finish},
    {disconnected, others, Do::ignore},
    {broke, connecting | accepting, Do::try_again},
    {broke, ready | parting | closing | said, Do::lose_lane},
    {broke, parted, Do::lose_parted_lane},
    {broke, left, Do::finish},
    {broke, others, Do::ignore},

    {fenced, broken_ask, Do::ask},
    {fenced, broken_wait, Do::wait_a_while},
    {fenced, broken_hold, Do::stay_held},
    {fenced, broken_end, Do::end_unless_in_session},
    {fenced, broken_part, Do::part},
    {fenced, broken_leave, Do::finish},
    {fenced, broken_fail, Do::fail_as_noted},
    {fenced, others, Do::impossible},
    {fenced_in_doubt, any_broken, Do::give_up, unit},
    {fenced_in_doubt, others, Do::impossible},

    // ---- frames over another rail ----
    {hold, connecting | waiting, Do::hold_attempt},
    {hold, held, Do::hold_longer, unit},
    {hold, broken_ask | broken_wait | broken_hold, Do::hold_once_fenced, unit},
    {hold, others, Do::out_of_turn},
    {hold_anyway, idle | closed | connecting | waiting, Do::hold_attempt},
    {hold_anyway, accepting, Do::hold_unconfirmed},
    {hold_anyway, ready | parting | parted, Do::hold_lane},
    {hold_anyway, held, Do::hold_longer},
    {hold_anyway, broken_ask | broken_wait | broken_hold, Do::hold_once_fenced},
    {hold_anyway, others, Do::out_of_turn},
    {give_away, held, Do::give_away},
    {give_away, others, Do::out_of_turn},
    {let_go, held, Do::ask},
    {let_go, broken_hold, Do::ask_once_fenced, unit},
    {let_go, others, Do::ignore},

    // ---- parting, leaving, giving up ----
    {goodbye, ready, Do::note_left},
    {goodbye, parting, Do::part},
    {goodbye, connecting | closing | said, Do::finish},
    {goodbye, broken_ask | broken_wait | broken_hold | broken_end | broken_fail,
     Do::leave_once_fenced},
    {goodbye, closed | failed, Do::ignore, unit},
    {goodbye, others, Do::impossible},
    {part, ready, Do::answer_part},
    {part, parting, Do::part_as_both_ask},
    {part, others, Do::ignore},
    {stay, parting, Do::stay},
    {stay, any_broken, Do::stay_in_vain},
    {stay, others, Do::out_of_turn, unit},

    {close, idle, Do::close_unused, unit},
    {close, connecting | waiting | accepting | held, Do::close_unmade},
    {close, ready | left, Do::leave},
    {close, closing, Do::say_goodbye, unit},
    {close, said, Do::finish_if_drained},
    {close, parted, Do::end_if_drained, unit},
    {close, others, Do::ignore},
    {went_on, closing, Do::say_goodbye, unit},
    {went_on, said, Do::finish_if_drained},
    {went_on, parted, Do::end_if_drained},
    {went_on, others, Do::ignore},
    {abandon, any_broken, Do::leave_once_fenced, unit},
    {abandon, closed, Do::ignore, unit},
    {abandon, others, Do::finish, unit},
    {fail, broken_ask | broken_wait | broken_hold | broken_end, Do::note_failure},
    {fail, closing | said, Do::finish, unit},
    {fail, closed | failed | broken_part | broken_leave | broken_fail, Do::ignore, unit},
    {fail, others, Do::give_up},
};
inline constexpr std::size_t count = std::size(rules);

// By event and state: the number of the rule.
inline constexpr auto rule_of = [] {
  std::array<std::array<std::uint8_t, peer_states>, connection_events> table{};
  for (auto& row : table) row.fill(UINT8_MAX);
  for (std::size_t i = 0; i < count; ++i) {
    const bool rest = rules[i].in == others;
    for (unsigned state = 0; state < peer_states; ++state) {
      if (!rules[i].in.has(static_cast<PeerState>(state))) continue;
      std::uint8_t& cell = table[static_cast<std::size_t>(rules[i].event)][state];
      if (cell != UINT8_MAX && !rest) throw "two rules for one event in one state";
      if (cell == UINT8_MAX) cell = static_cast<std::uint8_t>(i);
    }
  }
  for (const auto& row : table) {
    for (const std::uint8_t cell : row) {
      if (cell == UINT8_MAX) throw "an event has no rule in some state";
    }
  }
  return table;
}();

}  // namespace connection_table

const char* to_text(ConnectionEvent event);
const char* to_text(ConnectionAction action);
// The name in the table (lane/peer_state.h has words for a user).
const char* name_of(PeerState state);

}  // namespace weir
