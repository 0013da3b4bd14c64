/* Each rank sends to the next one, and compares what it got from the one before: small messages, which
 * MPI copies, and large ones, which the device reads or writes in place. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char pattern(int rank, int i) { return (unsigned char)(31 * rank + 7 * i + i / 251); }

int main(int argc, char **argv) {
  static const int sizes[] = {1, 1000, 100000, 1 << 20};
  int rank, ranks, wrong = 0, wrong_anywhere = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2) { /* a rank alone sends nothing over any network */
    fprintf(stderr, "mpi_ring: wants two ranks or more\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    unsigned char *out = malloc((size_t)sizes[s]), *in = calloc((size_t)sizes[s], 1);
    if (!out || !in) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < sizes[s]; i++) out[i] = pattern(rank, i);
    MPI_Sendrecv(out, sizes[s], MPI_BYTE, next, 0, in, sizes[s], MPI_BYTE, before, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < sizes[s]; i++) wrong += in[i] != pattern(before, i);
    free(out);
    free(in);
  }
  MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("mpi_ring: %d ranks, %d bytes wrong\n", ranks, wrong_anywhere);
  MPI_Finalize();
  return wrong_anywhere != 0;
}
