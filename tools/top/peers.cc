// What each process has to do with its peers: the part of `weir top --peers`.

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "tools/top/columns.h"
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

struct Row {
  const PortLook* port;
  const MemberView* now;
  const MemberView* then;
  const PeerRow* peer;
};
using Value = std::optional<double>;
using Columns = std::span<const Column<Row>>;

template <std::uint32_t PeerRow::*field>
Value count_of(const Row& row) {
  return static_cast<double>(row.peer->*field);
}
template <std::uint32_t PeerRow::*frames>
Value rate_of(const Row& row) {
  return frame_rate(*row.now, row.then, *row.peer, frames);
}
Value no_number(const Row&) { return std::nullopt; }
std::string plain(const Row&, Value value) { return fmt::format("{:.0f}", value.value_or(0)); }
std::string short_count(const Row&, Value value) { return number(value); }

const Column<Row> columns[] = {
    {"PID", 8, 4, [](const Row& row) { return Value(row.now->process.pid); }, plain},
    {"RANK", 5, 1, [](const Row& row) { return Value(static_cast<double>(row.now->rank)); }, plain},
    {"PEER", 5, 1, [](const Row& row) { return Value(row.peer->name.rank); }, plain},
    {"STATE", 10, 2, no_number,
     [](const Row& row, Value) { return std::string(state_of(*row.peer)); }},
    {"SENT/s", 7, 1, rate_of<&PeerRow::frames_sent>, short_count},
    {"GOT/s", 7, 1, rate_of<&PeerRow::frames_received>, short_count},
    {"QUEUED", 6, 1, count_of<&PeerRow::frames_pending>, plain},
    {"POSTED", 6, 3, count_of<&PeerRow::requests_out>, plain},
    {"CREDITS", 7, 2, count_of<&PeerRow::credits>, plain},
    {"LENT", 6, 3, count_of<&PeerRow::credits_out>, plain},
    {"READS", 5, 2, count_of<&PeerRow::reads_out>, plain},
    {"WRITES", 6, 3, count_of<&PeerRow::writes_out>, plain},
    {"WAITS FOR", 10, 1, no_number,
     [](const Row& row, Value) {
       const char* const wait = wait_of(*row.peer);
       return std::string(wait != nullptr ? wait : "-");
     }},
};

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

std::vector<std::string> sortable_columns_of_peers() {
  std::vector<std::string> titles;
  for (const Column<Row>& column : columns) {
    if (column.value != no_number) titles.emplace_back(column.title);
  }
  return titles;
}

std::string peers_to_table(std::span<const JobMember> members, const Look& before,
                           const Shape& shape) {
  std::vector<Column<Row>> all(std::begin(columns), std::end(columns));
  if (const std::size_t width = host_width(members); width > 0) {
    all.insert(all.begin(), {"HOST", width, 1, no_number,
                             [](const Row& row, Value) { return host_text(*row.port); }});
  }
  const auto shown = fitting(Columns(all), shape.width);
  std::vector<Row> rows;
  std::string more;
  for (const auto& [port, member] : members) {
    const MemberView* const then = find(before, *port, *member);
    for (const PeerRow& row : member->peers) rows.push_back({port, member, then, &row});
    if (member->counters.connections_open > member->peers.size()) {
      more += fmt::format("rank {}: {} of {} connections\n", member->rank, member->peers.size(),
                          member->counters.connections_open);
    }
  }
  sort_rows(rows, Columns(columns), shape);
  std::string text = head_of(Columns(shown));
  for (const Row& row : rows) text += line_of(Columns(shown), row) + '\n';
  return text + more;
}

}  // namespace weir::tools::top
