#include "tools/sim/scenario/trace_file.h"

#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>

#include "transport/config/schema.h"

namespace weir::sim {
namespace {

using config::Kind;
using Text = std::string_view;

constexpr std::int64_t most_bytes = 1 << 30;
constexpr std::int64_t most_ns = 10'000'000'000;  // as of all times of a scenario
constexpr std::size_t most_messages = 1'000'000;

Text trimmed(Text text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == Text::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<Text> fields_of(Text line) {
  std::vector<Text> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(trimmed(line.substr(0, comma)));
    if (comma == Text::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

// An empty string, or what is wrong. `before`: so many messages have been read.
std::string message_of(const std::vector<Text>& fields, std::uint32_t nodes, double cycle_ns,
                       std::size_t before, network::TraceMessage& message) {
  if (fields.size() != 4 && fields.size() != 5) {
    return "a message is: time, source, destination, bytes, and perhaps the message it comes after";
  }
  const bool follows = fields.size() == 5 && !fields[4].empty();
  if (follows && before == 0) return "after: there is no earlier message";
  const config::Form forms[] = {{"time", Kind::duration, "", 0, most_ns},
                                {"source", Kind::count, "", 0, std::int64_t{nodes} - 1},
                                {"destination", Kind::count, "", 0, std::int64_t{nodes} - 1},
                                {"bytes", Kind::size, "", 0, most_bytes},
                                {"after", Kind::count, "", 1, static_cast<std::int64_t>(before)}};
  std::int64_t read[5];
  for (std::size_t i = 0; i < (follows ? 5 : 4); ++i) {
    std::string error;
    if (!config::read(forms[i], fields[i], read[i], error)) return forms[i].name + (": " + error);
  }
  if (read[1] == read[2]) return "source and destination are the same node";
  message.cycle = static_cast<std::uint64_t>(std::llround(static_cast<double>(read[0]) / cycle_ns));
  message.source = static_cast<std::uint32_t>(read[1]);
  message.target = static_cast<std::uint32_t>(read[2]);
  message.bytes = static_cast<std::uint64_t>(read[3]);
  if (follows) message.after = static_cast<MessageId>(read[4] - 1);
  return {};
}

}  // namespace

TraceFile parse_trace(const std::string& text, const std::string& file, std::uint32_t nodes,
                      double cycle_ns) {
  TraceFile trace;
  std::istringstream lines(text);
  int number = 0;
  const auto problem = [&](const std::string& reason) {
    const std::string where = number == 0 ? file : file + ":" + std::to_string(number);
    trace.problems.push_back({config::Layer::named_file, where, "", reason, number});
  };
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const Text rest = trimmed(Text(line).substr(0, line.find('#')));
    if (rest.empty()) continue;
    network::TraceMessage message;
    const std::string error =
        message_of(fields_of(rest), nodes, cycle_ns, trace.messages.size(), message);
    if (!error.empty()) problem(error);
    trace.messages.push_back(message);  // a bad one too: the others keep their numbers
    if (trace.messages.size() > most_messages) {
      problem("more than a million messages");
      return trace;
    }
  }
  number = 0;
  if (trace.messages.empty()) problem("there is no message in it");
  return trace;
}

TraceFile read_trace(const std::string& path, std::uint32_t nodes, double cycle_ns) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (file) return parse_trace(text.str(), path, nodes, cycle_ns);
  return {{}, {{config::Layer::named_file, path, "", "cannot be read", 0}}};
}

}  // namespace weir::sim
