#include "tools/between/lines.h"

#include <gtest/gtest.h>

namespace weir::tools::between {
namespace {

TEST(Safe, KeepsWhatATerminalOnlyShows) {
  EXPECT_EQ(safe("node1: 8 KiB, Verbindung h\xc3\xa4lt \xe2\x80\xa6 \xf0\x9f\x9a\x80"),
            "node1: 8 KiB, Verbindung h\xc3\xa4lt \xe2\x80\xa6 \xf0\x9f\x9a\x80");
  EXPECT_EQ(safe("\xc2\xa0"), "\xc2\xa0");  // the first behind C1
}

TEST(Safe, LetsNoControlCharacterPass) {
  EXPECT_EQ(safe("a\x1b[2J\n\x7f"), "a?[2J??");
  // CSI of C1: as UTF-8, and as one byte, which terminals without UTF-8 obey.
  EXPECT_EQ(safe("a\xc2\x9b"
                 "2J"),
            "a??2J");
  EXPECT_EQ(safe("a\x9b"
                 "2J"),
            "a?2J");
  EXPECT_EQ(safe("\xc2\x80\xc2\x9f"), "????");
  EXPECT_EQ(safe("\xe0\x82\x9b\xf0\x80\x82\x9b"), "???????");  // longer than they have to be
}

TEST(Safe, LetsNoBytesPassThatAreNoUtf8) {
  EXPECT_EQ(safe("\xc0\x9b"), "??");  // a longer way to write 0x1B
  EXPECT_EQ(safe("\xe2\x9b"), "??");  // too short
  EXPECT_EQ(safe("\xc3("), "?(");     // the second byte is another character
  EXPECT_EQ(safe("\xff\xfe"), "??");
  EXPECT_EQ(safe("\xc3\xa4\xc3\xa4", 3), "\xc3\xa4?...");  // cut in the middle
}

}  // namespace
}  // namespace weir::tools::between
