#include "transport/config/units.h"

#include <gtest/gtest.h>

namespace weir::config {
namespace {

std::int64_t duration(const char* text) {
  std::int64_t ns = -1;
  std::string error;
  return parse_duration(text, ns, error) ? ns : -1;
}

std::int64_t size(const char* text) {
  std::int64_t bytes = -1;
  std::string error;
  return parse_size(text, bytes, error) ? bytes : -1;
}

TEST(Units, DurationsAreRead) {
  EXPECT_EQ(duration("10ns"), 10);
  EXPECT_EQ(duration("640us"), 640'000);
  EXPECT_EQ(duration(" 4 ms "), 4'000'000);
  EXPECT_EQ(duration("1.5s"), 1'500'000'000);
  EXPECT_EQ(duration("655.36ms"), 655'360'000);
  EXPECT_EQ(duration("0.000000001s"), 1);
  EXPECT_EQ(duration("2min"), 120'000'000'000);
  EXPECT_EQ(duration("1h"), 3'600'000'000'000);
  EXPECT_EQ(duration("0"), 0);
  EXPECT_EQ(duration("1.0ns"), 1);
}

TEST(Units, DurationsAreRefused) {
  for (const char* text : {"", "us", "640", "-1s", "1e3s", "1.s", "1 fortnight", "0.1ns", "1.5",
                           "99999999999h", "1s1ms", "S"}) {
    EXPECT_EQ(duration(text), -1) << text;
  }
}

TEST(Units, SizesAreRead) {
  EXPECT_EQ(size("256"), 256);
  EXPECT_EQ(size("256B"), 256);
  EXPECT_EQ(size("8KiB"), 8192);
  EXPECT_EQ(size("8K"), 8192);
  EXPECT_EQ(size("1.5MiB"), 1'572'864);
  EXPECT_EQ(size("64 GiB"), 64LL << 30);
  EXPECT_EQ(size("0"), 0);
}

TEST(Units, SizesAreRefused) {
  for (const char* text : {"", "KiB", "8KB", "8kb", "-8", "1.5B", "0.3KiB", "9999999999GiB"}) {
    EXPECT_EQ(size(text), -1) << text;
  }
}

TEST(Units, CountsMayBeHexadecimal) {
  std::int64_t value = 0;
  std::string error;
  EXPECT_TRUE(parse_count(" 0x8001 ", value, error));
  EXPECT_EQ(value, 0x8001);
  EXPECT_FALSE(parse_count("0x", value, error));
  EXPECT_FALSE(parse_count("8001h", value, error));
}

TEST(Units, ErrorsSayWhatIsWrong) {
  std::int64_t value = 0;
  std::string error;
  EXPECT_FALSE(parse_duration("640", value, error));
  EXPECT_EQ(error, "'640' has no unit; use ns, us, ms, s, min or h");
  EXPECT_FALSE(parse_size("8KB", value, error));
  EXPECT_EQ(error, "'8KB' has an unknown unit; use B, KiB, MiB or GiB (1KiB = 1024B)");
  EXPECT_FALSE(parse_count("many", value, error));
  EXPECT_EQ(error, "'many' is no whole number");
}

TEST(Units, WhatIsWrittenIsReadBack) {
  for (const std::int64_t value :
       {0LL, 1LL, 999LL, 1000LL, 640'000LL, 1'500'000'000LL, 60'000'000'000LL, 655'360'000LL}) {
    EXPECT_EQ(duration(format_duration(value).c_str()), value);
  }
  for (const std::int64_t value : {0LL, 1LL, 1023LL, 1024LL, 8192LL, 64LL << 20, 3LL << 30}) {
    EXPECT_EQ(size(format_size(value).c_str()), value);
  }
  EXPECT_EQ(format_duration(1'500'000'000), "1500ms");
  EXPECT_EQ(format_size(8192), "8KiB");
}

}  // namespace
}  // namespace weir::config
