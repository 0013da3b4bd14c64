// The counters of a port, from folders as two drivers make them.
#include "transport/verbs/hw_counters.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace weir::verbs {
namespace {

class HwCountersTest : public testing::Test {
 protected:
  HwCountersTest()
      : root_(std::filesystem::path(testing::TempDir()) /
              ("hw_counters." + std::to_string(getpid()))) {}
  ~HwCountersTest() override { std::filesystem::remove_all(root_); }

  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder());
    std::ofstream(folder() + "/" + name) << text;
  }
  std::string folder() const { return hw_counter_folder("dev0", 2, root_.string()); }

  std::filesystem::path root_;
};

TEST_F(HwCountersTest, TheFolderIsThatOfThePort) {
  EXPECT_EQ(hw_counter_folder("rxe0", 1), "/sys/class/infiniband/rxe0/ports/1/hw_counters");
}

TEST_F(HwCountersTest, SoftRoce) {
  put("send_rnr_err", "3\n");
  put("rcvd_rnr_err", "4\n");
  put("retry_exceeded_err", "5\n");
  put("out_of_seq_request", "6\n");
  put("rcvd_seq_err", "7\n");
  put("duplicate_request", "8\n");
  put("sent_pkts", "900\n");
  const HwCounters counters = read_hw_counters(folder());
  EXPECT_EQ(counters.rnr_naks_sent, 3u);
  EXPECT_EQ(counters.rnr_naks_received, 4u);
  EXPECT_EQ(counters.retries_exceeded, 5u);
  EXPECT_EQ(counters.out_of_sequence, 6u);
  EXPECT_EQ(counters.sequence_naks, 7u);
  EXPECT_EQ(counters.duplicates, 8u);
  EXPECT_EQ(counters.ack_timeouts, std::nullopt);
}

TEST_F(HwCountersTest, Mlx5) {
  put("out_of_buffer", "18446744073709551615\n");
  put("rnr_nak_retry_err", "11\n");
  put("local_ack_timeout_err", "12\n");
  put("packet_seq_err", "13\n");
  put("out_of_sequence", "14\n");
  put("duplicate_request", "15\n");
  const HwCounters counters = read_hw_counters(folder());
  EXPECT_EQ(counters.rnr_naks_sent, 18446744073709551615u);
  EXPECT_EQ(counters.rnr_naks_received, 11u);
  EXPECT_EQ(counters.ack_timeouts, 12u);
  EXPECT_EQ(counters.sequence_naks, 13u);
  EXPECT_EQ(counters.out_of_sequence, 14u);
  EXPECT_EQ(counters.duplicates, 15u);
  EXPECT_EQ(counters.retries_exceeded, std::nullopt);
}

TEST_F(HwCountersTest, WhatIsNotThereOrNoNumberIsNotZero) {
  EXPECT_FALSE(read_hw_counters(folder()).any());
  put("send_rnr_err", "none\n");
  EXPECT_FALSE(read_hw_counters(folder()).any());
  put("rcvd_rnr_err", "0\n");
  EXPECT_TRUE(read_hw_counters(folder()).any());
  EXPECT_EQ(read_hw_counters(folder()).rnr_naks_received, 0u);
}

}  // namespace
}  // namespace weir::verbs
