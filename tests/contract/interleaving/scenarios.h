// What is played: each with few kinds of trouble, so that all of its interleavings can be. A depth
// is what takes a few seconds.
#pragma once

#include <array>

#include "tests/contract/interleaving/world.h"

namespace weir::interleaving {

inline constexpr std::array scenarios = {
    // ---- one rail ----
    // Requests that cross, are lost, are repeated.
    Scenario{.name = "connect", .budget = {.losses = 2, .timers = 2}, .depth = 18},
    // A connection breaks, and is made again.
    Scenario{.name = "resume",
             .budget = {.messages = {2, 1}, .breaks = 1, .losses = 1, .timers = 1},
             .ready = true,
             .late = true,
             .depth = 15},
    Scenario{.name = "late-request",
             .budget = {.breaks = 1},
             .ready = true,
             .reorders = true,
             .steady = true,
             .signal_interval = 1,
             .depth = 17},
    // An accepted connection breaks before it is confirmed, and frames have come.
    Scenario{.name = "unconfirmed",
             .budget = {.messages = {1, 0}, .breaks = 2},
             .ready = true,
             .signal_interval = 1,
             .depth = 16},
    // Somebody sends what no weir sends.
    Scenario{.name = "stranger",
             .budget = {.breaks = 1, .strangers = 1},
             .ready = true,
             .late = true,
             .may_end = true,
             .depth = 9},
    // It breaks for so long that the session may end.
    Scenario{.name = "outage",
             .budget = {.breaks = 1, .losses = 1, .timers = 6},
             .ready = true,
             .may_end = true,
             .depth = 10},
    Scenario{.name = "goodbye",
             .budget = {.closes = {1, 1}, .breaks = 1, .timers = 1},
             .ready = true,
             .late = true,
             .depth = 13},
    // A place for one connection, and two that want it.
    Scenario{.name = "part",
             .budget = {.third = {1, 0}, .breaks = 1, .timers = 2},
             .ready = true,
             .late = true,
             .places = {1, 0},
             .depth = 12},
    Scenario{.name = "stay",
             .budget = {.messages = {0, 2}, .third = {1, 0}, .breaks = 1, .timers = 1},
             .ready = true,
             .late = true,
             .places = {1, 0},
             .credits = 1,
             .depth = 12},
    // Both ask: each question is the other one's answer.
    Scenario{.name = "part-both",
             .budget = {.messages = {1, 1}, .third = {1, 1}, .breaks = 1},
             .ready = true,
             .late = true,
             .places = {1, 1},
             .depth = 11},
    Scenario{
        .name = "places", .budget = {.third = {1, 0}, .timers = 3}, .places = {1, 0}, .depth = 14},
    Scenario{.name = "ahead",
             .budget = {.messages = {0, 0}, .third = {1, 0}, .connects = {1, 0}, .timers = 3},
             .places = {1, 0},
             .depth = 30},

    // ---- two rails ----
    // Frames go over another rail.
    Scenario{.name = "handover",
             .rails = 2,
             .budget = {.breaks = 1},
             .ready = true,
             .late = true,
             .signal_interval = 1,
             .depth = 9},
    Scenario{.name = "two-breaks",
             .rails = 2,
             .budget = {.messages = {1, 0}, .breaks = 2},
             .ready = true,
             .depth = 8},
    // An application computes through the outage.
    Scenario{.name = "away",
             .rails = 2,
             .budget = {.breaks = 1, .timers = 4},
             .ready = true,
             .computes = true,
             .depth = 6},
    // A rail breaks for good, perhaps while its connection parts.
    Scenario{.name = "gone",
             .rails = 2,
             .budget = {.third = {1, 1}, .breaks = 1, .timers = 2},
             .ready = true,
             .late = true,
             .may_end = true,
             .gone = true,
             .places = {1, 1},
             .depth = 8},
    Scenario{.name = "rails-leave",
             .rails = 2,
             .budget = {.messages = {1, 0}, .closes = {1, 1}, .breaks = 1},
             .ready = true,
             .depth = 7},
};

// What is known to be wrong, until it is mended: it has to be found in that scenario.
struct Known {
  const char* scenario;
  const char* what;
};

inline constexpr std::array<Known, 0> known{};

}  // namespace weir::interleaving
