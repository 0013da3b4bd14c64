#include "tools/between/launch.h"

#include <algorithm>
#include <sstream>

namespace weir::tools::between {
namespace {

constexpr std::string_view host_mark = "{host}";

struct KnownLauncher {
  const char* program;
  bool shell;
  std::vector<std::string> options;  // before those of the user
};

const std::vector<KnownLauncher>& known_launchers() {
  static const std::vector<KnownLauncher> all{
      // Nobody would answer when it asks for a password.
      {"ssh", true, {"-o", "BatchMode=yes", "-x"}},
      {"rsh", true, {}},
      // Beside what runs in the allocation, and with a step for each host.
      {"srun",
       false,
       {"--nodelist={host}", "--nodes=1", "--ntasks=1", "--overlap", "--mem=0", "--cpu-bind=none",
        "--mpi=none", "--quiet"}},
      {"mpirun", false, {"--host", "{host}", "-n", "1", "--bind-to", "none"}}};
  return all;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::istringstream each{std::string(text)};
  for (std::string word; each >> word;) words.push_back(word);
  return words;
}

bool names_host(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.find(host_mark) != std::string::npos;
  });
}

Launcher launcher_of(std::vector<std::string> words) {
  Launcher launcher{std::move(words), false};
  const std::string& program = launcher.words.front();
  const std::string name = program.substr(program.rfind('/') + 1);
  for (const KnownLauncher& one : known_launchers()) {
    if (name != one.program) continue;
    launcher.shell = one.shell;
    launcher.words.insert(launcher.words.begin() + 1, one.options.begin(), one.options.end());
    break;
  }
  if (!names_host(launcher.words)) launcher.words.emplace_back(host_mark);
  return launcher;
}

// "ssh -p 22 : rsh", as Open MPI has it: the first that exists, else the last one.
std::vector<std::string> remote_shell(std::string_view wish, const Surroundings& here) {
  std::vector<std::string> chosen;
  std::istringstream alternatives{std::string(wish)};
  for (std::string text; std::getline(alternatives, text, ':');) {
    std::vector<std::string> words = words_of(text);
    if (words.empty()) continue;
    chosen = std::move(words);
    if (here.exists(chosen.front())) break;
  }
  return chosen;
}

}  // namespace

Launcher choose_launcher(std::string_view wish, const Surroundings& here) {
  if (std::vector<std::string> words = words_of(wish); !words.empty()) {
    return launcher_of(std::move(words));
  }
  if (!here.variable("SLURM_JOB_ID").empty() && here.exists("srun")) return launcher_of({"srun"});
  for (const char* name :
       {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_ssh_agent"}) {
    std::vector<std::string> words = remote_shell(here.variable(name), here);
    if (words.empty()) continue;
    Launcher launcher = launcher_of(std::move(words));
    launcher.shell = true;  // whatever its name
    return launcher;
  }
  return launcher_of({"ssh"});
}

std::vector<std::string> launch_command(const Launcher& launcher, const std::string& host,
                                        const std::vector<std::string>& program) {
  std::vector<std::string> command;
  for (std::string word : launcher.words) {
    for (auto at = word.find(host_mark); at != std::string::npos;
         at = word.find(host_mark, at + host.size())) {
      word.replace(at, host_mark.size(), host);
    }
    command.push_back(std::move(word));
  }
  if (launcher.shell) {
    command.push_back(shell_command(program));
  } else {
    command.insert(command.end(), program.begin(), program.end());
  }
  return command;
}

std::string shell_command(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) {
    command += command.empty() ? "'" : " '";
    for (const char c : word) command += c == '\'' ? std::string("'\\''") : std::string(1, c);
    command += '\'';
  }
  return command;
}

}  // namespace weir::tools::between
