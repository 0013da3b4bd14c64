#include "tools/between/lines.h"

#include <cmath>

namespace weir::tools::between {
namespace {

constexpr std::size_t most_noise = 400;

}  // namespace

std::string line_of(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::optional<Json> object_of(std::string_view line) {
  Json value = Json::parse(line, nullptr, false);
  if (!value.is_object()) return {};
  return value;
}

std::string safe(std::string_view text, std::size_t most) {
  std::string clean(text.substr(0, most));
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
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
