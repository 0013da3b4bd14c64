// A host, and the `weir doctor --answer` that a remote shell has started there.
//
// Thread rule: one thread. No call waits longer than it was told.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/between/lines.h"
#include "tools/doctor/waiting.h"

namespace weir::tools::between {

class Host {
 public:
  // `command`: what starts it, remote shell and all. `why_lost` says so if it does not start.
  Host(std::string name, const std::vector<std::string>& command);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }

  // Sends one request, and does not wait for the answer.
  void ask(const Json& request);
  // The answer; nothing if none came in time, or it says "error": then `why` has the reason. A host
  // that does not answer in time is lost: what it says later could be taken for something else.
  std::optional<Json> answer(doctor::milliseconds limit, std::string& why);

  // How long an answer may take yet that all hosts were asked for at once, before `end`. Whoever
  // has answered meanwhile is heard, even if another one took all the time.
  static doctor::milliseconds left_until(doctor::Clock::time_point end);

  bool lost() const { return !why_lost_.empty(); }
  const std::string& why_lost() const { return why_lost_; }

 private:
  void lose(const std::string& why);
  std::string ended() const;

  std::string name_;
  std::string why_lost_;
  pid_t child_ = 0;
  int to_ = -1;
  int from_ = -1;
  doctor::Clock::time_point asked_{};
  LineReader lines_;
};

// How hosts are reached.
struct Reach {
  std::string shell;  // as the user says; empty: as Open MPI is told, or ssh
};

// A host for each name, all started at once; this host without a remote shell. The names have been
// checked (why_no_host).
std::vector<std::unique_ptr<Host>> start_hosts(const std::vector<std::string>& names,
                                               const Reach& reach);

// The name of this host.
std::string own_name();

}  // namespace weir::tools::between
