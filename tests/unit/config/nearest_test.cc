#include "transport/config/nearest.h"

#include <gtest/gtest.h>

namespace weir::config {
namespace {

TEST(Nearest, CountsAddedDroppedChangedAndSwappedLetters) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("window", "windows"), 1u);
  EXPECT_EQ(edit_distance("window", "wondow"), 1u);
  EXPECT_EQ(edit_distance("window", "widnow"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Nearest, FindsWhatWasMeant) {
  const auto meant = [](const char* name) {
    const Key* const key = nearest_key(name);
    return std::string(key != nullptr ? key->name : "");
  };
  EXPECT_EQ(meant("windw_max"), "window_max");
  EXPECT_EQ(meant("window-max"), "window_max");
  EXPECT_EQ(meant("WEIR_WINDOW_MXA"), "window_max");
  EXPECT_EQ(meant("btl_weir_ack_timeuot"), "ack_timeout");
  EXPECT_EQ(meant("OMPI_MCA_btl_weir_mtu"), "mtu");
  EXPECT_EQ(meant("rnr_timeout"), "rnr_timer");
  EXPECT_EQ(meant("receive_queues"), "");
  EXPECT_EQ(meant("x"), "");
  EXPECT_EQ(meant(""), "");
  EXPECT_EQ(meant(std::string(100'000, 'a').c_str()), "");
}

TEST(Nearest, Sentences) {
  EXPECT_EQ(no_such_key("windw_max"), "there is no such key; did you mean window_max?");
  EXPECT_EQ(no_such_key("close_timeout"),
            "this key no longer exists: MPI_Finalize waits at most 10s for sends under way");
  EXPECT_EQ(no_such_key("receive_queues"),
            "there is no such key; 'weir config explain' lists them all");
}

}  // namespace
}  // namespace weir::config
