// Preloaded into an unmodified MPI program (LD_PRELOAD): prints weir's counters and the peak of
// resident memory when it ends.
//
// "counter NAME min MIN max MAX sum SUM" over the ranks, from rank 0, as our own programs do, and
// the same for "memory resident_peak_kb". The profiling interface of MPI puts us in front of
// MPI_Finalize. [MPI-3.1 §14.2] Open MPI's Fortran does not come by there: it calls PMPI_Finalize.

#include <mpi.h>
#include <unistd.h>

#include "pvars.h"
#include "resident.h"

namespace {

void tell() {
  const double peak_kb = status_kb("VmHWM");
  ::usleep(200'000);  // for what was sent last: then nothing is under way
  Counters counters;
  counters.print(MPI_COMM_WORLD);
  counters.close();
  report_kb(MPI_COMM_WORLD, "resident_peak_kb", peak_kb);
  std::fflush(stdout);
}

}  // namespace

extern "C" {

int MPI_Finalize() {
  tell();
  return PMPI_Finalize();
}

// use mpi, mpif.h
void mpi_finalize_(int* error) {
  tell();
  *error = PMPI_Finalize();
}

// use mpi_f08
void ompi_finalize_f(int* error) { mpi_finalize_(error); }
}
