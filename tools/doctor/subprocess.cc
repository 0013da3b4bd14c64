#include "tools/doctor/subprocess.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace weir::tools::doctor {
namespace {

// `added` first: of two entries of a name, the first counts for most programs; so ours is left out.
std::vector<char*> joined_environment(const std::vector<std::string>& added) {
  std::vector<char*> all;
  for (const std::string& entry : added) all.push_back(const_cast<char*>(entry.c_str()));
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('=') + 1);
    bool replaced = false;
    for (const std::string& other : added) replaced |= other.starts_with(name);
    if (!replaced) all.push_back(*entry);
  }
  all.push_back(nullptr);
  return all;
}

}  // namespace

std::optional<Started> start_program(const std::vector<std::string>& arguments,
                                     const std::vector<std::string>& environment, bool with_input,
                                     std::string& why) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> envp = joined_environment(environment);

  std::array<int, 2> output{-1, -1};
  std::array<int, 2> input{-1, -1};
  if (pipe2(output.data(), O_CLOEXEC) != 0 || (with_input && pipe2(input.data(), O_CLOEXEC) != 0)) {
    why = std::strerror(errno);
    for (const int end : output) close(end);
    return {};
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (with_input) {
    posix_spawn_file_actions_adddup2(&actions, input[0], 0);
  } else {
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, output[1], 1);
  posix_spawn_file_actions_adddup2(&actions, output[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // its children die with it
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(output[1]);
  if (with_input) close(input[0]);
  if (error != 0) {
    close(output[0]);
    if (with_input) close(input[1]);
    why = fmt::format("{} does not start: {}", arguments[0], std::strerror(error));
    return {};
  }
  return Started{child, input[1], output[0]};
}

std::optional<Ended> run_program(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment, milliseconds limit,
                                 std::string& why) {
  const auto started = start_program(arguments, environment, false, why);
  if (!started) return {};
  const pid_t child = started->child;
  const int from = started->from;

  Ended ended;
  const auto start = Clock::now();
  bool open = true;
  while (open) {
    const auto left = limit - std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    pollfd readable{from, POLLIN, 0};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) == 0) break;
    std::array<char, 4096> text;
    const ssize_t count = read(from, text.data(), text.size());
    if (count > 0) ended.output.append(text.data(), static_cast<std::size_t>(count));
    open = count > 0 || (count < 0 && errno == EINTR);
  }
  close(from);
  // A program that closed its output without ending gets a moment more.
  int status = 0;
  const bool in_time = !open && wait_for(milliseconds(1000),
                                         [&] { return waitpid(child, &status, WNOHANG) == child; });
  if (!in_time) {
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
    why = fmt::format("{} did not end within {} s", arguments[0], limit.count() / 1000);
    return {};
  }
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

}  // namespace weir::tools::doctor
