#include "transport/verbs/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <bit>
#include <cstddef>
#include <cstring>

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

std::uint8_t network_bits(const sockaddr_storage& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return 0;
  std::uint8_t bits = 0;
  for (const ifaddrs* it = all; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || it->ifa_netmask == nullptr) continue;
    sockaddr_storage one{};
    const bool v4 = it->ifa_addr->sa_family == AF_INET;
    if (!v4 && it->ifa_addr->sa_family != AF_INET6) continue;
    std::memcpy(&one, it->ifa_addr, v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (address_bytes(one) != address_bytes(address)) continue;
    const sockaddr* const mask = it->ifa_netmask;
    bits = v4 ? static_cast<std::uint8_t>(
                    96 + leading_ones(reinterpret_cast<const std::uint8_t*>(
                                          &reinterpret_cast<const sockaddr_in*>(mask)->sin_addr),
                                      4))
              : leading_ones(reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr, 16);
  }
  freeifaddrs(all);
  return bits;
}

}  // namespace weir::verbs
