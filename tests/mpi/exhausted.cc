// exhausted: odd ranks take all that there is of something right after MPI_Init, before anybody is
// connected; then everyone exchanges with everyone, small and large.
//
//   mpirun -n 2 exhausted --what descriptors | mappings | address-space [--left 0]
//
// --left: so many are left; of address space, MiB. The data is right, or the transport says what it
// lacks and ends the job.

#include <fcntl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

#include "check.h"

namespace {

constexpr std::size_t kSizes[] = {8, 4000, 70000, 3 << 20};
constexpr int kRounds = 3;
constexpr int kTag = 7;

void take_descriptors(long left) {
  std::vector<int> taken;
  for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;) taken.push_back(fd);
  for (; left > 0 && !taken.empty(); --left, taken.pop_back()) close(taken.back());
}

// Neighbours of unlike protection are mappings of their own.
void take_mappings(long left) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<void*> taken;
  taken.reserve(1 << 17);
  for (;;) {
    const int protection = taken.size() % 2 == 0 ? PROT_READ : PROT_NONE;
    void* const at = mmap(nullptr, page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) break;
    taken.push_back(at);
  }
  for (; left > 0 && !taken.empty(); --left, taken.pop_back()) munmap(taken.back(), page);
}

void take_address_space(long left_mib) {
  unsigned long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  CHECK(file != nullptr && std::fscanf(file, "%lu", &pages) == 1, "no /proc/self/statm");
  std::fclose(file);
  const rlim_t most = pages * static_cast<unsigned long>(sysconf(_SC_PAGESIZE)) + (static_cast<unsigned long>(left_mib) << 20);
  const rlimit limit{most, most};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
}

}  // namespace

MPI_TEST(exhausted) {
  check::Session session(argc, argv, "exhausted");
  const std::string what = session.options.text("what", "descriptors");
  const long left = session.options.number("left", 0);
  session.options.done();
  const auto slots = static_cast<std::size_t>(session.size);
  std::vector<std::vector<unsigned char>> out(slots, std::vector<unsigned char>(3 << 20)), in = out;
  check::phase("taking all there is");
  if (session.rank % 2 == 1) {
    if (what == "descriptors")
      take_descriptors(left);
    else if (what == "mappings")
      take_mappings(left);
    else if (what == "address-space")
      take_address_space(left);
    else
      CHECK(false, "--what %s", what.c_str());
  }
  check::phase("the exchange");
  std::uint32_t seq = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (const std::size_t bytes : kSizes) {
      std::vector<MPI_Request> requests;
      for (int peer = 0; peer < session.size; ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        check::fill(out[p].data(), bytes, {session.rank, peer, kTag, seq});
        MPI_Irecv(in[p].data(), static_cast<int>(bytes), MPI_BYTE, peer, kTag, check::world,
                  &requests.emplace_back());
        MPI_Isend(out[p].data(), static_cast<int>(bytes), MPI_BYTE, peer, kTag, check::world,
                  &requests.emplace_back());
      }
      MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
      for (int peer = 0; peer < session.size; ++peer)
        check::verify(in[static_cast<std::size_t>(peer)].data(), bytes,
                      {peer, session.rank, kTag, seq}, what.c_str());
      ++seq;
    }
  }
  return session.finish();
}
