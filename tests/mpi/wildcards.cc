// wildcards: MPI_ANY_SOURCE and MPI_ANY_TAG under many senders. Which sender comes next is free;
// that each sender's messages come in the order they were sent is not.
//
//   mpirun -n 4 wildcards [--messages 200] [--window 32]

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr std::size_t kLargest = 100000;
constexpr int kTags = 5;

enum class Kind { any_any, any_tag_of_source, any_source_of_tag, probe_any };
constexpr const char* kNames[] = {"any source, any tag", "one source, any tag",
                                  "any source, one tag", "mprobe any source, any tag"};

int rank, size;

// Both ends derive a message's tag and size from (kind, src, dst, seq).
int tag_of(Kind kind, std::uint32_t seq) {
  return static_cast<int>(kind) * kTags + static_cast<int>(seq) % kTags;
}
std::size_t size_of(int src, int dst, std::uint32_t seq) {
  constexpr std::size_t kSizes[] = {8, 40, 0, 1000, 4096, 100, 16, 9000, 64, 30000, 8, kLargest};
  return kSizes[(seq * 5 + static_cast<unsigned>(src + dst)) % 12];
}

class Senders {
 public:
  Senders(Kind kind, std::uint32_t messages) {
    buffers_.reserve(messages * static_cast<std::size_t>(size));
    for (std::uint32_t seq = 0; seq < messages; ++seq) {
      for (int shift = 1; shift < size; ++shift) {
        const int to = (rank + shift) % size, tag = tag_of(kind, seq);
        Bytes& data = buffers_.emplace_back(size_of(rank, to, seq));
        check::fill(data.data(), data.size(), {rank, to, tag, seq});
        MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, to, tag, check::world,
                  &requests_.emplace_back());
      }
    }
  }
  void wait() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }

 private:
  std::vector<Bytes> buffers_;
  std::vector<MPI_Request> requests_;
};

// Checks that a received message is the one its sender must have sent next.
class Order {
 public:
  explicit Order(Kind kind) : kind_(kind), next_(static_cast<std::size_t>(size) * kTags, 0) {
    if (kind == Kind::any_source_of_tag)  // each tag is a stream of its own: seq = tag, + kTags, ...
      for (std::size_t i = 0; i < next_.size(); ++i) next_[i] = static_cast<unsigned>(i % kTags);
  }
  void arrived(const MPI_Status& status, const Bytes& data) {
    const int from = status.MPI_SOURCE;
    const bool by_tag = kind_ == Kind::any_source_of_tag;
    const std::size_t stream = static_cast<std::size_t>(from) * kTags +
                               (by_tag ? static_cast<std::size_t>(status.MPI_TAG % kTags) : 0);
    const std::uint32_t seq = next_[stream];
    next_[stream] += by_tag ? kTags : 1;
    const std::size_t bytes = size_of(from, rank, seq);
    check::verify_status(status, from, tag_of(kind_, seq), bytes, kNames[static_cast<int>(kind_)]);
    check::verify(data.data(), bytes, {from, rank, tag_of(kind_, seq), seq},
                  kNames[static_cast<int>(kind_)]);
  }

 private:
  Kind kind_;
  std::vector<std::uint32_t> next_;
};

// Receives `total` messages through a window of posted receives. Receives with the same envelope
// match in the order they were posted, so they are examined in that order.
void receive(Kind kind, int source, int tag, std::uint32_t total, int window, Order& order) {
  std::vector<Bytes> buffers(static_cast<std::size_t>(window), Bytes(kLargest));
  std::vector<MPI_Request> requests(static_cast<std::size_t>(window));
  auto post = [&](std::uint32_t i) {
    const std::size_t slot = i % static_cast<std::uint32_t>(window);
    MPI_Irecv(buffers[slot].data(), kLargest, MPI_BYTE, source, tag, check::world, &requests[slot]);
  };
  for (std::uint32_t i = 0; i < total && kind != Kind::probe_any; ++i)
    if (i < static_cast<std::uint32_t>(window)) post(i);
  for (std::uint32_t i = 0; i < total; ++i) {
    const std::size_t slot = i % static_cast<std::uint32_t>(window);
    MPI_Status status;
    if (kind == Kind::probe_any) {
      MPI_Message message;
      MPI_Mprobe(source, tag, check::world, &message, &status);
      MPI_Mrecv(buffers[slot].data(), kLargest, MPI_BYTE, &message, &status);
    } else {
      MPI_Wait(&requests[slot], &status);
    }
    order.arrived(status, buffers[slot]);
    const std::uint32_t after = i + static_cast<std::uint32_t>(window);
    if (after < total && kind != Kind::probe_any) post(after);
  }
}

}  // namespace

MPI_TEST(wildcards) {
  check::Session session(argc, argv, "wildcards");
  const auto wanted = static_cast<std::uint32_t>(session.options.number("messages", 200));
  const int window = static_cast<int>(session.options.number("window", 32));
  session.options.done();
  rank = session.rank, size = session.size;
  const std::uint32_t messages = (wanted + kTags - 1) / kTags * kTags;  // whole turns of the tags
  const auto peers = static_cast<std::uint32_t>(size - 1);

  for (Kind kind : {Kind::any_any, Kind::any_tag_of_source, Kind::any_source_of_tag,
                    Kind::probe_any}) {
    check::phase(kNames[static_cast<int>(kind)]);
    Senders senders(kind, messages);
    Order order(kind);
    if (kind == Kind::any_any || kind == Kind::probe_any)
      receive(kind, MPI_ANY_SOURCE, MPI_ANY_TAG, messages * peers, window, order);
    for (int shift = 1; kind == Kind::any_tag_of_source && shift < size; ++shift)
      receive(kind, (rank + shift) % size, MPI_ANY_TAG, messages, window, order);
    for (int t = kTags - 1; kind == Kind::any_source_of_tag && t >= 0; --t)
      receive(kind, MPI_ANY_SOURCE, tag_of(kind, static_cast<std::uint32_t>(t)),
              messages / kTags * peers, window, order);
    senders.wait();
    MPI_Barrier(check::world);  // the next kind's messages must not meet these wildcards
  }
  return session.finish();
}
