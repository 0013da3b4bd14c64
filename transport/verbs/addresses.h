// IP addresses of ports: as sockaddr for the connection manager, and as 16 bytes for the wire.
//
// Any thread.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>

namespace weir::verbs {

// The 16 bytes of an IPv6 address; an IPv4 address as ::ffff:a.b.c.d.
std::array<std::uint8_t, 16> address_bytes(const sockaddr_storage& address);
sockaddr_storage make_address(const std::array<std::uint8_t, 16>& bytes, std::uint16_t port,
                              std::uint32_t interface);
std::string to_text(const sockaddr_storage& address);

// The prefix length of the address's network, for its 16 bytes: IPv4's /24 is 120 here. 0 if no
// interface of this machine has the address.
std::uint8_t network_bits(const sockaddr_storage& address);

}  // namespace weir::verbs
