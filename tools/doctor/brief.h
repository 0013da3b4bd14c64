// `weir doctor --brief`: whether this node is fit for jobs, for a scheduler to ask often.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "tools/doctor/check.h"
#include "transport/verbs/device.h"

namespace weir::tools::doctor {

struct Brief {
  Findings findings;  // up to the first that makes others pointless
  double seconds = 0;

  // Ok, a warning or, first of all, what failed.
  const Finding& worst() const;
  // "fail  port: mlx5_0:1 is down (eth0)": a scheduler may give it as its reason.
  std::string line() const;
};

// `take_wishes`: those of the command line, into those of the configuration. Only checks that
// neither a switch nor the port counts as trouble: no RNR NAK, no retry, no packet on the wire.
// Takes `limit` at most; what hangs is left behind in a thread of its own.
Brief check_briefly(std::function<void(verbs::DeviceWish&)> take_wishes,
                    std::chrono::milliseconds limit);

}  // namespace weir::tools::doctor
