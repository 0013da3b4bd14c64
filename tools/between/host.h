// A host, and the program that a launcher has started there: it answers requests, one line each.
//
// Thread rule: one thread at a time. No call waits longer than it was told.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/between/launch.h"
#include "tools/between/lines.h"
#include "tools/doctor/waiting.h"

namespace weir::tools::between {

class Host {
 public:
  // `command`: what starts it, launcher and all. `why_lost` says so if it does not start.
  Host(std::string name, const std::vector<std::string>& command);
  // One that was started by hand, and is connected by `socket`.
  Host(std::string name, int socket);
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

  // Whether `answer` returns at once.
  bool has_answer();
  // Listens until one of them has, or `limit` has passed: then nullptr.
  static Host* first_to_answer(std::span<Host* const> hosts, doctor::milliseconds limit);

  // How long an answer may take yet that all hosts were asked for at once, before `end`. Whoever
  // has answered meanwhile is heard, even if another one took all the time.
  static doctor::milliseconds left_until(doctor::Clock::time_point end);

  bool lost() const { return !why_lost_.empty(); }
  const std::string& why_lost() const { return why_lost_; }

 private:
  void lose(const std::string& why);
  void take_bytes();
  std::string ended() const;

  std::string name_;
  std::string why_lost_;
  pid_t child_ = 0;
  int to_ = -1;
  int from_ = -1;
  doctor::Clock::time_point asked_{};
  LineReader lines_;
  std::optional<Json> said_;
};

// Starts this program on hosts, this one without a launcher. The names have been checked
// (why_no_host).
//
// Thread rule: any.
class Starter {
 public:
  // `arguments`: of the program: "doctor", "--answer".
  Starter(Launcher launcher, std::vector<std::string> arguments);

  std::unique_ptr<Host> start(const std::string& name) const;
  // What a person may try when it does not answer: "ssh node7 true".
  std::string trial(const std::string& name) const;

 private:
  Launcher launcher_;
  std::vector<std::string> program_;
  std::string own_;
};

// The name of this host.
std::string own_name();

}  // namespace weir::tools::between
