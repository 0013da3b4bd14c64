// rma_beside: a put and its flush beside large receives, which are RDMA operations, too. The flush
// has to wait for the put, not for receives that begin while it waits.
//
//   mpirun -n 2 rma_beside [--messages 16] [--bytes 8M] [--counters]
//
// Rank 1 begins all its sends and then puts a flag, which rank 0 sees without a call of MPI. So the
// flush is the first to hear of the messages. Fails if they are all there when it is over.

#include <mpi.h>

#include <vector>

#include "check.h"
#include "pvars.h"
#include "window.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr int kBulk = 1, kPut = 2;
constexpr std::size_t put_bytes = 64;  // the flag is behind them

struct Load {
  Load(int messages, std::size_t bytes)
      : buffers(static_cast<std::size_t>(messages), Bytes(bytes)),
        requests(buffers.size(), MPI_REQUEST_NULL) {}
  bool is_over() {
    int all = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE);
    return all != 0;
  }
  void wait() {
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }
  std::vector<Bytes> buffers;
  std::vector<MPI_Request> requests;
};

check::Envelope envelope(std::size_t i) { return {1, 0, kBulk, static_cast<std::uint32_t>(i)}; }

void put(const void* data, std::size_t bytes, int to, std::size_t at, MPI_Win win) {
  const auto n = static_cast<int>(bytes);
  MPI_Put(data, n, MPI_BYTE, to, static_cast<MPI_Aint>(at), n, MPI_BYTE, win);
  MPI_Win_flush(to, win);
}

void receive(Load& load, Window& window) {
  for (std::size_t i = 0; i < load.buffers.size(); ++i)
    MPI_Irecv(load.buffers[i].data(), static_cast<int>(load.buffers[i].size()), MPI_BYTE, 1, kBulk,
              check::world, &load.requests[i]);
  Bytes data(put_bytes);
  check::fill(data.data(), put_bytes, {0, 1, kPut, 0});
  put(data.data(), put_bytes, 1, 0, window);  // so that the next one needs no more than itself
  MPI_Barrier(check::world);

  const volatile unsigned char* const flag = window.at(put_bytes);
  while (*flag == 0) usleep(1000);
  const double begin = MPI_Wtime();
  put(data.data(), put_bytes, 1, 0, window);
  const double flushed = MPI_Wtime();
  CHECK(!load.is_over(), "the flush of %zu bytes waited for all of the receives", put_bytes);
  load.wait();
  std::printf("rma_beside: the flush took %.1f ms, the receives %.1f ms\n", (flushed - begin) * 1e3,
              (MPI_Wtime() - begin) * 1e3);
  for (std::size_t i = 0; i < load.buffers.size(); ++i)
    check::verify(load.buffers[i].data(), load.buffers[i].size(), envelope(i), "receive");
}

void send(Load& load, Window& window) {
  for (std::size_t i = 0; i < load.buffers.size(); ++i)
    check::fill(load.buffers[i].data(), load.buffers[i].size(), envelope(i));
  MPI_Barrier(check::world);
  for (std::size_t i = 0; i < load.buffers.size(); ++i)
    MPI_Isend(load.buffers[i].data(), static_cast<int>(load.buffers[i].size()), MPI_BYTE, 0, kBulk,
              check::world, &load.requests[i]);
  const unsigned char one = 1;
  put(&one, 1, 0, put_bytes, window);
  load.wait();
}

}  // namespace

MPI_TEST(rma_beside) {
  check::Session session(argc, argv, "rma_beside");
  const int messages = static_cast<int>(session.options.number("messages", 16));
  const auto bytes = static_cast<std::size_t>(session.options.number("bytes", 8 << 20));
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  CHECK(session.size == 2, "two ranks are needed");

  Counters counters;
  {
    Window window("create", put_bytes + 1);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    Load load(messages, bytes);
    check::phase("a flush beside receives");
    if (session.rank == 0) {
      receive(load, window);
    } else {
      send(load, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(check::world);
    if (session.rank == 1) check::verify(window.at(0), put_bytes, {0, 1, kPut, 0}, "put");
  }
  if (show_counters) counters.print(check::world);
  counters.close();
  return session.finish();
}
