// stencil: a halo exchange in two dimensions beside the computation of the inner cells. [OVL §1]
//
//   mpirun -n 2 stencil [--bytes 256K] [--steps 10] [--counters]
//
// Every step sends the outermost rows and columns (a row has --bytes), computes the inner cells,
// and waits for the halo. The computation is made as long as the exchange alone. It measures both
// alone, the step, the step with MPI_Testall now and then, and a step that sleeps instead of
// computing, with the processor time that it takes. Times are those of the slowest rank.
//
// Every cell of a halo is checked. A step begins with a barrier, outside of its time.

#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

using Cell = std::uint64_t;  // whole numbers: any bytes are legal

constexpr int kRows = 66;
constexpr int kTests = 16;  // calls of MPI_Testall in a computation

struct Times {
  double wall_s = 0, cpu_s = 0;
};

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double median_of_slowest(const std::vector<double>& mine) {
  std::vector<double> most(mine.size());
  MPI_Allreduce(mine.data(), most.data(), static_cast<int>(mine.size()), MPI_DOUBLE, MPI_MAX,
                check::world);
  std::sort(most.begin(), most.end());
  return most[most.size() / 2];
}

// This rank's cells, in a frame of those that others have.
class Grid {
 public:
  Grid(MPI_Comm grid, int columns) : comm_(grid), columns_(columns), stride_(columns + 2) {
    MPI_Cart_coords(comm_, check::rank, 2, place_);
    for (int d = 0; d < 2; ++d) MPI_Cart_shift(comm_, d, 1, &sides_[2 * d], &sides_[2 * d + 1]);
    cells_.resize(static_cast<std::size_t>(stride_) * (kRows + 2));
    next_ = cells_;
    MPI_Type_vector(kRows, 1, stride_, MPI_UINT64_T, &column_);
    MPI_Type_commit(&column_);
  }
  ~Grid() { MPI_Type_free(&column_); }

  void begin(int step) {
    step_ = step;
    for (int side = 0; side < 4; ++side)
      each(side, 1, [&](int i, int j) { at(i, j) = value(i, j); });
  }
  void start() {
    for (int side = 0; side < 4; ++side) {
      const auto [to, from, count, type] =
          side < 2 ? Part{first(side, 1), first(side, 0), columns_, MPI_UINT64_T}
                   : Part{first(side, 1), first(side, 0), 1, column_};
      MPI_Irecv(from, count, type, sides_[side], side ^ 1, comm_, &requests_[side]);
      MPI_Isend(to, count, type, sides_[side], side, comm_, &requests_[4 + side]);
    }
  }
  void test() {
    int done;
    MPI_Testall(8, requests_, &done, MPI_STATUSES_IGNORE);
  }
  void wait() { MPI_Waitall(8, requests_, MPI_STATUSES_IGNORE); }
  void check() {
    for (int side = 0; side < 4; ++side) {
      if (sides_[side] == MPI_PROC_NULL) continue;
      each(side, 0, [&](int i, int j) {
        CHECK(at(i, j) == value(i, j), "step %d: cell %d, %d of the halo is wrong", step_, i, j);
        check::verified_bytes += sizeof(Cell);
      });
      ++check::verified_messages;
    }
  }

  // So many inner rows, over and over.
  void compute(int begin, int end) {
    for (int row = begin; row < end; ++row) {
      const int i = 2 + row % (kRows - 2);
      const Cell *const up = &at(i - 1, 0), *const here = &at(i, 0), *const down = &at(i + 1, 0);
      Cell* const to = &next_[index(i, 0)];
      for (int j = 2; j < columns_; ++j)
        to[j] = (4 * here[j] + up[j] + down[j] + here[j - 1] + here[j + 1]) >> 3;
    }
  }
  void swap() { cells_.swap(next_); }

 private:
  struct Part {
    Cell *to, *from;
    int count;
    MPI_Datatype type;
  };

  std::size_t index(int i, int j) const { return static_cast<std::size_t>(i * stride_ + j); }
  Cell& at(int i, int j) { return cells_[index(i, j)]; }
  // Up, down, left, right: the halo there is 0 cells in, what is sent 1.
  Cell* first(int side, int in) {
    const int low = in, high = 1 - in;
    const int i = side == 0 ? low : side == 1 ? kRows + high : 1;
    const int j = side == 2 ? low : side == 3 ? columns_ + high : 1;
    return &at(i, j);
  }
  template <typename Do>
  void each(int side, int in, Do&& what) {
    const auto at = static_cast<int>(first(side, in) - cells_.data());
    const int count = side < 2 ? columns_ : kRows;
    for (int n = 0, i = at / stride_, j = at % stride_; n < count; ++n) {
      what(i, j);
      ++(side < 2 ? j : i);
    }
  }
  // Of a cell that others see, by its place in the whole.
  Cell value(int i, int j) const {
    const auto row = static_cast<std::uint64_t>(place_[0] * kRows + i);
    const auto column = static_cast<std::uint64_t>(place_[1] * columns_ + j);
    return check::mix(check::mix(check::seed + static_cast<std::uint64_t>(step_)) ^
                      (row << 32 | column));
  }

  MPI_Comm comm_;
  int columns_, stride_, step_ = 0;
  int place_[2] = {}, sides_[4] = {};
  MPI_Datatype column_;
  MPI_Request requests_[8];
  std::vector<Cell> cells_, next_;
};

// The median step; each is that of the slowest rank. `work` comes between the start and the wait,
// if both are to be.
template <typename Work>
Times measure(Grid& grid, int steps, bool exchanges, Work&& work) {
  static int step = 0;
  std::vector<double> wall_s, cpu_used_s;
  for (int i = 0; i < steps; ++i) {
    grid.begin(++step);
    MPI_Barrier(check::world);
    const double begin = MPI_Wtime(), cpu_before = cpu_s();
    if (exchanges) grid.start();
    work();
    if (exchanges) grid.wait();
    wall_s.push_back(MPI_Wtime() - begin);
    cpu_used_s.push_back(cpu_s() - cpu_before);
    if (exchanges) grid.check();
    grid.swap();
  }
  return {median_of_slowest(wall_s), median_of_slowest(cpu_used_s)};
}

}  // namespace

MPI_TEST(stencil) {
  check::Session session(argc, argv, "stencil");
  const auto bytes = session.options.number("bytes", 256 << 10);
  const int steps = static_cast<int>(session.options.number("steps", 10));
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  CHECK(bytes >= 64, "a row has some cells");

  int shape[2] = {}, periods[2] = {};
  MPI_Dims_create(session.size, 2, shape);
  MPI_Comm cart;
  MPI_Cart_create(check::world, 2, shape, periods, 0, &cart);
  {
    Grid grid(cart, static_cast<int>(bytes) / static_cast<int>(sizeof(Cell)));
    const auto nothing = [] {};
    check::phase("the exchange alone");
    measure(grid, 2, true, nothing);  // connects, registers memory
    const Times exchange = measure(grid, steps, true, nothing);

    check::phase("the computation alone");
    const auto compute = [&](int rows) { return [&grid, rows] { grid.compute(0, rows); }; };
    measure(grid, 1, false, compute(kRows));
    const double row_s = measure(grid, 3, false, compute(kRows)).wall_s / kRows;
    const int rows = std::clamp(static_cast<int>(exchange.wall_s / row_s), 1, 1 << 20);
    const Times computation = measure(grid, steps, false, compute(rows));

    check::phase("steps");
    const Times step = measure(grid, steps, true, compute(rows));
    check::phase("steps with tests");
    const Times tested = measure(grid, steps, true, [&] {
      for (int i = 0; i < kTests; ++i) {
        grid.compute(rows * i / kTests, rows * (i + 1) / kTests);
        grid.test();
      }
    });
    check::phase("steps that sleep");
    const auto pause = static_cast<useconds_t>(2e6 * exchange.wall_s);
    const Times asleep = measure(grid, steps, true, [&] { usleep(pause); });
    if (session.rank == 0) {
      std::printf(
          "stencil: %d x %d ranks, rows of %ld KiB: exchange %.2f ms, computation %.2f ms, step "
          "%.2f ms, with tests %.2f ms; asleep for %.2f ms, step %.2f ms, CPU %.2f ms\n",
          shape[0], shape[1], bytes >> 10, 1e3 * exchange.wall_s, 1e3 * computation.wall_s,
          1e3 * step.wall_s, 1e3 * tested.wall_s, 1e-3 * pause, 1e3 * asleep.wall_s,
          1e3 * asleep.cpu_s);
      std::fflush(stdout);
    }
  }
  MPI_Comm_free(&cart);
  if (show_counters) print_counters(check::world);
  return session.finish();
}
