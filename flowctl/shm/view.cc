#include "flowctl/shm/view.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "flowctl/shm/process.h"

namespace weir {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), is_plain);
}

// "device/port sharers", as Segment writes it.
struct Key {
  std::string device;
  std::uint32_t port = 0;
  std::string sharers;
};

// Nothing if the text has another form.
std::optional<Key> key_of(const SegmentHeader& header) {
  const std::string text(header.key, ::strnlen(header.key, sizeof header.key));
  const std::size_t slash = text.find('/');
  const std::size_t space = text.find(' ', slash);
  if (slash == text.npos || space == text.npos) return std::nullopt;
  Key key{.device = text.substr(0, slash), .sharers = text.substr(space + 1)};
  const std::string port = text.substr(slash + 1, space - slash - 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), key.port);
  if (error != std::errc{} || end != port.data() + port.size() || key.port > 255)
    return std::nullopt;
  if (!is_plain_name(key.device)) return std::nullopt;
  if (!std::all_of(key.sharers.begin(), key.sharers.end(),
                   [](char c) { return is_plain(c) || c == ' '; })) {
    return std::nullopt;
  }
  return key;
}

// The user's own, or root.
bool may_see(const struct stat& about) { return ::geteuid() == 0 || about.st_uid == ::geteuid(); }

}  // namespace

SegmentView::SegmentView(Copy state, std::string path, std::uint32_t user)
    : state_(std::move(state)), path_(std::move(path)), user_(user) {}

// nullptr if it is not a segment that this user may see.
SegmentView::Copy SegmentView::copy_of(const std::string& path, std::uint32_t& user) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return nullptr;
  struct stat about {};
  std::unique_ptr<NodeState> copy;
  if (::fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
      about.st_size >= static_cast<off_t>(sizeof *copy) && may_see(about)) {
    copy = std::make_unique_for_overwrite<NodeState>();
    const ssize_t got = ::pread(fd, static_cast<void*>(copy.get()), sizeof *copy, 0);
    if (got != static_cast<ssize_t>(sizeof *copy)) copy.reset();
  }
  ::close(fd);
  user = about.st_uid;
  return copy;
}

std::vector<SegmentView> SegmentView::find(const std::string& directory, bool proxies,
                                           std::size_t* left_out) {
  std::vector<SegmentView> found;
  std::map<std::uint32_t, std::size_t> of_user;
  DIR* entries = ::opendir(directory.c_str());
  if (entries == nullptr) return found;
  const std::uint64_t own_namespaces = process_namespaces();
  while (const dirent* entry = ::readdir(entries)) {
    if (std::strncmp(entry->d_name, "weir-", 5) != 0 || !is_plain_name(entry->d_name)) continue;
    const std::string path = directory + "/" + entry->d_name;
    std::uint32_t user = 0;
    Copy state = copy_of(path, user);
    // Whoever makes many is not to hide those of others.
    if (state != nullptr && (found.size() >= most || of_user[user] >= most_of_a_user)) {
      if (left_out != nullptr) ++*left_out;
      continue;
    }
    if (state == nullptr || !is_whole(state->header) || !key_of(state->header)) continue;
    if (state->header.namespaces != own_namespaces) continue;
    // A segment with cells is a job's proxy: its processes show themselves elsewhere.
    if ((state->header.tasks > 0) != proxies) continue;
    found.push_back(SegmentView(std::move(state), path, user));
    ++of_user[user];
  }
  ::closedir(entries);
  std::sort(found.begin(), found.end(),
            [](const SegmentView& a, const SegmentView& b) { return a.path_ < b.path_; });
  return found;
}

NodeView SegmentView::look() const {
  NodeView node;
  node.path = path_;
  node.user = user_;
  Key key = key_of(state_->header).value();  // `find` has looked
  node.device = std::move(key.device);
  node.port = key.port;
  node.sharers = std::move(key.sharers);
  using Pool = TokenPool<SharedWord>;
  std::uint64_t back = 0;
  for (const auto& slot : state_->slots) back += slot.returned.load();
  for (std::uint32_t i = 0; i < NodeState::most_processes; ++i) {
    const PoolSlot<SharedWord>& slot = state_->slots[i];
    const Board& board = state_->boards[i];
    const std::uint64_t lease = slot.lease.load();
    if (lease::free(lease) || lease::expired(lease, process_alive)) continue;
    if (board.shown_at.load() == 0) continue;  // the process has just come
    MemberView member{.process = lease::process(lease),
                      .slot = i,
                      .lease = lease,
                      .job = board.job.load(),
                      .rank = board.rank.load(),
                      .active = slot.active.load(),
                      .waiting_since = board.waiting_since.load(),
                      .shown_at = board.shown_at.load(),
                      .server = {},
                      .takes_tokens = board.tokens.load() > 0,
                      .order_seen = board.order_seen.load(),
                      .counters = {},
                      .read_times = {},
                      .peers = {}};
    const std::uint64_t asked = Pool::asked(slot);
    member.tokens_waited_for = Pool::waited_for(slot, back, board.tokens.load());
    member.tokens_held = asked - std::min(asked, member.tokens_waited_for);
    for (const auto& reads : state_->read_slots) {
      const std::uint64_t owner = reads.lease.load();
      if (!lease::free(owner) && !lease::is_left(owner) &&
          lease::process(owner) == member.process) {
        member.read_tokens = Pool::asked(reads);
      }
    }
    board.read(member.caps);
    board.read(member.counters);
    board.read(member.read_times);
    board.read(member.peers);
    node.members.push_back(std::move(member));
  }
  std::sort(node.members.begin(), node.members.end(), [](const auto& a, const auto& b) {
    return a.job != b.job ? a.job < b.job : a.rank < b.rank;
  });
  return node;
}

void SegmentView::add_to(NodeView& node) const {
  const std::uint32_t servers = std::min(state_->header.servers, NodeState::most_servers);
  for (std::uint32_t i = 0; i < state_->header.tasks && servers > 0; ++i) {
    const std::uint64_t lease = state_->slots[i].lease.load();
    if (lease::free(lease) || lease::is_left(lease)) continue;
    for (MemberView& member : node.members) {
      if (member.process != lease::process(lease)) continue;
      const QueueHead<SharedWord>& queue = state_->queues[i].head;
      const std::uint64_t retired = queue.retired.load();
      const std::uint64_t taken = queue.taken.load();
      const std::uint64_t submitted = queue.submitted.load();
      member.in_proxy = true;
      member.server = lease::process(state_->servers[server_group(i, servers)].load());
      member.proxy_waiting = std::min<std::uint64_t>(submitted - taken, proxy_depth);
      member.proxy_taken = std::min<std::uint64_t>(taken - retired, proxy_depth);
    }
  }
}

// By a system call: a mapped file that is cut is a SIGBUS.
std::optional<std::uint64_t> order_caps(const std::string& path, const MemberView& member,
                                        const Caps& caps, std::string& why) {
  CapsOrder order{.lease = member.lease, .caps = caps};
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  order.number = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                 static_cast<std::uint64_t>(now.tv_nsec);
  order.seal();
  const auto board = static_cast<off_t>(offsetof(NodeState, boards) + member.slot * sizeof(Board));
  const int fd = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    why = path + ": " + std::strerror(errno);
    return std::nullopt;
  }
  struct stat about {};
  SegmentHeader header;
  const bool is_segment =
      ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && may_see(about) &&
      about.st_size >= static_cast<off_t>(sizeof(NodeState)) &&
      ::pread(fd, static_cast<void*>(&header), sizeof header, 0) == sizeof header &&
      is_whole(header);
  const auto words = order.words();
  if (!is_segment) {
    why = path + " is no whole segment of this user any more";
  } else if (::pwrite(fd, words.data(), sizeof words,
                      board + static_cast<off_t>(offsetof(Board, order))) != sizeof words) {
    why = path + ": " + std::strerror(errno);
  }
  ::close(fd);
  return why.empty() ? std::optional(order.mark) : std::nullopt;
}

std::uint32_t processes_of(std::uint64_t job, const std::string& directory) {
  std::uint32_t count = 0;
  for (const SegmentView& segment : SegmentView::all(directory)) {
    const NodeView node = segment.look();
    if (node.sharers == SegmentOptions::nothing_shared) continue;
    for (const MemberView& member : node.members) count += member.job == job;
  }
  return count;
}

}  // namespace weir
