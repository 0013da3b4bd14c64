// sessions: MPI-4's sessions, before MPI_Init and beside it. Each is made, gives a communicator,
// and is freed with it: several times, so that MPI begins and ends as often; and two at once, of
// which each outlives the other in turn.
//
//   mpirun -n 4 sessions [--times 3] [--largest 300000] [--counters]

#include <mpi.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

using Bytes = std::vector<unsigned char>;

class Session {
 public:
  Session() {
    check::phase("MPI_Session_init");
    must(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session_), "MPI_Session_init");
  }
  ~Session() {
    check::phase("MPI_Session_finalize");
    MPI_Comm_free(&comm_);
    must(MPI_Session_finalize(&session_), "MPI_Session_finalize");
  }

  // All of the job, as a communicator of this session.
  void connect(const std::string& name) {
    check::phase("MPI_Comm_create_from_group");
    MPI_Group group;
    must(MPI_Group_from_session_pset(session_, "mpi://WORLD", &group),
         "MPI_Group_from_session_pset");
    must(MPI_Comm_create_from_group(group, name.c_str(), MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                                    &comm_),
         "MPI_Comm_create_from_group");
    MPI_Group_free(&group);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    check::rank = rank_;
  }

  // Everyone to everyone. `finish` ends it.
  void begin(int tag, std::size_t bytes) {
    check::phase("traffic of a session");
    tag_ = tag;
    const auto peers = static_cast<std::size_t>(size_);
    out_.assign(peers, Bytes(bytes));
    in_ = out_;
    for (int peer = 0; peer < size_; ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      check::fill(out_[p].data(), bytes, {rank_, peer, tag, 1});
      MPI_Irecv(in_[p].data(), static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_,
                &requests_.emplace_back());
    }
    for (int peer = 0; peer < size_; ++peer)
      MPI_Isend(out_[static_cast<std::size_t>(peer)].data(), static_cast<int>(bytes), MPI_BYTE,
                peer, tag, comm_, &requests_.emplace_back());
  }
  void finish() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
    for (int peer = 0; peer < size_; ++peer) {
      const Bytes& in = in_[static_cast<std::size_t>(peer)];
      check::verify(in.data(), in.size(), {peer, rank_, tag_, 1}, "in a session");
    }
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm_);
    CHECK(sum == size_, "a session's allreduce: %d of %d", sum, size_);
  }

 private:
  static void must(int code, const char* what) {
    CHECK(code == MPI_SUCCESS, "%s failed with %d", what, code);
  }

  MPI_Session session_ = MPI_SESSION_NULL;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 0, tag_ = 0;
  std::vector<Bytes> out_, in_;
  std::vector<MPI_Request> requests_;
};

std::vector<std::size_t> sizes_up_to(std::size_t largest) { return {8, 0, 5000, 70000, largest}; }

void one(const std::string& name, std::size_t largest) {
  Session session;
  session.connect(name);
  for (const std::size_t bytes : sizes_up_to(largest)) {
    session.begin(3, bytes);
    session.finish();
  }
}

// The traffic of both is under way at the same time. One goes on when the other is gone.
void two(const std::string& name, std::size_t largest, bool first_ends) {
  auto a = std::make_unique<Session>(), b = std::make_unique<Session>();
  a->connect(name + "a");
  b->connect(name + "b");
  for (const std::size_t bytes : sizes_up_to(largest)) {
    a->begin(4, bytes);
    b->begin(4, bytes / 2);  // tags are a communicator's own
    b->finish();
    a->finish();
  }
  if (!first_ends) std::swap(a, b);
  a.reset();
  for (const std::size_t bytes : sizes_up_to(largest)) {
    b->begin(5, bytes);
    b->finish();
  }
}

}  // namespace

MPI_TEST(sessions) {
  check::program = "sessions";
  check::Options options(argc, argv);
  const long times = options.number("times", 3);
  const auto largest = static_cast<std::size_t>(options.number("largest", 300000));
  const bool counts = options.flag("counters");
  check::seed = static_cast<std::uint64_t>(options.number("seed", 1));
  check::start_watchdog(static_cast<unsigned>(options.number("timeout", 120)));
  options.done();
  const auto all = [&](const std::string& when) {
    for (long i = 0; i < times; ++i) {
      const std::string name = "weir/" + when + std::to_string(i);
      one(name, largest);
      two(name, largest, i % 2 == 0);
    }
  };

  all("before");
  check::Session world(argc, argv, "sessions");
  Counters counters;
  all("beside");
  if (counts) counters.print(check::world);
  counters.close();
  return world.finish();
}
