#include "transport/verbs/reach.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "transport/verbs/addresses.h"

namespace weir::verbs {
namespace {

using wire::Card;
using wire::LinkLayer;

const char* name_of(LinkLayer layer) {
  return layer == LinkLayer::ethernet ? "Ethernet" : "InfiniBand";
}

std::string prefix_text(const std::array<std::uint8_t, 8>& prefix) {
  std::string text;
  for (const std::uint8_t byte : prefix) {
    std::array<char, 4> two{};
    std::snprintf(two.data(), two.size(), "%02x", byte);
    text += two.data();
  }
  return text;
}

std::string address_text(const Card& card) {
  return to_text(make_address(card.address, card.port, 0));
}

bool in_same_network(const Card& ours, const Card& theirs) {
  for (unsigned bit = 0; bit < ours.network_bits; ++bit) {
    const auto differs = static_cast<unsigned>(ours.address[bit / 8] ^ theirs.address[bit / 8]);
    if ((differs >> (7 - bit % 8) & 1) != 0) return false;
  }
  return ours.network_bits > 0;
}

bool is_ipv4(const Card& card) { return Gid{.raw = card.address}.is_ipv4_mapped(); }

// Of a subnet whose manager chose none: two fabrics have it alike. [IBTA 4.1.1]
bool is_default(const std::array<std::uint8_t, 8>& prefix) {
  return prefix == std::array<std::uint8_t, 8>{0xfe, 0x80};
}

// Asks the kernel for its route, as `ip route get TO from FROM`. True if the route leaves by this
// interface, or if the kernel does not say. (A socket bound to the interface would not tell: the
// kernel then takes every address for a neighbour's.) Only RoCE passes a gateway: on InfiniBand
// connection management would ask the gateway's port.
bool has_route(const PortChoice& port, const Card& from, const Card& to) {
  const bool v4 = is_ipv4(to);
  const std::size_t skipped = v4 ? 12 : 0;
  struct {
    nlmsghdr header;
    rtmsg message;
    std::array<std::byte, 64> attributes;
  } request{};
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.message);
  request.header.nlmsg_type = RTM_GETROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.message.rtm_family = v4 ? AF_INET : AF_INET6;
  const auto size = static_cast<std::uint8_t>(to.address.size() - skipped);
  request.message.rtm_dst_len = request.message.rtm_src_len = static_cast<std::uint8_t>(size * 8);
  std::byte* at = request.attributes.data();
  for (const auto& [type, card] : {std::pair(RTA_DST, &to), std::pair(RTA_SRC, &from)}) {
    const rtattr attribute{.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(size)),
                           .rta_type = static_cast<std::uint16_t>(type)};
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + sizeof attribute, card->address.data() + skipped, size);
    at += RTA_ALIGN(attribute.rta_len);
    request.header.nlmsg_len += RTA_ALIGN(attribute.rta_len);
  }

  const int socket = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (socket < 0) return true;
  alignas(nlmsghdr) std::array<std::byte, 1024> answer;
  ssize_t got = -1;
  if (::send(socket, &request, request.header.nlmsg_len, 0) >= 0) {
    got = ::recv(socket, answer.data(), answer.size(), 0);
  }
  ::close(socket);
  const auto* const header = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (got < static_cast<ssize_t>(sizeof *header) || header->nlmsg_len > got) return true;
  if (header->nlmsg_type == NLMSG_ERROR) {
    const int error = -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
    return error != ENETUNREACH && error != EHOSTUNREACH;
  }
  if (header->nlmsg_type != RTM_NEWROUTE) return true;
  const auto* const route = static_cast<const rtmsg*>(NLMSG_DATA(header));
  auto left = static_cast<int>(RTM_PAYLOAD(header));
  std::uint32_t out = port.interface;
  for (const rtattr* one = RTM_RTA(route); RTA_OK(one, left); one = RTA_NEXT(one, left)) {
    if (one->rta_type == RTA_OIF) std::memcpy(&out, RTA_DATA(one), sizeof out);
    if (one->rta_type == RTA_GATEWAY && !port.ethernet) return false;
  }
  return out == port.interface;
}

}  // namespace

void describe_fabric(const PortChoice& port, Card& card) {
  card.link_layer = port.ethernet ? LinkLayer::ethernet : LinkLayer::infiniband;
  card.network_bits = port.network_bits;
  card.address = address_bytes(port.address);
  if (!port.ethernet) {
    std::memcpy(card.subnet_prefix.data(), port.gid.raw.data(), card.subnet_prefix.size());
  }
}

std::string why_unreachable(const Card& ours, const Card& theirs, bool routes) {
  if (ours.link_layer == LinkLayer::unknown || theirs.link_layer == LinkLayer::unknown) return {};
  if (ours.link_layer != theirs.link_layer) {
    return std::string("it is on ") + name_of(theirs.link_layer) + ", and this process is on " +
           name_of(ours.link_layer);
  }
  if (ours.link_layer == LinkLayer::infiniband) {
    if (ours.subnet_prefix != theirs.subnet_prefix) {
      return "its InfiniBand subnet has the prefix " + prefix_text(theirs.subnet_prefix) +
             ", ours " + prefix_text(ours.subnet_prefix);
    }
    // A prefix of its own tells the subnet. Connections still go by IP addresses of one family.
    routes = routes || !is_default(ours.subnet_prefix);
  }
  if (is_ipv4(ours) != is_ipv4(theirs)) {
    return "its address is " + address_text(theirs) + ", ours " + address_text(ours) +
           ": one is IPv4 and one IPv6, so give both interfaces addresses of one kind";
  }
  if (routes || ours.address == theirs.address || in_same_network(ours, theirs)) return {};
  return "there is no route from " + address_text(ours) + " to its address " + address_text(theirs);
}

std::string why_unreachable(const PortChoice& port, const Card& theirs) {
  Card ours;
  describe_fabric(port, ours);
  const std::string why = why_unreachable(ours, theirs, false);
  if (why.empty() || ours.link_layer != theirs.link_layer || is_ipv4(ours) != is_ipv4(theirs)) {
    return why;
  }
  // RoCE v1 is not routed.
  const bool routes = port.gid.type != GidType::roce_v1 && has_route(port, ours, theirs);
  return why_unreachable(ours, theirs, routes);
}

}  // namespace weir::verbs
