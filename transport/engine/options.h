// What an engine is told when it is opened.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/caps.h"
#include "base/time.h"
#include "transport/core/core.h"
#include "transport/verbs/device.h"
#include "transport/verbs/queues.h"

namespace weir {

// What other caps of the process make of the core of one of its ports.
struct NewLimits {
  CoreLimits core;
  std::string words;  // for people: what changes
};

// What the node's processes share: the read budget, and with admission the tokens.
struct NodeOptions {
  bool show = false;            // counters, for `weir top`; `share` does as well
  bool share = false;           // tokens, if the core's admission needs any, and:
  bool share_reads = true;      // the read budget
  std::string sharers;          // as in SegmentOptions
  std::uint32_t processes = 0;  // of this job on this node; warns if fewer are there; 0: unknown
  bool tells = false;           // news of this port, for the job's other processes here
  std::string directory = "/dev/shm";  // where the memory is
  Caps caps{};                         // of the process
  // Nothing, with the reason in `why`, if they are not acceptable. None: they cannot change.
  std::function<std::optional<NewLimits>(const Caps& now, const Caps& asked, std::string& why)>
      limits_of;
};

// The node's proxy, for the processes of one job; needs `core.proxy`.
struct ProxyOptions {
  std::uint32_t servers = 0;  // at a time; 0: there is none
  std::uint32_t tasks = 0;    // processes of the job on this node
};

struct EngineOptions {
  verbs::DeviceWish device;              // which port and GID to use
  verbs::QueuePairOptions queue_pair;    // except pkey_index
  std::optional<std::uint16_t> pkey;     // nothing: that of the path
  Core::Config core;                     // `core.self` included
  std::uint64_t send_bytes = 64u << 20;  // memory of messages that wait to be sent
  Duration close_timeout = seconds(10);
  NodeOptions node;
  ProxyOptions proxy;
};

}  // namespace weir
