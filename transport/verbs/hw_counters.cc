#include "transport/verbs/hw_counters.h"

#include <array>
#include <fstream>

namespace weir::verbs {
namespace {

// Names by driver. rxe: Linux, drivers/infiniband/sw/rxe/rxe_hw_counters.c. mlx5: Linux,
// drivers/infiniband/hw/mlx5/counters.c; their meaning: NVIDIA, "Understanding mlx5 Linux
// Counters and Status Parameters", and Linux, Documentation/ABI/stable/sysfs-class-infiniband.
struct Name {
  std::optional<std::uint64_t> HwCounters::*field;
  const char* file;
};

constexpr std::array names{
    Name{&HwCounters::rnr_naks_sent, "send_rnr_err"},  // rxe
    // mlx5: requests that found no receive; an RNR NAK answers each RC one.
    Name{&HwCounters::rnr_naks_sent, "out_of_buffer"},
    Name{&HwCounters::rnr_naks_received, "rcvd_rnr_err"},                   // rxe
    Name{&HwCounters::rnr_naks_received, "rnr_nak_retry_err"},              // mlx5
    Name{&HwCounters::retries_exceeded, "retry_exceeded_err"},              // rxe
    Name{&HwCounters::retries_exceeded, "req_transport_retries_exceeded"},  // mlx5, newer
    Name{&HwCounters::ack_timeouts, "local_ack_timeout_err"},               // mlx5
    Name{&HwCounters::out_of_sequence, "out_of_seq_request"},               // rxe
    Name{&HwCounters::out_of_sequence, "out_of_sequence"},                  // mlx5
    Name{&HwCounters::sequence_naks, "rcvd_seq_err"},                       // rxe
    Name{&HwCounters::sequence_naks, "packet_seq_err"},                     // mlx5
    Name{&HwCounters::duplicates, "duplicate_request"},                     // both
};

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string hw_counter_folder(const std::string& device, unsigned port, const std::string& root) {
  return root + "/" + device + "/ports/" + std::to_string(port) + "/hw_counters";
}

HwCounters read_hw_counters(const std::string& folder) {
  HwCounters counters;
  for (const Name& name : names) {
    if (!(counters.*name.field)) counters.*name.field = read_number(folder + "/" + name.file);
  }
  return counters;
}

}  // namespace weir::verbs
