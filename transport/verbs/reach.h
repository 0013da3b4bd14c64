// Whether a peer can be reached from our port at all. Two fabrics may be equally fast and found in
// another order on each host; then connections would only be refused after a long wait.
//
// Any thread.
#pragma once

#include <string>

#include "transport/verbs/ports.h"
#include "transport/wire/hello.h"

namespace weir::verbs {

// What a card says of the port's fabric.
void describe_fabric(const PortChoice& port, wire::Card& card);

// Why no connection from our port can reach that of the card; empty: none is known. What the cards
// say, and what the kernel's routes say of another network.
std::string why_unreachable(const PortChoice& ours, const wire::Card& theirs);

// The part that only the cards decide. `routes`: an address in another network may be reached.
std::string why_unreachable(const wire::Card& ours, const wire::Card& theirs, bool routes);

}  // namespace weir::verbs
