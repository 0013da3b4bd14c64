// What the doctor does over a queue pair to another host: small messages, and reads of memory.
// When, `answer` decides.
//
// Every wait has a deadline. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/between/pair.h"
#include "tools/doctor/waiting.h"
#include "transport/config/settings.h"
#include "transport/verbs/device.h"
#include "transport/verbs/memory.h"

namespace weir::tools::between {

class Link {
 public:
  static constexpr std::size_t memory_bytes = 1 << 20;  // that a peer may read
  static constexpr std::uint32_t chunk_bytes = 64 << 10;

  // Of the port that `settings` choose. `mtu_bytes`: the largest packet, 0: as configured.
  static std::unique_ptr<Link> listen(const config::Settings& settings, std::uint32_t mtu_bytes,
                                      std::string& why);

  // To be connected before anything else.
  Pair& pair() { return *pair_; }

  // Sends `bytes` and waits for as many back, `rounds` times; half of each round trip, in us.
  std::vector<double> ping(std::uint32_t bytes, std::uint32_t rounds, std::string& why);
  // The other end of it.
  bool pong(std::uint32_t rounds, std::string& why);

  std::uint64_t memory_address() const { return reinterpret_cast<std::uint64_t>(shown_.data()); }
  std::uint32_t memory_key() const { return shown_.rkey(); }
  // Reads the peer's memory over and over for about `time`, and looks at what came. Bytes a second;
  // 0, and the reason in `why`.
  double read(std::uint64_t address, std::uint32_t key, std::chrono::milliseconds time,
              std::string& why);

 private:
  Link() = default;
  static constexpr std::uint32_t buffer_bytes = 4096;
  static constexpr std::uint32_t buffers = 4;

  bool post_receive(std::uint32_t buffer);
  bool send(std::uint32_t bytes);
  // Until a message or the end of `sends` work requests; what is awaited decides.
  template <typename Done>
  bool until(std::chrono::milliseconds limit, Done done, std::string& why);
  void poll();

  std::unique_ptr<verbs::Device> device_;
  verbs::RegisteredMemory out_;
  verbs::RegisteredMemory in_;
  verbs::RegisteredMemory shown_;  // to the peer
  verbs::RegisteredMemory read_;   // from the peer
  std::unique_ptr<Pair> pair_;     // its queues go before the memory
  std::uint64_t posted_ = 0;
  std::uint64_t sent_ = 0;      // of these, complete
  std::uint64_t received_ = 0;  // messages
  std::uint32_t last_bytes_ = 0;
  std::uint32_t last_buffer_ = 0;
  CompletionStatus failed_ = CompletionStatus::success;
};

}  // namespace weir::tools::between
