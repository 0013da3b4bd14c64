// Which of its peers a process shows, because there are rows for some only. Peers without traffic
// get none; of the others, those that something waits for come first.
//
// Each look refreshes all rows and goes over a few further peers, in turn. So it costs the same
// however many peers there are, and among thousands a peer that begins to wait is shown after
// seconds.
//
// The caller serialises. Allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/peer_row.h"
#include "transport/lane/peer_state.h"

namespace weir {

template <std::uint32_t most_rows>
class ShownPeers {
 public:
  static constexpr std::uint32_t further = 32;  // peers gone over in a look

  // `row_of(index)` is the row of one of `peers` peers. Returns the rows, valid until the next
  // look.
  template <typename RowOf>
  std::span<const PeerRow> look(std::uint32_t peers, RowOf&& row_of) {
    refresh(row_of);
    for (std::uint32_t left = std::min(further, peers); left > 0; --left) {
      if (next_ >= peers) next_ = 0;
      consider(next_, row_of);
      ++next_;
    }
    return {rows_.data(), count_};
  }

 private:
  static bool is_idle(const PeerRow& row) {
    const auto state = static_cast<PeerState>(row.state);
    return (state == PeerState::idle || state == PeerState::closed) && !waits(row);
  }
  static bool waits(const PeerRow& row) { return row.wait != PeerRow::Wait::nothing; }

  template <typename RowOf>
  void refresh(RowOf&& row_of) {
    const std::uint32_t before = count_;
    count_ = 0;
    for (std::uint32_t i = 0; i < before; ++i) {
      const std::uint32_t peer = shown_[i];
      const PeerRow row = row_of(peer);
      if (!is_idle(row)) put(count_++, peer, row);
    }
  }

  template <typename RowOf>
  void consider(std::uint32_t peer, RowOf&& row_of) {
    if (std::find(shown_.begin(), shown_.begin() + count_, peer) != shown_.begin() + count_) return;
    const PeerRow row = row_of(peer);
    if (is_idle(row)) return;
    if (count_ < most_rows) return put(count_++, peer, row);
    if (!waits(row)) return;
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (!waits(rows_[i])) return put(i, peer, row);
    }
  }

  void put(std::uint32_t i, std::uint32_t peer, const PeerRow& row) {
    shown_[i] = peer;
    rows_[i] = row;
  }

  std::array<std::uint32_t, most_rows> shown_{};
  std::array<PeerRow, most_rows> rows_{};
  std::uint32_t count_ = 0;
  std::uint32_t next_ = 0;
};

}  // namespace weir
