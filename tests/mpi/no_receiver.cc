// no_receiver: rank 1 forgets who takes messages in Open MPI, as if another version of a component
// had sent them. Such messages wait, but not for ever and not without end: the job has to end, and
// say why. That is judged by whoever runs it.
//
//   mpirun -n 2 no_receiver

#include <dlfcn.h>
#include <mpi.h>

#include <vector>

#include "check.h"

namespace {

// As in Open MPI's opal/mca/btl/btl.h: by tag, a function and what it is called with.
struct Receiver {
  void* function;
  void* data;
};
constexpr std::size_t tags = 256;

}  // namespace

MPI_TEST(no_receiver) {
  check::Session session(argc, argv, "no_receiver");
  session.options.done();
  CHECK(session.size == 2, "no_receiver needs two ranks");

  check::phase("connecting");
  MPI_Barrier(check::world);

  check::phase("messages that nobody takes");
  if (session.rank == 1) {
    auto* const receivers =
        static_cast<Receiver*>(dlsym(RTLD_DEFAULT, "mca_btl_base_active_message_trigger"));
    CHECK(receivers != nullptr, "this is not an Open MPI with active messages");
    for (std::size_t tag = 0; tag < tags; ++tag) receivers[tag].function = nullptr;
  }
  std::vector<unsigned char> bytes(4000);
  for (;;) {
    if (session.rank == 0) {
      MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 1, 1, check::world);
    } else {
      int there;
      MPI_Iprobe(0, 1, check::world, &there, MPI_STATUS_IGNORE);
      CHECK(there == 0, "a message came to nobody");
    }
  }
}
