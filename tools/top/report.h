// What `weir top` shows of a node, or of many, as values: looked at twice, so that there are rates.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flowctl/shm/view.h"
#include "tools/top/columns.h"
#include "transport/verbs/hw_counters.h"

namespace weir::tools::top {

struct PortLook {
  NodeView node;
  std::string host;                                 // "": this one
  std::uint64_t at_ns = 0;                          // of the look, by that host's CLOCK_MONOTONIC
  verbs::HwCounters adapter;                        // of the whole port, whoever uses it
  std::string user;                                 // by name
  std::map<std::uint32_t, std::string> slurm_jobs;  // of its processes, where there is one
};

struct Look {
  std::vector<PortLook> ports;
  std::size_t left_out = 0;  // segments that were too many
};

Look look(const std::string& directory);

// The same process in another look, or nullptr.
const MemberView* find(const Look& look, const PortLook& port, const MemberView& member);

JobName name_of(const PortLook& port, const MemberView& member);

// The processes of a job on all hosts of a look, by rank.
struct JobMember {
  const PortLook* port;
  const MemberView* member;
};
struct JobLook {
  JobName name;
  std::vector<JobMember> members;
  std::string only_on;  // the host, if another one has a job of the same name
};
std::vector<JobLook> jobs_of(const Look& look);
std::string to_text(const Wanted& wanted);  // "job 7", "any job"
std::string owner_of(const JobLook& job);   // "user alice, slurm job 12"
// "4 processes on 2 hosts", or "on this node". A process with several rails is one.
std::string extent_of(const JobLook& job);

// Calls say(name, help, value) for each counter of adapters; `value` has none if this one does not
// count that.
template <typename Adapter, typename Say>
void each_adapter_field(Adapter& adapter, Say&& say) {
  say("rnr_naks_sent", "Times there was no receive buffer here", adapter.rnr_naks_sent);
  say("rnr_naks_received", "Times a peer had no receive buffer", adapter.rnr_naks_received);
  say("retries_exceeded", "Times a peer did not answer and was given up", adapter.retries_exceeded);
  say("ack_timeouts", "Times an acknowledgement did not come in time", adapter.ack_timeouts);
  say("out_of_sequence", "Packets that came after a gap", adapter.out_of_sequence);
  say("sequence_naks", "Times a peer saw a gap", adapter.sequence_naks);
  say("duplicates", "Requests that came twice", adapter.duplicates);
}
// The same for those that this adapter has.
template <typename Say>
void each_adapter_counter(const verbs::HwCounters& adapter, Say&& say) {
  each_adapter_field(adapter, [&](const char* name, const char* help, const auto& value) {
    if (value) say(name, help, *value);
  });
}

// At the time of the look: how long the process has waited for the node, if it does, and how long
// it has shown nothing.
std::optional<std::uint64_t> waited_ns(const PortLook& port, const MemberView& member);
std::uint64_t silent_ns(const PortLook& port, const MemberView& member);

// "" if it is in none.
std::string slurm_job_of(const PortLook& port, const MemberView& member);

// The ranks that a member serves now as the node's proxy, itself not counted.
std::vector<std::uint64_t> served_by(const NodeView& node, const MemberView& server);

// Rates are since `before`; without one there are none, and gauges never have one. All counters are
// in it, and what the table shows; with `peers` also what is known of these.
nlohmann::json to_json(const Look& now, const Look& before, bool peers = false);

// The same as a table for people; of the counters, those that tell most. One for each port, or for
// each job where it is of several hosts.
std::string to_table(const Look& now, const Look& before, const Shape& shape = {});
// By which it may be sorted; the first, "", is by job and rank.
std::vector<std::string> sortable_columns();
std::vector<std::string> sortable_columns_of_peers();

// How much a counter went up in a second, between the two moments that the process showed it.
// Nothing where it fell: the difference would be a huge number.
std::optional<double> rate(const MemberView& now, const MemberView* before,
                           std::uint64_t Counters::*counter);

// The peers of a process, and of all processes of a node.
nlohmann::json peers_to_json(const MemberView& now, const MemberView* before);
std::string peers_to_table(std::span<const JobMember> members, const Look& before,
                           const Shape& shape);

// A host's column: its name without a domain, as wide as the longest of them.
std::string host_text(const PortLook& port);
std::size_t host_width(std::span<const JobMember> members);  // 0: this host alone

// In the text format that Prometheus's node_exporter collects from files.
std::string to_prometheus(const Look& now);

}  // namespace weir::tools::top
