// The RDMA port a process uses: found, chosen, opened.
//
// Thread rule: a Device is made once and then only read.
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
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
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;

// What the user asked for.
struct DeviceWish {
  std::string name = "auto";            // "auto", or "mlx5_0", "mlx5_0:1"; several with commas
  int gid_index = -1;                   // -1: chosen
  std::optional<std::uint16_t> pkey{};  // of the path's interface (InfiniBand)
  unsigned turn = 0;      // the process's number on its node, to spread over equal ports
  std::size_t rails = 0;  // ports to use; 0: those that `name` names, or by the number of processes
  std::size_t processes = 1;  // of the job on this node
};

// One port of one device.
struct PortChoice {
  std::string device;
  std::uint8_t port = 1;
  bool active = false;
  bool ethernet = false;         // RoCE rather than InfiniBand
  bool soft_roce = false;        // the rxe driver: no real adapter
  std::uint32_t mtu_bytes = 0;   // active MTU
  std::uint64_t speed_mbps = 0;  // megabits per second
  Gid gid;
  sockaddr_storage address{};     // of the port, for rdma_cm; ss_family 0: it has none
  std::uint8_t network_bits = 0;  // of the address, as an IPv6 one; 0: not known
  std::vector<Gid> gids;          // the whole table, for people to read

  std::string name() const { return device + ":" + std::to_string(port); }
};

// Adapter and environment, to read and to compare: "Soft-RoCE, 2.5 Gb/s, MTU 4096, 2 CPUs", or the
// driver and type that the kernel reports. Reads files of /sys.
std::string hardware_text(const PortChoice& port);

// Every port of every device, with the GID and the address that `wish` gives it. Opens and closes
// the devices; `unopened` gets the reason if one could not be opened.
std::vector<PortChoice> list_ports(const DeviceWish& wish, std::string* unopened = nullptr);

// The fastest active port with an address that `wish` allows; of equals in one network, one that is
// near (locality.h). If there is none: nothing, and the reason with a remedy in `why`.
// Of several names, the first one counts.
std::optional<PortChoice> choose_port(const DeviceWish& wish, std::string& why);

// The ports for the rails, four at most: those of the devices that are named, each of which has to
// be usable; with "auto" the one above, then ones of other adapters that are of its kind and have
// half its speed at least, near ones first if all are in one network. If no number is wished for
// either, two at most (one_or_two), as fast as each other. None, and the reason in `why`, if there
// is not even one; there may be fewer than wished for.
std::vector<PortChoice> choose_ports(const DeviceWish& wish, std::string& why);

// "0xffff, 0x8001": the port's partition keys.
std::string pkeys_text(ibv_context* context, std::uint8_t port);

class Device {
 public:
  // Opens `port`. On failure nothing, and the reason in `why`.
  static std::optional<Device> open(const PortChoice& port, std::string& why);

  const PortChoice& port() const { return port_; }
  const ibv_device_attr& limits() const { return limits_; }
  // How many reads and atomics of one queue pair may be under way: started by us, or answered for
  // the peer. Never 0: adapters hang with it.
  std::uint8_t most_fetches_started() const { return most_fetches(limits_.max_qp_init_rd_atom); }
  std::uint8_t most_fetches_answered() const { return most_fetches(limits_.max_qp_rd_atom); }
  // Where the port's table has this partition, as a full member if it is one. If nowhere: nothing,
  // and the reason in `why`.
  std::optional<std::uint16_t> pkey_index(std::uint16_t pkey, std::string& why) const;
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }

 private:
  static std::uint8_t most_fetches(int limit) {
    return static_cast<std::uint8_t>(std::clamp(limit, 1, 16));
  }

  PortChoice port_;
  ibv_device_attr limits_{};
  Context context_;
  ProtectionDomain pd_;
};

// The 16 bytes of an IPv6 address; an IPv4 address as ::ffff:a.b.c.d.
std::array<std::uint8_t, 16> address_bytes(const sockaddr_storage& address);
sockaddr_storage make_address(const std::array<std::uint8_t, 16>& bytes, std::uint16_t port,
                              std::uint32_t interface);
std::string to_text(const sockaddr_storage& address);

}  // namespace weir::verbs
