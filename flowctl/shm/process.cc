#include "flowctl/shm/process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weir {
namespace {

// From /proc/PID/stat, see proc(5): fields after the command, which may contain anything.
struct Stat {
  char state = 0;                 // field 3
  long threads = 0;               // field 20
  std::uint64_t start_ticks = 0;  // field 22
};

enum class Found : std::uint8_t { yes, no, unknown };

Found read_stat(std::uint32_t pid, Stat& stat) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    // /proc may hide a process that lives (hidepid).
    const bool shows_none = errno == ENOENT || errno == ESRCH;
    const bool is_gone = ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
    return shows_none && is_gone ? Found::no : Found::unknown;
  }
  char text[1024];
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  const int error = errno;
  ::close(fd);
  if (got <= 0) return got < 0 && error == ESRCH ? Found::no : Found::unknown;
  text[got] = 0;
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] != ' ' || at[2] == 0) return Found::unknown;
  at += 2;
  stat.state = *at;
  for (int field = 3; field < 22; ++field) {
    if (field == 20) stat.threads = std::strtol(at, nullptr, 10);
    at = std::strchr(at, ' ');
    if (at == nullptr) return Found::unknown;
    ++at;
  }
  stat.start_ticks = std::strtoull(at, nullptr, 10) & lease::start_mask;
  return Found::yes;
}

}  // namespace

std::optional<ProcessId> this_process() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  Stat stat;
  // If another process has this number there, /proc is that of another pid namespace.
  if (pid > lease::pid_mask || read_stat(pid, stat) != Found::yes) return std::nullopt;
  char self[32] = {};
  if (::readlink("/proc/self", self, sizeof self - 1) < 0) return std::nullopt;
  if (std::strtoul(self, nullptr, 10) != pid) return std::nullopt;
  return ProcessId{pid, stat.start_ticks};
}

bool process_alive(ProcessId id) {
  Stat stat;
  switch (read_stat(id.pid, stat)) {
    case Found::no: return false;
    case Found::unknown: return true;
    case Found::yes: break;
  }
  if (stat.start_ticks != id.start_ticks) return false;
  // The first thread may have ended while others run.
  const bool over = stat.state == 'Z' || stat.state == 'X' || stat.state == 'x';
  return !over || stat.threads > 1;
}

std::uint64_t process_namespaces() {
  struct stat pids {
  }, time{};
  if (::stat("/proc/self/ns/pid", &pids) != 0) return 0;
  const bool has_time = ::stat("/proc/self/ns/time", &time) == 0;  // since Linux 5.6
  return (has_time ? std::uint64_t{time.st_ino} << 32 : 0) ^ pids.st_ino;
}

}  // namespace weir
