#include "tools/between/lines.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace weir::tools::between {
namespace {

constexpr std::size_t most_noise = 400;

// How many bytes the character takes with which `text` begins; 0 if a terminal may take it for a
// control (C0, DEL, C1), or if it is no UTF-8.
std::size_t harmless(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return first >= ' ' && first != 0x7f ? 1 : 0;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  // C1 controls, and numbers written longer than they are.
  const unsigned char least = first == 0xc2 || first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  return at(1) >= least ? bytes : 0;
}

}  // namespace

std::string line_of(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::optional<Json> object_of(std::string_view line) {
  Json value = Json::parse(line, nullptr, false);
  if (!value.is_object()) return {};
  return std::optional<Json>(std::move(value));
}

std::string safe(std::string_view text, std::size_t most) {
  std::string clean(text.substr(0, most));
  for (std::size_t i = 0; i < clean.size();) {
    const std::size_t bytes = harmless(std::string_view(clean).substr(i));
    if (bytes == 0) clean[i] = '?';
    i += std::max<std::size_t>(bytes, 1);
  }
  if (text.size() > most) clean += "...";
  return clean;
}

std::string text_in(const Json& object, const char* key, std::size_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return {};
  return safe(found->get_ref<const std::string&>(), most);
}

double number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return 0;
  const double number = found->get<double>();
  return std::isfinite(number) && number > 0 ? number : 0;
}

std::uint64_t count_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::uint32_t count_in(const Json& object, const char* key, std::uint32_t most) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count_in(object, key), most));
}

Json failed(const std::string& why) { return {{"error", why.empty() ? "it failed" : why}}; }

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  const auto digit = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
  if (text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
  }
  return bytes;
}

bool LineReader::add(std::string_view bytes) {
  bytes_ += bytes;
  return bytes_.size() <= longest_line || bytes_.find('\n') != std::string::npos;
}

std::optional<Json> LineReader::next() {
  for (;;) {
    const auto end = bytes_.find('\n');
    if (end == std::string::npos) return {};
    const std::string line = bytes_.substr(0, end);
    bytes_.erase(0, end + 1);
    // A shell may have left a prompt before it.
    const auto mark = line.find(answer_mark);
    if (mark != std::string::npos) {
      if (auto answer = object_of(std::string_view(line).substr(mark + answer_mark.size()))) {
        return answer;
      }
    }
    keep(line);
  }
}

void LineReader::keep(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  if (!noise_.empty()) noise_ += "; ";
  noise_ += safe(line.substr(0, line.find('\r')));
  if (noise_.size() > most_noise) noise_.erase(0, noise_.size() - most_noise);
}

std::string LineReader::noise() const {
  if (bytes_.empty()) return noise_;
  return noise_ + (noise_.empty() ? "" : "; ") + safe(bytes_);
}

}  // namespace weir::tools::between
