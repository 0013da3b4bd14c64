// What was measured, and how it is shown: as text, JSON, CSV and a picture.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/between/lines.h"

namespace weir::tools::perf {

// A kind of measurement, by the words of requests and results.
struct Test {
  const char* operation;  // send, put, get, add (fetch-and-add)
  const char* kind;       // latency, stream, both

  bool is_latency() const { return kind[0] == 'l'; }
  bool is_both() const { return kind[0] == 'b'; }
  bool is_send() const { return operation[0] == 's'; }
  bool is_add() const { return operation[0] == 'a'; }
  std::string text() const;  // "stream of messages both ways"
};

// In the order in which they run.
inline constexpr Test tests[] = {{"send", "latency"}, {"send", "stream"}, {"send", "both"},
                                 {"put", "latency"},  {"put", "stream"},  {"get", "latency"},
                                 {"get", "stream"},   {"add", "latency"}, {"add", "stream"}};

// One measurement. Of a latency the times, of a stream the operations a second, both directions
// together.
struct Sample {
  double us = 0;
  double us_99 = 0;
  double per_second = 0;
};

// Of the repeats of a measurement, the medians; ratios of what was measured one right after the
// other.
struct Row {
  const Test* test = nullptr;
  std::uint64_t bytes = 0;
  Sample weir;
  Sample verbs;
  double ratio = 0;  // weir / verbs
  std::size_t repeats = 0;

  double mb_per_second(const Sample& sample) const {
    return sample.per_second * static_cast<double>(bytes) / 1e6;
  }
};

class Results {
 public:
  void add(const Test& test, std::uint64_t bytes, const Sample& weir, const Sample& verbs) {
    samples_[{&test - tests, bytes}].emplace_back(weir, verbs);
  }
  std::vector<Row> rows() const;

 private:
  std::map<std::pair<std::ptrdiff_t, std::uint64_t>, std::vector<std::pair<Sample, Sample>>>
      samples_;
};

struct About {
  std::string here;  // "node1 rxe0:1"
  std::string there;
  double seconds = 0;
  bool checked = false;
  bool atomics = true;  // both ports have them
};

std::string size_text(std::uint64_t bytes);  // "64KiB"
std::string to_text(const std::vector<Row>& rows, const About& about);
between::Json to_json(const std::vector<Row>& rows, const About& about);
std::string to_csv(const std::vector<Row>& rows);
// A script of gnuplot, which sets no output.
std::string to_gnuplot(const std::vector<Row>& rows, const About& about);

}  // namespace weir::tools::perf
