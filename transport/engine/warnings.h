// The warnings that a user reads of a port, each the first few times.
//
// Thread rule: the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "transport/core/core.h"
#include "transport/engine/inbox.h"
#include "transport/engine/options.h"
#include "transport/verbs/device.h"

namespace weir {

// Why so much memory cannot be had: what errno says, in words.
std::string cannot_register(const verbs::Device& device, std::size_t bytes);

class Warnings {
 public:
  Warnings(Inbox& inbox, const EngineOptions& options, const verbs::Device& device)
      : inbox_(inbox), options_(options), device_(device) {}

  // What the job does not go on without: the adapter is broken.
  void breakdown(const std::string& what);
  // Connections of peers that broke and are there again.
  void on_outage(const Outage& outage, const Core& core);
  void on_port(bool is_down);
  // The adapter has no limit event, as errno says.
  void no_limit_event();
  // The adapter takes no work for a queue pair, as errno says.
  void lane_refused();
  void window_cannot_grow(std::size_t bytes, std::uint64_t window);
  void small_window(const Core& core);
  void no_connection(const std::string& why) { inbox_.tell(why + "."); }
  // The kernel cannot keep registered pages from children.
  void forks(int error);
  // A request was refused; it is the `count`th.
  void refused(Refusal&& refusal, std::uint64_t count);

  // `weir set`: what changed, or why nothing did.
  void caps_changed(const std::string& words);
  void caps_refused(const std::string& why);

  void no_proxy(const std::string& why);
  void proxy_copies(std::size_t bytes, int error);
  // `members`: processes of the job that share memory here.
  void processes_missing(std::uint32_t members);

 private:
  // Only one process of a job and node warns of what the others would say, too.
  bool speaks_for_node() const { return options_.node.processes > 0; }
  std::string port() const { return device_.port().name(); }

  Inbox& inbox_;
  const EngineOptions& options_;
  const verbs::Device& device_;
  int outages_ = 0;
  std::uint64_t resent_before_ = 0;  // the last of these
  int port_changes_ = 0;
  int orders_ = 0;
  bool no_limit_event_ = false;
  bool small_window_ = false;
};

}  // namespace weir
