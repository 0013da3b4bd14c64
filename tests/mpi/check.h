// check.h: payloads nobody can guess wrong, failures that name the culprit, and a watchdog.
//
// Every byte sent by a test is a function of its Envelope (seed, src, dst, tag, seq) and its
// offset, so a wrong byte tells where it should have been and, usually, which message it is from.
// Invariant: a test ends with "NAME: ok ..." on stdout and 0, or says why not on stderr and the
// whole job ends nonzero. Nothing hangs silently: SIGALRM prints the phase and exits.
// A test is a function (MPI_TEST) that makes a Session first and returns its finish(). main.cc
// calls it, as a program of its own or as one of several in a job; so it communicates in `world`,
// and what it keeps in variables of its file it sets itself.
// Threads: fill, verify, fail and phase may be called from any thread.
#pragma once

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace check {

inline const char* program = "?";
inline MPI_Comm world = MPI_COMM_WORLD;  // the ranks of this test
inline bool one_of_several = false;      // MPI is initialised before it and finalised after it
inline int rank = -1;                    // in world
inline std::uint64_t seed = 1;
inline unsigned limit_s = 120;
inline std::atomic<const char*> current_phase{"start"};
inline std::atomic<std::uint64_t> verified_messages{0};
inline std::atomic<std::uint64_t> verified_bytes{0};

inline constexpr int kFailedCode = 96;
inline constexpr int kWatchdogCode = 97;

// What the rank is doing, for the watchdog and for failures. The text must be a literal.
inline void phase(const char* literal) { current_phase.store(literal, std::memory_order_relaxed); }

[[noreturn]] [[gnu::format(printf, 1, 2)]] inline void fail(const char* format, ...) {
  char text[700];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "%s: rank %d: FAILED in %s (seed %llu): %s\n", program, rank,
               current_phase.load(), static_cast<unsigned long long>(seed), text);
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, kFailedCode);
  _exit(kFailedCode);
}

#define CHECK(condition, ...)                \
  do {                                       \
    if (!(condition)) ::check::fail(__VA_ARGS__); \
  } while (0)

// ---- payload -----------------------------------------------------------------------------------

struct Envelope {
  int src = 0;
  int dst = 0;
  int tag = 0;
  std::uint32_t seq = 0;
};

inline std::uint64_t mix(std::uint64_t x) {  // splitmix64's finalizer
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline std::uint64_t key_of(const Envelope& e) {
  const std::uint64_t peers = (std::uint64_t{static_cast<std::uint32_t>(e.src)} << 32) |
                              static_cast<std::uint32_t>(e.dst);
  const std::uint64_t which = (std::uint64_t{static_cast<std::uint32_t>(e.tag)} << 32) | e.seq;
  return mix(mix(mix(seed + 0x9e3779b97f4a7c15u) + peers) + which);
}

// The eight bytes at offset 8 * index.
inline std::uint64_t word_at(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t x = (key + index) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}

inline void fill(void* to, std::size_t size_bytes, const Envelope& e) {
  auto* out = static_cast<unsigned char*>(to);
  const std::uint64_t key = key_of(e);
  for (std::size_t at = 0; at < size_bytes; at += 8) {
    const std::uint64_t word = word_at(key, at / 8);
    std::memcpy(out + at, &word, size_bytes - at < 8 ? size_bytes - at : 8);
  }
}

// The offset of the first wrong byte, or size_bytes when all are right.
inline std::size_t first_wrong(const void* from, std::size_t size_bytes, const Envelope& e) {
  const auto* in = static_cast<const unsigned char*>(from);
  const std::uint64_t key = key_of(e);
  for (std::size_t at = 0; at < size_bytes; at += 8) {
    const std::size_t n = size_bytes - at < 8 ? size_bytes - at : 8;
    const std::uint64_t word = word_at(key, at / 8);
    if (std::memcmp(in + at, &word, n) == 0) continue;
    unsigned char expected[8];
    std::memcpy(expected, &word, 8);
    for (std::size_t i = 0; i < n; ++i)
      if (in[at + i] != expected[i]) return at + i;
  }
  return size_bytes;
}

// Names the neighbour in sequence whose bytes these are: tells overtaking from corruption.
inline std::string guess_origin(const void* from, std::size_t size_bytes, const Envelope& e) {
  if (size_bytes < 4) return "";
  for (std::uint32_t seq = e.seq > 4096 ? e.seq - 4096 : 0; seq < e.seq + 4096; ++seq) {
    Envelope other = e;
    other.seq = seq;
    if (seq != e.seq && first_wrong(from, size_bytes, other) == size_bytes)
      return "; these are the bytes of seq " + std::to_string(seq);
  }
  return "";
}

inline void verify(const void* from, std::size_t size_bytes, const Envelope& e, const char* what) {
  const std::size_t wrong = first_wrong(from, size_bytes, e);
  if (wrong != size_bytes) {
    const std::uint64_t word = word_at(key_of(e), wrong / 8);
    unsigned char expected[8];
    std::memcpy(expected, &word, 8);
    fail("%s: from %d to %d tag %d seq %u: byte %zu of %zu: expected 0x%02x, got 0x%02x%s", what,
         e.src, e.dst, e.tag, e.seq, wrong, size_bytes, expected[wrong % 8],
         static_cast<const unsigned char*>(from)[wrong],
         guess_origin(from, size_bytes, e).c_str());
  }
  verified_messages.fetch_add(1, std::memory_order_relaxed);
  verified_bytes.fetch_add(size_bytes, std::memory_order_relaxed);
}

// Source, tag and length of a receive.
inline void verify_status(const MPI_Status& status, int source, int tag, std::size_t size_bytes,
                          const char* what) {
  int count = -1;
  MPI_Get_count(&status, MPI_BYTE, &count);
  CHECK(status.MPI_SOURCE == source && status.MPI_TAG == tag &&
            count == static_cast<int>(size_bytes),
        "%s: status says source %d tag %d, %d bytes; expected source %d tag %d, %zu bytes", what,
        status.MPI_SOURCE, status.MPI_TAG, count, source, tag, size_bytes);
}

// A small seeded generator; tests that agree on a plan draw from equal ones.
class Random {
 public:
  explicit Random(std::uint64_t state) : state_(mix(state + 1)) {}
  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(next() % bound); }
  bool chance(std::uint32_t percent) { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

// ---- options -----------------------------------------------------------------------------------

// `--name value` or `--name`; numbers take K and M. WEIR_TEST_NAME in the environment is the
// default's default, so that a suite can scale every program at once.
class Options {
 public:
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) words_.emplace_back(argv[i]);
    used_.resize(words_.size());
  }

  std::string text(const std::string& name, const std::string& otherwise) {
    for (std::size_t i = 0; i + 1 < words_.size(); ++i) {
      if (words_[i] != "--" + name) continue;
      used_[i] = used_[i + 1] = true;
      return words_[i + 1];
    }
    std::string variable = "WEIR_TEST_";
    for (char c : name)
      variable += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    const char* value = std::getenv(variable.c_str());
    return value != nullptr ? value : otherwise;
  }

  long number(const std::string& name, long otherwise) {
    const std::string value = text(name, std::to_string(otherwise));
    char* end = nullptr;
    long n = std::strtol(value.c_str(), &end, 10);
    if (*end == 'K' || *end == 'k') n <<= 10, ++end;
    else if (*end == 'M' || *end == 'm') n <<= 20, ++end;
    if (end == value.c_str() || *end != 0) die("--" + name + " wants a number, not " + value);
    return n;
  }

  bool flag(const std::string& name) {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (words_[i] == "--" + name) return used_[i] = true;
    return false;
  }

  // After the last question: what nobody asked for is a typing error, not a wish to be ignored.
  void done() {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (!used_[i]) die("unknown option " + words_[i]);
  }

 private:
  [[noreturn]] void die(const std::string& why) {
    std::fprintf(stderr, "%s: %s\n", program, why.c_str());
    std::exit(2);
  }
  std::vector<std::string> words_;
  std::vector<bool> used_;
};

// "64K,1M"
inline std::vector<long> sizes_of(const std::string& list) {
  std::vector<long> sizes;
  for (const char* at = list.c_str(); *at != 0;) {
    char* end = nullptr;
    long bytes = std::strtol(at, &end, 10);
    if (*end == 'K') bytes <<= 10, ++end;
    else if (*end == 'M') bytes <<= 20, ++end;
    if (end == at || bytes < 0 || (*end != 0 && *end != ',')) {
      std::fprintf(stderr, "%s: a list of sizes is like 1,4K,1M, not %s\n", program, list.c_str());
      std::exit(2);
    }
    sizes.push_back(bytes);
    at = *end == ',' ? end + 1 : end;
  }
  return sizes;
}

// ---- watchdog ----------------------------------------------------------------------------------

inline void on_alarm(int) {  // async-signal-safe: no stdio, no MPI
  char line[256];
  std::size_t n = 0;
  auto put = [&](const char* s) { while (*s != 0 && n < sizeof line - 1) line[n++] = *s++; };
  auto put_number = [&](unsigned v) {
    char digits[12];
    int i = 11;
    digits[i] = 0;
    do digits[--i] = static_cast<char>('0' + v % 10); while ((v /= 10) != 0);
    put(digits + i);
  };
  put(program), put(": rank "), put_number(static_cast<unsigned>(rank < 0 ? 0 : rank));
  put(": WATCHDOG after "), put_number(limit_s), put(" s, stuck in ");
  put(current_phase.load(std::memory_order_relaxed)), put("\n");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, n);
  _exit(kWatchdogCode);
}

inline void start_watchdog(unsigned seconds) {
  limit_s = seconds;
  struct sigaction action {};
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, nullptr);
  alarm(seconds);
}

// ---- a test ------------------------------------------------------------------------------------

using Function = int (*)(int argc, char** argv);

struct Test {
  const char* name;
  Function run;
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Registered {
  Registered(const char* name, Function run) { tests().push_back({name, run}); }
};

#define MPI_TEST(name)                                            \
  static int name##_test(int argc, char** argv);                  \
  static const ::check::Registered name##_is{#name, name##_test}; \
  static int name##_test(int argc, char** argv)

// The thread level that Open MPI's variable asks for: MPI_Init heeds it, MPI_Init_thread does not.
inline int level_of_environment() {
  const char* const level = std::getenv("OMPI_MPI_THREAD_LEVEL");
  return level == nullptr ? static_cast<int>(MPI_THREAD_SINGLE) : std::atoi(level);
}

struct Session {
  int rank = 0;
  int size = 0;
  Options options;

  Session(int& argc, char**& argv, const char* name, int thread_level = MPI_THREAD_SINGLE)
      : options((program = name, argc), argv) {
    start_watchdog(static_cast<unsigned>(options.number("timeout", 120)));
    seed = static_cast<std::uint64_t>(options.number("seed", 1));
    verified_messages = 0;
    verified_bytes = 0;
    phase("MPI_Init");
    int provided = 0;
    if (one_of_several)
      MPI_Query_thread(&provided);
    else
      MPI_Init_thread(&argc, &argv, std::max(thread_level, level_of_environment()), &provided);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    check::rank = rank;
    CHECK(provided >= thread_level, "thread level %d provided, %d needed", provided, thread_level);
    start_s_ = MPI_Wtime();
  }

  // Collective: returns main's value once every rank has said that all is well.
  int finish() {
    phase("the final barrier");
    MPI_Barrier(world);
    const double elapsed_s = MPI_Wtime() - start_s_;
    unsigned long long mine[2] = {verified_messages.load(), verified_bytes.load()}, all[2] = {0, 0};
    MPI_Reduce(mine, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, world);
    if (rank == 0) {
      std::printf("%s: ok, %d ranks, %llu checks, %.1f MB, %.2f s, seed %llu\n", program, size,
                  all[0], static_cast<double>(all[1]) / 1e6, elapsed_s,
                  static_cast<unsigned long long>(seed));
      std::fflush(stdout);
    }
    if (one_of_several) return 0;
    phase("MPI_Finalize");
    MPI_Finalize();
    return 0;
  }

 private:
  double start_s_ = 0;
};

}  // namespace check
