#include <gtest/gtest.h>

#include "transport/btl/operation.h"

namespace weir::btl {
namespace {

Operation for_data(void* data) {
  Operation operation;
  operation.data = data;
  return operation;
}

TEST(Operations, EndOnce) {
  Operations operations;
  int first = 0, second = 0;
  const std::uint64_t a = operations.begin(for_data(&first));
  const std::uint64_t b = operations.begin(for_data(&second));
  EXPECT_EQ(operations.out(), 2u);

  Operation done;
  ASSERT_TRUE(operations.end(a, done));
  EXPECT_EQ(done.data, &first);
  EXPECT_FALSE(operations.end(a, done));
  EXPECT_EQ(operations.repeated(), 1u);
  ASSERT_TRUE(operations.end(b, done));
  EXPECT_EQ(done.data, &second);
  EXPECT_EQ(operations.out(), 0u);
}

TEST(Operations, AnEndToldTwiceDoesNotEndWhoHasTheRecordNow) {
  Operations operations;
  int first = 0, second = 0;
  const std::uint64_t a = operations.begin(for_data(&first));
  Operation done;
  ASSERT_TRUE(operations.end(a, done));
  const std::uint64_t b = operations.begin(for_data(&second));
  ASSERT_NE(a, b);

  EXPECT_FALSE(operations.end(a, done));
  EXPECT_EQ(operations.out(), 1u);
  ASSERT_TRUE(operations.end(b, done));
  EXPECT_EQ(done.data, &second);
}

}  // namespace
}  // namespace weir::btl
