// Which ports weir runs on, and why not on others. Adapters and addresses are made up here: the
// functions of libibverbs and libc that tell of them are those of this file.
#include "transport/verbs/ports.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>

#include <array>
#include <cstring>
#include <deque>

#include "transport/verbs/addresses.h"
#include "transport/verbs/choose_ports.h"
#include "transport/verbs/device.h"

namespace {

struct MadeUpDevice {
  ibv_device device{};
  ibv_context context{};
  ibv_device_attr limits{};
  ibv_port_attr port{};
  std::vector<ibv_gid_entry> gids{};
  std::vector<std::uint16_t> pkeys{0xffff};
};

struct MadeUpAddress {
  ifaddrs entry{};
  sockaddr_storage address{};
  sockaddr_in mask{};
};

std::deque<MadeUpDevice> devices;
std::deque<MadeUpAddress> addresses;
ibv_pd domain;

// Member of a made-up object.
template <typename Member>
MadeUpDevice& owner(const Member* member, Member MadeUpDevice::*field) {
  for (MadeUpDevice& one : devices) {
    if (&(one.*field) == member) return one;
  }
  std::abort();
}

}  // namespace

// NOLINTBEGIN: names and parameters are theirs.
#undef ibv_query_port
extern "C" {
ibv_device** ibv_get_device_list(int* count) {
  static std::array<ibv_device*, 16> list;
  list = {};
  for (std::size_t i = 0; i < devices.size(); ++i) list.at(i) = &devices[i].device;
  *count = static_cast<int>(devices.size());
  return list.data();
}
void ibv_free_device_list(ibv_device**) {}
const char* ibv_get_device_name(ibv_device* device) { return device->name; }
ibv_context* ibv_open_device(ibv_device* device) {
  return &owner(device, &MadeUpDevice::device).context;
}
int ibv_close_device(ibv_context*) { return 0; }
ibv_pd* ibv_alloc_pd(ibv_context*) { return &domain; }
int ibv_dealloc_pd(ibv_pd*) { return 0; }
int ibv_query_device(ibv_context* context, ibv_device_attr* limits) {
  *limits = owner(context, &MadeUpDevice::context).limits;
  return 0;
}
int ibv_query_port(ibv_context* context, uint8_t, _compat_ibv_port_attr* port) {
  std::memcpy(static_cast<void*>(port), &owner(context, &MadeUpDevice::context).port,
              sizeof(ibv_port_attr));
  return 0;
}
// As the kernel does, it refuses what does not fit.
ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t most, uint32_t,
                             size_t) {
  const auto& gids = owner(context, &MadeUpDevice::context).gids;
  if (gids.size() > most) return -EINVAL;
  std::copy(gids.begin(), gids.end(), entries);
  return static_cast<ssize_t>(gids.size());
}
int ibv_query_pkey(ibv_context* context, uint8_t, int index, __be16* pkey) {
  *pkey = htons(owner(context, &MadeUpDevice::context).pkeys.at(static_cast<std::size_t>(index)));
  return 0;
}
int getifaddrs(ifaddrs** all) {
  *all = nullptr;
  for (MadeUpAddress& one : addresses) {
    one.entry.ifa_addr = reinterpret_cast<sockaddr*>(&one.address);
    if (one.mask.sin_family != 0) one.entry.ifa_netmask = reinterpret_cast<sockaddr*>(&one.mask);
    one.entry.ifa_next = std::exchange(*all, &one.entry);
  }
  return 0;
}
void freeifaddrs(ifaddrs*) {}
}
// NOLINTEND

namespace weir::verbs {
namespace {

class Ports : public testing::Test {
 protected:
  void SetUp() override {
    devices.clear();
    addresses.clear();
    static char eth0[] = "eth0";
    MadeUpAddress& link = addresses.emplace_back();
    link.entry.ifa_name = eth0;
    auto& interface = reinterpret_cast<sockaddr_ll&>(link.address);
    interface.sll_family = AF_PACKET;
    interface.sll_ifindex = eth0_index;
    MadeUpAddress& own = addresses.emplace_back();
    own.entry.ifa_name = eth0;
    own.address = make_address(ipv4(1), 0, 0);
    own.mask.sin_family = AF_INET;
    own.mask.sin_addr.s_addr = htonl(0xffffff00);
  }

  static constexpr int eth0_index = 7;

  static std::array<std::uint8_t, 16> ipv4(std::uint16_t host) {
    return {0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0xff,
            0xff,
            10,
            1,
            static_cast<std::uint8_t>(host >> 8),
            static_cast<std::uint8_t>(host)};
  }

  // A RoCE adapter that weir can use, with the GID of eth0's address.
  static MadeUpDevice& add(const char* name) {
    MadeUpDevice& made = devices.emplace_back();
    std::strncpy(made.device.name, name, sizeof made.device.name - 1);
    made.limits.phys_port_cnt = 1;
    made.limits.max_srq = 100;
    made.port.state = IBV_PORT_ACTIVE;
    made.port.link_layer = IBV_LINK_LAYER_ETHERNET;
    made.port.gid_tbl_len = 1024;
    made.port.pkey_tbl_len = 1;
    add_gid(made, ipv4(1), eth0_index);
    return made;
  }
  static void add_gid(MadeUpDevice& made, const std::array<std::uint8_t, 16>& raw, unsigned index) {
    ibv_gid_entry entry{};
    entry.gid_index = static_cast<std::uint32_t>(made.gids.size());
    entry.port_num = 1;
    entry.gid_type = IBV_GID_TYPE_ROCE_V2;
    entry.ndev_ifindex = index;
    std::memcpy(entry.gid.raw, raw.data(), raw.size());
    made.gids.push_back(entry);
  }

  // The port that is taken; else why there is none.
  static std::string taken(const DeviceWish& wish = {}) {
    std::string why;
    const auto port = choose_port(wish, why);
    return port ? port->name() : why;
  }
};

TEST_F(Ports, OneThatCannotRunWeirLeavesThePlaceToTheNext) {
  struct Case {
    const char* declined;
    void (*make)(MadeUpDevice&);
  };
  const Case cases[] = {
      {"iWARP: weir runs on InfiniBand and RoCE",
       [](MadeUpDevice& one) { one.device.transport_type = IBV_TRANSPORT_IWARP; }},
      {"usNIC: weir runs on InfiniBand and RoCE",
       [](MadeUpDevice& one) { one.device.transport_type = IBV_TRANSPORT_USNIC_UDP; }},
      {"another transport: weir runs on InfiniBand and RoCE",  // efa
       [](MadeUpDevice& one) {
         one.device.transport_type = IBV_TRANSPORT_UNSPECIFIED;
         one.port.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
       }},
      {"no shared receive queues (max_srq is 0): weir needs them",  // mana, irdma before gen 3
       [](MadeUpDevice& one) { one.limits.max_srq = 0; }},
      {"not active", [](MadeUpDevice& one) { one.port.state = IBV_PORT_DOWN; }},
      {"no GID", [](MadeUpDevice& one) { one.gids.clear(); }},
      {"no GID with an address of this network namespace",
       [](MadeUpDevice& one) { one.gids[0].gid.raw[15] = 99; }},
      {"no IPoIB interface of it has an IP address",
       [](MadeUpDevice& one) { one.port.link_layer = IBV_LINK_LAYER_INFINIBAND; }},
  };
  for (const Case& one : cases) {
    devices.clear();
    one.make(add("first"));
    const std::vector<PortChoice> ports = list_ports({});
    ASSERT_EQ(ports.size(), 1u);
    EXPECT_EQ(ports[0].declined, one.declined);
    EXPECT_NE(taken().find("first:1 (" + std::string(one.declined) + ")"), std::string::npos);
    add("second");
    EXPECT_EQ(taken(), "second:1") << one.declined;
    std::string why;
    EXPECT_EQ(choose_ports({.rails = 2}, why).size(), 1u) << one.declined;
  }
}

TEST_F(Ports, ProcessesOfANodeMayChooseAnotherAdapter) {
  const auto mixed = [](const DeviceWish& wish) {
    std::string why;
    return choose_ports(wish, why).at(0).mixed_node;
  };
  add("mlx5_0");
  EXPECT_FALSE(mixed({.processes = 2}));
  add("mlx5_1");
  EXPECT_TRUE(mixed({.processes = 2}));
  EXPECT_FALSE(mixed({.processes = 1}));
  EXPECT_FALSE(mixed({.name = "mlx5_1", .processes = 2}));
}

TEST_F(Ports, WhereNoneCanRunWeirAnAddressWouldNotHelp) {
  add("siw0").device.transport_type = IBV_TRANSPORT_IWARP;
  EXPECT_EQ(taken(),
            "no usable RDMA port for device 'auto'; there is: siw0:1 (iWARP: weir runs on "
            "InfiniBand and RoCE)");
  add("rxe0").port.state = IBV_PORT_DOWN;
  EXPECT_NE(taken().find("Bring the port up"), std::string::npos);
}

// A container's, or that of another one: addresses alone do not tell, for they may be alike.
TEST_F(Ports, AnAddressOfAnotherNetworkNamespaceIsNotTaken) {
  MadeUpDevice& made = add("mlx5_0");
  made.gids.clear();
  add_gid(made, ipv4(50), eth0_index);
  add_gid(made, ipv4(1), eth0_index + 1);
  add_gid(made, ipv4(1), eth0_index);
  const std::vector<PortChoice> ports = list_ports({});
  EXPECT_EQ(ports[0].gid.index, 2);
  EXPECT_EQ(to_text(ports[0].address), "10.1.0.1");
  EXPECT_EQ(ports[0].network_bits, 96 + 24);
  EXPECT_FALSE(ports[0].gids[0].here);
  EXPECT_EQ(list_ports({.gid_index = 0})[0].declined,
            "GID 0: its address belongs to another network namespace, or to no interface");
  EXPECT_EQ(list_ports({.gid_index = 9})[0].declined, "no GID 9");
}

TEST_F(Ports, TheWholeGidTableIsRead) {
  MadeUpDevice& made = add("mlx5_0");
  made.gids.clear();
  for (std::uint16_t host = 400; host > 0; --host) add_gid(made, ipv4(host), eth0_index);
  const std::vector<PortChoice> ports = list_ports({});
  EXPECT_EQ(ports[0].gids.size(), 400u);
  EXPECT_EQ(ports[0].declined, "");
  EXPECT_EQ(ports[0].gid.index, 399);
}

TEST_F(Ports, APairIsConnectedToItselfInAPartitionWithAllRights) {
  MadeUpDevice& made = add("mlx5_0");
  std::string why;
  const auto index = [&](std::vector<std::uint16_t> pkeys) {
    made.pkeys = std::move(pkeys);
    made.port.pkey_tbl_len = static_cast<std::uint16_t>(made.pkeys.size());
    return Device::open(list_ports({})[0], why)->full_member_index();
  };
  EXPECT_EQ(index({0xffff}), 0);
  EXPECT_EQ(index({0x7fff, 0, 0x8001, 0xffff}), 2);
  EXPECT_EQ(index({0x7fff, 0}), 0);
}

}  // namespace
}  // namespace weir::verbs
