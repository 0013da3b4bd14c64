// Which of a port's GIDs to use: a pure choice from a table. `weir info` shows the table and the
// choice.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace weir::verbs {

enum class GidType : std::uint8_t { infiniband, roce_v1, roce_v2 };

struct Gid {
  int index = 0;  // in the port's GID table
  GidType type = GidType::infiniband;
  std::array<std::uint8_t, 16> raw{};
  std::uint32_t interface = 0;  // network interface index (RoCE), for link-local addresses
  bool here = true;  // this network namespace has its address; tables show those of all (RoCE)

  bool is_ipv4_mapped() const;  // ::ffff:a.b.c.d
  bool is_link_local() const;   // fe80::/10
};

// Of those that are here: RoCEv2 before v1, IPv4-mapped before global IPv6, link-local last; then
// the lowest index. nullptr if there is none.
const Gid* choose_gid(std::span<const Gid> table);

const char* to_text(GidType type);

// What the choice of this GID means, in a few words.
const char* why_chosen(const Gid& gid);

}  // namespace weir::verbs
