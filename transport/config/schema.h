// The one table of what can be set: key, kind, default, range, help. The MCA variables, the YAML
// file and `weir config` are all made from it. Knows neither Open MPI nor verbs.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "transport/config/settings.h"

namespace weir::config {

enum class Kind : std::uint8_t { text, count, size, duration };

struct Key {
  const char* name;  // `window_max`; the MCA variable is btl_weir_window_max
  Kind kind;
  const char* fallback;  // the default, as text
  std::int64_t min;      // in bytes, nanoseconds or ones
  std::int64_t max;
  bool takes_auto;   // "auto" is a value too
  int level;         // who wants to see it: 1-3 users, 4-6 tuners, 7-9 developers
  const char* help;  // one sentence
  std::int64_t Settings::*number;
  std::string Settings::*text;
};

std::span<const Key> schema();

// nullptr if there is no such key.
const Key* find_key(std::string_view name);

// What `key` takes, for a person: "size, 1KiB to 1MiB".
std::string accepts(const Key& key);

// Sets one key. False, and a sentence that names the key, the value and what it takes in `error`,
// if the value is not acceptable; `settings` is then as before.
bool set(Settings& settings, const Key& key, std::string_view value, std::string& error);

// The value as `set` reads it.
std::string get(const Settings& settings, const Key& key);

Settings defaults();

// Whether the values go together. False, and a sentence that names the keys in `error`, if not.
bool check(const Settings& settings, std::string& error);

}  // namespace weir::config
