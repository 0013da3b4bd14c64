// The IP address of an InfiniBand port: rdma_cm finds paths by IP address, and the port's IPoIB
// interface has one. A device may have several ports, and a port an interface for each partition.
// An interface that is up has at least a link-local IPv6 address. Without any, rdma_cm could take
// GIDs (AF_IB), but Soft-RoCE resolves no routes for these, so no lab would test it.
//
// Any thread. Reads files of /sys (Linux, Documentation/infiniband/ipoib.rst).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/verbs/addresses.h"

namespace weir::verbs {

struct IpoibInterface {
  std::string name;
  std::array<std::uint8_t, 16> gid{};  // of the port, from its hardware address [RFC 4391, 9.1.1]
  std::uint16_t pkey = 0;              // the partition; the highest bit: full membership
};

// The IPoIB interfaces of the device's ports, by name. For an interface in a bond: the bond, which
// has the address, with the GID of the port that carries it now.
std::vector<IpoibInterface> ipoib_interfaces(const std::string& device,
                                             const std::string& root = "/sys/class/infiniband");

// The interface in partition `pkey` of the port with this GUID, which is the second half of `gid`.
// Without `pkey`: the one in the default partition (0x7fff), or the first in any. nullptr: none.
const IpoibInterface* choose_ipoib(std::span<const IpoibInterface> all,
                                   const std::array<std::uint8_t, 16>& gid,
                                   std::optional<std::uint16_t> pkey);

// The one of the `local` addresses that the interface has which the two above find. Interfaces
// without an address do not count. IPv4 goes before IPv6; a link-local address is taken only if no
// interface has another. nullptr: there is none.
const LocalAddress* ipoib_address(const std::string& device,
                                  const std::array<std::uint8_t, 16>& gid,
                                  std::optional<std::uint16_t> pkey,
                                  std::span<const LocalAddress> local,
                                  const std::string& root = "/sys/class/infiniband");

}  // namespace weir::verbs
