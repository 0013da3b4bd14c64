#include "transport/verbs/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <map>

#include "transport/verbs/gid.h"

namespace weir::verbs {
namespace {

std::uint8_t leading_ones(const std::uint8_t* mask, std::size_t bytes) {
  std::uint8_t bits = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    bits = static_cast<std::uint8_t>(bits + std::countl_one(mask[i]));
    if (mask[i] != 0xff) break;
  }
  return bits;
}

}  // namespace

std::array<std::uint8_t, 16> address_bytes(const sockaddr_storage& address) {
  std::array<std::uint8_t, 16> bytes{};
  if (address.ss_family == AF_INET) {
    bytes[10] = bytes[11] = 0xff;
    std::memcpy(&bytes[12], &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
  }
  return bytes;
}

sockaddr_storage make_address(const std::array<std::uint8_t, 16>& bytes, std::uint16_t port,
                              std::uint32_t interface) {
  sockaddr_storage storage{};
  const Gid gid{.raw = bytes};
  if (gid.is_ipv4_mapped()) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, &bytes[12], 4);
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, bytes.data(), 16);
    if (gid.is_link_local()) v6.sin6_scope_id = interface;
  }
  return storage;
}

std::string to_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text.data(),
              text.size());
  } else if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text.data(),
              text.size());
  } else {
    return "no address";
  }
  return text.data();
}

std::vector<LocalAddress> local_addresses() {
  std::vector<LocalAddress> found;
  std::map<std::string, std::uint32_t> interfaces;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* it = all; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr) continue;
    if (it->ifa_addr->sa_family == AF_PACKET) {
      const auto* const link = reinterpret_cast<const sockaddr_ll*>(it->ifa_addr);
      interfaces[it->ifa_name] = static_cast<std::uint32_t>(link->sll_ifindex);
    }
    const bool v4 = it->ifa_addr->sa_family == AF_INET;
    if (it->ifa_netmask == nullptr || (!v4 && it->ifa_addr->sa_family != AF_INET6)) continue;
    sockaddr_storage one{};
    std::memcpy(&one, it->ifa_addr, v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    const sockaddr* const mask = it->ifa_netmask;
    const auto bits = static_cast<std::uint8_t>(
        v4 ? 96 + leading_ones(reinterpret_cast<const std::uint8_t*>(
                                   &reinterpret_cast<const sockaddr_in*>(mask)->sin_addr),
                               4)
           : leading_ones(reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr, 16));
    std::string name = it->ifa_name;
    name.resize(std::min(name.size(), name.find(':')));  // "eth0:1": a second address of eth0
    found.push_back({.bytes = address_bytes(one), .name = name, .network_bits = bits});
  }
  freeifaddrs(all);
  for (LocalAddress& one : found) {
    if (const auto it = interfaces.find(one.name); it != interfaces.end()) {
      one.interface = it->second;
    }
  }
  return found;
}

const LocalAddress* find_address(std::span<const LocalAddress> all,
                                 const std::array<std::uint8_t, 16>& bytes,
                                 std::uint32_t interface) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const LocalAddress& one) {
    return one.bytes == bytes &&
           (interface == 0 || one.interface == 0 || one.interface == interface);
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace weir::verbs
