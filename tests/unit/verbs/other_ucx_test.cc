// The UCX that is found is not the one that weir was built for: other_ucx.c.
#include <gtest/gtest.h>

#include "transport/verbs/ucx.h"

namespace weir::verbs {
namespace {

TEST(OtherUcx, IsNotUsed) {
  std::string why;
  EXPECT_EQ(load_ucx(why), nullptr);
  EXPECT_EQ(why, "UCX 1.99 is installed, and weir was built for " +
                     std::to_string(UCP_API_MAJOR) + "." + std::to_string(UCP_API_MINOR) +
                     "; build weir again with the headers of UCX 1.99");
}

}  // namespace
}  // namespace weir::verbs
