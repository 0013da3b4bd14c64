// rma_atomics: operations that change memory at the target: accumulate, get_accumulate,
// fetch_and_op and compare_and_swap, of several types, with all ranks at the same words at once;
// the sums, and what every operation saw, must be those of some order.
//
//   mpirun -n 4 rma_atomics [--window create|allocate] [--count 200] [--long 40000] [--counters]

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "check.h"
#include "pvars.h"
#include "window.h"

namespace {

int rank, size;
std::string kind;

template <typename T>
MPI_Datatype type_of();
template <>
MPI_Datatype type_of<std::int8_t>() {
  return MPI_INT8_T;
}
template <>
MPI_Datatype type_of<std::int16_t>() {
  return MPI_INT16_T;
}
template <>
MPI_Datatype type_of<std::int32_t>() {
  return MPI_INT32_T;
}
template <>
MPI_Datatype type_of<std::uint32_t>() {
  return MPI_UINT32_T;
}
template <>
MPI_Datatype type_of<std::int64_t>() {
  return MPI_INT64_T;
}
template <>
MPI_Datatype type_of<std::uint64_t>() {
  return MPI_UINT64_T;
}
template <>
MPI_Datatype type_of<float>() {
  return MPI_FLOAT;
}
template <>
MPI_Datatype type_of<double>() {
  return MPI_DOUBLE;
}

// What rank r contributes to element i: small, so that sums and products are exact in all types.
template <typename T>
T term(int r, std::size_t i) {
  return static_cast<T>(1 + (static_cast<std::size_t>(r) * 3 + i) % 3);
}

template <typename T>
T apply(MPI_Op op, T a, T b) {
  if (op == MPI_SUM) return static_cast<T>(a + b);
  if (op == MPI_PROD) return static_cast<T>(a * b);
  if (op == MPI_MIN) return std::min(a, b);
  if (op == MPI_MAX) return std::max(a, b);
  if constexpr (std::is_integral_v<T>) {
    if (op == MPI_BAND) return static_cast<T>(a & b);
    if (op == MPI_BOR) return static_cast<T>(a | b);
    if (op == MPI_BXOR) return static_cast<T>(a ^ b);
    if (op == MPI_LAND) return static_cast<T>(a && b);
    if (op == MPI_LOR) return static_cast<T>(a || b);
    if (op == MPI_LXOR) return static_cast<T>(!a != !b);
  }
  check::fail("no such operation");
}

enum class Way { plain, by_request, fetching };

// All ranks accumulate onto all ranks. What the fetching ones see is the matter of `chains`.
template <typename T>
void accumulate(MPI_Op op, std::size_t count, Way way) {
  check::phase("accumulate");
  Window window(kind, count * sizeof(T));
  auto* const mine = reinterpret_cast<T*>(window.at(0));
  const T start = static_cast<T>(2);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
  std::fill_n(mine, count, start);
  MPI_Win_unlock(rank, window);
  MPI_Barrier(check::world);

  std::vector<T> terms(count), before(count);
  for (std::size_t i = 0; i < count; ++i) terms[i] = term<T>(rank, i);
  const int n = static_cast<int>(count);
  const MPI_Datatype type = type_of<T>();
  MPI_Win_lock_all(0, window);
  for (int shift = 0; shift < size; ++shift) {
    const int to = (rank + shift) % size;
    MPI_Request request;
    switch (way) {
      case Way::plain: MPI_Accumulate(terms.data(), n, type, to, 0, n, type, op, window); break;
      case Way::by_request:
        MPI_Raccumulate(terms.data(), n, type, to, 0, n, type, op, window, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
      case Way::fetching:
        MPI_Get_accumulate(terms.data(), n, type, before.data(), n, type, to, 0, n, type, op,
                           window);
        MPI_Win_flush(to, window);
        break;
    }
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(check::world);

  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
  for (std::size_t i = 0; i < count; ++i) {
    T expected = start;
    for (int r = 0; r < size; ++r) expected = apply(op, expected, term<T>(r, i));
    CHECK(mine[i] == expected, "accumulate: element %zu of %zu, %zu bytes each, is %g, not %g", i,
          count, sizeof(T), static_cast<double>(mine[i]), static_cast<double>(expected));
  }
  MPI_Win_unlock(rank, window);
  check::verified_messages += count;
  MPI_Barrier(check::world);
}

template <typename T>
void accumulate_all(std::size_t longest) {
  std::vector<MPI_Op> ops{MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
  if (std::is_integral_v<T>)
    ops.insert(ops.end(), {MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR});
  int turn = 0;
  for (MPI_Op op : ops) {
    const Way way = static_cast<Way>(turn++ % 3);
    accumulate<T>(op, 1, way);
    accumulate<T>(op, 37, way);
  }
  accumulate<T>(MPI_SUM, longest, Way::plain);
  accumulate<T>(MPI_SUM, longest, Way::by_request);
  accumulate<T>(MPI_SUM, longest, Way::fetching);
}

// Value and place: the largest, and who had it.
void located() {
  check::phase("accumulate with places");
  struct Pair {
    double value;
    int place;
  };
  Window window(kind, sizeof(Pair));
  auto* const mine = reinterpret_cast<Pair*>(window.at(0));
  MPI_Win_fence(0, window);
  *mine = {-1, -1};
  MPI_Win_fence(0, window);
  std::vector<Pair> terms;
  for (int to = 0; to < size; ++to)
    terms.push_back({static_cast<double>((rank * 7 + to) % size), rank});
  for (int to = 0; to < size; ++to)
    MPI_Accumulate(&terms[static_cast<std::size_t>(to)], 1, MPI_DOUBLE_INT, to, 0, 1,
                   MPI_DOUBLE_INT, MPI_MAXLOC, window);
  MPI_Win_fence(0, window);
  Pair expected{-1, -1};
  for (int r = 0; r < size; ++r) {
    const double value = (r * 7 + rank) % size;
    if (value > expected.value) expected = {value, r};
  }
  CHECK(mine->value == expected.value && mine->place == expected.place,
        "the largest is %g of %d, not %g of %d", mine->value, mine->place, expected.value,
        expected.place);
  ++check::verified_messages;
}

// MPI_REPLACE is an atomic put, MPI_NO_OP an atomic get: never half of one and half of another.
void replace_whole(int rounds) {
  check::phase("atomic replacement");
  Window window(kind, 8);
  MPI_Win_lock_all(0, window);
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t half = static_cast<std::uint64_t>(rank * rounds + i + 1);
    const std::uint64_t value = half << 32 | half;
    std::uint64_t seen = 0;
    if (i % 2 == 0) {
      MPI_Accumulate(&value, 1, MPI_UINT64_T, 0, 0, 1, MPI_UINT64_T, MPI_REPLACE, window);
    } else {
      MPI_Fetch_and_op(&value, &seen, MPI_UINT64_T, 0, 0, MPI_REPLACE, window);
    }
    MPI_Win_flush(0, window);
    CHECK(seen >> 32 == (seen & 0xffffffff), "replaced 0x%llx",
          static_cast<unsigned long long>(seen));
    MPI_Fetch_and_op(nullptr, &seen, MPI_UINT64_T, 0, 0, MPI_NO_OP, window);
    MPI_Win_flush(0, window);
    CHECK(seen != 0 && seen >> 32 == (seen & 0xffffffff), "fetched 0x%llx",
          static_cast<unsigned long long>(seen));
  }
  MPI_Win_unlock_all(window);
  check::verified_messages += static_cast<std::uint64_t>(rounds);
}

// Tickets: every number is drawn once, and a rank's own rise.
template <typename T>
void tickets(int owner, int count, bool by_swap) {
  check::phase(by_swap ? "tickets by compare and swap" : "tickets by fetch and add");
  Window window(kind, 16);
  const MPI_Datatype type = type_of<T>();
  std::vector<long long> drawn;
  MPI_Win_lock_all(0, window);
  T guess = 0;
  for (int i = 0; i < count; ++i) {
    const T one = 1;
    T seen = static_cast<T>(-1);
    if (!by_swap) {
      MPI_Fetch_and_op(&one, &seen, type, owner, 8, MPI_SUM, window);
      MPI_Win_flush(owner, window);
    } else {
      for (;; guess = seen) {
        const T next = static_cast<T>(guess + 1);
        MPI_Compare_and_swap(&next, &guess, &seen, type, owner, 8, window);
        MPI_Win_flush(owner, window);
        if (seen == guess) break;
      }
      guess = static_cast<T>(seen + 1);
    }
    CHECK(drawn.empty() || static_cast<long long>(seen) > drawn.back(), "drew %lld after %lld",
          static_cast<long long>(seen), drawn.back());
    drawn.push_back(static_cast<long long>(seen));
  }
  MPI_Win_unlock_all(window);
  std::vector<long long> all(static_cast<std::size_t>(count * size));
  MPI_Allgather(drawn.data(), count, MPI_LONG_LONG, all.data(), count, MPI_LONG_LONG, check::world);
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(all[i] == static_cast<long long>(i), "ticket %zu is %lld: drawn twice or never", i,
          all[i]);
  check::verified_messages += static_cast<std::uint64_t>(count);
}

// Arrays at a time: what each saw in an element are, over all ranks, all the sums on the way.
void chains(std::size_t count) {
  check::phase("chains of get_accumulate");
  Window window(kind, count * 8);
  std::vector<std::int64_t> ones(count, 1), seen(count, -1);
  std::vector<std::int64_t> all(count * static_cast<std::size_t>(size));
  const int n = static_cast<int>(count);
  MPI_Request request;
  MPI_Win_lock_all(0, window);
  MPI_Rget_accumulate(ones.data(), n, MPI_INT64_T, seen.data(), n, MPI_INT64_T, size - 1, 0, n,
                      MPI_INT64_T, MPI_SUM, window, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Win_unlock_all(window);
  MPI_Allgather(seen.data(), n, MPI_INT64_T, all.data(), n, MPI_INT64_T, check::world);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<bool> had(static_cast<std::size_t>(size), false);
    for (int r = 0; r < size; ++r) {
      const std::int64_t value = all[static_cast<std::size_t>(r) * count + i];
      CHECK(value >= 0 && value < size && !had[static_cast<std::size_t>(value)],
            "element %zu: rank %d saw %lld, impossible or twice", i, r,
            static_cast<long long>(value));
      had[static_cast<std::size_t>(value)] = true;
    }
  }
  check::verified_messages += count;
}

// Words that an adapter's atomics refuse: 8 bytes that begin anywhere. Every sum is drawn once, by
// addition and by compare and swap in turn, and the bytes beside the word stay as they were.
void unaligned(int count) {
  check::phase("unaligned words");
  constexpr std::size_t page = 4096;
  constexpr unsigned char beside = 0xa5;
  for (const std::size_t at : {std::size_t{4}, std::size_t{57}, page - 4, page + 101}) {
    Window window(kind, 2 * page);
    if (rank == 0) {
      std::memset(window.at(0), beside, window.size_bytes());
      std::memset(window.at(at), 0, 3 * sizeof(std::int64_t));
    }
    MPI_Barrier(check::world);
    const auto place = static_cast<MPI_Aint>(at);
    std::vector<std::int64_t> drawn;
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < count; ++i) {
      const std::int64_t one = 1;
      std::int64_t seen = 0, guess;
      MPI_Fetch_and_op(&one, &drawn.emplace_back(), MPI_INT64_T, 0, place, MPI_SUM, window);
      MPI_Win_flush(0, window);
      do {
        guess = seen;
        const std::int64_t next = guess + 1;
        MPI_Compare_and_swap(&next, &guess, &seen, MPI_INT64_T, 0, place + 8, window);
        MPI_Win_flush(0, window);
      } while (seen != guess);
      const double half = 0.5;
      MPI_Accumulate(&half, 1, MPI_DOUBLE, 0, place + 16, 1, MPI_DOUBLE, MPI_SUM, window);
    }
    MPI_Win_unlock_all(window);
    const std::int64_t sum = std::int64_t{count} * size;
    std::vector<std::int64_t> all(static_cast<std::size_t>(sum));
    MPI_Allgather(drawn.data(), count, MPI_INT64_T, all.data(), count, MPI_INT64_T, check::world);
    std::sort(all.begin(), all.end());
    for (std::int64_t i = 0; i < sum; ++i)
      CHECK(all[static_cast<std::size_t>(i)] == i, "at %zu: %lld is drawn twice or never", at,
            static_cast<long long>(i));
    if (rank == 0) {
      std::int64_t words[2];
      double halves;
      std::memcpy(words, window.at(at), sizeof words);
      std::memcpy(&halves, window.at(at + 16), sizeof halves);
      CHECK(words[0] == sum && words[1] == sum && halves == 0.5 * static_cast<double>(sum),
            "at %zu: the sums are %lld, %lld and %g, not %lld", at,
            static_cast<long long>(words[0]), static_cast<long long>(words[1]), halves,
            static_cast<long long>(sum));
      for (std::size_t i = 0; i < window.size_bytes(); ++i)
        CHECK(i - at < 3 * sizeof sum || *window.at(i) == beside, "at %zu: byte %zu is changed", at,
              i);
    }
    MPI_Barrier(check::world);
    check::verified_messages += static_cast<std::uint64_t>(count);
  }
}

// A lock made of compare-and-swap, around a plain counter; different words than the window's lock. It is
// given back by compare-and-swap, too: by default accumulates of one kind only are atomic to each other
// (MPI 4.0, 12.2.1, accumulate_ops), and osc/rdma does MPI_REPLACE as a read and a plain write.
void spin_lock(int rounds) {
  check::phase("a lock of compare and swap");
  Window window(kind, 16);
  MPI_Win_lock_all(0, window);
  for (int i = 0; i < rounds; ++i) {
    const std::int64_t free = 0, mine = rank + 1;
    std::int64_t seen, value;
    do {
      MPI_Compare_and_swap(&mine, &free, &seen, MPI_INT64_T, 0, 0, window);
      MPI_Win_flush(0, window);
    } while (seen != free);
    MPI_Get(&value, 1, MPI_INT64_T, 0, 8, 1, MPI_INT64_T, window);
    MPI_Win_flush(0, window);
    ++value;
    MPI_Put(&value, 1, MPI_INT64_T, 0, 8, 1, MPI_INT64_T, window);
    MPI_Win_flush(0, window);
    MPI_Compare_and_swap(&free, &mine, &seen, MPI_INT64_T, 0, 0, window);
    MPI_Win_flush(0, window);
    CHECK(seen == mine, "the lock of rank %d was held by %lld", rank,
          static_cast<long long>(seen) - 1);
  }
  MPI_Barrier(check::world);
  std::int64_t sum = 0;
  MPI_Get(&sum, 1, MPI_INT64_T, 0, 8, 1, MPI_INT64_T, window);
  MPI_Win_unlock_all(window);
  CHECK(sum == std::int64_t{rounds} * size, "the counter is %lld, not %lld",
        static_cast<long long>(sum), static_cast<long long>(rounds) * size);
  check::verified_messages += static_cast<std::uint64_t>(rounds);
}

}  // namespace

MPI_TEST(rma_atomics) {
  check::Session session(argc, argv, "rma_atomics");
  kind = session.options.text("window", "create");
  const int count = static_cast<int>(session.options.number("count", 200));
  const auto longest = static_cast<std::size_t>(session.options.number("long", 40000));
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  rank = session.rank, size = session.size;

  Counters counters;
  accumulate_all<std::int64_t>(longest);
  accumulate_all<std::uint64_t>(37);
  accumulate_all<std::int32_t>(longest);
  accumulate_all<std::uint32_t>(37);
  accumulate_all<double>(longest);
  accumulate_all<float>(37);
  accumulate<std::int8_t>(MPI_SUM, 37, Way::plain);
  accumulate<std::int16_t>(MPI_MAX, 37, Way::fetching);
  located();
  replace_whole(count / 4);
  for (int owner : {0, size - 1}) {
    tickets<std::int64_t>(owner, count, false);
    tickets<std::int32_t>(owner, count, false);
    tickets<std::int64_t>(owner, count / 4, true);
    tickets<std::int32_t>(owner, count / 4, true);
  }
  chains(1);
  chains(500);
  chains(4000);  // above 32 KiB Open MPI 4.1.4 fetches a wrong end, from vader too
  unaligned(count / 10);
  spin_lock(count / 10);

  if (show_counters) counters.print(check::world);
  counters.close();
  return session.finish();
}
