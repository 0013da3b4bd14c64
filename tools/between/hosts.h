// Which hosts are meant.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::tools::between {

// The first word of each line of an Open MPI hostfile, each once. '#' begins a comment; what follows
// the host (slots=4) is mpirun's business.
std::vector<std::string> hosts_of(std::string_view hostfile);

// The parts of a list: "node[1,3],login1" has two. One with operators is a whole: "node[1-9]!node3".
std::vector<std::string> parts_of(std::string_view list);

// Whether it may name several hosts: "node[001-500]", "@group".
bool is_pattern(std::string_view part);

// Adds those of `more` that are not in `hosts` yet.
void add_hosts(std::vector<std::string>& hosts, const std::vector<std::string>& more);

// Why this cannot be a host's name; empty if it can. A name that begins with '-' would be an option
// of the remote shell.
std::string why_no_host(std::string_view name);

// Whether `name` is this host, whose own name is `own`. Where one of them has no domain, names count
// up to their first dot.
bool is_this_host(std::string_view name, std::string_view own);

}  // namespace weir::tools::between
