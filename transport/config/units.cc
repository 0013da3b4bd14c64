#include "transport/config/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <system_error>

namespace weir::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

// Largest first: a value is printed with the first unit that divides it.
constexpr std::array<Unit, 6> durations{{{"h", 3'600'000'000'000},
                                         {"min", 60'000'000'000},
                                         {"s", 1'000'000'000},
                                         {"ms", 1'000'000},
                                         {"us", 1'000},
                                         {"ns", 1}}};
constexpr std::array<Unit, 4> sizes{
    {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}};
constexpr std::array<Unit, 3> short_sizes{{{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}}};

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

// "12.5 ms" split into the digits before and after the point and the unit. False if there are no
// digits in front.
struct Number {
  std::string_view whole;
  std::string_view fraction;
  std::string_view unit;
};

bool split(std::string_view text, Number& number) {
  constexpr std::string_view digits = "0123456789";
  text = trimmed(text);
  const std::size_t end = std::min(text.find_first_not_of(digits), text.size());
  number.whole = text.substr(0, end);
  text.remove_prefix(end);
  number.fraction = {};
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    const std::size_t fraction_end = std::min(text.find_first_not_of(digits), text.size());
    number.fraction = text.substr(0, fraction_end);
    text.remove_prefix(fraction_end);
    if (number.fraction.empty()) return false;
  }
  number.unit = trimmed(text);
  return !number.whole.empty();
}

bool to_integer(std::string_view digits, std::int64_t& value) {
  return std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc{};
}

// number * factor, exactly; false if the result is no 63-bit integer.
bool scale(const Number& number, std::int64_t factor, std::int64_t& value) {
  std::int64_t whole = 0;
  if (!to_integer(number.whole, whole) || __builtin_mul_overflow(whole, factor, &value)) {
    return false;
  }
  std::string_view fraction = number.fraction;
  while (!fraction.empty() && fraction.back() == '0') fraction.remove_suffix(1);
  if (fraction.empty()) return true;
  std::int64_t part = 0;
  std::int64_t divisor = 1;
  for (std::size_t i = 0; i < fraction.size(); ++i) {
    if (__builtin_mul_overflow(divisor, 10, &divisor)) return false;
  }
  return to_integer(fraction, part) && !__builtin_mul_overflow(part, factor, &part) &&
         part % divisor == 0 && !__builtin_add_overflow(value, part / divisor, &value);
}

const Unit* find(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

std::string format(std::int64_t value, std::span<const Unit> units) {
  if (value == 0) return "0";
  for (const Unit& unit : units) {
    if (value % unit.factor == 0) {
      return std::to_string(value / unit.factor) + std::string(unit.name);
    }
  }
  return std::to_string(value);
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool parse_duration(std::string_view text, std::int64_t& ns, std::string& error) {
  Number number;
  if (!split(text, number)) {
    error = quoted(text) + " is no duration; write a number and a unit, like 640us, 4ms or 1.5s";
    return false;
  }
  if (number.unit.empty() && number.fraction.empty() &&
      number.whole.find_first_not_of('0') == std::string_view::npos) {
    ns = 0;
    return true;
  }
  const Unit* unit = find(durations, number.unit);
  if (unit == nullptr) {
    error = quoted(text) + (number.unit.empty() ? " has no unit" : " has an unknown unit") +
            "; use ns, us, ms, s, min or h";
    return false;
  }
  if (!scale(number, unit->factor, ns)) {
    error = quoted(text) + " is too large, or finer than a nanosecond";
    return false;
  }
  return true;
}

bool parse_size(std::string_view text, std::int64_t& bytes, std::string& error) {
  Number number;
  if (!split(text, number)) {
    error = quoted(text) + " is no size; write a number and a unit, like 256B, 8KiB or 64MiB";
    return false;
  }
  const Unit* unit = number.unit.empty() ? &sizes.back() : find(sizes, number.unit);
  if (unit == nullptr) unit = find(short_sizes, number.unit);
  if (unit == nullptr) {
    error = quoted(text) + " has an unknown unit; use B, KiB, MiB or GiB (1KiB = 1024B)";
    return false;
  }
  if (!scale(number, unit->factor, bytes)) {
    error = quoted(text) + " is too large, or not a whole number of bytes";
    return false;
  }
  return true;
}

bool parse_count(std::string_view text, std::int64_t& count, std::string& error) {
  std::string_view digits = trimmed(text);
  const bool hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
  if (hexadecimal) digits.remove_prefix(2);
  const auto [end, problem] =
      std::from_chars(digits.data(), digits.data() + digits.size(), count, hexadecimal ? 16 : 10);
  if (problem != std::errc{} || end != digits.data() + digits.size()) {
    error = quoted(text) + " is no whole number";
    return false;
  }
  return true;
}

std::string format_duration(std::int64_t ns) { return format(ns, durations); }
std::string format_size(std::int64_t bytes) { return format(bytes, sizes); }

}  // namespace weir::config
