#include "tools/between/host.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tools/between/hosts.h"
#include "tools/doctor/subprocess.h"

namespace weir::tools::between {
namespace {

using doctor::Clock;
using doctor::milliseconds;

constexpr milliseconds grace{1000};  // to end by itself
constexpr int not_found = 127;       // a shell's exit status
constexpr rlim_t most_files = 65536;

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

Host::Host(std::string name, int socket) : name_(std::move(name)), to_(socket), from_(socket) {
  std::signal(SIGPIPE, SIG_IGN);
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

Host::~Host() {
  if (to_ != -1) close(to_);
  if (child_ == 0) return;
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
  if (child_ == 0) return "it closed the connection";
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

void Host::take_bytes() {
  std::array<char, 16384> bytes;
  const ssize_t count = read(from_, bytes.data(), bytes.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) {
    lose(ended());
  } else if (!lines_.add({bytes.data(), static_cast<std::size_t>(count)})) {
    lose("its answer is longer than any answer may be");
  }
}

bool Host::has_answer() {
  if (!said_ && !lost()) said_ = lines_.next();
  return said_ || lost();
}

Host* Host::first_to_answer(std::span<Host* const> hosts, milliseconds limit) {
  const auto end = Clock::now() + limit;
  for (;;) {
    std::vector<pollfd> readable;
    for (Host* const host : hosts) {
      if (host->has_answer()) return host;
      readable.push_back({host->from_, POLLIN, 0});
    }
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (left.count() <= 0 ||
        poll(readable.data(), readable.size(), static_cast<int>(left.count())) == 0) {
      return nullptr;
    }
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (readable[i].revents != 0) hosts[i]->take_bytes();
    }
  }
}

std::optional<Json> Host::answer(milliseconds limit, std::string& why) {
  Host* const self = this;
  if (first_to_answer({&self, 1}, limit) == nullptr) {
    lose(fmt::format("no answer within {:.0f} s", doctor::ms_since(asked_) / 1000));
  }
  if (!said_) {
    why = why_lost_;
    return {};
  }
  Json said = *std::exchange(said_, {});
  if (!said.contains("error")) return said;
  why = text_in(said, "error");
  if (why.empty()) why = "it failed";
  return {};
}

Starter::Starter(Launcher launcher, std::vector<std::string> arguments)
    : launcher_(std::move(launcher)), program_{own_program()}, own_(own_name()) {
  program_.insert(program_.end(), arguments.begin(), arguments.end());
  std::signal(SIGPIPE, SIG_IGN);
  // Two for each host, and of hosts there are many.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, most_files);
  setrlimit(RLIMIT_NOFILE, &files);
}

std::unique_ptr<Host> Starter::start(const std::string& name) const {
  return std::make_unique<Host>(
      name, is_this_host(name, own_) ? program_ : launch_command(launcher_, name, program_));
}

std::string Starter::trial(const std::string& name) const {
  std::string text;
  for (const std::string& word : launch_command({launcher_.words, false}, name, {"true"})) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

}  // namespace weir::tools::between
