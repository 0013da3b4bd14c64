#include "flowctl/shm/view.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "flowctl/shm/process.h"

namespace weir {

void SegmentView::Unmap::operator()(const NodeState* state) const {
  ::munmap(const_cast<NodeState*>(state), sizeof *state);  // the cells are not mapped
}

SegmentView::SegmentView(Mapping state, std::string path, std::uint32_t user)
    : state_(std::move(state)), path_(std::move(path)), user_(user) {}

std::vector<SegmentView> SegmentView::find(const std::string& directory, bool proxies) {
  std::vector<SegmentView> found;
  DIR* entries = ::opendir(directory.c_str());
  if (entries == nullptr) return found;
  const std::uint64_t own_namespace = pid_namespace();
  while (const dirent* entry = ::readdir(entries)) {
    if (std::strncmp(entry->d_name, "weir-", 5) != 0) continue;
    const std::string path = directory + "/" + entry->d_name;
    const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) continue;
    struct stat about {};
    const bool right = ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
                       about.st_size >= static_cast<off_t>(sizeof(NodeState)) &&
                       (::geteuid() == 0 || about.st_uid == ::geteuid());
    void* const at =
        right ? ::mmap(nullptr, sizeof(NodeState), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    ::close(fd);
    if (at == MAP_FAILED) continue;
    Mapping state(static_cast<const NodeState*>(at));
    if (!is_whole(state->header) || state->header.pid_namespace != own_namespace) continue;
    // A segment with cells is a job's proxy: its processes show themselves elsewhere.
    if ((state->header.tasks > 0) != proxies) continue;
    found.push_back(SegmentView(std::move(state), path, about.st_uid));
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
  // The key: "device/port sharers".
  const SegmentHeader& header = state_->header;
  const std::string key(header.key, ::strnlen(header.key, sizeof header.key));
  const std::size_t slash = key.find('/');
  const std::size_t space = key.find(' ', slash);
  if (slash != key.npos && space != key.npos) {
    node.device = key.substr(0, slash);
    node.port = static_cast<std::uint32_t>(std::strtoul(&key[slash + 1], nullptr, 10));
    node.sharers = key.substr(space + 1);
  }
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
                      .job = board.job.load(),
                      .rank = board.rank.load(),
                      .active = slot.active.load(),
                      .waiting_since = board.waiting_since.load(),
                      .shown_at = board.shown_at.load(),
                      .server = {},
                      .counters = {}};
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
    board.read(member.counters);
    if (slot.lease.load() == lease) node.members.push_back(member);
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

std::uint32_t processes_of(std::uint64_t job, const std::string& directory) {
  std::uint32_t count = 0;
  for (const SegmentView& segment : SegmentView::all(directory)) {
    for (const MemberView& member : segment.look().members) count += member.job == job;
  }
  return count;
}

}  // namespace weir
