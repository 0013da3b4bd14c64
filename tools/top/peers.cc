// What each process has to do with its peers: the part of `weir top --peers`.

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "tools/top/numbers.h"
#include "tools/top/report.h"
#include "transport/lane/peer_state.h"

namespace weir::tools::top {
namespace {

const PeerRow* find_peer(const MemberView* member, PeerName name) {
  if (member == nullptr) return nullptr;
  for (const PeerRow& row : member->peers) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// A connection that was made anew counts from 0 again; then there is no rate.
std::optional<double> frame_rate(const MemberView& now, const MemberView* before,
                                 const PeerRow& row, std::uint32_t PeerRow::*frames) {
  const PeerRow* const then = find_peer(before, row.name);
  if (then == nullptr || now.shown_at <= before->shown_at || row.*frames < then->*frames) {
    return std::nullopt;
  }
  const double seconds = static_cast<double>(now.shown_at - before->shown_at) / 1e9;
  return static_cast<double>(row.*frames - then->*frames) / seconds;
}

const char* state_of(const PeerRow& row) { return to_text(static_cast<PeerState>(row.state)); }

// nullptr: for nothing.
const char* wait_of(const PeerRow& row) {
  switch (row.wait) {
    case PeerRow::Wait::nothing: break;
    case PeerRow::Wait::connection: return "connection";
    case PeerRow::Wait::tokens: return "tokens";
    case PeerRow::Wait::credits: return "credits";
    case PeerRow::Wait::queue: return "queue";
    case PeerRow::Wait::turn: return "turn";
  }
  return nullptr;
}

constexpr const char* columns =
    "{:>8} {:>5} {:>5} {:>10} {:>7} {:>7} {:>6} {:>6} {:>7} {:>6} {:>5} {:>6} {:>10}\n";

}  // namespace

nlohmann::json peers_to_json(const MemberView& now, const MemberView* before) {
  nlohmann::json peers = nlohmann::json::array();
  for (const PeerRow& row : now.peers) {
    const auto rate = [&](std::uint32_t PeerRow::*frames) {
      const std::optional<double> value = frame_rate(now, before, row, frames);
      return value ? nlohmann::json(*value) : nlohmann::json();
    };
    const char* const wait = wait_of(row);
    peers.push_back({{"job", row.name.job},
                     {"rank", row.name.rank},
                     {"state", state_of(row)},
                     {"waits_for", wait != nullptr ? nlohmann::json(wait) : nlohmann::json()},
                     {"frames_sent", row.frames_sent},
                     {"frames_received", row.frames_received},
                     {"frames_sent_per_second", rate(&PeerRow::frames_sent)},
                     {"frames_received_per_second", rate(&PeerRow::frames_received)},
                     {"frames_pending", row.frames_pending},
                     {"requests_out", row.requests_out},
                     {"credits", row.credits},
                     {"credits_out", row.credits_out},
                     {"reads_out", row.reads_out},
                     {"writes_out", row.writes_out}});
  }
  return peers;
}

std::string peers_to_table(const NodeView& node, const Look& before) {
  std::string text =
      fmt::format(columns, "PID", "RANK", "PEER", "STATE", "SENT/s", "GOT/s", "QUEUED", "POSTED",
                  "CREDITS", "LENT", "READS", "WRITES", "WAITS FOR");
  for (const MemberView& member : node.members) {
    const MemberView* const then = find(before, node, member);
    for (const PeerRow& row : member.peers) {
      const char* const wait = wait_of(row);
      text += fmt::format(columns, member.process.pid, member.rank, row.name.rank, state_of(row),
                          number(frame_rate(member, then, row, &PeerRow::frames_sent)),
                          number(frame_rate(member, then, row, &PeerRow::frames_received)),
                          row.frames_pending, row.requests_out, row.credits, row.credits_out,
                          row.reads_out, row.writes_out, wait != nullptr ? wait : "-");
    }
    if (member.counters.connections_open > member.peers.size()) {
      text += fmt::format("{:>8} {:>5} {:>5} of {} connections\n", member.process.pid, member.rank,
                          member.peers.size(), member.counters.connections_open);
    }
  }
  return text;
}

}  // namespace weir::tools::top
