// partitioned: MPI-4's partitioned communication. Each rank sends to several neighbours messages in
// parts, which become ready one by one and out of order; sender and receiver cut them into
// different numbers of parts.
//
//   mpirun -n 4 partitioned [--rounds 3] [--neighbours 2] [--part 40000] [--counters]
//
// --part: the bytes of a receiver's part in the largest messages. Each round makes its requests
// anew: in Open MPI 5.0 a send that is started again ends before its parts are ready. MPI_Parrived
// is asked only where both ends have the same parts: else it is wrong there.

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

int rank, size;

struct Cut {
  int sent, received;  // parts
};

class Message {
 public:
  Message(Cut cut, std::size_t bytes, int peer, int tag)
      : cut_(cut), data_(bytes * static_cast<std::size_t>(cut.received)), peer_(peer), tag_(tag) {}

  void begin_send(std::uint32_t round) {
    envelope_ = {rank, peer_, tag_, round};
    const int parts = cut_.sent;
    MPI_Psend_init(data_.data(), parts, bytes_of(parts), MPI_BYTE, peer_, tag_, check::world,
                   MPI_INFO_NULL, &request_);
    MPI_Start(&request_);
  }
  void begin_receive(std::uint32_t round) {
    envelope_ = {peer_, rank, tag_, round};
    const int parts = cut_.received;
    MPI_Precv_init(data_.data(), parts, bytes_of(parts), MPI_BYTE, peer_, tag_, check::world,
                   MPI_INFO_NULL, &request_);
    MPI_Start(&request_);
  }

  // A part is written just before it is ready.
  void fill_and_release(check::Random& random) {
    std::vector<unsigned char> right(data_.size());
    check::fill(right.data(), right.size(), envelope_);
    std::vector<int> order(static_cast<std::size_t>(cut_.sent));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
    const std::size_t bytes = static_cast<std::size_t>(bytes_of(cut_.sent));
    const auto write = [&](int part) {
      const std::size_t at = bytes * static_cast<std::size_t>(part);
      std::copy_n(right.begin() + static_cast<long>(at), bytes,
                  data_.begin() + static_cast<long>(at));
    };
    // The last ones as a list, or as a range where they are one.
    const std::size_t alone = order.size() / 2;
    for (std::size_t i = 0; i < alone; ++i) {
      write(order[i]);
      MPI_Pready(order[i], request_);
      if (random.chance(30)) pause();
    }
    std::for_each(order.begin() + static_cast<long>(alone), order.end(), write);
    if (order.size() == 1)
      MPI_Pready_range(0, 0, request_);
    else
      MPI_Pready_list(static_cast<int>(order.size() - alone), order.data() + alone, request_);
  }

  // What has arrived is right at once.
  void watch() {
    if (cut_.sent != cut_.received) return;
    const auto bytes = static_cast<std::size_t>(bytes_of(cut_.received));
    std::vector<unsigned char> right(data_.size());
    check::fill(right.data(), right.size(), envelope_);
    for (int part = cut_.received - 1; part >= 0; --part) {
      int arrived = 0;
      while (arrived == 0) MPI_Parrived(request_, part, &arrived);
      const std::size_t at = bytes * static_cast<std::size_t>(part);
      CHECK(std::memcmp(data_.data() + at, right.data() + at, bytes) == 0,
            "part %d of %d from %d is wrong", part, cut_.received, peer_);
    }
  }

  void end(bool received) {
    MPI_Wait(&request_, MPI_STATUS_IGNORE);
    if (received) check::verify(data_.data(), data_.size(), envelope_, "a message in parts");
    MPI_Request_free(&request_);
  }

 private:
  static void pause() {
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, check::world, &flag, MPI_STATUS_IGNORE);
  }
  MPI_Count bytes_of(int parts) const { return static_cast<MPI_Count>(data_.size()) / parts; }

  Cut cut_;
  std::vector<unsigned char> data_;
  int peer_, tag_;
  check::Envelope envelope_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

void round(Cut cut, std::size_t bytes, int neighbours, std::uint32_t number) {
  std::vector<Message> out, in;
  check::Random random(check::seed * 1000 + number * 50 + static_cast<unsigned>(rank));
  for (int shift = 1; shift <= neighbours; ++shift) {
    out.emplace_back(cut, bytes, (rank + shift) % size, shift);
    in.emplace_back(cut, bytes, (rank + size - shift % size) % size, shift);
  }
  for (Message& message : in) message.begin_receive(number);
  for (Message& message : out) message.begin_send(number);
  for (Message& message : out) message.fill_and_release(random);
  for (Message& message : in) message.watch();
  for (Message& message : in) message.end(true);
  for (Message& message : out) message.end(false);
  MPI_Barrier(check::world);
}

}  // namespace

MPI_TEST(partitioned) {
  check::Session session(argc, argv, "partitioned");
  const auto rounds = static_cast<std::uint32_t>(session.options.number("rounds", 3));
  const int neighbours = static_cast<int>(session.options.number("neighbours", 2));
  const auto part = static_cast<std::size_t>(session.options.number("part", 40000));
  const bool counts = session.options.flag("counters");
  session.options.done();
  Counters counters;
  rank = session.rank, size = session.size;
  check::phase("messages in parts");
  std::uint32_t number = 0;
  for (std::uint32_t i = 0; i < rounds; ++i)
    for (const Cut cut : {Cut{8, 8}, Cut{1, 1}, Cut{16, 4}, Cut{3, 12}, Cut{5, 1}})
      for (const std::size_t bytes : {std::size_t{60}, std::size_t{6000}, part / 60 * 60})
        round(cut, bytes, neighbours, ++number);
  if (counts) counters.print(check::world);
  counters.close();
  return session.finish();
}
