#include "tools/sim/scenario/trace_file.h"

#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>

#include "transport/config/units.h"

namespace weir::sim {
namespace {

using Text = std::string_view;

constexpr std::int64_t most_bytes = 1 << 30;
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

// An empty string, or what is wrong.
std::string count(Text text, std::int64_t low, std::int64_t high, const char* what,
                  std::uint32_t& value) {
  std::int64_t read = 0;
  std::string error;
  if (!config::parse_count(text, read, error)) return std::string(what) + ": " + error;
  if (read < low || read > high) {
    return std::string(what) + " '" + std::string(text) + "' is not from " + std::to_string(low) +
           " to " + std::to_string(high);
  }
  value = static_cast<std::uint32_t>(read);
  return {};
}

std::string message_of(const std::vector<Text>& fields, std::uint32_t nodes, double cycle_ns,
                       std::size_t before, network::TraceMessage& message) {
  if (fields.size() != 4 && fields.size() != 5) {
    return "a message is: time, source, destination, bytes, and perhaps the message it comes after";
  }
  std::string error;
  std::int64_t ns = 0;
  if (!config::parse_duration(fields[0], ns, error)) return "time: " + error;
  message.cycle = static_cast<std::uint64_t>(std::llround(static_cast<double>(ns) / cycle_ns));
  error = count(fields[1], 0, std::int64_t{nodes} - 1, "source", message.source);
  if (!error.empty()) return error;
  error = count(fields[2], 0, std::int64_t{nodes} - 1, "destination", message.target);
  if (!error.empty()) return error;
  if (message.source == message.target) return "source and destination are the same node";
  std::int64_t bytes = 0;
  if (!config::parse_size(fields[3], bytes, error)) return "bytes: " + error;
  if (bytes < 0 || bytes > most_bytes) return "bytes are up to 1GiB";
  message.bytes = static_cast<std::uint64_t>(bytes);
  if (fields.size() == 4 || fields[4].empty()) return {};
  if (before == 0) return "after: there is no earlier message";
  std::uint32_t after = 0;
  error = count(fields[4], 1, static_cast<std::int64_t>(before), "after", after);
  if (error.empty()) message.after = after - 1;
  return error;
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
