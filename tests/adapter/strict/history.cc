#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "tests/adapter/strict/objects.h"

namespace strict {
namespace {

struct Text {
  const char *name, *says, *source;
};
constexpr Text texts[] = {
#define STRICT_TEXT(name, says, source) {#name, says, source},
    STRICT_RULES(STRICT_TEXT)
#undef STRICT_TEXT
};

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

// STRICT=slow,-RULE,...
bool is_chosen(const std::string& word) {
  static const std::string words = [] {
    const char* const chosen = std::getenv("STRICT");
    return "," + std::string(chosen != nullptr ? chosen : "") + ",";
  }();
  return words.size() > 2 && words.find("," + word + ",") != std::string::npos;
}

}  // namespace

bool is_slow() {
  static const bool slow = is_chosen("slow");
  return slow;
}

void History::note(const char* format, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  static thread_local const int thread = static_cast<int>(syscall(SYS_gettid));
  calls_[count_++ % kept] = {format, {a, b, c}, now_ns(), thread};
}

void History::print() const {
  const std::uint64_t first = count_ > kept ? count_ - kept : 0;
  const std::int64_t now = now_ns();
  std::fprintf(stderr, "strict: %llu calls with it, the last ones:\n",
               static_cast<unsigned long long>(count_));
  for (std::uint64_t i = first; i < count_; ++i) {
    const Call& call = calls_[i % kept];
    std::fprintf(stderr, "strict:   %9.3f ms ago, thread %d: ",
                 static_cast<double>(now - call.when_ns) / 1e6, call.thread);
    std::fprintf(stderr, call.format, call.values[0], call.values[1], call.values[2]);
    std::fputc('\n', stderr);
  }
}

void breach(Rule rule, const Object& object, const char* format, ...) {
  const Text& text = texts[static_cast<int>(rule)];
  if (is_chosen(std::string("-") + text.name)) return;
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  std::fprintf(stderr, "strict: rule %s: %s %p: ", text.name, object.kind, object.handle);
  va_list values;
  va_start(values, format);
  std::vfprintf(stderr, format, values);
  va_end(values);
  std::fprintf(stderr, "\nstrict: %s (%s); process %d, rank %s\n", text.says, text.source,
               static_cast<int>(getpid()), rank != nullptr ? rank : "none");
  object.history.print();
  std::fflush(stderr);
  std::abort();
}

}  // namespace strict
