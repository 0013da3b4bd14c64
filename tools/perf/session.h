// The end that asks: which measurement is next, how long it may take, and what came back. Two
// answerers (tools/between/answer) do the rest.
//
// Time is shared over all measurements that are left: in each repeat each size and each test has
// its turn, over weir and over verbs one right after the other. The first repeat is always whole.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tools/between/host.h"
#include "tools/perf/results.h"

namespace weir::tools::perf {

struct Plan {
  std::uint64_t from_bytes = 1;
  std::uint64_t to_bytes = 0;
  std::chrono::nanoseconds time{};
  unsigned repeats = 3;
  std::vector<std::string> only;  // operations; empty: all
  bool check = false;
  doctor::milliseconds silence{};  // of the ends, before they give up
};

class Session {
 public:
  // `first` begins each measurement, and does what one end alone does.
  Session(between::Host& first, between::Host& second, const Plan& plan);

  // False, and the reason in `why`, if it does not come to its end.
  bool run(const between::Json& first_question, const between::Json& second_question,
           std::chrono::seconds first_limit, std::string& why);

  Results results;
  About about;

 private:
  struct Answers {
    between::Json first, second;
  };

  bool meet(const between::Json& first_question, const between::Json& second_question,
            std::chrono::seconds limit, std::string& why);
  bool repeat(unsigned number, std::string& why);
  bool has(const Test& test, std::uint64_t bytes) const;
  std::size_t measurements() const;
  std::optional<Sample> take(const Test& test, std::uint64_t bytes, std::size_t over,
                             std::string& why);
  std::optional<Sample> measure(const Test& test, std::uint64_t bytes, std::size_t over,
                                std::uint64_t count, std::string& why);
  // Both at once, or the first alone if the second question is null. Nothing, and the reason in
  // `why`, if one does not answer or has failed; the other one is not waited for.
  std::optional<Answers> ask(between::Json first, between::Json second, doctor::milliseconds limit,
                             std::string& why);
  void show(unsigned number, const Test& test, std::uint64_t bytes) const;

  between::Host& first_;
  between::Host& second_;
  const Plan plan_;
  bool same_host_ = false;
  doctor::Clock::time_point end_{};
  std::size_t left_ = 0;                        // measurements
  double seconds_each_[std::size(tests)][2]{};  // an operation took so long, 0: not known
};

}  // namespace weir::tools::perf
