// The connection of two ends that are started by hand, as of perftest: requests and answers go over
// TCP.
//
// Every wait has a deadline. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>

namespace weir::tools::perf {

inline constexpr std::uint16_t usual_port = 7479;

// A socket that listens; -1, and the reason in `why`, if there is none.
int listen_for_client(std::uint16_t port, std::string& why);
// Waits for a client, makes the connection to it standard input and output, and closes `listener`.
// False, and the reason in `why`, if none comes within some minutes.
bool take_client(int listener, std::string& client, std::string& why);

// The connection to a server; -1, and the reason in `why`, if there is none.
int connect_to_server(const std::string& host, std::uint16_t port, std::string& why);

}  // namespace weir::tools::perf
