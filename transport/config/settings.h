// Everything a user can set, as plain values. The schema has the keys, their defaults and meanings;
// `config::defaults` makes a Settings.
#pragma once

#include <cstdint>
#include <string>

namespace weir::config {

inline constexpr std::int64_t automatic = -1;  // "auto", for keys that accept it

inline constexpr std::int64_t window_max_auto = 512;      // W_max with few peers
inline constexpr std::int64_t window_unasked_auto = 256;  // then W grows as window.h says

struct Settings {
  std::string profile;
  std::string tuned_for;  // the hardware, or any
  std::string device;
  std::int64_t rails = automatic;
  std::string frames;  // home, spread
  std::int64_t paths = automatic;
  std::int64_t gid_index = automatic;
  std::int64_t mtu_bytes = automatic;
  std::int64_t traffic_class = automatic;
  std::int64_t service_level = automatic;
  std::int64_t pkey = automatic;

  std::int64_t buffer_bytes = 0;
  std::int64_t window_initial = 0;
  std::int64_t window_max = automatic;
  std::int64_t window_shrink_after_ns = 0;  // 0: never
  std::int64_t receive_memory_bytes = 0;

  std::int64_t eager_max_bytes = automatic;
  std::int64_t inline_bytes = automatic;
  std::int64_t bundle_bytes = 0;
  std::int64_t send_memory_bytes = 0;

  std::int64_t chunk_bytes = 0;
  std::int64_t reads_max = automatic;
  std::int64_t reads_window_max_bytes = 0;
  std::int64_t offload_bytes = 0;  // 0: never
  std::int64_t registration_bytes = automatic;

  std::string overlap;             // off, auto, on, all
  std::string overlap_cpus;        // auto, any, or a list of CPUs
  std::string node_sharing;        // auto, user, job, off
  std::int64_t proxy_servers = 0;  // 0: none
  std::string admission;           // off, thresholds, always
  std::int64_t tokens = 0;
  std::int64_t bytes_per_token = 0;  // 0: one token per request
  std::string cct;                   // tables, see table.h
  std::string nrct;
  std::string crct;
  std::string delay;
  std::int64_t rate_max = automatic;  // bytes a second

  std::int64_t connections_max = 0;  // 0: any number
  std::int64_t rnr_timer_ns = 0;
  std::int64_t ack_timeout_ns = 0;
  std::int64_t retry_count = 0;
  std::int64_t connect_timeout_ns = 0;
  std::int64_t peer_timeout_ns = 0;

  std::string summary;            // off, on
  std::string check_leaks;        // off, on
};

}  // namespace weir::config
