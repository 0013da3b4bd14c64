// The headers the plugin is built with belong to the Open MPI that is here.
#include "transport/btl/compat.h"

#include <gtest/gtest.h>

namespace weir::btl {
namespace {

TEST(Compat, IsMadeForTheOpenMpiThatIsHere) { EXPECT_TRUE(made_for_this_open_mpi()); }

// Where a header was missing, ours says what a mutex is.
TEST(Compat, MutexesAreAsLargeAsOpenMpiMakesThem) {
  EXPECT_EQ(opal_mutex_t_class.cls_sizeof, sizeof(opal_mutex_t));
}

}  // namespace
}  // namespace weir::btl
