// The one table of the settings: key, kind, range, default, help, reason. The MCA variables, the
// environment variables, the YAML files and `weir config` are all made from it. It knows neither
// Open MPI nor verbs, nor where a value comes from.
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

// What a key accepts, in this table or another one.
struct Form {
  const char* name;  // `window_max`; the MCA variable is btl_weir_window_max
  Kind kind;
  const char* fallback;  // the default, as text
  std::int64_t min = 0;  // in bytes, nanoseconds or plain units
  std::int64_t max = 0;
  const char* word = nullptr;     // "auto", say: also accepted, as `automatic`
  const char* choices = nullptr;  // of Kind::choice: "auto, rxe, roce"
};

struct Key : Form {
  // Whom it concerns: 1 everybody, 2-3 users, 4-6 tuners, 7 what 'weir tune' measures and writes,
  // 8-9 developers.
  int level;
  static constexpr int measured = 7;
  const char* help;    // one sentence: what it is
  const char* reason;  // one sentence: why this is the default
  std::int64_t Settings::*number;
  std::string Settings::*text;
  bool alike = false;  // has to be the same in all processes of a job

  bool matters_most() const { return level == 1; }
  bool is_measured() const { return level == measured; }
};

std::span<const Key> schema();

// The same keys: those that matter most, the others, those that are measured.
std::vector<const Key*> by_importance();

// nullptr if there is no such key.
const Key* find_key(std::string_view name);

// Why a key of an earlier version is gone; nullptr if `name` is no such key.
const char* why_no_key_any_more(std::string_view name);

// The place of `key` in schema().
std::size_t index_of(const Key& key);

// The key's names elsewhere: WEIR_WINDOW_MAX and btl_weir_window_max.
std::string environment_name(const Key& key);
std::string mca_name(const Key& key);

// For a person: "size, 1KiB to 1MiB".
std::string accepts(const Form& form);

// The number that `value` stands for; for a choice, its index. If it is not acceptable: false, with
// the value and what the key accepts in `reason`.
bool read(const Form& form, std::string_view value, std::int64_t& number, std::string& reason);

// Sets one key. False, as in `read`, if the value is not acceptable; then nothing changes.
bool set(Settings& settings, const Key& key, std::string_view value, std::string& reason);

// The value as text that `set` can read.
std::string get(const Settings& settings, const Key& key);

Settings defaults();

// W_max in buffers, before the byte cap: `window_max`, or for `auto` its value with few peers.
std::int64_t window_by_traffic(const Settings& settings);

// Values that contradict each other, or a value that breaks a rule beyond its range.
struct Contradiction {
  std::vector<const Key*> keys;  // the keys of these values
  std::string reason;            // names the keys and their values
};

std::vector<Contradiction> check(const Settings& settings);

}  // namespace weir::config
