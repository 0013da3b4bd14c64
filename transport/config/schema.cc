#include "transport/config/schema.h"

#include <array>

#include "transport/config/units.h"

namespace weir::config {
namespace {

constexpr std::int64_t KiB = 1024;
constexpr std::int64_t MiB = 1024 * KiB;
constexpr std::int64_t GiB = 1024 * MiB;
constexpr std::int64_t us = 1000;
constexpr std::int64_t ms = 1000 * us;
constexpr std::int64_t s = 1000 * ms;
constexpr std::int64_t h = 3600 * s;

constexpr Key text(const char* name, const char* fallback, int level, const char* help,
                   std::string Settings::*field) {
  return {name, Kind::text, fallback, 0, 0, false, level, help, nullptr, field};
}
constexpr Key number(const char* name, Kind kind, const char* fallback, std::int64_t min,
                     std::int64_t max, int level, const char* help, std::int64_t Settings::*field) {
  return {name, kind, fallback, min, max, false, level, help, field, nullptr};
}
constexpr Key number_or_auto(const char* name, Kind kind, std::int64_t min, std::int64_t max,
                             int level, const char* help, std::int64_t Settings::*field) {
  return {name, kind, "auto", min, max, true, level, help, field, nullptr};
}

// The fallbacks are the values the protocol was measured with on Soft-RoCE.
constexpr std::array keys{
    // Which port.
    text("device", "auto", 1,
         "RDMA device, with or without its port: auto, mlx5_0 or rxe0:1; auto takes the fastest "
         "active port that has an address",
         &Settings::device),
    number_or_auto("gid_index", Kind::count, 0, 255, 2,
                   "Entry of the port's GID table to use; auto prefers RoCEv2 over an IPv4 address",
                   &Settings::gid_index),
    number_or_auto("mtu", Kind::size, 256, 4 * KiB, 4,
                   "Largest packet on the wire: 256, 512, 1024, 2048 or 4096; auto takes the "
                   "port's active MTU",
                   &Settings::mtu_bytes),

    // Receiving.
    number("buffer_size", Kind::size, "8KiB", 1 * KiB, 1 * MiB, 3,
           "Size of one receive buffer, which is the largest frame and so bounds the eager limit; "
           "has to be the same in all processes",
           &Settings::buffer_bytes),
    number("window_initial", Kind::count, "8", 1, 32768, 3,
           "Receive window W at the start: receive buffers posted to the shared receive queue",
           &Settings::window_initial),
    number("window_max", Kind::count, "1024", 16, 32768, 2,
           "Most receive buffers the window grows to; times buffer_size it is the cap on receive "
           "memory of one process",
           &Settings::window_max),
    number("credits_max", Kind::count, "256", 2, 32768, 5,
           "Most eager credits one peer may hold: frames it can send before it hears from us",
           &Settings::credits_max),

    // Sending.
    number_or_auto("inline_limit", Kind::size, 0, 1 * KiB, 5,
                   "Frames up to this size are copied into the work request while posting; auto "
                   "takes 256B or what the device can do",
                   &Settings::inline_bytes),
    number("send_queue_depth", Kind::count, "128", 16, 16384, 4,
           "Work requests a peer's send queue takes", &Settings::send_queue_depth),
    number("signal_interval", Kind::count, "16", 1, 4096, 6,
           "At most this many frames go without asking for a completion",
           &Settings::signal_interval),
    number("bundle_size", Kind::size, "4KiB", 0, 1 * MiB, 4,
           "Small messages to one peer that have to wait share a frame up to this size; 0 turns "
           "sharing off",
           &Settings::bundle_bytes),
    number("bundle_burst", Kind::count, "4", 1, 65536, 5,
           "Frames to one peer that leave at once between two polls, before small messages wait "
           "to share a frame",
           &Settings::bundle_burst),
    number("pending_max", Kind::count, "1024", 16, 1048576, 4,
           "Frames to one peer that may wait for credits or a connection before small sends are "
           "handed back to the MPI layer",
           &Settings::pending_max),
    number("send_memory_max", Kind::size, "64MiB", 1 * MiB, 64 * GiB, 3,
           "Memory that fragments of large messages may take on their way out before the MPI "
           "layer has to wait",
           &Settings::send_memory_bytes),

    // Time.
    number("rnr_timer", Kind::duration, "640us", 10 * us, 655360 * us, 4,
           "How long a sender waits when the receiver had no buffer (RNR NAK); rounded up to what "
           "the wire format has",
           &Settings::rnr_timer_ns),
    number("ack_timeout", Kind::duration, "1s", 100 * us, 600 * s, 3,
           "How long an adapter waits for an acknowledgement before it sends again; rounded up to "
           "4.096us times a power of two",
           &Settings::ack_timeout_ns),
    number("retry_count", Kind::count, "6", 0, 6, 4,
           "How often an adapter sends again without an acknowledgement; 7 would mean for ever",
           &Settings::retry_count),
    number("connect_timeout", Kind::duration, "30s", 1 * s, 1 * h, 3,
           "A peer that does not answer a connection request for so long is given up",
           &Settings::connect_timeout_ns),
    number("peer_timeout", Kind::duration, "30s", 1 * s, 24 * h, 2,
           "A peer that gives no sign of life for so long is given up; one that is silent "
           "is asked for one now and then, whatever the application does",
           &Settings::peer_timeout_ns),
    number("close_timeout", Kind::duration, "10s", 0, 1 * h, 5,
           "How long leaving waits for sends under way", &Settings::close_timeout_ns),
};

std::string format(Kind kind, std::int64_t value) {
  switch (kind) {
    case Kind::size: return format_size(value);
    case Kind::duration: return format_duration(value);
    case Kind::count:
    case Kind::text: break;
  }
  return std::to_string(value);
}

bool parse(Kind kind, std::string_view value, std::int64_t& number, std::string& error) {
  switch (kind) {
    case Kind::size: return parse_size(value, number, error);
    case Kind::duration: return parse_duration(value, number, error);
    case Kind::count:
    case Kind::text: break;
  }
  return parse_count(value, number, error);
}

}  // namespace

std::span<const Key> schema() { return keys; }

const Key* find_key(std::string_view name) {
  for (const Key& key : keys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::string accepts(const Key& key) {
  if (key.kind == Kind::text) return "text";
  const char* kind = key.kind == Kind::count  ? "number"
                     : key.kind == Kind::size ? "size"
                                              : "duration";
  return std::string(key.takes_auto ? "auto or " : "") + kind + ", " + format(key.kind, key.min) +
         " to " + format(key.kind, key.max);
}

bool set(Settings& settings, const Key& key, std::string_view value, std::string& error) {
  if (key.kind == Kind::text) {
    if (value.empty()) {
      error = std::string(key.name) + " must not be empty (default " + key.fallback + ")";
      return false;
    }
    settings.*key.text = value;
    return true;
  }
  if (key.takes_auto && value == "auto") {
    settings.*key.number = automatic;
    return true;
  }
  std::int64_t number = 0;
  std::string problem;
  if (!parse(key.kind, value, number, problem)) {
    error = std::string(key.name) + ": " + problem + " (it takes: " + accepts(key) + ")";
    return false;
  }
  if (number < key.min || number > key.max) {
    error = std::string(key.name) + ": '" + std::string(value) +
            "' is out of range (it takes: " + accepts(key) + ")";
    return false;
  }
  settings.*key.number = number;
  return true;
}

std::string get(const Settings& settings, const Key& key) {
  if (key.kind == Kind::text) return settings.*key.text;
  const std::int64_t number = settings.*key.number;
  return key.takes_auto && number == automatic ? "auto" : format(key.kind, number);
}

Settings defaults() {
  Settings settings;
  std::string error;
  for (const Key& key : keys) set(settings, key, key.fallback, error);
  return settings;
}

// A maximum above what another key leaves room for is no contradiction: the smaller one rules. So
// lowering one key never asks for a second one to be set.
bool check(const Settings& settings, std::string& error) {
  const auto fault = [&](const char* name, const std::string& rule) {
    error = std::string(name) + " is " + get(settings, *find_key(name)) + ", but it must " + rule;
    return false;
  };
  const auto value = [&](const char* name) {
    return std::string(name) + " (" + get(settings, *find_key(name)) + ")";
  };
  if (settings.buffer_bytes % 64 != 0) return fault("buffer_size", "be a multiple of 64B");
  if (settings.mtu_bytes != automatic && (settings.mtu_bytes & (settings.mtu_bytes - 1)) != 0) {
    return fault("mtu", "be auto, 256B, 512B, 1KiB, 2KiB or 4KiB");
  }
  if (settings.window_initial > settings.window_max) {
    return fault("window_initial", "not exceed " + value("window_max"));
  }
  if (settings.ack_timeout_ns > settings.peer_timeout_ns) {
    return fault("ack_timeout", "not exceed " + value("peer_timeout"));
  }
  return true;
}

}  // namespace weir::config
