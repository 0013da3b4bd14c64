// A trace as people write it, one message a line:
//
//   # time, source, destination, bytes, after
//   0, 0, 1, 64KiB
//   10us, 1, 2, 1MiB, 1        not before 10us, nor before message 1 is received
//
// Nodes are numbered from 0, messages from 1 in the order of their lines; `after` names an earlier
// one, or is left out. What follows a # is no part of it.
//
// Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/sim/network/scenario.h"
#include "transport/config/source.h"

namespace weir::sim {

struct TraceFile {
  std::vector<network::TraceMessage> messages;
  std::vector<config::Problem> problems;  // with the line of each
};

// `text` under the name `file`, for so many nodes with cycles of that length.
TraceFile parse_trace(const std::string& text, const std::string& file, std::uint32_t nodes,
                      double cycle_ns);
TraceFile read_trace(const std::string& path, std::uint32_t nodes, double cycle_ns);

}  // namespace weir::sim
