// Preloaded into an unmodified MPI program (LD_PRELOAD): prints weir's counters when it ends.
//
// "counter NAME min MIN max MAX sum SUM" over the ranks, from rank 0, as our own programs do. The
// profiling interface of MPI puts us in front of MPI_Finalize. [MPI-3.1 §14.2]

#include <mpi.h>
#include <unistd.h>

#include "pvars.h"

extern "C" int MPI_Finalize() {
  ::usleep(200'000);  // for what was sent last: then nothing is under way
  Counters counters;
  counters.print(MPI_COMM_WORLD);
  counters.close();
  return PMPI_Finalize();
}
