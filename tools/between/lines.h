// What the two ends tell each other: lines of JSON over the remote shell. The bytes come from
// another host, through a shell that may print what it likes: nothing in them is believed.
//
// Thread rule: a LineReader belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::tools::between {

using Json = nlohmann::ordered_json;

// An answer begins with this. All other lines are somebody else's: of ssh, or of a login script.
inline constexpr std::string_view answer_mark = "weir-answer ";
inline constexpr std::size_t longest_line = 256 * 1024;

// One line, of ASCII only.
std::string line_of(const Json& value);

// Nothing if it is no JSON object.
std::optional<Json> object_of(std::string_view line);

// For a terminal: control characters and what is no UTF-8 become '?', and what is too long ends
// with "...".
std::string safe(std::string_view text, std::size_t most = 300);

// A field of the wrong type, or none, is empty or 0.
std::string text_in(const Json& object, const char* key, std::size_t most = 300);
double number_in(const Json& object, const char* key);
std::uint64_t count_in(const Json& object, const char* key);
std::uint32_t count_in(const Json& object, const char* key, std::uint32_t most);

// What an answerer says that could not do it.
Json failed(const std::string& why);

// Bytes as a text of hexadecimal digits. What is no such text has no bytes.
std::string to_hex(std::span<const std::byte> bytes);
std::vector<std::byte> from_hex(std::string_view text);

// Takes bytes as they come, and gives the answers among their lines.
class LineReader {
 public:
  // False: the line has no end.
  bool add(std::string_view bytes);
  std::optional<Json> next();
  // The last lines that were no answers, for a person.
  std::string noise() const;

 private:
  void keep(std::string_view line);

  std::string bytes_;
  std::string noise_;
};

}  // namespace weir::tools::between
