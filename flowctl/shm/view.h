// A look at segments from outside: takes no slot in them, and writes no word but an order for other
// caps. For `weir top` and `weir set`, also root's, so a segment may be anybody's: it is copied,
// because a mapped file that is cut is a SIGBUS, and its texts are names that do no harm on a
// terminal, in a path or in a label.
//
// Any thread; system calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/caps.h"
#include "flowctl/shared/lease.h"
#include "flowctl/shm/segment.h"

namespace weir {

// One process of a segment, at the time of the look.
struct MemberView {
  ProcessId process;
  std::uint32_t slot = 0;
  std::uint64_t lease = 0;
  std::uint64_t job = 0;
  std::uint64_t rank = 0;
  std::uint64_t tokens_held = 0;
  std::uint64_t tokens_waited_for = 0;
  std::uint64_t read_tokens = 0;    // of the read budget, held or waited for
  std::uint64_t active = 0;         // requests in the adapter, if they are counted
  std::uint64_t waiting_since = 0;  // CLOCK_MONOTONIC, ns; 0: not waiting
  std::uint64_t shown_at = 0;       // of the counters, likewise
  bool in_proxy = false;            // if so, the next three fields are valid
  ProcessId server;                 // which process serves its group now; pid 0: none
  std::uint64_t proxy_waiting = 0;  // its frames that no server has taken yet
  std::uint64_t proxy_taken = 0;    // frames a server has, or whose outcome it has not seen
  bool takes_tokens = false;        // of the node
  Caps caps{};                      // in effect; any numbers
  std::uint64_t order_seen = 0;     // mark of the last CapsOrder that it obeyed; ~mark: refused
  Counters counters;
  ReadTimes read_times;
  std::vector<PeerRow> peers;  // some of them, those that something waits for first
};

struct NodeView {
  std::string path;
  std::string device;
  std::uint32_t port = 0;
  std::string sharers;  // empty: all jobs of the user
  std::uint32_t user = 0;
  std::vector<MemberView> members;  // the living ones
};

class SegmentView {
 public:
  // Each is copied whole, so no more than these are looked at; `left_out` counts the others.
  static constexpr std::size_t most_of_a_user = 64;
  static constexpr std::size_t most = 256;

  // The intact segments in `directory` and these namespaces, of this user, or for root of all
  // users. `all` leaves out the segments of proxies; `proxies` returns only these.
  static std::vector<SegmentView> all(const std::string& directory = "/dev/shm",
                                      std::size_t* left_out = nullptr) {
    return find(directory, false, left_out);
  }
  static std::vector<SegmentView> proxies(const std::string& directory = "/dev/shm",
                                          std::size_t* left_out = nullptr) {
    return find(directory, true, left_out);
  }

  SegmentView(SegmentView&&) = default;
  SegmentView& operator=(SegmentView&&) = default;
  // What it was when it was found.
  NodeView look() const;
  // For a proxy's segment: adds what it knows about the members of `node` that take part.
  void add_to(NodeView& node) const;
  const std::string& path() const { return path_; }

 private:
  using Copy = std::unique_ptr<const NodeState>;
  static std::vector<SegmentView> find(const std::string& directory, bool proxies,
                                       std::size_t* left_out);
  static Copy copy_of(const std::string& path, std::uint32_t& user);
  SegmentView(Copy state, std::string path, std::uint32_t user);

  Copy state_;
  std::string path_;
  std::uint32_t user_;
};

// Asks a process for other caps; its segment is at `path`. Returns the order's mark. If that cannot
// be, nothing, with the reason in `why`: the segment is another user's or gone, say.
std::optional<std::uint64_t> order_caps(const std::string& path, const MemberView& member,
                                        const Caps& caps, std::string& why);

// How many living processes of the job share a segment here, for any port; those that only show
// themselves do not count.
std::uint32_t processes_of(std::uint64_t job, const std::string& directory);

}  // namespace weir
