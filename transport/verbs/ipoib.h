// The IP address of an InfiniBand port, which is that of its IPoIB interface: rdma_cm finds paths
// by IP addresses. A device may have several ports, and a port an interface for each partition.
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

// Those of the device.
std::vector<IpoibInterface> ipoib_interfaces(const std::string& device,
                                             const std::string& root = "/sys/class/infiniband");

// The interface of the port with this GUID (the second half of its GIDs) in the partition, or,
// where none is given, in the default partition (0x7fff) if there is one, else in any. nullptr:
// there is none.
const IpoibInterface* choose_ipoib(std::span<const IpoibInterface> all,
                                   const std::array<std::uint8_t, 16>& gid,
                                   std::optional<std::uint16_t> pkey);

// The IPv4 address of the interface that the two above find; ss_family 0: it has none.
sockaddr_storage ipoib_address(const std::string& device, const std::array<std::uint8_t, 16>& gid,
                               std::optional<std::uint16_t> pkey);

}  // namespace weir::verbs
