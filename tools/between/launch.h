// How a program is started on another host: by a remote shell, by Slurm, by mpirun, or by a command
// that the user names.
//
// Pure functions; any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::tools::between {

struct Launcher {
  std::vector<std::string> words;  // before those of the program; "{host}" stands for the host
  bool shell = false;  // a shell on the other host splits what it gets: each word has to be quoted

  friend bool operator==(const Launcher&, const Launcher&) = default;
};

// Where a launcher is looked for.
struct Surroundings {
  std::function<std::string(const char*)> variable;        // of the environment; empty if not set
  std::function<bool(const std::string& program)> exists;  // and may be run
};

// `wish`: "ssh", "srun" or "mpirun", perhaps with more of its options, or any other command. If it
// is empty, srun inside an allocation of Slurm; else the remote shell that Open MPI is told to use,
// or ssh.
Launcher choose_launcher(std::string_view wish, const Surroundings& here);

// What starts `program` on `host`, as an argument vector.
std::vector<std::string> launch_command(const Launcher& launcher, const std::string& host,
                                        const std::vector<std::string>& program);

// `words` as one command of a POSIX shell.
std::string shell_command(const std::vector<std::string>& words);

}  // namespace weir::tools::between
