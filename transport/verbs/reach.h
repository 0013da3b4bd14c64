// Whether a peer can be reached from our port at all. Two hosts may choose ports of different
// fabrics that are equally fast. Without this check, a connection would fail after a long wait.
//
// Any thread.
#pragma once

#include <string>

#include "transport/verbs/ports.h"
#include "transport/wire/hello.h"

namespace weir::verbs {

// Fills in the card's fields about the port's fabric.
void describe_fabric(const PortChoice& port, wire::Card& card);

// Why our port cannot reach the port of the card; empty: no reason is known. The cards decide, and
// for another network the kernel's routes.
std::string why_unreachable(const PortChoice& ours, const wire::Card& theirs);

// The part that only the cards decide. `routes`: an address in another network may be reached.
std::string why_unreachable(const wire::Card& ours, const wire::Card& theirs, bool routes);

}  // namespace weir::verbs
