// What the strict library knows of the objects of a program (rules.cc), and how it says that a rule
// is broken (history.cc).
//
// Thread rule: all of this under `lock`.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/adapter/strict/rules.h"

namespace strict {

// Recursive: what we allocate may have UCX's hooks deregister memory.
extern std::recursive_mutex lock;
extern int process;  // grows in each child

enum class Rule : std::uint8_t {
#define STRICT_NAME(name, ...) name,
  STRICT_RULES(STRICT_NAME)
#undef STRICT_NAME
};

// The last calls with an object. What a call was is put into words when somebody asks.
class History {
 public:
  // `format` lives for ever, and takes three values of 64 bits.
  void note(const char* format, std::uint64_t a = 0, std::uint64_t b = 0, std::uint64_t c = 0);
  void print() const;

 private:
  static constexpr unsigned kept = 16;
  struct Call {
    const char* format;
    std::uint64_t values[3];
    std::int64_t when_ns;
    int thread;
  };
  Call calls_[kept]{};
  std::uint64_t count_ = 0;
};

struct Object {
  const char* kind = "";
  const void* handle = nullptr;
  bool alive = true;
  int made_in = process;
  int users = 0;           // objects that were made of it
  int unacknowledged = 0;  // events
  History history;
};

// Says what is wrong and what was done with the object, and ends the process; unless the rule is
// off.
void breach(Rule rule, const Object& object, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
#define EXPECT(good, ...) (__builtin_expect(!!(good), 1) ? (void)0 : breach(__VA_ARGS__))

// Memory that is to stay as it is gets a checksum: STRICT=slow.
bool is_slow();

struct Region;
struct Pair;

// An adapter, by its name: contexts of it share keys and numbers.
struct Adapter {
  std::unordered_map<std::uint32_t, Region*> by_lkey, by_rkey;
  std::unordered_map<std::uint32_t, Pair*> by_number;
};

struct Device : Object {
  Adapter* adapter = nullptr;
  ibv_context* context = nullptr;
  ibv_context_ops ops{};  // of whatever is below us
  ibv_device_attr limits{};
  std::uint32_t longest_message = 0;
};

struct Domain : Object {
  Device* device = nullptr;
  Domain* parent_of = nullptr;  // whose memory and queues it shares
};

// A protection domain within a thread domain. [ibv_alloc_parent_domain(3)]
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* parts);

struct Region : Object {
  Domain* domain = nullptr;
  std::uint64_t begin = 0, bytes = 0;
  unsigned access = 0;
  std::uint32_t lkey = 0, rkey = 0;
  long posted = 0;  // pieces of work

  bool holds(std::uint64_t from, std::uint64_t length) const {
    return from >= begin && length <= bytes && from - begin <= bytes - length;
  }
};

struct Channel : Object {
  Device* device = nullptr;
};

struct Work {
  std::uint64_t id = 0;
  bool signalled = false;
  std::vector<ibv_sge> pieces;  // none if inline
  bool is_read = false;         // by the adapter, so it is not to change
  std::uint64_t checksum = 0;
};

struct Receives {
  Domain* domain = nullptr;
  std::uint32_t most = 0, pieces = 0;
  std::unordered_multimap<std::uint64_t, Work> posted;
};

struct Queue;
struct SharedReceives : Object, Receives {
  Domain* parent = nullptr;  // by which it was made, if it was by one
  std::set<Queue*> queues;   // where they complete
};

struct Queue : Object {
  Device* device = nullptr;
  Channel* channel = nullptr;
  std::size_t entries = 0;
  std::size_t sends = 0;               // of all queue pairs
  std::set<const Receives*> receives;  // that complete here
  const Pair* lost = nullptr;          // destroyed, and not all that it had was polled
};

struct Pair : Object {
  Domain *domain = nullptr, *parent = nullptr;
  Queue *send_queue = nullptr, *receive_queue = nullptr;
  SharedReceives* shared = nullptr;
  Receives own;
  std::uint32_t number = 0;
  ibv_qp_cap cap{};  // the lesser of what was asked for and what was given
  bool all_signalled = false;
  ibv_qp_state state = IBV_QPS_RESET;
  std::uint8_t port = 0;
  unsigned access = 0;
  std::uint32_t destination = 0;
  bool stays = false;  // its peer is behind the same port
  std::deque<Work> sends;

  Adapter& adapter() const { return *domain->device->adapter; }
  Receives& receives() { return shared != nullptr ? *shared : own; }
};

// ---- rules.cc ----

void check_step(Pair& pair, const ibv_qp_attr& to, int mask);
void on_step(Pair& pair, const ibv_qp_attr& to, int mask);
// Before it is posted. `undo_send`: the last one was refused.
void on_send(Pair& pair, const ibv_send_wr& work);
void undo_send(Pair& pair);
void on_receive(Object& object, Receives& receives, const ibv_recv_wr& work);
void undo_receive(Receives& receives, std::uint64_t id);
void check_room(const Queue& queue);
void on_completion(Queue& queue, const ibv_wc& done);
// The pair, or the queue, is about to end: its work is nobody's any more.
void forget_sends(Pair& pair);
void forget_receives(Domain& domain, Receives& receives);

}  // namespace strict
