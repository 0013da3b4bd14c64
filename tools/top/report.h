// What `weir top` shows of a node, as values: looked at twice, so that there are rates.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "flowctl/shm/view.h"
#include "transport/verbs/hw_counters.h"

namespace weir::tools::top {

struct PortLook {
  NodeView node;
  verbs::HwCounters adapter;  // of the whole port, whoever uses it
};

struct Look {
  std::uint64_t at_ns = 0;  // CLOCK_MONOTONIC
  std::vector<PortLook> ports;
};

Look look(const std::string& directory);

// The same process in another look, or nullptr.
const MemberView* find(const Look& look, const NodeView& node, const MemberView& member);

// Calls say(name, help, value) for each counter that the adapter has.
template <typename Say>
void each_adapter_counter(const verbs::HwCounters& adapter, Say&& say) {
  const auto one = [&](const char* name, const char* help,
                       const std::optional<std::uint64_t>& value) {
    if (value) say(name, help, *value);
  };
  one("rnr_naks_sent", "Times there was no receive buffer here", adapter.rnr_naks_sent);
  one("rnr_naks_received", "Times a peer had no receive buffer", adapter.rnr_naks_received);
  one("retries_exceeded", "Times a peer did not answer and was given up", adapter.retries_exceeded);
  one("ack_timeouts", "Times an acknowledgement did not come in time", adapter.ack_timeouts);
  one("out_of_sequence", "Packets that came after a gap", adapter.out_of_sequence);
  one("sequence_naks", "Times a peer saw a gap", adapter.sequence_naks);
  one("duplicates", "Requests that came twice", adapter.duplicates);
}

// The ranks that a member serves now as the node's proxy, itself not counted.
std::vector<std::uint64_t> served_by(const NodeView& node, const MemberView& server);

// Rates are since `before`; without one (at_ns 0) there are none, and gauges never have one. All
// counters are in it, and what the table shows; with `peers` also what is known of these.
nlohmann::json to_json(const Look& now, const Look& before, bool peers = false);

// The same as a table for people; of the counters, those that tell most.
std::string to_table(const Look& now, const Look& before, bool peers = false);

// The peers of a process, and of all processes of a node.
nlohmann::json peers_to_json(const MemberView& now, const MemberView* before);
std::string peers_to_table(const NodeView& node, const Look& before);

// In the text format that Prometheus's node_exporter collects from files.
std::string to_prometheus(const Look& now);

}  // namespace weir::tools::top
