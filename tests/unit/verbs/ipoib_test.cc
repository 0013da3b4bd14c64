// Which IPoIB interface has the address of a port: folders as the kernel shows them, made up here.
#include "transport/verbs/ipoib.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace weir::verbs {
namespace {

using Gid16 = std::array<std::uint8_t, 16>;

Gid16 gid_of_port(std::uint8_t port) {
  return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, port};
}

IpoibInterface interface(const char* name, std::uint8_t port, std::uint16_t pkey) {
  return {.name = name, .gid = gid_of_port(port), .pkey = pkey};
}

TEST(Ipoib, IsOfThePortAndNotOfItsNeighbour) {
  const std::vector<IpoibInterface> all = {interface("ib0", 1, 0xffff),
                                           interface("ib1", 2, 0xffff)};
  ASSERT_NE(choose_ipoib(all, gid_of_port(2), {}), nullptr);
  EXPECT_EQ(choose_ipoib(all, gid_of_port(2), {})->name, "ib1");
  EXPECT_EQ(choose_ipoib(all, gid_of_port(3), {}), nullptr);
  Gid16 in_a_subnet = gid_of_port(2);  // the subnet manager has given the subnet a prefix since
  in_a_subnet[7] = 9;
  EXPECT_EQ(choose_ipoib(all, in_a_subnet, {})->name, "ib1");
}

TEST(Ipoib, IsOfThePartition) {
  const std::vector<IpoibInterface> all = {interface("ib0.8001", 1, 0x8001),
                                           interface("ib0", 1, 0xffff)};
  EXPECT_EQ(choose_ipoib(all, gid_of_port(1), {})->name, "ib0");
  EXPECT_EQ(choose_ipoib(all, gid_of_port(1), 0x8001)->name, "ib0.8001");
  EXPECT_EQ(choose_ipoib(all, gid_of_port(1), 0x0001)->name, "ib0.8001");
  EXPECT_EQ(choose_ipoib(all, gid_of_port(1), 0x8002), nullptr);
  EXPECT_EQ(choose_ipoib(std::span(all).first(1), gid_of_port(1), {})->name, "ib0.8001");
}

TEST(Ipoib, ReadsWhatTheKernelShows) {
  std::string root = std::filesystem::temp_directory_path() / "weir-ipoib-XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  const auto write = [&](const std::string& name, const char* file, const char* text) {
    const std::string folder = root + "/mlx5_0/device/net/" + name;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + file) << text << "\n";
  };
  write("ib0", "address", "80:00:02:08:fe:80:00:00:00:00:00:00:50:00:00:00:00:00:00:01");
  write("ib0", "pkey", "0xffff");
  write("ib1", "address", "80:00:02:08:fe:80:00:00:00:00:00:00:50:00:00:00:00:00:00:02");
  write("eth0", "address", "52:54:00:77:00:01");
  const std::vector<IpoibInterface> all = ipoib_interfaces("mlx5_0", root);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "ib0");
  EXPECT_EQ(all[0].gid, gid_of_port(1));
  EXPECT_EQ(all[0].pkey, 0xffff);
  EXPECT_EQ(all[1].gid, gid_of_port(2));
  EXPECT_TRUE(ipoib_interfaces("mlx5_1", root).empty());
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace weir::verbs
