#include "tools/between/host.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/between/hosts.h"
#include "tools/doctor/subprocess.h"

namespace weir::tools::between {
namespace {

using doctor::Clock;
using doctor::milliseconds;

constexpr milliseconds grace{1000};  // to end by itself
constexpr int not_found = 127;       // a shell's exit status

std::string variable_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return {};
}

std::string own_program() {
  std::error_code error;
  const auto file = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "weir" : file.string();
}

}  // namespace

std::string own_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

Host::Host(std::string name, const std::vector<std::string>& command) : name_(std::move(name)) {
  std::string why;
  const auto started = doctor::start_program(command, {}, true, why);
  if (!started) {
    why_lost_ = why;
    return;
  }
  child_ = started->child;
  to_ = started->to;
  from_ = started->from;
  fcntl(to_, F_SETFL, fcntl(to_, F_GETFL) | O_NONBLOCK);
}

Host::~Host() {
  if (child_ == 0) return;
  close(to_);
  if (!lost()) {
    doctor::wait_for(grace, [&] {
      if (waitpid(child_, nullptr, WNOHANG) != child_) return false;
      child_ = 0;
      return true;
    });
  }
  close(from_);
  if (child_ == 0) return;
  kill(-child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

void Host::lose(const std::string& why) {
  why_lost_ = why;
  const std::string said = lines_.noise();
  if (!said.empty()) why_lost_ += "; it said: " + said;
}

std::string Host::ended() const {
  int status = 0;
  siginfo_t info{};
  // Left for the destructor to take.
  const bool over = doctor::wait_for(grace, [&] {
    return waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child_;
  });
  status = info.si_status;
  if (!over) return "it closed its output";
  if (info.si_code == CLD_EXITED && status == not_found) {
    return "there is no weir at " + own_program() + " there";
  }
  return info.si_code == CLD_EXITED ? fmt::format("it ended with exit status {}", status)
                                    : fmt::format("it was ended by signal {}", status);
}

void Host::ask(const Json& request) {
  if (lost()) return;
  asked_ = Clock::now();
  const std::string line = line_of(request);
  // The pipe is empty, as it has answered all before, and takes 64 KiB.
  const auto written = write(to_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  // If it has ended, what it said last tells why; `answer` reads that.
  if (written < 0 && errno == EPIPE) return;
  lose("it does not take requests");
}

milliseconds Host::left_until(Clock::time_point end) {
  return std::max(std::chrono::duration_cast<milliseconds>(end - Clock::now()), milliseconds(300));
}

std::optional<Json> Host::answer(milliseconds limit, std::string& why) {
  const auto end = Clock::now() + limit;
  while (!lost()) {
    if (auto said = lines_.next()) {
      if (!said->contains("error")) return said;
      why = text_in(*said, "error");
      if (why.empty()) why = "it failed";
      return {};
    }
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    pollfd readable{from_, POLLIN, 0};
    if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) == 0) {
      lose(fmt::format("no answer within {:.0f} s", doctor::ms_since(asked_) / 1000));
      break;
    }
    std::array<char, 16384> bytes;
    const ssize_t count = read(from_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      lose(ended());
    } else if (!lines_.add({bytes.data(), static_cast<std::size_t>(count)})) {
      lose("its answer is longer than any answer may be");
    }
  }
  why = why_lost_;
  return {};
}

std::vector<std::unique_ptr<Host>> start_hosts(const std::vector<std::string>& names,
                                               const Reach& reach) {
  std::signal(SIGPIPE, SIG_IGN);
  std::string wish = reach.shell;
  if (wish.empty()) {
    wish =
        variable_of({"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_ssh_agent"});
  }
  std::vector<std::string> shell =
      remote_shell(wish.empty() ? "ssh" : wish, [](const std::string& program) {
        return program.find('/') != std::string::npos ? access(program.c_str(), X_OK) == 0
                                                      : !doctor::find_program(program).empty();
      });
  if (shell.empty()) shell = {"ssh"};
  const std::string own = own_name();
  const std::vector<std::string> program{own_program(), "doctor", "--answer"};
  std::vector<std::unique_ptr<Host>> hosts;
  for (const std::string& name : names) {
    std::vector<std::string> command = program;
    if (!is_this_host(name, own)) {
      command = shell;
      command.push_back(name);
      command.push_back(shell_command(program));
    }
    hosts.push_back(std::make_unique<Host>(name, command));
  }
  return hosts;
}

}  // namespace weir::tools::between
