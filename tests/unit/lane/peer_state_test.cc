// The table of allowed edges, edge by edge.
#include "transport/lane/peer_state.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

namespace weir {
namespace {

TEST(PeerState, HasExactlyTheseEdges) {
  // Columns and rows: idle closed connecting waiting accepting held broken_... (7: to ask, wait,
  // hold, end, part, leave, fail) parting parted failed closing said ready left
  constexpr const char* broken = "xxxx.xxxxxxxx..x....";
  constexpr const char* table[] = {
      /* idle       */ ".xx.xx.........x....",
      /* closed     */ "x.x.xx..............",
      /* connecting */ "xxxxxx.........x..x.",
      /* waiting    */ "xxx.xx.........x....",
      /* accepting  */ ".x..x.xxxxxxx..x..x.",
      /* held       */ ".xx............x....",
      broken,
      broken,
      broken,
      broken,
      broken,
      broken,
      broken,
      /* parting    */ "xx....xxxxxxx.xx..x.",
      /* parted     */ "xx....xxxxxxx..x....",
      /* failed     */ ".x..................",
      /* closing    */ ".x....xxxxxxx..x.x..",
      /* said       */ ".x....xxxxxxx..x....",
      /* ready      */ ".x....xxxxxxxxxxx..x",
      /* left       */ ".x.............x....",
  };
  static_assert(std::size(table) == peer_states);
  for (unsigned from = 0; from < peer_states; ++from) {
    for (unsigned to = 0; to < peer_states; ++to) {
      EXPECT_EQ(allowed(static_cast<PeerState>(from), static_cast<PeerState>(to)),
                table[from][to] == 'x')
          << to_text(static_cast<PeerState>(from)) << " to " << to_text(static_cast<PeerState>(to));
    }
  }
}

TEST(PeerState, HasWords) {
  for (unsigned state = 0; state < peer_states; ++state) {
    EXPECT_NE(std::string(to_text(static_cast<PeerState>(state))), "unknown");
  }
  EXPECT_EQ(std::string(to_text(static_cast<PeerState>(peer_states))), "unknown");
}

}  // namespace
}  // namespace weir
