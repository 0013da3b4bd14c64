// The table of allowed edges, edge by edge.
#include "transport/lane/peer_state.h"

#include <gtest/gtest.h>

#include <string>

namespace weir {
namespace {

TEST(PeerState, HasExactlyTheseEdges) {
  // Columns and rows: idle connecting waiting accepting ready broken held parting parted closing
  // closed failed
  constexpr const char* table[] = {
      /* idle       */ ".x.x..x...xx",
      /* connecting */ "xxxxx.x...xx",
      /* waiting    */ "xx.x..x...xx",
      /* accepting  */ "...xxx....xx",
      /* ready      */ ".....x.xxxxx",
      /* broken     */ "xxx...x...xx",
      /* held       */ ".x........xx",
      /* parting    */ "x...xx..x.xx",
      /* parted     */ "x....x....xx",
      /* closing    */ ".....x....xx",
      /* closed     */ "xx.x..x.....",
      /* failed     */ "..........x.",
  };
  for (unsigned from = 0; from < 12; ++from) {
    for (unsigned to = 0; to < 12; ++to) {
      EXPECT_EQ(allowed(static_cast<PeerState>(from), static_cast<PeerState>(to)),
                table[from][to] == 'x')
          << to_text(static_cast<PeerState>(from)) << " to " << to_text(static_cast<PeerState>(to));
    }
  }
}

TEST(PeerState, HasWords) {
  for (unsigned state = 0; state < 12; ++state) {
    EXPECT_NE(std::string(to_text(static_cast<PeerState>(state))), "unknown");
  }
  EXPECT_EQ(std::string(to_text(static_cast<PeerState>(12))), "unknown");
}

}  // namespace
}  // namespace weir
