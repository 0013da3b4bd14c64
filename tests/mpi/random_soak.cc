// random_soak: seeded random traffic of every kind at once, in batches, every byte checked.
//
//   mpirun -n 4 random_soak [--messages 4000] [--batch 96] [--largest 512K] [--seed 1]
//
// All ranks draw the same plan of a batch: who sends what to whom, how, and how it is received.
// A channel (a communicator) has one receive discipline, so that what a wildcard may match is
// known: within one discipline, receives with the same envelope match in the order they were
// posted, and one sender's messages in the order they were sent. A barrier ends a batch; memory
// is bounded by batch * largest per rank.

#include <mpi.h>

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;
enum Channel { exact, any_source, any_tag, any_any, kChannels };
enum Mode { send, ssend, bsend, rsend, isend, issend, ibsend, kModes };
constexpr int kTags = 4, kNeverSent = 1000;

struct Message {
  int src, dst, tag, channel, mode;
  std::size_t bytes;
  std::uint32_t seq;
};

int rank, size;
std::size_t largest;
MPI_Comm channels[kChannels];

std::size_t draw_size(check::Random& random) {
  const std::uint32_t dice = random.below(100);
  if (dice < 5) return 0;
  if (dice < 60) return random.below(300);
  if (dice < 80) return random.below(20000);
  if (dice < 94) return random.below(100000);
  return random.below(static_cast<std::uint32_t>(largest) + 1);
}

// Posted: receives first, then sends of all modes, the blocking ones too. Late: sends first, none
// blocking, then receives, the blocking ones and the probes too.
struct Batch {
  bool posted;
  std::vector<Message> messages;
};

Batch draw_batch(check::Random& random, int count, std::uint32_t& seq) {
  Batch batch{random.chance(50), {}};
  for (int i = 0; i < count; ++i) {
    Message m;
    m.src = static_cast<int>(random.below(static_cast<std::uint32_t>(size)));
    m.dst = static_cast<int>(random.below(static_cast<std::uint32_t>(size)));
    m.tag = static_cast<int>(random.below(kTags));
    m.channel = static_cast<int>(random.below(kChannels));
    m.mode = batch.posted ? static_cast<int>(random.below(kModes))
                          : isend + static_cast<int>(random.below(kModes - isend));
    m.bytes = draw_size(random);
    m.seq = seq++;
    batch.messages.push_back(m);
  }
  return batch;
}

class Sender {
 public:
  explicit Sender(std::size_t count) { buffers_.reserve(count), requests_.reserve(count); }
  void start(const Message& m) {
    Bytes& data = buffers_.emplace_back(m.bytes);
    check::fill(data.data(), m.bytes, {m.src, m.dst, m.tag, m.seq});
    const int n = static_cast<int>(m.bytes);
    MPI_Comm comm = channels[m.channel];
    if (m.mode < isend) {
      auto call = m.mode == send ? MPI_Send : m.mode == ssend ? MPI_Ssend
                : m.mode == bsend ? MPI_Bsend : MPI_Rsend;
      call(data.data(), n, MPI_BYTE, m.dst, m.tag, comm);
    } else {
      auto call = m.mode == isend ? MPI_Isend : m.mode == issend ? MPI_Issend : MPI_Ibsend;
      call(data.data(), n, MPI_BYTE, m.dst, m.tag, comm, &requests_.emplace_back());
    }
  }
  void wait() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }

 private:
  std::vector<Bytes> buffers_;
  std::vector<MPI_Request> requests_;
};

// What each stream of matchable messages must bring next.
class Expected {
 public:
  void add(const Message& m) { streams_[key(m.channel, m.src, m.tag)].push_back(m); }
  void arrived(int channel, const MPI_Status& status, const Bytes& data) {
    auto& stream = streams_[key(channel, status.MPI_SOURCE, status.MPI_TAG)];
    CHECK(!stream.empty(), "channel %d: nothing more was sent by %d with tag %d", channel,
          status.MPI_SOURCE, status.MPI_TAG);
    const Message m = stream.front();
    stream.pop_front();
    check::verify_status(status, m.src, m.tag, m.bytes, "soak");
    check::verify(data.data(), m.bytes, {m.src, m.dst, m.tag, m.seq}, "soak");
  }

 private:
  static std::tuple<int, int, int> key(int channel, int src, int tag) {
    return {channel, src, channel == any_tag || channel == any_any ? -1 : tag};
  }
  std::map<std::tuple<int, int, int>, std::deque<Message>> streams_;
};

struct Receive {
  int channel, source, tag;
  Bytes data;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
};

void post(Receive& r, check::Random& local, bool may_block) {
  MPI_Comm comm = channels[r.channel];
  const int room = static_cast<int>(r.data.size());
  MPI_Message message;
  switch (may_block ? local.below(5) : 0) {
    case 0: case 1:
      MPI_Irecv(r.data.data(), room, MPI_BYTE, r.source, r.tag, comm, &r.request);
      break;
    case 2: MPI_Recv(r.data.data(), room, MPI_BYTE, r.source, r.tag, comm, &r.status); break;
    case 3:
      MPI_Mprobe(r.source, r.tag, comm, &message, &r.status);
      MPI_Imrecv(r.data.data(), room, MPI_BYTE, &message, &r.request);
      break;
    case 4:
      MPI_Probe(r.source, r.tag, comm, &r.status);
      MPI_Recv(r.data.data(), room, MPI_BYTE, r.status.MPI_SOURCE, r.status.MPI_TAG, comm,
               &r.status);
      break;
  }
}

void run(const Batch& batch, check::Random& local) {
  std::size_t room[kChannels] = {};
  std::vector<const Message*> mine;
  Expected expected;
  for (const Message& m : batch.messages) {
    if (m.dst != rank) continue;
    mine.push_back(&m);
    expected.add(m);
    room[m.channel] = std::max(room[m.channel], m.bytes);
  }
  for (std::size_t i = mine.size(); i > 1; --i)  // receives are posted in an order of our own
    std::swap(mine[i - 1], mine[local.below(static_cast<std::uint32_t>(i))]);
  std::vector<Receive> receives(mine.size());
  auto post_all = [&](bool may_block) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const Message& m = *mine[i];
      Receive& r = receives[i];
      r.channel = m.channel;
      r.source = m.channel == any_source || m.channel == any_any ? MPI_ANY_SOURCE : m.src;
      r.tag = m.channel == any_tag || m.channel == any_any ? MPI_ANY_TAG : m.tag;
      r.data.resize(room[m.channel]);
      post(r, local, may_block);
    }
  };
  unsigned char never[16];
  MPI_Request doomed;
  MPI_Irecv(never, 16, MPI_BYTE, static_cast<int>(local.below(static_cast<std::uint32_t>(size))),
            kNeverSent, channels[exact], &doomed);

  Sender sender(batch.messages.size());
  if (batch.posted) post_all(false), MPI_Barrier(check::world);  // the barrier is for rsend
  for (const Message& m : batch.messages)
    if (m.src == rank) sender.start(m);
  if (!batch.posted) {
    if (local.chance(20)) usleep(local.below(3000));
    post_all(true);
  }
  for (Receive& r : receives) {
    if (r.request != MPI_REQUEST_NULL) MPI_Wait(&r.request, &r.status);
    expected.arrived(r.channel, r.status, r.data);
  }
  sender.wait();
  MPI_Status status;
  int cancelled = 0;
  MPI_Cancel(&doomed);
  MPI_Wait(&doomed, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled, "a receive nobody sends to could not be cancelled");
  MPI_Barrier(check::world);
}

}  // namespace

MPI_TEST(random_soak) {
  check::Session session(argc, argv, "random_soak");
  const long messages = session.options.number("messages", 4000);
  const int batch_size = static_cast<int>(session.options.number("batch", 96));
  largest = static_cast<std::size_t>(session.options.number("largest", 512 << 10));
  session.options.done();
  rank = session.rank, size = session.size;
  for (MPI_Comm& comm : channels) MPI_Comm_dup(check::world, &comm);
  Bytes attached(static_cast<std::size_t>(batch_size) * (largest / 2 + MPI_BSEND_OVERHEAD) + largest);
  MPI_Buffer_attach(attached.data(), static_cast<int>(attached.size()));

  check::phase("random traffic");
  check::Random plan(check::seed), local(check::seed * 7919 + static_cast<std::uint64_t>(rank));
  std::uint32_t seq = 0;
  while (seq < messages)
    run(draw_batch(plan, static_cast<int>(std::min<long>(batch_size, messages - seq)), seq), local);

  void* address;
  int detached;
  MPI_Buffer_detach(&address, &detached);
  for (MPI_Comm& comm : channels) MPI_Comm_free(&comm);
  return session.finish();
}
