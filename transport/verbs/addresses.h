// IP addresses of ports, as the connection manager wants them and as they go over the wire.
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

// The bits of the network that the address is in, as an IPv6 one; 0 if no interface has it.
std::uint8_t network_bits(const sockaddr_storage& address);

}  // namespace weir::verbs
