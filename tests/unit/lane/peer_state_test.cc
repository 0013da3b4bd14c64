// The table of allowed edges, edge by edge.
#include "transport/lane/peer_state.h"

#include <gtest/gtest.h>

#include <string>

namespace weir {
namespace {

TEST(PeerState, HasExactlyTheseEdges) {
  // Columns and rows: idle connecting accepting ready broken parting parted closing closed failed
  constexpr const char* table[] = {
      /* idle       */ ".xxx....xx",
      /* connecting */ "xxxx....xx",
      /* accepting  */ ".xxx....xx",
      /* ready      */ "....xxxxxx",
      /* broken     */ "xxx.....xx",
      /* parting    */ "x..xx.x.xx",
      /* parted     */ "x...x...xx",
      /* closing    */ "....x...xx",
      /* closed     */ "xxxx......",
      /* failed     */ "........x.",
  };
  for (unsigned from = 0; from < 10; ++from) {
    for (unsigned to = 0; to < 10; ++to) {
      EXPECT_EQ(allowed(static_cast<PeerState>(from), static_cast<PeerState>(to)),
                table[from][to] == 'x')
          << to_text(static_cast<PeerState>(from)) << " to " << to_text(static_cast<PeerState>(to));
    }
  }
}

TEST(PeerState, HasWords) {
  for (unsigned state = 0; state < 10; ++state) {
    EXPECT_NE(std::string(to_text(static_cast<PeerState>(state))), "unknown");
  }
  EXPECT_EQ(std::string(to_text(static_cast<PeerState>(10))), "unknown");
}

}  // namespace
}  // namespace weir
