// The RDMA ports of this machine, and what they are.
//
// Any thread.
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/verbs/gid.h"

namespace weir::verbs {

template <auto Destroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    Destroy(object);
  }
};

using Context = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;

// What the user asked for.
struct DeviceWish {
  std::string name = "auto";            // "auto", or "mlx5_0", "mlx5_0:1"; several with commas
  int gid_index = -1;                   // -1: chosen
  std::optional<std::uint16_t> pkey{};  // partition, which decides the IPoIB interface
  unsigned turn = 0;      // the process's number on its node, to spread over equal ports
  std::size_t rails = 0;  // ports to use; 0: each that `name` names, or by the number of processes
  std::size_t processes = 1;  // of the job on this node
};

// One port of one device.
struct PortChoice {
  std::string device;
  std::uint8_t port = 1;
  bool active = false;
  const char* link = "";         // "InfiniBand", "RoCE", or what weir cannot use
  bool ethernet = false;         // RoCE rather than InfiniBand
  bool suits = false;            // InfiniBand or RoCE, by an adapter that has what weir needs
  bool soft_roce = false;        // the rxe driver: no real adapter
  std::uint32_t mtu_bytes = 0;   // active MTU
  std::uint64_t speed_mbps = 0;  // megabits per second
  Gid gid;
  sockaddr_storage address{};     // of the port, for rdma_cm; ss_family 0: it has none
  std::uint32_t interface = 0;    // network interface index of the address; 0: not known
  std::uint8_t network_bits = 0;  // prefix length of the network (addresses.h); 0: not known
  std::vector<Gid> gids;          // the whole table, for people to read
  unsigned turn = 0;              // the process's number on its node, as in the wish
  bool mixed_node = false;        // processes of this node may have chosen another adapter
  std::string declined;           // why weir cannot use the port, in a line; empty: it can

  std::string name() const { return device + ":" + std::to_string(port); }
};

// Adapter and machine in a line, for people to compare: "Soft-RoCE, 2.5 Gb/s, MTU 4096, 2 CPUs". A
// real adapter is named by its driver and type. Reads files of /sys.
std::string hardware_text(const PortChoice& port);

// Every port of every device, with the GID and the address that it has under `wish`, or why it is
// declined. Opens and closes the devices; `unopened` gets the reason if one could not be opened.
std::vector<PortChoice> list_ports(const DeviceWish& wish, std::string* unopened = nullptr);

// The message for a device that could not be opened, with the reason from `errno`.
std::string cannot_open(const std::string& device);

}  // namespace weir::verbs
