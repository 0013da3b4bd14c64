#include "transport/verbs/device.h"

#include <arpa/inet.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace weir::verbs {
namespace {

constexpr std::uint16_t partition = 0x7fff;  // the other bit: a full member

std::uint16_t pkey_at(ibv_context* context, std::uint8_t port, int index) {
  __be16 pkey = 0;
  return ibv_query_pkey(context, port, index, &pkey) == 0 ? ntohs(pkey) : std::uint16_t{0};
}

std::vector<std::uint16_t> pkey_table(ibv_context* context, std::uint8_t port) {
  std::vector<std::uint16_t> table;
  ibv_port_attr attributes{};
  if (ibv_query_port(context, port, &attributes) != 0) return table;
  for (int i = 0; i < attributes.pkey_tbl_len; ++i) {
    table.push_back(pkey_at(context, port, i));
  }
  return table;
}

}  // namespace

std::string pkeys_text(ibv_context* context, std::uint8_t port) {
  std::string text;
  for (const std::uint16_t pkey : pkey_table(context, port)) {
    if (pkey == 0) continue;  // not used
    std::array<char, 8> one{};
    std::snprintf(one.data(), one.size(), "0x%04x", pkey);
    text += (text.empty() ? "" : ", ") + std::string(one.data());
  }
  return text;
}

std::optional<std::uint16_t> Device::pkey_index(std::uint16_t pkey, std::string& why) const {
  const std::vector<std::uint16_t> table = pkey_table(context(), port_.port);
  std::optional<std::uint16_t> found;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if ((table[i] & partition) != (pkey & partition)) continue;
    if (!found || table[i] > table[*found]) found = static_cast<std::uint16_t>(i);
  }
  if (found) return found;
  std::array<char, 8> wanted{};
  std::snprintf(wanted.data(), wanted.size(), "0x%04x", pkey);
  why = port_.name() + " has no partition key " + wanted.data() + "; it has " +
        pkeys_text(context(), port_.port) +
        ". Correct btl_weir_pkey, or have the subnet manager add the port to the partition";
  return std::nullopt;
}

std::uint16_t Device::full_member_index() const {
  ibv_port_attr attributes{};
  if (ibv_query_port(context(), port_.port, &attributes) != 0) return 0;
  for (int i = 0; i < attributes.pkey_tbl_len; ++i) {
    if (pkey_at(context(), port_.port, i) > partition + 1) return static_cast<std::uint16_t>(i);
  }
  return 0;
}

std::optional<Device> Device::open(const PortChoice& port, std::string& why) {
  Device device;
  device.port_ = port;
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    if (port.device == ibv_get_device_name(devices[i])) {
      device.context_.reset(ibv_open_device(devices[i]));
    }
  }
  if (devices != nullptr) ibv_free_device_list(devices);
  if (!device.context_) {
    why = cannot_open(port.device);
    return std::nullopt;
  }
  device.pd_.reset(ibv_alloc_pd(device.context_.get()));
  if (!device.pd_ || ibv_query_device(device.context_.get(), &device.limits_) != 0) {
    why = "cannot allocate a protection domain on " + port.device + ": " + std::strerror(errno);
    return std::nullopt;
  }
  ibv_td_init_attr nothing{};
  device.thread_.reset(ibv_alloc_td(device.context_.get(), &nothing));
  if (device.thread_) {
    ibv_parent_domain_init_attr both{};
    both.pd = device.pd_.get();
    both.td = device.thread_.get();
    device.parent_.reset(ibv_alloc_parent_domain(device.context_.get(), &both));
  }
  return device;
}

}  // namespace weir::verbs
