// IP addresses of ports: as sockaddr for the connection manager, and as 16 bytes for the wire.
//
// Any thread.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weir::verbs {

// The 16 bytes of an IPv6 address; an IPv4 address as ::ffff:a.b.c.d.
std::array<std::uint8_t, 16> address_bytes(const sockaddr_storage& address);
sockaddr_storage make_address(const std::array<std::uint8_t, 16>& bytes, std::uint16_t port,
                              std::uint32_t interface);
std::string to_text(const sockaddr_storage& address);

struct LocalAddress {
  std::array<std::uint8_t, 16> bytes{};
  std::string name;               // of the interface
  std::uint32_t interface = 0;    // its index; 0: not known
  // The prefix length of its network, for its 16 bytes: IPv4's /24 is 120 here.
  std::uint8_t network_bits = 0;
};

// The addresses of this network namespace. None if the kernel does not say.
std::vector<LocalAddress> local_addresses();

// The entry with these bytes; if `interface` is not 0, of that interface. nullptr: there is none.
const LocalAddress* find_address(std::span<const LocalAddress> all,
                                 const std::array<std::uint8_t, 16>& bytes,
                                 std::uint32_t interface);

}  // namespace weir::verbs
