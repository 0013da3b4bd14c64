// The headers the plugin is built with belong to the Open MPI that is here.
#include "transport/btl/compat.h"

#include <gtest/gtest.h>

namespace weir::btl {
namespace {

TEST(Compat, IsMadeForTheOpenMpiThatIsHere) { EXPECT_TRUE(made_for_this_open_mpi()); }

#if OPAL_MAJOR_VERSION < 5
// Its modules have more fields than ours.
TEST(Compat, IsNotMadeForOneWithCuda) {
  const bool here = opal_built_with_cuda_support;
  opal_built_with_cuda_support = !here;
  EXPECT_FALSE(made_for_this_open_mpi());
  opal_built_with_cuda_support = here;
}
#endif

// Where a header was missing, ours says what a mutex is.
TEST(Compat, MutexesAreAsLargeAsOpenMpiMakesThem) {
  EXPECT_EQ(opal_mutex_t_class.cls_sizeof, sizeof(opal_mutex_t));
}

}  // namespace
}  // namespace weir::btl
