// Who is reached is decided by what two cards say. What the kernel's routes say is tried in the
// lab.
#include "transport/verbs/reach.h"

#include <gtest/gtest.h>

namespace weir::verbs {
namespace {

using wire::Card;
using wire::LinkLayer;

Card on_ethernet(std::uint8_t net, std::uint8_t host) {
  Card card{.port = 7, .link_layer = LinkLayer::ethernet, .network_bits = 96 + 24};
  card.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, net, host};
  return card;
}

Card on_infiniband(std::uint8_t subnet) {
  Card card{.port = 7, .link_layer = LinkLayer::infiniband};
  card.subnet_prefix = {0xfe, 0x80, 0, 0, 0, 0, 0, subnet};
  return card;
}

TEST(Reach, NeighboursReachEachOther) {
  EXPECT_EQ(why_unreachable(on_ethernet(1, 1), on_ethernet(1, 2), false), "");
  EXPECT_EQ(why_unreachable(on_ethernet(1, 1), on_ethernet(1, 1), false), "");
  EXPECT_EQ(why_unreachable(on_infiniband(0), on_infiniband(0), false), "");
}

TEST(Reach, OtherNetworksNeedARoute) {
  EXPECT_EQ(why_unreachable(on_ethernet(1, 1), on_ethernet(2, 1), true), "");
  EXPECT_EQ(why_unreachable(on_ethernet(1, 1), on_ethernet(2, 1), false),
            "there is no route from 10.0.1.1 to its address 10.0.2.1");
  Card of_any_network = on_ethernet(1, 1);
  of_any_network.network_bits = 0;  // no interface has the address: ask the routes
  EXPECT_NE(why_unreachable(of_any_network, on_ethernet(1, 2), false), "");
}

TEST(Reach, NoConnectionLeadsFromOneLinkLayerToTheOther) {
  EXPECT_EQ(why_unreachable(on_ethernet(1, 1), on_infiniband(0), true),
            "it is on InfiniBand, and this process is on Ethernet");
  EXPECT_EQ(why_unreachable(on_infiniband(0), on_ethernet(1, 1), true),
            "it is on Ethernet, and this process is on InfiniBand");
}

TEST(Reach, NoneLeadsOutOfAnInfiniBandSubnet) {
  EXPECT_EQ(why_unreachable(on_infiniband(0), on_infiniband(1), true),
            "its InfiniBand subnet has the prefix fe80000000000001, ours fe80000000000000");
}

// A prefix that nobody set says nothing: two fabrics have it alike. Their IPoIB networks tell.
TEST(Reach, TwoInfiniBandFabricsWithTheDefaultPrefixAreTwo) {
  const auto on_ipoib = [](std::uint8_t subnet, std::uint8_t net, std::uint8_t host) {
    Card card = on_infiniband(subnet);
    card.address = on_ethernet(net, host).address;
    card.network_bits = 96 + 24;
    return card;
  };
  EXPECT_EQ(why_unreachable(on_ipoib(0, 1, 1), on_ipoib(0, 1, 2), false), "");
  EXPECT_EQ(why_unreachable(on_ipoib(0, 1, 1), on_ipoib(0, 2, 2), false),
            "there is no route from 10.0.1.1 to its address 10.0.2.2");
  EXPECT_EQ(why_unreachable(on_ipoib(0, 1, 1), on_ipoib(0, 2, 2), true), "");
  EXPECT_EQ(why_unreachable(on_ipoib(7, 1, 1), on_ipoib(7, 2, 2), false), "");
}

TEST(Reach, NoConnectionLeadsFromIpv4ToIpv6) {
  Card ipv6 = on_infiniband(7);
  ipv6.address = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  Card ipv4 = on_infiniband(7);
  ipv4.address = on_ethernet(1, 1).address;
  EXPECT_EQ(why_unreachable(ipv4, ipv6, true),
            "its address is 2001:db8::1, ours 10.0.1.1: one is IPv4 and one IPv6, so give both "
            "interfaces addresses of one kind");
  EXPECT_NE(why_unreachable(ipv6, ipv4, true), "");
  EXPECT_EQ(why_unreachable(ipv6, ipv6, true), "");
}

TEST(Reach, WhoDoesNotSayIsTried) {
  Card silent = on_ethernet(2, 1);
  silent.link_layer = LinkLayer::unknown;
  EXPECT_EQ(why_unreachable(on_ethernet(1, 1), silent, false), "");
  EXPECT_EQ(why_unreachable(on_infiniband(0), silent, false), "");
}

}  // namespace
}  // namespace weir::verbs
