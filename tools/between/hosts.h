// Which hosts are meant, and how a program is started on one of them.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::tools::between {

// The hosts of an Open MPI hostfile, each once: the first word of each line. '#' begins a comment;
// what follows the host (slots=4) is mpirun's business.
std::vector<std::string> hosts_of(std::string_view hostfile);

// Adds those of `more` that are not in `hosts` yet.
void add_hosts(std::vector<std::string>& hosts, const std::vector<std::string>& more);

// Why this cannot be a host's name; empty if it can. A name that begins with '-' would be an option
// of the remote shell.
std::string why_no_host(std::string_view name);

// Whether `name` is this host, whose own name is `own`: names count up to their first dot.
bool is_this_host(std::string_view name, std::string_view own);

// The words of the remote shell: of `wish`, "ssh -p 22 : rsh", the first alternative for which
// `exists` says yes; else the last one. ssh is told not to ask for a password: nobody would answer.
template <typename Exists>
std::vector<std::string> remote_shell(std::string_view wish, Exists exists);
std::vector<std::vector<std::string>> shell_alternatives(std::string_view wish);

// `words` as one command of a POSIX shell.
std::string shell_command(const std::vector<std::string>& words);

template <typename Exists>
std::vector<std::string> remote_shell(std::string_view wish, Exists exists) {
  std::vector<std::string> chosen;
  for (std::vector<std::string>& words : shell_alternatives(wish)) {
    chosen = std::move(words);
    if (exists(chosen.front())) break;
  }
  return chosen;
}

}  // namespace weir::tools::between
