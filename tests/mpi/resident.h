// resident.h: how much memory of processes is resident, for programs that report it at their end.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// A field of /proc/self/status, such as VmHWM, the peak; 0 if there is none.
inline double status_kb(const char* field) {
  double kb = 0;
  if (std::FILE* file = std::fopen("/proc/self/status", "r")) {
    char line[256];
    const std::size_t length = std::strlen(field);
    while (std::fgets(line, sizeof line, file) != nullptr)
      if (std::strncmp(line, field, length) == 0) kb = std::atof(line + length + 1);
    std::fclose(file);
  }
  return kb;
}

// Collective in `comm`: "memory NAME min MIN max MAX sum SUM" from its rank 0.
inline void report_kb(MPI_Comm comm, const char* name, double mine) {
  int rank;
  double low, high, sum;
  MPI_Comm_rank(comm, &rank);
  MPI_Reduce(&mine, &low, 1, MPI_DOUBLE, MPI_MIN, 0, comm);
  MPI_Reduce(&mine, &high, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, comm);
  if (rank == 0) std::printf("memory %s min %.0f max %.0f sum %.0f\n", name, low, high, sum);
}
