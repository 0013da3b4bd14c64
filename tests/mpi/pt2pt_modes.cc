// pt2pt_modes: every way MPI has to send and to receive one message, over every size at which a
// transport changes its mind, between all pairs of ranks and to oneself.
//
//   mpirun -n 4 pt2pt_modes [--largest 1M] [--rounds 3]
//
// Everything walks by shifts: in shift s, rank r sends to r + s and receives from r - s, all ranks
// at once, so a shift of 0 is self and n shifts are all ordered pairs.

#include <mpi.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "check.h"

namespace {

using Bytes = std::vector<unsigned char>;
const MPI_Comm& kWorld = check::world;
constexpr int kModes = 8;
constexpr const char* kModeNames[kModes] = {"send",  "ssend",  "bsend",  "rsend",
                                            "isend", "issend", "ibsend", "irsend"};
constexpr std::size_t kSizes[] = {0,     1,     7,     8,     63,    64,        65,     255,
                                  256,   257,   1000,  2048,  4095,  4096,      4097,   8192,
                                  12200, 12288, 16320, 16384, 16385, 65536,     65537,  262144,
                                  1u << 20};
constexpr std::size_t kSmall = 16385;  // up to here every mode at every shift

int rank, size;
std::uint32_t serial;  // the same on all ranks, because all make the same calls

struct Peers {
  int to, from;
};
Peers shift_by(int s) { return {(rank + s) % size, (rank + size - s) % size}; }
int count(std::size_t bytes) { return static_cast<int>(bytes); }

// Tells `from` that our receive is posted and waits for `to` to say so: what rsend needs.
void ready(Peers p) {
  MPI_Sendrecv(nullptr, 0, MPI_BYTE, p.from, 99, nullptr, 0, MPI_BYTE, p.to, 99, kWorld,
               MPI_STATUS_IGNORE);
}

void send_as(int mode, const Bytes& data, int to, int tag) {
  const int n = count(data.size());
  MPI_Request request = MPI_REQUEST_NULL;
  switch (mode) {
    case 0: MPI_Send(data.data(), n, MPI_BYTE, to, tag, kWorld); break;
    case 1: MPI_Ssend(data.data(), n, MPI_BYTE, to, tag, kWorld); break;
    case 2: MPI_Bsend(data.data(), n, MPI_BYTE, to, tag, kWorld); break;
    case 3: MPI_Rsend(data.data(), n, MPI_BYTE, to, tag, kWorld); break;
    case 4: MPI_Isend(data.data(), n, MPI_BYTE, to, tag, kWorld, &request); break;
    case 5: MPI_Issend(data.data(), n, MPI_BYTE, to, tag, kWorld, &request); break;
    case 6: MPI_Ibsend(data.data(), n, MPI_BYTE, to, tag, kWorld, &request); break;
    case 7: MPI_Irsend(data.data(), n, MPI_BYTE, to, tag, kWorld, &request); break;
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void one_exchange(int mode, std::size_t bytes, Peers p) {
  const std::uint32_t seq = ++serial;
  const int tag = mode + 1;
  Bytes out(bytes), in(bytes, 0xee);
  check::fill(out.data(), bytes, {rank, p.to, tag, seq});
  MPI_Request request;
  MPI_Irecv(in.data(), count(bytes), MPI_BYTE, p.from, tag, kWorld, &request);
  if (mode == 3 || mode == 7) ready(p);
  send_as(mode, out, p.to, tag);
  MPI_Status status;
  MPI_Wait(&request, &status);
  check::verify_status(status, p.from, tag, bytes, kModeNames[mode]);
  check::verify(in.data(), bytes, {p.from, rank, tag, seq}, kModeNames[mode]);
}

void all_modes(std::size_t largest) {
  int turn = 0;
  for (std::size_t bytes : kSizes) {
    if (bytes > largest) continue;
    for (int s = 0; s < size; ++s, ++turn) {
      const int modes = bytes <= kSmall ? kModes : 2;  // large: two modes, in turn
      for (int m = 0; m < modes; ++m) one_exchange((turn * 3 + m) % kModes, bytes, shift_by(s));
    }
  }
}

// Send_init and friends: started again and again with new data behind the same pointer. A buffered
// one above the eager limit is started once only: Open MPI 4.1.4 sends stale bytes from its second
// start on, with any transport.
void persistent(std::size_t bytes, int rounds) {
  const Peers p = shift_by(size > 1 ? 1 : 0);
  constexpr int kKinds = 4;
  Bytes out[kKinds], in[kKinds];
  MPI_Request receives[kKinds], sends[kKinds];
  constexpr int kBuffered = 2;
  constexpr std::size_t kSurelyEager = 256;
  auto init_send = [&](int k) {
    auto init = k == 0 ? MPI_Send_init : k == 1 ? MPI_Ssend_init
                     : k == kBuffered ? MPI_Bsend_init : MPI_Rsend_init;
    init(out[k].data(), count(bytes), MPI_BYTE, p.to, 20 + k, kWorld, &sends[k]);
  };
  for (int k = 0; k < kKinds; ++k) {
    out[k].resize(bytes), in[k].resize(bytes);
    MPI_Recv_init(in[k].data(), count(bytes), MPI_BYTE, p.from, 20 + k, kWorld, &receives[k]);
    init_send(k);
  }
  for (int round = 0; round < rounds; ++round) {
    const std::uint32_t seq = ++serial;
    for (int k = 0; k < kKinds; ++k) {
      check::fill(out[k].data(), bytes, {rank, p.to, 20 + k, seq});
      std::fill(in[k].begin(), in[k].end(), 0xee);
    }
    MPI_Startall(kKinds, receives);
    ready(p);
    for (MPI_Request& send : sends) MPI_Start(&send);
    MPI_Waitall(kKinds, receives, MPI_STATUSES_IGNORE);
    MPI_Waitall(kKinds, sends, MPI_STATUSES_IGNORE);
    for (int k = 0; k < kKinds; ++k)
      check::verify(in[k].data(), bytes, {p.from, rank, 20 + k, seq}, "persistent");
    if (bytes > kSurelyEager) MPI_Request_free(&sends[kBuffered]), init_send(kBuffered);
  }
  for (int k = 0; k < kKinds; ++k) MPI_Request_free(&receives[k]), MPI_Request_free(&sends[k]);
}

void sendrecv_both(std::size_t bytes) {
  for (int s = 0; s < size; ++s) {
    const Peers p = shift_by(s);
    const std::uint32_t seq = ++serial;
    Bytes out(bytes), in(bytes + 16, 0xee);
    MPI_Status status;
    check::fill(out.data(), bytes, {rank, p.to, 30, seq});
    MPI_Sendrecv(out.data(), count(bytes), MPI_BYTE, p.to, 30, in.data(), count(bytes + 16),
                 MPI_BYTE, p.from, 30, kWorld, &status);
    check::verify_status(status, p.from, 30, bytes, "sendrecv");
    check::verify(in.data(), bytes, {p.from, rank, 30, seq}, "sendrecv");
    CHECK(in[bytes] == 0xee, "sendrecv of %zu bytes wrote past the message", bytes);
    MPI_Sendrecv_replace(out.data(), count(bytes), MPI_BYTE, p.to, 30, p.from, 30, kWorld, &status);
    check::verify(out.data(), bytes, {p.from, rank, 30, seq}, "sendrecv_replace");
  }
}

// probe, iprobe, mprobe and improbe: the length is learnt from the status, then received.
void probes(std::size_t bytes) {
  for (int s = 0; s < size; ++s) {
    const Peers p = shift_by(s);
    for (int kind = 0; kind < 4; ++kind) {
      const std::uint32_t seq = ++serial;
      const int tag = 40 + kind;
      Bytes out(bytes), in;
      check::fill(out.data(), bytes, {rank, p.to, tag, seq});
      MPI_Request sent;
      MPI_Isend(out.data(), count(bytes), MPI_BYTE, p.to, tag, kWorld, &sent);
      MPI_Status status;
      MPI_Message message = MPI_MESSAGE_NULL;
      int found = 0;
      if (kind == 0) MPI_Probe(p.from, tag, kWorld, &status);
      if (kind == 1) while (!found) MPI_Iprobe(p.from, MPI_ANY_TAG, kWorld, &found, &status);
      if (kind == 2) MPI_Mprobe(p.from, tag, kWorld, &message, &status);
      if (kind == 3)
        while (!found) MPI_Improbe(p.from, tag, kWorld, &found, &message, &status);
      check::verify_status(status, p.from, tag, bytes, "probe");
      in.assign(bytes, 0xee);
      MPI_Request received;
      if (kind < 2) MPI_Irecv(in.data(), count(bytes), MPI_BYTE, p.from, tag, kWorld, &received);
      else MPI_Imrecv(in.data(), count(bytes), MPI_BYTE, &message, &received);
      MPI_Wait(&received, &status);
      check::verify(in.data(), bytes, {p.from, rank, tag, seq}, "probed receive");
      MPI_Wait(&sent, MPI_STATUS_IGNORE);
    }
  }
}

// Strided sends into contiguous receives, contiguous into strided, and strided to strided.
void derived(int blocks) {
  constexpr int kBlock = 3, kStride = 5;  // ints: three used, two holes
  MPI_Datatype strided;
  MPI_Type_vector(blocks, kBlock, kStride, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  const std::size_t used = sizeof(int) * kBlock * static_cast<std::size_t>(blocks);
  const std::size_t span = static_cast<std::size_t>(blocks) * kStride;
  auto scatter = [&](const Bytes& from, std::vector<int>& to) {
    for (int b = 0; b < blocks; ++b)
      std::memcpy(&to[b * kStride], &from[b * kBlock * sizeof(int)], kBlock * sizeof(int));
  };
  auto gather = [&](const std::vector<int>& from, Bytes& to) {
    for (int b = 0; b < blocks; ++b) {
      std::memcpy(&to[b * kBlock * sizeof(int)], &from[b * kStride], kBlock * sizeof(int));
      for (int hole = kBlock; hole < kStride; ++hole)
        CHECK(from[b * kStride + hole] == -1, "a strided receive wrote into hole %d of block %d",
              hole, b);
    }
  };
  for (int s = 0; s < size; ++s) {
    const Peers p = shift_by(s);
    for (int kind = 0; kind < 3; ++kind) {
      const std::uint32_t seq = ++serial;
      Bytes flat_out(used), flat_in(used, 0xee);
      std::vector<int> holed_out(span, -2), holed_in(span, -1);
      check::fill(flat_out.data(), used, {rank, p.to, 50, seq});
      scatter(flat_out, holed_out);
      MPI_Request requests[2];
      if (kind == 0) MPI_Irecv(flat_in.data(), count(used), MPI_BYTE, p.from, 50, kWorld, requests);
      else MPI_Irecv(holed_in.data(), 1, strided, p.from, 50, kWorld, requests);
      if (kind == 1)
        MPI_Isend(flat_out.data(), count(used), MPI_BYTE, p.to, 50, kWorld, requests + 1);
      else MPI_Isend(holed_out.data(), 1, strided, p.to, 50, kWorld, requests + 1);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      if (kind != 0) gather(holed_in, flat_in);
      check::verify(flat_in.data(), used, {p.from, rank, 50, seq}, "derived datatype");
    }
  }
  MPI_Type_free(&strided);
}

// A cancelled receive takes nothing; one that has matched is not cancelled.
void cancels() {
  for (int s = 0; s < size; ++s) {
    const Peers p = shift_by(s);
    const std::uint32_t seq = ++serial;
    Bytes never(64, 0xaa), in(64), out(64);
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;
    MPI_Irecv(never.data(), 64, MPI_BYTE, p.from, 60, kWorld, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled, "an unmatched receive from %d could not be cancelled", p.from);
    ready(p);  // the peers' receives are gone too: the next message must not find one
    check::fill(out.data(), 64, {rank, p.to, 60, seq});
    MPI_Sendrecv(out.data(), 64, MPI_BYTE, p.to, 60, in.data(), 64, MPI_BYTE, p.from, 60, kWorld,
                 &status);
    check::verify(in.data(), 64, {p.from, rank, 60, seq}, "receive after a cancel");
    CHECK(std::all_of(never.begin(), never.end(), [](int b) { return b == 0xaa; }),
          "a cancelled receive was written to");
  }
}

// Sixteen receives of mixed sizes from the neighbours, completed by each of the five calls.
void completions() {
  constexpr int kCount = 16;
  constexpr std::size_t kMixed[] = {8, 4096, 65536, 0, 300, 20000, 1, 130000};
  for (int kind = 0; kind < 5; ++kind) {
    const Peers p = shift_by(kind % size);
    const std::uint32_t seq = ++serial;
    std::vector<Bytes> in(kCount), out(kCount);
    std::vector<MPI_Request> receives(kCount), sends(kCount);
    std::vector<MPI_Status> statuses(kCount);
    for (int i = 0; i < kCount; ++i) {
      const std::size_t bytes = kMixed[i % 8];
      in[i].assign(bytes, 0xee), out[i].resize(bytes);
      check::fill(out[i].data(), bytes, {rank, p.to, 70 + i, seq});
      MPI_Irecv(in[i].data(), count(bytes), MPI_BYTE, p.from, 70 + i, kWorld, &receives[i]);
    }
    for (int i = kCount - 1; i >= 0; --i)
      MPI_Isend(out[i].data(), count(out[i].size()), MPI_BYTE, p.to, 70 + i, kWorld, &sends[i]);
    int done = 0;
    auto finished = [&](int i, const MPI_Status& status) {
      check::verify_status(status, p.from, 70 + i, in[i].size(), "completion");
      check::verify(in[i].data(), in[i].size(), {p.from, rank, 70 + i, seq}, "completion");
      ++done;
    };
    std::vector<int> indices(kCount);
    while (done < kCount) {
      int n = 0, flag = 0;
      if (kind == 0) MPI_Waitany(kCount, receives.data(), &n, &statuses[0]), finished(n, statuses[0]);
      if (kind == 1) MPI_Testany(kCount, receives.data(), &n, &flag, &statuses[0]);
      if (kind == 1 && flag) finished(n, statuses[0]);
      if (kind == 2) MPI_Waitsome(kCount, receives.data(), &n, indices.data(), statuses.data());
      if (kind == 3) MPI_Testsome(kCount, receives.data(), &n, indices.data(), statuses.data());
      for (int i = 0; (kind == 2 || kind == 3) && i < n; ++i) finished(indices[i], statuses[i]);
      if (kind == 4) MPI_Testall(kCount, receives.data(), &flag, statuses.data());
      for (int i = 0; kind == 4 && flag && i < kCount; ++i) finished(i, statuses[i]);
    }
    MPI_Waitall(kCount, sends.data(), MPI_STATUSES_IGNORE);
  }
}

}  // namespace

MPI_TEST(pt2pt_modes) {
  check::Session session(argc, argv, "pt2pt_modes");
  const auto largest = static_cast<std::size_t>(session.options.number("largest", 1 << 20));
  const int rounds = static_cast<int>(session.options.number("rounds", 3));
  session.options.done();
  serial = 0;
  rank = session.rank, size = session.size;
  Bytes attached(4 * (largest + MPI_BSEND_OVERHEAD));
  MPI_Buffer_attach(attached.data(), count(attached.size()));

  check::phase("send modes"), all_modes(largest);
  check::phase("persistent requests");
  for (std::size_t bytes : {0u, 8u, 4097u, 65537u}) persistent(bytes, rounds);
  check::phase("sendrecv");
  for (std::size_t bytes : {0u, 9u, 4096u, 70000u, 262144u}) sendrecv_both(bytes);
  check::phase("probes");
  for (std::size_t bytes : {0u, 9u, 4096u, 70000u}) probes(bytes);
  check::phase("derived datatypes");
  for (int blocks : {1, 20, 400, 1100, 6000, 20000}) derived(blocks);
  check::phase("cancelled receives"), cancels();
  check::phase("waitany to testall"), completions();

  void* address;
  int detached;
  MPI_Buffer_detach(&address, &detached);
  return session.finish();
}
