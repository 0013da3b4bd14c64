#include "transport/core/connector_table.h"

#include <iterator>

namespace weir {
namespace {

constexpr const char* state_names[] = {"idle",        "closed",     "connecting",  "waiting",
                                       "accepting",   "held",       "broken_ask",  "broken_wait",
                                       "broken_hold", "broken_end", "broken_part", "broken_leave",
                                       "broken_fail", "parting",    "parted",      "failed",
                                       "closing",     "said",       "ready",       "left"};
static_assert(std::size(state_names) == peer_states);

constexpr const char* event_names[] = {"wanted",
                                       "request",
                                       "request_weaker",
                                       "request_anew",
                                       "request_over",
                                       "request_late",
                                       "due",
                                       "due_anew",
                                       "answered",
                                       "confirmed",
                                       "first_frame",
                                       "refused_crossed",
                                       "refused_closing",
                                       "refused_over",
                                       "refused",
                                       "attempt_failed",
                                       "attempt_spoilt",
                                       "deadline",
                                       "disconnected",
                                       "broke",
                                       "fenced",
                                       "fenced_in_doubt",
                                       "goodbye",
                                       "part",
                                       "stay",
                                       "hold",
                                       "hold_anyway",
                                       "give_away",
                                       "let_go",
                                       "close",
                                       "went_on",
                                       "abandon",
                                       "fail"};
static_assert(std::size(event_names) == connection_events);

constexpr const char* action_names[] = {"ignore",
                                        "impossible",
                                        "out_of_turn",
                                        "seek_place",
                                        "accept",
                                        "accept_after_leaving",
                                        "refuse_crossed",
                                        "refuse_closing",
                                        "refuse_over",
                                        "take_answer",
                                        "take_loop",
                                        "become_ready",
                                        "wait",
                                        "try_again",
                                        "try_in_turn",
                                        "hear_it_is_over",
                                        "give_up",
                                        "give_way",
                                        "give_way_unconfirmed",
                                        "lose_lane",
                                        "lose_parted_lane",
                                        "ask",
                                        "wait_a_while",
                                        "stay_held",
                                        "end_unless_in_session",
                                        "fail_as_noted",
                                        "note_failure",
                                        "hold_lane",
                                        "hold_unconfirmed",
                                        "hold_attempt",
                                        "hold_once_fenced",
                                        "hold_longer",
                                        "hold_in_vain",
                                        "give_away",
                                        "ask_once_fenced",
                                        "note_left",
                                        "leave_once_fenced",
                                        "part",
                                        "part_as_both_ask",
                                        "answer_part",
                                        "stay",
                                        "stay_in_vain",
                                        "end_if_drained",
                                        "close_unused",
                                        "close_unmade",
                                        "leave",
                                        "say_goodbye",
                                        "finish_if_drained",
                                        "finish"};
static_assert(std::size(action_names) == static_cast<std::size_t>(ConnectionAction::finish) + 1);

}  // namespace

const char* to_text(ConnectionEvent event) { return event_names[static_cast<std::size_t>(event)]; }
const char* to_text(ConnectionAction action) {
  return action_names[static_cast<std::size_t>(action)];
}

const char* name_of(PeerState state) { return state_names[static_cast<std::size_t>(state)]; }

}  // namespace weir
