// The IP address of an InfiniBand port: rdma_cm finds paths by IP address, and the port's IPoIB
// interface has one. A device may have several ports, and a port an interface for each partition.
//
// Any thread. Reads files of /sys (Linux, Documentation/infiniband/ipoib.rst).
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weir::verbs {

struct IpoibInterface {
  std::string name;
  std::array<std::uint8_t, 16> gid{};  // of the port, from its hardware address [RFC 4391, 9.1.1]
  std::uint16_t pkey = 0;              // the partition; the highest bit: full membership
};

// The IPoIB interfaces of the device's ports, by name.
std::vector<IpoibInterface> ipoib_interfaces(const std::string& device,
                                             const std::string& root = "/sys/class/infiniband");

// The interface in partition `pkey` of the port with this GUID, which is the second half of `gid`.
// Without `pkey`: the one in the default partition (0x7fff), or the first in any. nullptr: none.
const IpoibInterface* choose_ipoib(std::span<const IpoibInterface> all,
                                   const std::array<std::uint8_t, 16>& gid,
                                   std::optional<std::uint16_t> pkey);

// The IPv4 address of the interface that the two above find. ss_family 0: there is none.
sockaddr_storage ipoib_address(const std::string& device, const std::array<std::uint8_t, 16>& gid,
                               std::optional<std::uint16_t> pkey);

}  // namespace weir::verbs
