// rma_list: all ranks append elements to one list that lies in a dynamic window. Each element is
// attached by itself, while others look for the tail by gets and append by compare-and-swap. In the
// end every element is in the list once, and those of a rank in the order in which it appended
// them.
//
//   mpirun -n 4 rma_list [--elements 20] [--lists 3] [--spread] [--counters]
//
// --spread: each element on a page of its own, in an order that moves the window's other pages in
// the tables of all.

#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

int rank, size;

// 48 bits of address are what user programs have.
struct Place {
  static constexpr unsigned address_bits = 48;
  std::uint64_t word = 0;  // 0: none

  static Place of(int owner, const void* at) {
    MPI_Aint address;
    MPI_Get_address(at, &address);
    return {(static_cast<std::uint64_t>(owner) + 1) << address_bits |
            static_cast<std::uint64_t>(address)};
  }
  int owner() const { return static_cast<int>(word >> address_bits) - 1; }
  MPI_Aint address() const {
    return static_cast<MPI_Aint>(word & ((std::uint64_t{1} << address_bits) - 1));
  }
};

struct Element {
  std::uint64_t next;
  std::uint64_t owner;
  std::uint64_t number;
};

constexpr std::size_t page = 4096;

// Where a rank's elements lie.
class Memory {
 public:
  Memory(int elements, bool spread, unsigned seed) : places_(static_cast<std::size_t>(elements)) {
    if (spread) {
      bytes_ = places_.size() * page;
      pages_ = static_cast<char*>(
          mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      CHECK(pages_ != MAP_FAILED, "no %zu bytes of memory", bytes_);
      for (std::size_t i = 0; i < places_.size(); ++i) {
        places_[i] = reinterpret_cast<Element*>(pages_ + i * page);
      }
      std::shuffle(places_.begin(), places_.end(), std::mt19937(seed));
    } else {
      for (Element*& place : places_) MPI_Alloc_mem(sizeof(Element), MPI_INFO_NULL, &place);
    }
  }
  ~Memory() {
    if (pages_ != nullptr) {
      munmap(pages_, bytes_);
    } else {
      for (Element* const place : places_) MPI_Free_mem(place);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Element* at(int i) const { return places_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<Element*> places_;
  char* pages_ = nullptr;
  std::size_t bytes_ = 0;
};

Element read(MPI_Win win, Place place) {
  Element element;
  MPI_Win_lock(MPI_LOCK_SHARED, place.owner(), 0, win);
  MPI_Get(&element, sizeof element, MPI_BYTE, place.owner(), place.address(), sizeof element,
          MPI_BYTE, win);
  MPI_Win_unlock(place.owner(), win);
  return element;
}

// What the element's `next` was; it is `to` if that was nothing.
Place link(MPI_Win win, Place element, Place to) {
  const std::uint64_t nothing = 0;
  Place was;
  MPI_Win_lock(MPI_LOCK_SHARED, element.owner(), 0, win);
  MPI_Compare_and_swap(&to.word, &nothing, &was.word, MPI_UINT64_T, element.owner(),
                       element.address(), win);
  MPI_Win_flush(element.owner(), win);
  MPI_Win_unlock(element.owner(), win);
  return was;
}

Element* attach(MPI_Win win, Element* at, int number) {
  *at = {0, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(number)};
  MPI_Win_attach(win, at, sizeof *at);
  return at;
}

void make_list(int elements, bool spread, unsigned seed) {
  MPI_Win win;
  MPI_Win_create_dynamic(MPI_INFO_NULL, check::world, &win);
  const Memory memory(elements + 1, spread, seed + static_cast<unsigned>(rank));
  Place head;
  if (rank == 0) head = Place::of(0, attach(win, memory.at(elements), 0));
  MPI_Bcast(&head.word, 1, MPI_UINT64_T, 0, check::world);

  check::phase("appending");
  Place tail = head;
  for (int i = 0; i < elements; ++i) {
    const Place mine = Place::of(rank, attach(win, memory.at(i), i));
    for (;;) {
      if (const Place next{read(win, tail).next}; next.word != 0) {
        tail = next;
        continue;
      }
      const Place next = link(win, tail, mine);
      tail = next.word == 0 ? mine : next;
      if (next.word == 0) break;
    }
  }
  MPI_Barrier(check::world);

  check::phase("reading the list");
  if (rank == 0) {
    std::vector<std::uint64_t> seen(static_cast<std::size_t>(size), 0);
    for (Place place{read(win, head).next}; place.word != 0;) {
      const Element element = read(win, place);
      CHECK(element.owner == static_cast<std::uint64_t>(place.owner()),
            "an element of rank %d says it is one of rank %ld", place.owner(),
            static_cast<long>(element.owner));
      std::uint64_t& next = seen[element.owner];
      CHECK(element.number == next, "rank %d: element %ld comes after %ld others", place.owner(),
            static_cast<long>(element.number), static_cast<long>(next));
      ++next;
      ++check::verified_messages;
      place.word = element.next;
    }
    for (int r = 0; r < size; ++r) {
      const auto count = static_cast<int>(seen[static_cast<std::size_t>(r)]);
      CHECK(count == elements, "rank %d: %d of %d elements are in the list", r, count, elements);
    }
  }
  MPI_Barrier(check::world);
  for (int i = 0; i < elements; ++i) MPI_Win_detach(win, memory.at(i));
  if (rank == 0) MPI_Win_detach(win, memory.at(elements));
  MPI_Win_free(&win);
}

}  // namespace

MPI_TEST(rma_list) {
  check::Session session(argc, argv, "rma_list");
  const int elements = static_cast<int>(session.options.number("elements", 20));
  const int lists = static_cast<int>(session.options.number("lists", 3));
  const bool spread = session.options.flag("spread");
  const bool show_counters = session.options.flag("counters");
  session.options.done();
  rank = session.rank, size = session.size;

  Counters counters;
  for (int list = 0; list < lists; ++list) {
    make_list(elements, spread,
              static_cast<unsigned>(check::seed) + 1000u * static_cast<unsigned>(list));
  }
  if (show_counters) counters.print(check::world);
  counters.close();
  return session.finish();
}
