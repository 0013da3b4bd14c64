// What the kernel says of a port beyond what weir needs to run on it.
#pragma once

#include <cstdint>
#include <string>

#include "transport/config/settings.h"
#include "transport/verbs/device.h"

namespace weir::tools {

// The state in words: "active", "down", "init".
std::string state_text(const verbs::PortChoice& port);

// The network interface of a port, that of its address or from sysfs; empty if unknown.
std::string interface_of(const verbs::PortChoice& port);

// MTU of a network interface; 0 if unknown.
std::uint32_t interface_mtu(const std::string& interface);

// "rdma_rxe", "mlx5_core"; empty if unknown.
std::string driver_of(const std::string& device);

std::string address_of(const verbs::Gid& gid);

// "0xffff, 0x8001": the partition keys of a port; empty if it cannot be opened.
std::string pkeys_of(const verbs::PortChoice& port);

// "traffic class 104, service level of the path, partition key of the path": as configured.
std::string lanes_text(const config::Settings& settings);

// First line of a small file, without its end; empty if it cannot be read.
std::string line_of(const std::string& path);

}  // namespace weir::tools
