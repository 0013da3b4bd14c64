// rma_data: what put and get move: sizes around every limit, unaligned at both ends, strided and
// indexed on either side, many at a time, and the request-based ones.
//
//   mpirun -n 2 rma_data [--window create|allocate] [--largest 5M] [--counters]
//
// Bytes around the target of a put are guarded.

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "pvars.h"
#include "window.h"

namespace {

using Bytes = std::vector<unsigned char>;
constexpr int kPut = 1, kGet = 2;
constexpr std::size_t kGuard = 64;
constexpr unsigned char kUntouched = 0xa5;

int rank, size;
std::string kind;
std::uint32_t seq;  // counted alike by all ranks

int count_of(std::size_t n) { return static_cast<int>(n); }
MPI_Aint aint(std::size_t n) { return static_cast<MPI_Aint>(n); }

void expect_untouched(const unsigned char* from, std::size_t n, const char* what) {
  for (std::size_t i = 0; i < n; ++i)
    CHECK(from[i] == kUntouched, "%s: seq %u: byte %zu of a guard is 0x%02x", what, seq, i,
          from[i]);
}

enum class Way { plain, by_request };

// Everyone puts to its right and gets from its left, `skew` bytes off an aligned address at the
// target, as many at the origin in the other direction.
void contiguous(const Window& window, std::size_t bytes, std::size_t skew, Way way) {
  check::phase("contiguous data");
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  ++seq;
  const std::size_t mine = kGuard + skew, readable = window.size_bytes() / 2 + skew;
  std::memset(window.at(0), kUntouched, mine + bytes + kGuard);
  check::fill(window.at(readable), bytes, {rank, left, kGet, seq});
  Bytes out(bytes + 8), in(bytes + 8 + kGuard, kUntouched);
  unsigned char* const from = out.data() + (8 - skew % 8) % 8;
  unsigned char* const to = in.data() + (8 - skew % 8) % 8;
  check::fill(from, bytes, {rank, right, kPut, seq});
  MPI_Barrier(check::world);

  const int n = count_of(bytes);
  MPI_Win_lock_all(0, window);
  if (way == Way::by_request) {
    MPI_Request requests[2];
    MPI_Rput(from, n, MPI_BYTE, right, aint(mine), n, MPI_BYTE, window, &requests[0]);
    MPI_Rget(to, n, MPI_BYTE, right, aint(readable), n, MPI_BYTE, window, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check::verify(to, bytes, {right, rank, kGet, seq}, "rget");  // here without a flush
    std::memset(from, 0xee, bytes);                              // and this is ours again
  } else {
    MPI_Put(from, n, MPI_BYTE, right, aint(mine), n, MPI_BYTE, window);
    MPI_Get(to, n, MPI_BYTE, right, aint(readable), n, MPI_BYTE, window);
  }
  MPI_Win_unlock_all(window);
  check::verify(to, bytes, {right, rank, kGet, seq}, "get");
  expect_untouched(to + bytes, kGuard, "behind a get");
  MPI_Barrier(check::world);
  check::verify(window.at(mine), bytes, {left, rank, kPut, seq}, "put");
  expect_untouched(window.at(0), mine, "before a put");
  expect_untouched(window.at(mine + bytes), kGuard, "behind a put");
  MPI_Barrier(check::world);
}

// `blocks` runs of `run` bytes, one every `stride`; irregular: each a bit further off.
struct Layout {
  std::size_t blocks, run, stride;
  bool irregular;

  std::size_t at(std::size_t block) const {
    return block * stride + (irregular ? block % 3 * 8 : 0);
  }
  std::size_t span() const { return at(blocks - 1) + run + 16; }
  std::size_t bytes() const { return blocks * run; }

  MPI_Datatype type() const {
    MPI_Datatype type;
    if (irregular) {
      std::vector<int> lengths(blocks, count_of(run));
      std::vector<MPI_Aint> places;
      for (std::size_t i = 0; i < blocks; ++i) places.push_back(aint(at(i)));
      MPI_Type_create_hindexed(count_of(blocks), lengths.data(), places.data(), MPI_BYTE, &type);
    } else {
      MPI_Type_vector(count_of(blocks), count_of(run), count_of(stride), MPI_BYTE, &type);
    }
    MPI_Type_commit(&type);
    return type;
  }

  // Between a buffer in this layout and a plain one.
  template <typename Move>
  void for_each_run(Move&& move) const {
    for (std::size_t i = 0; i < blocks; ++i) move(at(i), i * run);
  }
};

void gaps_untouched(const Layout& layout, const unsigned char* base, const char* what) {
  std::vector<bool> used(layout.span(), false);
  layout.for_each_run([&](std::size_t at, std::size_t) {
    std::fill_n(used.begin() + static_cast<std::ptrdiff_t>(at), layout.run, true);
  });
  for (std::size_t i = 0; i < layout.span(); ++i)
    CHECK(used[i] || base[i] == kUntouched, "%s: seq %u: byte %zu of a gap is 0x%02x", what, seq, i,
          base[i]);
}

// The same bytes, laid out differently at the two ends. A plain end has one run.
void strided(const Window& window, const Layout& here, const Layout& there) {
  check::phase("strided data");
  CHECK(here.bytes() == there.bytes(), "the layouts differ in size");
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  ++seq;
  const std::size_t readable = window.size_bytes() / 2;
  Bytes plain(here.bytes()), out(here.span(), kUntouched), in(here.span(), kUntouched);
  std::memset(window.at(0), kUntouched, there.span());
  check::fill(plain.data(), plain.size(), {rank, left, kGet, seq});
  there.for_each_run([&](std::size_t at, std::size_t from) {
    std::memcpy(window.at(readable + at), plain.data() + from, there.run);
  });
  check::fill(plain.data(), plain.size(), {rank, right, kPut, seq});
  here.for_each_run([&](std::size_t at, std::size_t from) {
    std::memcpy(out.data() + at, plain.data() + from, here.run);
  });
  MPI_Datatype here_type = here.type(), there_type = there.type();
  MPI_Win_fence(0, window);
  MPI_Put(out.data(), 1, here_type, right, 0, 1, there_type, window);
  MPI_Get(in.data(), 1, here_type, right, aint(readable), 1, there_type, window);
  MPI_Win_fence(0, window);
  MPI_Type_free(&here_type);
  MPI_Type_free(&there_type);

  here.for_each_run([&](std::size_t at, std::size_t to) {
    std::memcpy(plain.data() + to, in.data() + at, here.run);
  });
  check::verify(plain.data(), plain.size(), {right, rank, kGet, seq}, "strided get");
  gaps_untouched(here, in.data(), "strided get");
  there.for_each_run([&](std::size_t at, std::size_t to) {
    std::memcpy(plain.data() + to, window.at(at), there.run);
  });
  check::verify(plain.data(), plain.size(), {left, rank, kPut, seq}, "strided put");
  gaps_untouched(there, window.at(0), "strided put");
  MPI_Barrier(check::world);
}

// Hundreds at a time before one flush, to all ranks, of all sizes up to `largest`.
void many(const Window& window, std::uint32_t count, std::uint32_t largest) {
  check::phase("many at a time");
  ++seq;
  const std::size_t share = window.size_bytes() / 2 / static_cast<std::size_t>(size);
  const auto sizes = [&](int origin, int target) {
    check::Random random(check::seed * 7919 + static_cast<std::uint64_t>(origin * size + target));
    std::vector<std::size_t> list;
    std::size_t sum = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::size_t n = random.chance(80) ? random.below(300) : random.below(largest);
      if (sum + n > share) break;
      list.push_back(n);
      sum += n;
    }
    return list;
  };
  const auto envelope = [](int origin, int target, std::size_t i) {
    return check::Envelope{origin, target, kPut, seq * 10000 + static_cast<std::uint32_t>(i)};
  };
  Bytes out(share * static_cast<std::size_t>(size)), in(out.size());
  MPI_Barrier(check::world);
  MPI_Win_lock_all(0, window);
  const auto for_each = [&](int origin, int target, auto&& act) {
    const std::vector<std::size_t> list = sizes(origin, target);
    std::size_t at = 0;
    for (std::size_t i = 0; i < list.size(); at += list[i++]) act(at, list[i], i);
  };
  for (int to = 0; to < size; ++to) {
    for_each(rank, to, [&](std::size_t at, std::size_t n, std::size_t i) {
      unsigned char* const from = out.data() + share * static_cast<std::size_t>(to) + at;
      check::fill(from, n, envelope(rank, to, i));
      MPI_Put(from, count_of(n), MPI_BYTE, to, aint(share * static_cast<std::size_t>(rank) + at),
              count_of(n), MPI_BYTE, window);
    });
  }
  MPI_Win_flush_all(window);
  for (int of = 0; of < size; ++of) {  // and back what we put
    for_each(rank, of, [&](std::size_t at, std::size_t n, std::size_t) {
      MPI_Get(in.data() + share * static_cast<std::size_t>(of) + at, count_of(n), MPI_BYTE, of,
              aint(share * static_cast<std::size_t>(rank) + at), count_of(n), MPI_BYTE, window);
    });
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(check::world);
  for (int r = 0; r < size; ++r) {
    for_each(rank, r, [&](std::size_t at, std::size_t n, std::size_t i) {
      check::verify(in.data() + share * static_cast<std::size_t>(r) + at, n, envelope(rank, r, i),
                    "one of many gets");
    });
    for_each(r, rank, [&](std::size_t at, std::size_t n, std::size_t i) {
      check::verify(window.at(share * static_cast<std::size_t>(r) + at), n, envelope(r, rank, i),
                    "one of many puts");
    });
  }
  MPI_Barrier(check::world);
}

}  // namespace

MPI_TEST(rma_data) {
  check::Session session(argc, argv, "rma_data");
  kind = session.options.text("window", "create");
  const auto largest = static_cast<std::size_t>(session.options.number("largest", 5 << 20));
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  seq = 0;
  rank = session.rank, size = session.size;

  Counters counters;
  {
    Window window(kind, 2 * (largest + 4096));
    constexpr std::size_t k = 1024;
    constexpr std::size_t sizes[] = {0,           1,           3,         7,           8,
                                     9,           63,          4 * k - 1, 4 * k,       4 * k + 1,
                                     64 * k + 1,  128 * k - 1, 128 * k,   128 * k + 1, 160 * k + 3,
                                     256 * k + 5, k * k + 7};
    std::vector<std::size_t> all(std::begin(sizes), std::end(sizes));
    all.push_back(largest);
    for (std::size_t bytes : all) {
      if (bytes > largest) continue;
      for (std::size_t skew : {0, 1, 5}) {
        contiguous(window, bytes, skew, Way::plain);
        if (skew != 1) contiguous(window, bytes, skew, Way::by_request);
      }
    }
    const Layout vector{64, 24, 40, false}, runs{32, 48, 200, true};
    const Layout plain{1, 64 * 24, 64 * 24, false};
    for (const Layout& here : {plain, vector, runs})
      for (const Layout& there : {plain, vector, runs}) strided(window, here, there);
    const Layout coarse{4, 150 * k, 200 * k, false}, solid{1, 600 * k, 600 * k, false};
    if (coarse.span() + 4096 < largest) {
      strided(window, coarse, solid);
      strided(window, solid, coarse);
      strided(window, coarse, coarse);
    }
    many(window, 400, 20000);
    many(window, 20, 300000);
  }

  if (show_counters) counters.print(check::world);
  counters.close();
  return session.finish();
}
