// large_length: messages around what 31 and 32 bits can hold, and beyond, in little memory: a
// window of the length is the same few pages again and again. Its ends, its middle and the pages at
// 2 and 4 GiB are others, which tell where they are.
//
//   mpirun -n 2 large_length [--mib 2048,4096,5120] [--counters]
//
// Of each size there is one message a little shorter and one a little longer, to the second rank.

#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "check.h"
#include "pvars.h"

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kPage = 64 << 10;  // or several of them
constexpr std::size_t kSpan = 16 * kMiB;  // of the pages that repeat
constexpr int kTag = 6;

class Window {
 public:
  explicit Window(std::size_t bytes) : bytes_(bytes), room_((bytes + kSpan) / kSpan * kSpan) {
    void* const at =
        mmap(nullptr, room_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED, "no address space for %zu bytes: %s", room_, std::strerror(errno));
    at_ = static_cast<unsigned char*>(at);
    const int file = memfd_create("window", MFD_CLOEXEC);
    CHECK(file >= 0 && ftruncate(file, kSpan) == 0, "memfd: %s", std::strerror(errno));
    for (std::size_t from = 0; from < room_; from += kSpan) map(from, kSpan, MAP_SHARED, file);
    close(file);
    for (std::size_t mark : {std::size_t{0}, bytes / 2, 2048 * kMiB - kPage, 2048 * kMiB,
                             4096 * kMiB - kPage, 4096 * kMiB, bytes - 1}) {
      if (mark >= bytes) continue;
      mark = mark / kPage * kPage;
      map(mark, kPage, MAP_PRIVATE | MAP_ANONYMOUS, -1);
      marks_.push_back(mark);
    }
  }
  ~Window() { munmap(at_, room_); }

  unsigned char* data() { return at_; }
  void fill(std::uint32_t seq) {
    check::fill(at_ + kSpan, kSpan, {0, 1, kTag, 0});  // and so all that has no page of its own
    for (const std::size_t mark : marks_)
      check::fill(at_ + mark, length_at(mark), {0, 1, seq_of(mark), seq});
  }
  void verify(std::uint32_t seq) {
    for (const std::size_t mark : marks_)
      check::verify(at_ + mark, length_at(mark), {0, 1, seq_of(mark), seq}, "a page of its own");
    check::verify(at_ + kSpan, kSpan, {0, 1, kTag, 0}, "the pages that repeat");
  }

 private:
  static int seq_of(std::size_t mark) { return static_cast<int>(mark / kPage) + 1; }
  std::size_t length_at(std::size_t mark) const { return std::min(kPage, bytes_ - mark); }
  void map(std::size_t from, std::size_t bytes, int flags, int file) {
    void* const at = mmap(at_ + from, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0);
    CHECK(at != MAP_FAILED, "mmap: %s", std::strerror(errno));
  }

  std::size_t bytes_, room_;
  unsigned char* at_;
  std::vector<std::size_t> marks_;
};

// MPI counts in int.
MPI_Datatype type_of(std::size_t bytes) {
  MPI_Datatype whole, type;
  MPI_Type_contiguous(static_cast<int>(kMiB), MPI_BYTE, &whole);
  int lengths[] = {static_cast<int>(bytes / kMiB), static_cast<int>(bytes % kMiB)};
  MPI_Aint at[] = {0, static_cast<MPI_Aint>(bytes / kMiB * kMiB)};
  MPI_Datatype types[] = {whole, MPI_BYTE};
  MPI_Type_create_struct(2, lengths, at, types, &type);
  MPI_Type_commit(&type);
  MPI_Type_free(&whole);
  return type;
}

void move(std::size_t bytes, std::uint32_t seq) {
  check::phase("a message of gigabytes");
  Window window(bytes);
  MPI_Datatype type = type_of(bytes);
  if (check::rank == 0) {
    window.fill(seq);
    MPI_Send(window.data(), 1, type, 1, kTag, check::world);
  } else {
    MPI_Status status;
    MPI_Recv(window.data(), 1, type, 0, kTag, check::world, &status);
    int whole = 0;
    MPI_Get_count(&status, type, &whole);
    CHECK(whole == 1, "not all of %zu bytes", bytes);
    window.verify(seq);
  }
  MPI_Type_free(&type);
}

}  // namespace

MPI_TEST(large_length) {
  check::Session session(argc, argv, "large_length");
  const std::vector<long> sizes = check::sizes_of(session.options.text("mib", "2048,4096,5120"));
  const bool counts = session.options.flag("counters");
  session.options.done();
  CHECK(session.size == 2, "two ranks are needed, not %d", session.size);
  for (const long mib : sizes) CHECK(mib >= 64, "%ld MiB are too few", mib);
  Counters counters;
  std::uint32_t seq = 0;
  for (const long mib : sizes) {
    const std::size_t bytes = static_cast<std::size_t>(mib) * kMiB;
    for (const std::size_t length : {bytes - 5, bytes + 70001}) move(length, ++seq);
  }
  if (counts) counters.print(check::world);
  counters.close();
  return session.finish();
}
