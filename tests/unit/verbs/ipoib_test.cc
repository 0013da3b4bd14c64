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

// Interfaces as the kernel shows them.
class Ipoib : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(root.data()), nullptr);
    nets = root + "/mlx5_0/device/net/";
    std::filesystem::create_directories(nets);
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  void write(const std::string& name, const char* file, const std::string& text) const {
    const std::string folder = nets + name;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + file) << text << "\n";
  }
  void write_interface(const std::string& name, int port, const char* pkey) const {
    write(name, "address",
          "80:00:02:08:fe:80:00:00:00:00:00:00:50:00:00:00:00:00:00:0" + std::to_string(port));
    write(name, "pkey", pkey);
  }

  // The address of the port; "none" if it has none.
  std::string address(std::uint8_t port, std::vector<LocalAddress> local,
                      std::optional<std::uint16_t> pkey = {}) const {
    const LocalAddress* const found = ipoib_address("mlx5_0", gid_of_port(port), pkey, local, root);
    return found == nullptr ? "none" : to_text(make_address(found->bytes, 0, 0));
  }

  std::string root = std::filesystem::temp_directory_path() / "weir-ipoib-XXXXXX";
  std::string nets;
};

TEST_F(Ipoib, IsOfThePortAndNotOfItsNeighbour) {
  const std::vector<IpoibInterface> all = {interface("ib0", 1, 0xffff),
                                           interface("ib1", 2, 0xffff)};
  ASSERT_NE(choose_ipoib(all, gid_of_port(2), {}), nullptr);
  EXPECT_EQ(choose_ipoib(all, gid_of_port(2), {})->name, "ib1");
  EXPECT_EQ(choose_ipoib(all, gid_of_port(3), {}), nullptr);
  Gid16 in_a_subnet = gid_of_port(2);  // the subnet manager has given the subnet a prefix since
  in_a_subnet[7] = 9;
  EXPECT_EQ(choose_ipoib(all, in_a_subnet, {})->name, "ib1");
}

TEST_F(Ipoib, IsOfThePartition) {
  const std::vector<IpoibInterface> all = {interface("ib0.8001", 1, 0x8001),
                                           interface("ib0", 1, 0xffff)};
  EXPECT_EQ(choose_ipoib(all, gid_of_port(1), {})->name, "ib0");
  EXPECT_EQ(choose_ipoib(all, gid_of_port(1), 0x8001)->name, "ib0.8001");
  EXPECT_EQ(choose_ipoib(all, gid_of_port(1), 0x0001)->name, "ib0.8001");
  EXPECT_EQ(choose_ipoib(all, gid_of_port(1), 0x8002), nullptr);
  EXPECT_EQ(choose_ipoib(std::span(all).first(1), gid_of_port(1), {})->name, "ib0.8001");
}

LocalAddress on_ipv4(const char* interface, std::uint8_t host) {
  return {.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, host}, .name = interface};
}
LocalAddress on_ipv6(const char* interface, std::uint8_t host) {
  return {.bytes = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host}, .name = interface};
}
LocalAddress on_link_local(const char* interface, std::uint8_t host) {
  return {.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host}, .name = interface};
}

TEST_F(Ipoib, ReadsWhatTheKernelShows) {
  write_interface("ib0", 1, "0xffff");
  write_interface("ib1", 2, "0x8001");
  write("eth0", "address", "52:54:00:77:00:01");
  const std::vector<IpoibInterface> all = ipoib_interfaces("mlx5_0", root);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "ib0");
  EXPECT_EQ(all[0].gid, gid_of_port(1));
  EXPECT_EQ(all[0].pkey, 0xffff);
  EXPECT_EQ(all[1].gid, gid_of_port(2));
  EXPECT_EQ(all[1].pkey, 0x8001);
  EXPECT_TRUE(ipoib_interfaces("mlx5_1", root).empty());
}

TEST_F(Ipoib, AnAddressOfAnyKindWillDo) {
  write_interface("ib0", 1, "0xffff");
  EXPECT_EQ(address(1, {}), "none");
  EXPECT_EQ(address(1, {on_ipv4("eth0", 1)}), "none");
  EXPECT_EQ(address(1, {on_link_local("ib0", 1)}), "fe80::1");
  EXPECT_EQ(address(1, {on_link_local("ib0", 1), on_ipv6("ib0", 2)}), "2001:db8::2");
  EXPECT_EQ(address(1, {on_link_local("ib0", 1), on_ipv6("ib0", 2), on_ipv4("ib0", 3)}), "10.0.0.3");
}

// Each interface that is up has a link-local address.
TEST_F(Ipoib, AnInterfaceThatWasGivenAnAddressComesFirst) {
  write_interface("ib0", 1, "0xffff");
  write_interface("ib0.8001", 1, "0x8001");
  const std::vector<LocalAddress> local = {on_link_local("ib0", 1), on_link_local("ib0.8001", 1),
                                           on_ipv4("ib0.8001", 2)};
  EXPECT_EQ(address(1, local), "10.0.0.2");
  EXPECT_EQ(address(1, local, 0xffff), "fe80::1");
  EXPECT_EQ(address(1, local, 0x8002), "none");
}

// The bond has the address; it is the one of the port that carries it now.
TEST_F(Ipoib, InABondTheActivePortHasTheAddress) {
  write_interface("ib0", 1, "0xffff");
  write_interface("ib1", 2, "0xffff");
  write_interface("../../../bond0", 2, "");
  for (const char* name : {"ib0", "ib1"}) {
    std::filesystem::create_directory_symlink(root + "/bond0", nets + name + "/master");
  }
  const std::vector<LocalAddress> local = {on_ipv4("bond0", 1)};
  EXPECT_EQ(address(1, local), "none");
  EXPECT_EQ(address(2, local), "10.0.0.1");
  EXPECT_EQ(address(2, local, 0xffff), "10.0.0.1");
}

// A VRF has no hardware address of IPoIB, and takes no addresses away.
TEST_F(Ipoib, AnyOtherMasterLeavesItsAddressToTheInterface) {
  write_interface("ib0", 1, "0xffff");
  write("../../../red", "address", "52:54:00:77:00:01");
  std::filesystem::create_directory_symlink(root + "/red", nets + "ib0/master");
  EXPECT_EQ(address(1, {on_ipv4("ib0", 1)}), "10.0.0.1");
}

}  // namespace
}  // namespace weir::verbs
