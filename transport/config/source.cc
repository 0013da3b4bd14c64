#include "transport/config/source.h"

namespace weir::config {

std::string to_text(const Problem& problem) {
  constexpr std::size_t most = 500;
  std::string text =
      problem.where + ": " + (problem.key.empty() ? "" : problem.key + ": ") + problem.reason;
  if (text.size() > most) text = text.substr(0, most) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text;
}

}  // namespace weir::config
