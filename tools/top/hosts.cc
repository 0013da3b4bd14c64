#include "tools/top/hosts.h"

#include <algorithm>

#include "tools/between/at_once.h"
#include "tools/top/page.h"

namespace weir::tools::top {
namespace {

using between::Json;

// As many are asked at a time.
constexpr std::size_t most_at_once = 64;
// For what a host tells that has told something before.
constexpr doctor::milliseconds later_limit{5000};

}  // namespace

Hosts::Hosts(const between::HostOptions& options)
    : starter_(between::launcher_here(options), {"doctor", "--answer"}),
      limit_(std::chrono::seconds(options.limit_s)) {
  for (const std::string& name : between::hosts_in(options)) hosts_.push_back({name, nullptr, {}});
}

Hosts::~Hosts() {
  // Each may take a second to end.
  between::at_once(most_at_once, hosts_.size(), [&](std::size_t i) { hosts_[i].host.reset(); });
}

void Hosts::look_at(One& one, Look& look) {
  const bool is_first = one.host == nullptr;
  if (is_first) one.host = starter_.start(one.name);
  const auto end = doctor::Clock::now() + (is_first ? limit_ : later_limit);
  std::size_t next = 0;
  do {
    const std::size_t from = next;
    one.host->ask({{"do", "top look"}, {"from", from}});
    const auto page = one.host->answer(between::Host::left_until(end), one.why_lost);
    if (!page || !add_page(*page, one.name, look, next, one.why_lost)) {
      one.host.reset();
      look = {};
      return;
    }
    if (next <= from) return;
  } while (next > 0);
}

Look Hosts::look() {
  std::vector<Look> looks(hosts_.size());
  between::at_once(most_at_once, hosts_.size(), [&](std::size_t i) {
    if (hosts_[i].why_lost.empty()) look_at(hosts_[i], looks[i]);
  });
  Look all;
  for (Look& one : looks) {
    std::move(one.ports.begin(), one.ports.end(), std::back_inserter(all.ports));
    all.left_out += one.left_out;
  }
  return all;
}

std::map<std::string, Json> Hosts::ask(const std::map<std::string, Json>& questions,
                                       doctor::milliseconds limit,
                                       std::map<std::string, std::string>& why_not) {
  std::vector<std::optional<Json>> answers(hosts_.size());
  std::vector<std::string> reasons(hosts_.size());
  between::at_once(most_at_once, hosts_.size(), [&](std::size_t i) {
    const auto question = questions.find(hosts_[i].name);
    if (question == questions.end() || hosts_[i].host == nullptr) return;
    hosts_[i].host->ask(question->second);
    answers[i] = hosts_[i].host->answer(limit, reasons[i]);
  });
  std::map<std::string, Json> said;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (answers[i]) said[hosts_[i].name] = std::move(*answers[i]);
    if (!reasons[i].empty()) why_not[hosts_[i].name] = reasons[i];
  }
  return said;
}

std::vector<std::pair<std::string, std::string>> Hosts::silent() const {
  std::vector<std::pair<std::string, std::string>> lost;
  for (const One& one : hosts_) {
    if (!one.why_lost.empty()) lost.emplace_back(one.name, one.why_lost);
  }
  return lost;
}

}  // namespace weir::tools::top
