// Which GID of a port is taken, and addresses as connection management wants them.
#include "transport/verbs/gid.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>
#include <vector>

#include "transport/verbs/addresses.h"

namespace weir::verbs {
namespace {

constexpr std::array<std::uint8_t, 16> ipv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3};
constexpr std::array<std::uint8_t, 16> link_local{0xfe, 0x80, 0, 0, 0, 0, 0, 0,
                                                  2,    0,    0, 0, 0, 0, 0, 1};
constexpr std::array<std::uint8_t, 16> global{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0,
                                              0,    0, 0,   0,    0, 0, 0, 1};

// The index of the one that is taken.
int taken(const std::vector<Gid>& table) {
  const Gid* const gid = choose_gid(table);
  return gid == nullptr ? -1 : gid->index;
}

TEST(Gid, WhatIsRoutedComesFirst) {
  EXPECT_EQ(taken({}), -1);
  EXPECT_EQ(taken({{0, GidType::roce_v1, link_local},
                   {1, GidType::roce_v2, link_local},
                   {2, GidType::roce_v1, ipv4},
                   {3, GidType::roce_v2, global},
                   {4, GidType::roce_v2, ipv4}}),
            4);
  EXPECT_EQ(taken({{0, GidType::roce_v1, ipv4}, {1, GidType::roce_v2, global}}), 1);
  EXPECT_EQ(taken({{0, GidType::roce_v2, link_local}, {1, GidType::roce_v1, ipv4}}), 1);
  EXPECT_EQ(taken({{0, GidType::roce_v1, link_local}, {1, GidType::roce_v2, link_local}}), 1);
}

TEST(Gid, OfEqualOnesTheFirst) {
  EXPECT_EQ(taken({{3, GidType::roce_v2, ipv4}, {5, GidType::roce_v2, ipv4}}), 3);
  EXPECT_EQ(taken({{5, GidType::roce_v2, ipv4}, {3, GidType::roce_v2, ipv4}}), 3);
  EXPECT_EQ(taken({{0, GidType::infiniband, global}, {1, GidType::infiniband, global}}), 0);
}

TEST(Address, OfIpv4AndIpv6ComesBackAsItWas) {
  for (const auto& bytes : {ipv4, link_local, global}) {
    EXPECT_EQ(address_bytes(make_address(bytes, 4711, 7)), bytes);
  }
  EXPECT_EQ(to_text(make_address(ipv4, 4711, 7)), "10.1.2.3");
  EXPECT_EQ(to_text(make_address(global, 4711, 7)), "2001:db8::1");
}

// Without its interface the kernel cannot tell where a link-local address is.
TEST(Address, OnlyALinkLocalOneNamesItsInterface) {
  const auto scope = [](const std::array<std::uint8_t, 16>& bytes) {
    const sockaddr_storage address = make_address(bytes, 4711, 7);
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    EXPECT_EQ(v6.sin6_port, htons(4711));
    return v6.sin6_scope_id;
  };
  EXPECT_EQ(scope(link_local), 7u);
  EXPECT_EQ(scope(global), 0u);
}

}  // namespace
}  // namespace weir::verbs
