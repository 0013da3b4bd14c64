// Which ports a process uses.
//
// Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transport/verbs/ports.h"

namespace weir::verbs {

// The fastest active port that has an address and that `wish` allows. Of equally fast ports in one
// network, it is one near our CPUs (locality.h). Only the first of several names counts. If there
// is no such port: nothing, and the reason with a remedy in `why`.
std::optional<PortChoice> choose_port(const DeviceWish& wish, std::string& why);

// The ports for the rails, at most four and perhaps fewer than wished for.
// With names: a port of each named device. If one is not usable: none, and the reason in `why`.
// With "auto": the port above, then ports of other adapters of its kind with at least half its
// speed, near ones first if all are in one network. If `wish.rails` is 0, too: at most two, equally
// fast (one_or_two). If no port is usable: none, and the reason in `why`.
std::vector<PortChoice> choose_ports(const DeviceWish& wish, std::string& why);

}  // namespace weir::verbs
