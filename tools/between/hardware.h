// What hosts of a kind have in common: driver, firmware, kernel, slot, and how the port treats
// traffic. Read from files of the kernel; what cannot be read is left out.
//
// Thread rule: none; each call opens the files anew.
#pragma once

#include <map>
#include <string>

namespace weir::tools::between {

using Hardware = std::map<std::string, std::string>;  // "firmware": "28.39.1002"

// `device`: /sys/class/infiniband/mlx5_0; `interface`: /sys/class/net/eth0, or empty.
Hardware read_hardware(const std::string& device, unsigned port, const std::string& interface);

// Why an adapter is slower than it could be: "runs at PCIe x8 16.0 GT/s, and could at x16 32.0
// GT/s". Empty if it is not, or nobody knows.
std::string why_slow_slot(const std::string& device);

}  // namespace weir::tools::between
