#include "transport/verbs/ipoib.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "transport/verbs/gid.h"

namespace weir::verbs {
namespace {

constexpr std::size_t hardware_address_bytes = 20;  // flags and queue pair number, then the GID
constexpr std::uint16_t partition = 0x7fff;

std::string line_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

enum class Reach : std::uint8_t { network, link };  // of an address

// The address of the interface, rather IPv4 than IPv6; nullptr: it has none.
const LocalAddress* address_of(const std::string& name, Reach reach,
                               std::span<const LocalAddress> local) {
  const LocalAddress* found = nullptr;
  for (const LocalAddress& one : local) {
    const Gid gid{.raw = one.bytes};
    if (one.name != name || gid.is_link_local() != (reach == Reach::link)) continue;
    if (gid.is_ipv4_mapped()) return &one;
    if (found == nullptr) found = &one;
  }
  return found;
}

// The GID in "80:00:00:48:fe:80:...". False if the text is no IPoIB hardware address.
bool parse(const std::string& text, std::array<std::uint8_t, 16>& gid) {
  if (text.size() != 3 * hardware_address_bytes - 1) return false;
  for (std::size_t i = 0; i < hardware_address_bytes; ++i) {
    unsigned byte = 0;
    const char* const at = &text[3 * i];
    const auto [end, error] = std::from_chars(at, at + 2, byte, 16);
    if (error != std::errc{} || end != at + 2) return false;
    const std::size_t skipped = hardware_address_bytes - gid.size();
    if (i >= skipped) gid[i - skipped] = static_cast<std::uint8_t>(byte);
  }
  return true;
}

}  // namespace

std::vector<IpoibInterface> ipoib_interfaces(const std::string& device, const std::string& root) {
  std::vector<IpoibInterface> found;
  std::error_code error;
  const std::filesystem::path nets = std::filesystem::path(root) / device / "device/net";
  for (const auto& net : std::filesystem::directory_iterator(nets, error)) {
    IpoibInterface one{.name = net.path().filename()};
    if (!parse(line_of(net.path() / "address"), one.gid)) continue;
    const std::filesystem::path master = net.path() / "master";  // a link, if there is one
    if (parse(line_of(master / "address"), one.gid)) {
      one.name = std::filesystem::read_symlink(master, error).filename();
    }
    const std::string pkey = line_of(net.path() / "pkey");
    if (pkey.starts_with("0x")) {
      std::from_chars(pkey.data() + 2, pkey.data() + pkey.size(), one.pkey, 16);
    }
    found.push_back(one);
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

const IpoibInterface* choose_ipoib(std::span<const IpoibInterface> all,
                                   const std::array<std::uint8_t, 16>& gid,
                                   std::optional<std::uint16_t> pkey) {
  const IpoibInterface* any = nullptr;
  for (const IpoibInterface& one : all) {
    if (!std::equal(gid.begin() + 8, gid.end(), one.gid.begin() + 8)) continue;
    if ((one.pkey & partition) == (pkey.value_or(partition) & partition)) return &one;
    if (!pkey && any == nullptr) any = &one;
  }
  return any;
}

const LocalAddress* ipoib_address(const std::string& device,
                                  const std::array<std::uint8_t, 16>& gid,
                                  std::optional<std::uint16_t> pkey,
                                  std::span<const LocalAddress> local, const std::string& root) {
  const std::vector<IpoibInterface> all = ipoib_interfaces(device, root);
  for (const Reach reach : {Reach::network, Reach::link}) {
    std::vector<IpoibInterface> some = all;
    std::erase_if(some, [&](const auto& one) { return !address_of(one.name, reach, local); });
    if (const IpoibInterface* const one = choose_ipoib(some, gid, pkey)) {
      return address_of(one->name, reach, local);
    }
  }
  return nullptr;
}

}  // namespace weir::verbs
