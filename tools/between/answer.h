// The end that does things: `weir doctor --answer`, started on each host by the remote shell. It
// reads one request a line from stdin, and answers each with one line, until stdin ends.
#pragma once

namespace weir::tools::between {

// Returns the exit status.
int answer();

}  // namespace weir::tools::between
