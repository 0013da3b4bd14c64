// window.h: memory that other ranks reach, for the one-sided tests.
//
// A created window lies in memory of the program's own, so that a transport has to be used even
// between ranks of one node; an allocated one may be shared there.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "check.h"

class Window {
 public:
  // Collective. `kind`: create or allocate.
  Window(const std::string& kind, std::size_t size_bytes, MPI_Comm comm = check::world)
      : size_bytes_(size_bytes) {
    const auto size = static_cast<MPI_Aint>(size_bytes);
    if (kind == "allocate") {
      MPI_Win_allocate(size, 1, MPI_INFO_NULL, comm, &base_, &win_);
    } else {
      CHECK(kind == "create", "there is no window '%s'", kind.c_str());
      MPI_Alloc_mem(size, MPI_INFO_NULL, &base_);
      MPI_Win_create(base_, size, 1, MPI_INFO_NULL, comm, &win_);
      own_ = true;
    }
    std::memset(base_, 0, size_bytes);
    MPI_Barrier(comm);
  }
  ~Window() {  // collective
    MPI_Win_free(&win_);
    if (own_) MPI_Free_mem(base_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  operator MPI_Win() const { return win_; }
  unsigned char* at(std::size_t offset) const { return base_ + offset; }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  unsigned char* base_ = nullptr;
  std::size_t size_bytes_;
  MPI_Win win_ = MPI_WIN_NULL;
  bool own_ = false;
};
