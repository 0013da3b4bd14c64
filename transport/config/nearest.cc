#include "transport/config/nearest.h"

#include <algorithm>
#include <vector>

namespace weir::config {
namespace {

// "--Window-Max", "WEIR_WINDOW_MAX" and "btl_weir_window_max" all mean the same key.
std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') {
      text += static_cast<char>(c - 'A' + 'a');
    } else {
      text += c == '-' || c == ' ' || c == '.' ? '_' : c;
    }
  }
  text.erase(0, std::min(text.find_first_not_of('_'), text.size()));
  for (const std::string_view prefix : {"ompi_mca_", "btl_", "weir_"}) {
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
  }
  return text;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: the current one, the previous one, and the one before for swaps.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

const char* nearest(std::string_view name, std::span<const char* const> names) {
  if (name.size() > 64) return nullptr;  // too long for a typing mistake
  const char* best = nullptr;
  std::size_t least = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const char* const known : names) {
    const std::size_t distance = edit_distance(name, known);
    if (distance < least) {
      least = distance;
      best = known;
    }
  }
  return best;
}

std::string no_such_key(const char* meant, const char* list) {
  if (meant != nullptr) return std::string("there is no such key; did you mean ") + meant + "?";
  return std::string("there is no such key; '") + list + "' lists them all";
}

const Key* nearest_key(std::string_view name) {
  std::vector<const char*> names;
  for (const Key& key : schema()) names.push_back(key.name);
  const char* const meant = name.size() > 64 ? nullptr : nearest(plain(name), names);
  return meant == nullptr ? nullptr : find_key(meant);
}

std::string no_such_key(std::string_view name) {
  if (const char* const why = why_no_key_any_more(name)) {
    return std::string("this key no longer exists: ") + why;
  }
  const Key* const meant = nearest_key(name);
  return no_such_key(meant == nullptr ? nullptr : meant->name, "weir config explain");
}

}  // namespace weir::config
