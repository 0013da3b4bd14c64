// What is configured, what the kernel offers, and what this user may do.

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/doctor/checks.h"
#include "tools/needs.h"
#include "transport/verbs/borrowed_cpus.h"
#include "transport/verbs/locality.h"
#include "transport/verbs/memory.h"

namespace weir::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* soft_roce =
    "load the adapter's driver. Or load Soft-RoCE, as root: modprobe rdma_rxe && rdma link add "
    "rxe0 type rxe netdev eth0. Or work in a micro-VM that has it: weir-lab -- CMD";

std::vector<std::string> entries(const char* folder, const char* prefix = "") {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix)) names.push_back(name);
  }
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Also right when the module is built into the kernel.
bool has_module(const char* name) { return fs::exists(std::string("/sys/module/") + name); }

// The reason a device file cannot be used, or nothing.
std::string why_not_open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::strerror(errno);
  close(fd);
  return {};
}

Finding check_file(const std::string& path, const char* fix_missing) {
  if (!fs::exists(path)) return fail("device files", path + " does not exist", fix_missing);
  const std::string why = why_not_open(path);
  if (why.empty()) return ok("device files", path + " exists and opens");
  return fail("device files", fmt::format("{} does not open: {}", path, why),
              fmt::format("as root: chmod a+rw {0}. To make it last, put KERNEL==\"{1}\", "
                          "MODE=\"0666\" into /etc/udev/rules.d/90-rdma.rules. If the files belong "
                          "to a group 'rdma': usermod -aG rdma $USER, and log in again",
                          path, path.find("uverbs") != std::string::npos ? "uverbs*" : "rdma_cm"));
}

std::string limit_text(rlim_t bytes) {
  return bytes == RLIM_INFINITY ? "unlimited" : bytes_text(bytes);
}

}  // namespace

// A job with a problem in its configuration does without the value, and complains.
Findings check_configuration(const config::Configuration& here) {
  if (here.problems.empty()) {
    const auto set = std::count_if(
        here.values.begin(), here.values.end(),
        [](const config::Value& value) { return value.layer > config::Layer::profile; });
    return {
        ok("configuration",
           fmt::format("no mistakes; {} key{} set by files or the environment, profile {}", set,
                       set == 1 ? " is" : "s are", here.profile.empty() ? "none" : here.profile))};
  }
  Findings findings;
  for (const config::Problem& problem : here.problems) {
    findings.push_back(fail("configuration", config::to_text(problem),
                            "correct it; 'weir config explain KEY' says what it takes"));
  }
  return findings;
}

Findings check_devices() {
  const std::vector<std::string> devices = entries("/sys/class/infiniband");
  if (devices.empty()) {
    return {fail("device",
                 has_module("ib_core") ? "the kernel has RDMA, but no RDMA device"
                                       : "there is no RDMA device, and the kernel's RDMA modules "
                                         "are not loaded",
                 soft_roce)};
  }
  Findings findings{ok("device", "RDMA devices: " + joined(devices))};
  for (const auto& [module, what] : {std::pair{"ib_uverbs", "programs cannot use RDMA"},
                                     std::pair{"rdma_ucm", "weir cannot make connections"}}) {
    if (!has_module(module)) {
      findings.push_back(fail("modules", fmt::format("{} is not loaded: {}", module, what),
                              fmt::format("as root: modprobe {}", module)));
    }
  }
  if (findings.size() == 1) {
    findings.push_back(ok("modules", "ib_uverbs and rdma_ucm are loaded"));
  }
  return findings;
}

Findings check_device_files() {
  Findings findings;
  std::vector<std::string> verbs_files = entries("/dev/infiniband", "uverbs");
  if (verbs_files.empty()) verbs_files = {"uverbs0"};
  for (const std::string& name : verbs_files) {
    findings.push_back(check_file("/dev/infiniband/" + name,
                                  "as root: modprobe ib_uverbs; in a container: --device "
                                  "/dev/infiniband"));
  }
  findings.push_back(check_file("/dev/infiniband/rdma_cm",
                                "as root: modprobe rdma_ucm; in a container: --device "
                                "/dev/infiniband"));
  return findings;
}

Findings check_memlock(const config::Settings& settings) {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return {};
  const std::uint64_t least = least_registered_bytes(settings);
  const std::uint64_t most = most_registered_bytes(settings);
  const std::string need = fmt::format("a process starts with {} and may grow to {}",
                                       bytes_text(least), bytes_text(most));
  if (verbs::may_lock_anything()) {
    return {ok("memlock", "this user may lock any amount of memory (CAP_IPC_LOCK); " + need)};
  }
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= most) {
    return {ok("memlock",
               fmt::format("the locked-memory limit is {}; {}", limit_text(limit.rlim_cur), need))};
  }
  const std::string text =
      fmt::format("the locked-memory limit is {} (hard: {}), and {}", limit_text(limit.rlim_cur),
                  limit_text(limit.rlim_max), need);
  const std::string for_ever =
      "put '* - memlock unlimited' into /etc/security/limits.d/rdma.conf and log in again; for "
      "jobs started by a service: LimitMEMLOCK=infinity in its systemd unit";
  const std::string fix =
      limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= most
          ? "ulimit -l " +
                (limit.rlim_max == RLIM_INFINITY ? std::string("unlimited")
                                                 : std::to_string(limit.rlim_max / 1024)) +
                "; for ever: " + for_ever
          : "ulimit -l unlimited needs a higher hard limit: " + for_ever;
  return {limit.rlim_cur < least ? fail("memlock", text, fix) : warn("memlock", text, fix)};
}

Findings check_process() {
  Findings findings;
  rlimit files{};
  // The device, the connection manager, an event queue each, and Open MPI's own: sockets and shared
  // memory, a few for each process of the node.
  constexpr rlim_t wanted_files = 1024;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    const std::string text = fmt::format("a process may open {} files", files.rlim_cur);
    findings.push_back(files.rlim_cur >= wanted_files
                           ? ok("open files", text)
                           : warn("open files",
                                  text + fmt::format(", and Open MPI needs up to {}", wanted_files),
                                  fmt::format("ulimit -n {}", wanted_files)));
  }

  struct statvfs shm {};
  constexpr std::uint64_t wanted_shm = std::uint64_t{64} << 20;
  if (statvfs("/dev/shm", &shm) != 0 || access("/dev/shm", W_OK) != 0) {
    findings.push_back(warn("shared memory", "/dev/shm does not exist or is not writable",
                            "as root: mount -t tmpfs -o mode=1777 tmpfs /dev/shm"));
  } else {
    const std::uint64_t free_bytes = std::uint64_t{shm.f_bavail} * shm.f_frsize;
    const std::string text = fmt::format("/dev/shm has {} free", bytes_text(free_bytes));
    findings.push_back(free_bytes >= wanted_shm
                           ? ok("shared memory", text)
                           : warn("shared memory",
                                  text + fmt::format(", and Open MPI's processes on a node want {}",
                                                     bytes_text(wanted_shm)),
                                  "as root: mount -o remount,size=1G /dev/shm; in a container: "
                                  "--shm-size=1g"));
  }
  return findings;
}

Findings check_fork() {
  static_cast<void>(verbs::survive_forks());  // as a job does; the status has the result
  switch (ibv_is_fork_initialized()) {
    case IBV_FORK_UNNEEDED:
      return {ok("fork", "the kernel keeps registered memory safe across fork()")};
    case IBV_FORK_ENABLED:
      return {
          ok("fork",
             "libibverbs keeps registered memory safe across fork(): a child lacks these pages")};
    case IBV_FORK_DISABLED: break;
  }
  return {warn("fork", "a program that calls fork() or system() may corrupt registered memory",
               "export RDMAV_FORK_SAFE=1 for such programs, or use a kernel from 5.12 on")};
}

Findings check_overlap(const config::Settings& settings) {
  constexpr const char* name = "overlap";
  if (settings.overlap == "off") {
    return {ok(name, "overlap is off: large messages wait while their receiver computes")};
  }
  const bool is_on = settings.overlap != "auto";
#ifndef __x86_64__
  const std::string refused =
      "large messages wait while their receiver computes: Open MPI lacks "
      "barriers that this kind of processor needs, up to 5.0.10";
  return {is_on ? warn(name, refused, "WEIR_OVERLAP=off") : ok(name, refused)};
#else
  std::string why;
  const verbs::BorrowedCpus borrowed(settings.overlap_cpus, why);
  if (!why.empty()) {
    return {warn(name, "overlap_cpus: " + why + "; its threads stay on the CPUs of their process",
                 "set WEIR_OVERLAP_CPUS to auto, or to a list of CPUs that this process may use")};
  }
  const std::size_t count = verbs::own_cpus().size();
  if (count == 1 && is_on) {
    return {warn(
        name,
        "overlap is on, but its threads may use one CPU only, and would take it from the "
        "computation",
        "set WEIR_OVERLAP_CPUS=any, or give each rank one CPU more: mpirun --map-by slot:PE=2")};
  }
  const std::string where =
      count == 0 ? "" : fmt::format(", on {} CPU{}", count, count == 1 ? "" : "s");
  return {ok(name, is_on ? "large messages move while a program computes" + where
                         : "large messages move while a program computes, if it asks for "
                           "MPI_THREAD_FUNNELED or more (Open MPI 5: MPI_THREAD_MULTIPLE) and the "
                           "ranks have a CPU each" +
                               where + "; overlap on is for all programs")};
#endif
}

}  // namespace weir::tools::doctor
