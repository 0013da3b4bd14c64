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

  Operation* done = operations.end(a);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->data, &first);
  EXPECT_EQ(operations.end(a), nullptr);  // before the record is released, too
  operations.release(*done);
  EXPECT_EQ(operations.end(a), nullptr);
  EXPECT_EQ(operations.repeated(), 2u);
  done = operations.end(b);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->data, &second);
  operations.release(*done);
  EXPECT_EQ(operations.out(), 0u);
}

TEST(Operations, AnEndToldTwiceDoesNotEndWhoHasTheRecordNow) {
  Operations operations;
  int first = 0, second = 0;
  const std::uint64_t a = operations.begin(for_data(&first));
  Operation* done = operations.end(a);
  ASSERT_NE(done, nullptr);
  operations.release(*done);
  const std::uint64_t b = operations.begin(for_data(&second));
  ASSERT_NE(a, b);

  EXPECT_EQ(operations.end(a), nullptr);
  EXPECT_EQ(operations.out(), 1u);
  done = operations.end(b);
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->data, &second);
}

}  // namespace
}  // namespace weir::btl
