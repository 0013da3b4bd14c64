#include "flowctl/shm/segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "base/fnv.h"
#include "flowctl/shared/gate.h"
#include "flowctl/shm/process.h"

namespace weir {
namespace {

constexpr std::uint64_t magic = 0x6e656b6f74726977;  // "wirtoken"
constexpr std::uint32_t version = 9;
constexpr std::uint32_t first_with_lock = 4;
constexpr std::uint32_t most_cell_bytes = 1u << 20;
constexpr std::size_t most_bytes =
    cells_at + std::size_t{most_cell_bytes} * proxy_depth * NodeState::most_processes;
constexpr int attempts = 5'000;  // a millisecond each, while somebody removes the segment

static_assert(std::is_standard_layout_v<NodeState>);
static_assert(offsetof(SegmentHeader, gate) % 8 == 0);
static_assert(sizeof(PoolSlot<SharedWord>) == 64 && sizeof(Descriptor<SharedWord>) == 64);

std::uint64_t hash_of(const void* data, std::size_t bytes) {
  return fnv(std::span(static_cast<const unsigned char*>(data), bytes));
}

std::uint64_t checksum(const SegmentHeader& header) {
  constexpr std::size_t from = offsetof(SegmentHeader, namespaces);
  return hash_of(reinterpret_cast<const char*>(&header) + from,
                 offsetof(SegmentHeader, gate) - from);
}

std::string error_text(const std::string& what, int error) {
  return what + ": " + std::strerror(error);
}

// A file descriptor that is closed with its owner.
struct Fd {
  int fd = -1;
  ~Fd() { reset(-1); }
  void reset(int other) {
    if (fd >= 0) ::close(fd);
    fd = other;
  }
};
struct Unmap {
  std::size_t bytes;
  void operator()(NodeState* state) const { ::munmap(static_cast<void*>(state), bytes); }
};
using Mapping = std::unique_ptr<NodeState, Unmap>;

Mapping map(int fd, std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return {at == MAP_FAILED ? nullptr : static_cast<NodeState*>(at), Unmap{bytes}};
}

// Allocates that part of the file now: later, a page that cannot be had would be a SIGBUS. Returns
// an errno. By pieces, because a signal undoes the call that it interrupts.
int allocate(int fd, std::size_t from, std::size_t bytes) {
  constexpr std::size_t piece = 256 << 10;
  const std::size_t end = from + bytes;
  while (from < end) {
    const std::size_t size = std::min(piece, end - from);
    const int error = ::posix_fallocate(fd, static_cast<off_t>(from), static_cast<off_t>(size));
    if (error == EINTR) continue;
    if (error != 0) return error;
    from += size;
  }
  return 0;
}

std::string no_room(std::size_t bytes, const std::string& directory, int error) {
  return error_text("no room for " + std::to_string(bytes) + " bytes in " + directory, error);
}

// The header that the segment has, or must have.
bool make_header(const SegmentOptions& options, SegmentHeader& header, std::string& reason) {
  std::memset(static_cast<void*>(&header), 0, sizeof header);
  const std::string key =
      options.device + "/" + std::to_string(options.port) + " " + options.sharers;
  if (key.size() >= sizeof header.key) {
    reason = "the key '" + key + "' is too long";
    return false;
  }
  if (options.tasks > NodeState::most_processes || options.cell_bytes % 8 != 0 ||
      options.cell_bytes > most_cell_bytes) {
    reason = std::to_string(options.tasks) + " tasks with cells of " +
             std::to_string(options.cell_bytes) + " bytes are not possible";
    return false;
  }
  if (options.tokens == 0 || options.tokens > TokenPool<SharedWord>::most_tokens ||
      options.servers > NodeState::most_servers) {
    reason = std::to_string(options.tokens) + " tokens or " + std::to_string(options.servers) +
             " servers are not possible";
    return false;
  }
  header.magic = magic;
  header.version = version;
  header.layout_bytes = sizeof(NodeState);
  header.namespaces = process_namespaces();
  header.tokens = options.tokens;
  header.servers = options.servers;
  header.cell_bytes = options.cell_bytes;
  header.tasks = options.tasks;
  std::memcpy(header.key, key.data(), key.size());
  header.checksum = checksum(header);
  return true;
}

// Null: see `reason`; if that is empty, there is no file, or it is being unlinked. `file` holds the
// lock.
Mapping open_existing(const std::string& path, Fd& file, std::string& reason) {
  reason.clear();
  file.reset(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) {
    if (errno != ENOENT) reason = error_text(path, errno);
    return nullptr;
  }
  struct stat found {};
  if (::fstat(file.fd, &found) != 0) {
    reason = error_text(path, errno);
  } else if (!S_ISREG(found.st_mode)) {
    reason = path + " is no regular file";
  } else if (found.st_uid != ::geteuid()) {
    reason = path + " belongs to another user (" + std::to_string(found.st_uid) + ")";
  } else if ((found.st_mode & 077) != 0) {
    reason = path + " is open to other users";
  } else if (found.st_size < static_cast<off_t>(sizeof(NodeState)) ||
             found.st_size > static_cast<off_t>(most_bytes)) {
    reason = path + " has " + std::to_string(found.st_size) + " bytes instead of " +
             std::to_string(sizeof(NodeState)) + "; remove it if no job uses it";
  }
  if (!reason.empty()) return nullptr;
  if (::flock(file.fd, LOCK_SH | LOCK_NB) != 0 || ::fstat(file.fd, &found) != 0 ||
      found.st_nlink == 0) {
    return nullptr;
  }
  Mapping state = map(file.fd, static_cast<std::size_t>(found.st_size));
  if (state == nullptr) {
    reason = error_text(path, errno);
    return nullptr;
  }
  if (!is_whole(state->header) ||
      found.st_size != static_cast<off_t>(segment_bytes(state->header))) {
    reason = path + " is damaged or not weir's; remove it if no job uses it";
    return nullptr;
  }
  return state;
}

// False: see `reason`; if that is empty, another process was quicker.
bool create(const SegmentOptions& options, const SegmentHeader& header, const std::string& path,
            std::string& reason) {
  reason.clear();
  const Fd file{::open(options.directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  if (file.fd < 0) {
    reason = error_text("cannot make a file in " + options.directory, errno);
    return false;
  }
  const std::size_t bytes = segment_bytes(header);
  rlimit longest{};  // a longer file would raise SIGXFSZ
  int error = ::getrlimit(RLIMIT_FSIZE, &longest) == 0 && longest.rlim_cur < bytes ? EFBIG : 0;
  if (error == 0 && ::ftruncate(file.fd, static_cast<off_t>(bytes)) != 0) error = errno;
  if (error == 0) error = allocate(file.fd, 0, cells_at);  // cells: by those who join
  if (error != 0) {
    reason = no_room(bytes, options.directory, error);
    return false;
  }
  ::fchmod(file.fd, 0600);
  const Mapping state = map(file.fd, bytes);
  if (state == nullptr) {
    reason = error_text("cannot map a file of " + options.directory, errno);
    return false;
  }
  // The rest is valid as zeros.
  std::memcpy(static_cast<void*>(&state->header), &header, offsetof(SegmentHeader, gate));
  char self[32];
  std::snprintf(self, sizeof self, "/proc/self/fd/%d", file.fd);
  if (::linkat(AT_FDCWD, self, AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (errno != EEXIST) reason = error_text(path, errno);
    return false;
  }
  return true;
}

void wait_a_little() {
  const timespec pause{0, 1'000'000};
  ::nanosleep(&pause, nullptr);
}

bool anybody_lives_in(NodeState& state) {
  return weir::anybody_lives_in<SharedWord>(state.slots, process_alive);
}

// Removes the segment if nobody lives in it. `file` is its own.
bool remove_if_empty(NodeState& state, int file, const std::string& path, ProcessId self) {
  return weir::remove_if_empty<SharedWord>(
      state.header.gate, state.slots, self, process_alive,
      [file] {
        struct stat about {};
        return ::fstat(file, &about) == 0 && about.st_nlink != 0;
      },
      [&path] { return ::unlink(path.c_str()) == 0 || errno == ENOENT; });
}

// The same for a segment of another build of weir.
bool remove_if_foreign_and_empty(const std::string& path) {
  struct Beginning {
    std::uint64_t magic;
    std::uint32_t version, layout_bytes;
  } found{};
  static_assert(offsetof(SegmentHeader, version) == offsetof(Beginning, version));
  const Fd file{::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
  struct stat about {};
  if (file.fd < 0 || ::fstat(file.fd, &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_uid != ::geteuid() || (about.st_mode & 077) != 0 ||
      ::pread(file.fd, &found, sizeof found, 0) != sizeof found) {
    return false;
  }
  const bool ours = found.version == version && found.layout_bytes == sizeof(NodeState);
  return found.magic == magic && found.version >= first_with_lock && !ours &&
         ::flock(file.fd, LOCK_EX | LOCK_NB) == 0 && ::unlink(path.c_str()) == 0;
}

}  // namespace

std::uint64_t layout_hash() {
  std::string names;
  for (const auto& counter : counter_table) names.append(counter.name).append(" ");
  for (const char* cap : cap_names) names.append(cap).append(" ");
  return hash_of(names.c_str(), names.size() + 1) ^ sizeof(NodeState);
}

std::size_t segment_bytes(const SegmentHeader& header) {
  return cells_at + std::size_t{header.cell_bytes} * proxy_depth * header.tasks;
}

bool is_whole(const SegmentHeader& header) {
  return header.magic == magic && header.version == version &&
         header.layout_bytes == sizeof(NodeState) && header.checksum == checksum(header) &&
         header.tasks <= NodeState::most_processes && header.cell_bytes <= most_cell_bytes;
}

Segment::Segment(NodeState* state, int file, std::string path, ProcessId self)
    : state_(state),
      file_(file),
      path_(std::move(path)),
      self_(self),
      pool_(state->pool, state->slots, state->header.tokens),
      reads_(state->reads, state->read_slots, TokenPool<SharedWord>::most_tokens) {}

std::unique_ptr<Segment> Segment::open(const SegmentOptions& options, std::string& reason) {
  SegmentHeader wanted;
  if (!make_header(options, wanted, reason)) return nullptr;
  const auto self = this_process();
  if (!self || wanted.namespaces == 0) {
    reason = "/proc does not show this process, so others could not tell whether it lives";
    return nullptr;
  }
  // Other namespaces and keys have other segments. What is the same for all of a key is not hashed.
  char hash[17];
  std::snprintf(
      hash, sizeof hash, "%016llx",
      static_cast<unsigned long long>(hash_of(wanted.key, sizeof wanted.key) ^ layout_hash() ^
                                      wanted.namespaces * 0x9e3779b97f4a7c15ull));
  const std::string path = options.directory + "/weir-" + std::to_string(version) + "-" +
                           std::to_string(::geteuid()) + "-" + hash;
  // Segments that killed jobs have left may take the room.
  auto makes_room = [&, tidied = false]() mutable {
    return !std::exchange(tidied, true) && remove_stale_segments(options.directory) > 0;
  };

  for (int attempt = 0; attempt < attempts; ++attempt) {
    Fd file;
    Mapping state = open_existing(path, file, reason);
    if (state == nullptr) {
      if (!reason.empty()) return nullptr;
      if (create(options, wanted, path, reason)) continue;
      if (reason.empty()) {
        wait_a_little();
      } else if (!makes_room()) {
        return nullptr;
      }
      continue;
    }
    const SegmentHeader& header = state->header;
    if (std::memcmp(header.key, wanted.key, sizeof wanted.key) != 0 ||
        header.namespaces != wanted.namespaces) {
      reason = path + " belongs to '" + std::string(header.key, strnlen(header.key, 160)) + "'";
      return nullptr;
    }
    if (header.checksum != wanted.checksum) {
      if (remove_if_empty(*state, file.fd, path, *self)) continue;
      if (anybody_lives_in(*state)) {
        reason = path + " is in use with " + std::to_string(header.tokens) + " tokens and " +
                 std::to_string(header.servers) + " servers instead of " +
                 std::to_string(wanted.tokens) + " and " + std::to_string(wanted.servers) +
                 (header.cell_bytes != wanted.cell_bytes || header.tasks != wanted.tasks
                      ? ", or with other cells"
                      : "");
        return nullptr;
      }
    } else {
      std::unique_ptr<Segment> segment(new Segment(state.get(), file.fd, path, *self));
      state.release();
      file.fd = -1;
      if (!segment->pool_.join(*self, process_alive) ||
          !segment->reads_.join(*self, process_alive)) {
        reason = path + ": all " + std::to_string(NodeState::most_processes) + " slots are taken";
        return nullptr;
      }
      if (const int error = segment->allocate_cells(); error != 0) {
        reason = no_room(segment->task_bytes(), options.directory, error);
        if (!makes_room()) return nullptr;
        continue;
      }
      segment->board().shown_at.store(0);
      const std::uint64_t gate = look_at(segment->state_->header.gate);
      if (lease::free(gate)) return segment;
      // A process removes it, or died doing so: then our leaving finishes the removal.
    }
    wait_a_little();
  }
  reason = path + " is being removed by a process that makes no progress";
  return nullptr;
}

Segment::~Segment() {
  // After a fork the slot is still the parent's.
  if (static_cast<std::uint32_t>(::getpid()) == self_.pid) {
    reads_.leave();
    pool_.leave();
    remove_if_empty(*state_, file_, path_, self_);
  }
  Unmap{segment_bytes(state_->header)}(state_);
  ::close(file_);
}

ProxyGround Segment::proxy() {
  NodeState& state = *state_;
  return {.tokens = {state.servers, std::min(state.header.servers, NodeState::most_servers)},
          .slots = state.slots,
          .queues = state.queues,
          .cells = cells().data(),
          .cell_bytes = state.header.cell_bytes,
          .tasks = state.header.tasks};
}

std::size_t Segment::task_bytes() const {
  return std::size_t{state_->header.cell_bytes} * proxy_depth;
}

int Segment::allocate_cells() {
  return has_cells() ? allocate(file_, cells_at + slot() * task_bytes(), task_bytes()) : 0;
}

std::span<std::byte> Segment::cells() {
  return {reinterpret_cast<std::byte*>(state_) + cells_at,
          segment_bytes(state_->header) - cells_at};
}

void Segment::reap() {
  pool_.reap(process_alive);
  reads_.reap(process_alive);
}

std::uint32_t remove_stale_segments(const std::string& directory) {
  const auto self = this_process();
  DIR* entries = self ? ::opendir(directory.c_str()) : nullptr;
  if (entries == nullptr) return 0;
  std::uint32_t removed = 0;
  while (const dirent* entry = ::readdir(entries)) {
    if (std::strncmp(entry->d_name, "weir-", 5) != 0) continue;
    const std::string path = directory + "/" + entry->d_name;
    std::string reason;
    Fd file;
    if (const Mapping state = open_existing(path, file, reason); state == nullptr) {
      file.reset(-1);  // gives the lock up, too
      removed += remove_if_foreign_and_empty(path) ? 1 : 0;
    } else if (state->header.namespaces == process_namespaces()) {
      removed += remove_if_empty(*state, file.fd, path, *self) ? 1 : 0;
    }
  }
  ::closedir(entries);
  return removed;
}

}  // namespace weir
