// The adapter's own counters of a port, under weir's names. They count for all processes that use
// the port and are never reset: look at differences.
//
// Thread rule: none; each read opens the files anew.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weir::verbs {

// A field is empty if the adapter does not count it.
struct HwCounters {
  std::optional<std::uint64_t> rnr_naks_sent;      // we had no receive buffer
  std::optional<std::uint64_t> rnr_naks_received;  // a peer had none
  std::optional<std::uint64_t> retries_exceeded;   // a peer did not answer, given up
  std::optional<std::uint64_t> ack_timeouts;       // an acknowledgement did not come in time
  std::optional<std::uint64_t> out_of_sequence;    // packets that came after a gap
  std::optional<std::uint64_t> sequence_naks;      // a peer reported a gap
  std::optional<std::uint64_t> duplicates;         // requests that came twice

  bool any() const {
    return rnr_naks_sent || rnr_naks_received || retries_exceeded || ack_timeouts ||
           out_of_sequence || sequence_naks || duplicates;
  }
};

inline constexpr const char* infiniband_class = "/sys/class/infiniband";

// The folder of the counters: `root`/DEVICE/ports/PORT/hw_counters.
std::string hw_counter_folder(const std::string& device, unsigned port,
                              const std::string& root = infiniband_class);

HwCounters read_hw_counters(const std::string& folder);

}  // namespace weir::verbs
