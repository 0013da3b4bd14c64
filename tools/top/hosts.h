// The processes of many hosts, for `weir top --hosts` and `weir set --hosts`: an answerer on each
// (tools/between) tells what is in the memory there.
//
// Thread rule: one thread at a time. No host is waited for longer than its deadline; one that
// missed it is lost, and named.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/between/host.h"
#include "tools/between/host_options.h"
#include "tools/top/report.h"

namespace weir::tools::top {

class Hosts {
 public:
  // Throws CLI::ValidationError (wrong usage).
  explicit Hosts(const between::HostOptions& options);
  ~Hosts();

  // What those tell that answer. A lost one is missing in it.
  Look look();

  // Asks each of these hosts its question. What they answer, by name; `why_not` has the others.
  std::map<std::string, between::Json> ask(const std::map<std::string, between::Json>& questions,
                                           doctor::milliseconds limit,
                                           std::map<std::string, std::string>& why_not);

  // Those that are lost, and why.
  std::vector<std::pair<std::string, std::string>> silent() const;
  std::size_t count() const { return hosts_.size(); }

 private:
  struct One {
    std::string name;
    std::unique_ptr<between::Host> host;  // nullptr before the first look, and when it is lost
    std::string why_lost;
  };
  void look_at(One& one, Look& look);

  between::Starter starter_;
  doctor::milliseconds limit_;
  std::vector<One> hosts_;
};

}  // namespace weir::tools::top
