// Which ports a process uses.
//
// Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transport/verbs/ports.h"

namespace weir::verbs {

// The fastest active port with an address that `wish` allows; of equals in one network, one that is
// near (locality.h). If there is none: nothing, and the reason with a remedy in `why`.
// Of several names, the first one counts.
std::optional<PortChoice> choose_port(const DeviceWish& wish, std::string& why);

// The ports for the rails, four at most: those of the devices that are named, each of which has to
// be usable; with "auto" the one above, then ones of other adapters that are of its kind and have
// half its speed at least, near ones first if all are in one network. If no number is wished for
// either, two at most (one_or_two), as fast as each other. None, and the reason in `why`, if there
// is not even one; there may be fewer than wished for.
std::vector<PortChoice> choose_ports(const DeviceWish& wish, std::string& why);

}  // namespace weir::verbs
