// The one table of what can be set: key, kind, range, default, help, reason. The MCA variables, the
// environment variables, the YAML files and `weir config` are all made from it. Knows neither Open
// MPI nor verbs, nor where a value comes from.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/config/settings.h"

namespace weir::config {

enum class Kind : std::uint8_t { text, choice, count, size, duration };

// What a key takes, of this table or another one.
struct Form {
  const char* name;  // `window_max`; the MCA variable is btl_weir_window_max
  Kind kind;
  const char* fallback;  // the default, as text
  std::int64_t min = 0;  // in bytes, nanoseconds or ones
  std::int64_t max = 0;
  const char* word = nullptr;     // "auto", say: a value, too, `automatic`
  const char* choices = nullptr;  // of Kind::choice: "auto, rxe, roce"
};

struct Key : Form {
  int level;           // who wants to see it: 1 everybody, 2-3 users, 4-6 tuners, 7-9 developers
  const char* help;    // one sentence: what it is
  const char* reason;  // one sentence: why the default is what it is
  std::int64_t Settings::*number;
  std::string Settings::*text;

  bool matters_most() const { return level == 1; }
};

std::span<const Key> schema();

// The same keys, those that matter most first.
std::vector<const Key*> by_importance();

// nullptr if there is no such key.
const Key* find_key(std::string_view name);

// The place of `key` in schema().
std::size_t index_of(const Key& key);

// The same key elsewhere: WEIR_WINDOW_MAX and btl_weir_window_max.
std::string environment_name(const Key& key);
std::string mca_name(const Key& key);

// For a person: "size, 1KiB to 1MiB".
std::string accepts(const Form& form);

// What `value` is as a number, of a choice its place. False, and the value and what the key takes
// in `reason`, if it is not acceptable.
bool read(const Form& form, std::string_view value, std::int64_t& number, std::string& reason);

// Sets one key. False, as `read`, if the value is not acceptable; `settings` is then as before.
bool set(Settings& settings, const Key& key, std::string_view value, std::string& reason);

// The value as `set` reads it.
std::string get(const Settings& settings, const Key& key);

Settings defaults();

// W_max as far as traffic may take it, in buffers: `window_max`, or what `auto` means where few
// peers are. The byte cap comes on top.
std::int64_t window_by_traffic(const Settings& settings);

// Values that do not go together, or a value that breaks a rule its range does not tell.
struct Contradiction {
  std::vector<const Key*> keys;  // whose values they are
  std::string reason;            // names the keys and their values
};

std::vector<Contradiction> check(const Settings& settings);

}  // namespace weir::config
