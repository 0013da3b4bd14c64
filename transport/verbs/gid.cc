#include "transport/verbs/gid.h"

#include <algorithm>

namespace weir::verbs {
namespace {

constexpr int elsewhere = 16;

// Smaller is better.
int rank_of(const Gid& gid) {
  const int address = gid.is_ipv4_mapped() ? 0 : gid.is_link_local() ? 2 : 1;
  const int type = gid.type == GidType::roce_v1 ? 1 : 0;
  // A link-local address is worse than RoCEv1: it means something only with an interface.
  return (gid.here ? 0 : elsewhere) + (address == 2 ? 8 + type : 4 * type + address);
}

}  // namespace

bool Gid::is_ipv4_mapped() const {
  return std::all_of(raw.begin(), raw.begin() + 10, [](std::uint8_t b) { return b == 0; }) &&
         raw[10] == 0xff && raw[11] == 0xff;
}

bool Gid::is_link_local() const { return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80; }

const Gid* choose_gid(std::span<const Gid> table) {
  const auto best = std::min_element(table.begin(), table.end(), [](const Gid& a, const Gid& b) {
    return rank_of(a) != rank_of(b) ? rank_of(a) < rank_of(b) : a.index < b.index;
  });
  return best == table.end() || !best->here ? nullptr : &*best;
}

const char* to_text(GidType type) {
  switch (type) {
    case GidType::infiniband: return "InfiniBand";
    case GidType::roce_v1: return "RoCEv1";
    case GidType::roce_v2: return "RoCEv2";
  }
  return "unknown";
}

const char* why_chosen(const Gid& gid) {
  if (!gid.here) return "its address belongs to another network namespace, or to no interface";
  if (gid.type == GidType::infiniband) return "InfiniBand: the first entry";
  if (gid.is_link_local()) return "link-local: reaches this link only; there is no better entry";
  if (gid.type == GidType::roce_v1) return "RoCEv1: not routed; the port has no RoCEv2 entry";
  return gid.is_ipv4_mapped()
             ? "RoCEv2 over an IPv4 address: routed, the first choice"
             : "RoCEv2 over a global IPv6 address: routed; the port has no IPv4 entry";
}

}  // namespace weir::verbs
