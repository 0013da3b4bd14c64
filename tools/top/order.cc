#include "tools/top/order.h"

#include <fmt/core.h>

#include <set>
#include <thread>

#include "transport/config/caps.h"
#include "transport/config/nearest.h"

namespace weir::tools::top {
namespace {

using namespace std::chrono_literals;
using between::Json;
using Moment = std::chrono::steady_clock;

constexpr std::size_t most_words = 16;  // lines that a host tells

// A process that has its order.
struct Asked {
  PortLook port;  // with this member alone
  Caps caps{};
  std::uint64_t mark = 0;
  const MemberView& member() const { return port.node.members.front(); }
};

std::vector<Asked> members_of(const Look& look, const JobName& job) {
  std::vector<Asked> members;
  for (const PortLook& port : look.ports) {
    for (const MemberView& member : port.node.members) {
      if (name_of(port, member) != job) continue;
      Asked asked{.port = port, .caps = member.caps};
      asked.port.node.members = {member};
      members.push_back(std::move(asked));
    }
  }
  return members;
}

std::string about(const Asked& asked, const std::string& words) {
  return fmt::format("rank {} (pid {}, {}:{}) {}", asked.member().rank, asked.member().process.pid,
                     asked.port.node.device, asked.port.node.port, words);
}

// Why the process does not keep what was asked; empty if it does.
std::string judged(const Asked& asked, const MemberView& there) {
  if (there.order_seen != asked.mark) return about(asked, "refused; its output says why");
  if (there.caps == asked.caps) return {};
  return about(asked, "has window_max " +
                          config::cap_text(window_max_cap, there.caps[window_max_cap]) +
                          ": its receive queue has room for no more, and keeps its size");
}

}  // namespace

std::optional<Change> read_change(const std::string& text, std::string& why) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const config::Key* const key = config::find_key(name);
  if (key == nullptr) {
    const config::Key* const meant = config::nearest_key(name);
    why = "there is no key '" + name + "'" +
          (meant != nullptr ? std::string("; did you mean ") + meant->name + "?" : "");
    return {};
  }
  const std::optional<std::size_t> cap = config::cap_of(*key);
  if (!cap) {
    std::string names;
    for (const char* one : cap_names) names += (names.empty() ? "" : ", ") + std::string(one);
    why = name + " cannot change while a job runs; these can: " + names;
    return {};
  }
  if (equals == text.npos) {
    why = "'" + text + "' has no '=VALUE'";
    return {};
  }
  Change change{*cap, 0};
  std::string reason;
  if (config::read(*key, text.substr(equals + 1), change.second, reason)) return change;
  why = name + ": " + reason;
  return {};
}

std::vector<std::string> words_of(std::span<const Change> changes, const Caps& before) {
  std::vector<std::string> words;
  for (const auto& [cap, value] : changes) {
    words.push_back(fmt::format("{} from {} to {}", cap_names[cap],
                                config::cap_text(cap, before[cap]), config::cap_text(cap, value)));
  }
  return words;
}

std::optional<Ordered> order(const JobName& job, std::span<const Change> changes,
                             const std::string& directory, std::string& why) {
  std::vector<Asked> waiting = members_of(look(directory), job);
  Ordered done;
  std::set<std::uint32_t> processes, answered;  // each is there for each of its rails
  if (!waiting.empty()) done.before = waiting.front().member().caps;
  for (Asked& asked : waiting) {
    for (const auto& [cap, value] : changes) asked.caps[cap] = value;
    done.takes_tokens = done.takes_tokens || asked.member().takes_tokens;
    const auto mark = order_caps(asked.port.node.path, asked.member(), asked.caps, why);
    if (!mark) return {};
    asked.mark = *mark;
    processes.insert(asked.member().process.pid);
  }
  done.processes = processes.size();
  const auto begin = Moment::now();
  while (!waiting.empty() && Moment::now() < begin + order_patience) {
    std::this_thread::sleep_for(50ms);
    const Look now = look(directory);
    std::erase_if(waiting, [&](const Asked& asked) {
      const MemberView* const there = find(now, asked.port, asked.member());
      if (there == nullptr) return true;  // it has ended
      if (there->order_seen != asked.mark && there->order_seen != ~asked.mark) return false;
      answered.insert(asked.member().process.pid);
      if (std::string words = judged(asked, *there); !words.empty()) {
        done.good = false;
        done.words.push_back(std::move(words));
      }
      return true;
    });
  }
  for (const Asked& asked : waiting) {
    done.good = false;
    answered.erase(asked.member().process.pid);
    done.words.push_back(about(asked,
                               "has not answered for 5 s: it is stopped, or has not begun to "
                               "send. It takes the caps when it goes on"));
  }
  done.answered = answered.size();
  done.seconds = std::chrono::duration<double>(Moment::now() - begin).count();
  return done;
}

// ---- on other hosts ----------------------------------------------------------------------------

Json order_for(const JobName& job, const std::vector<std::string>& changes) {
  return {{"do", "top order"},
          {"job", job.job},
          {"user", job.user},
          {"slurm_job", job.slurm_job},
          {"changes", changes}};
}

Json order_as_told(const Json& request) {
  const auto list = request.find("changes");
  if (list == request.end() || !list->is_array() || list->size() > cap_names.size()) {
    return between::failed("this is no order");
  }
  std::vector<Change> changes;
  std::string why;
  for (const Json& one : *list) {
    const auto change = one.is_string() ? read_change(one.get<std::string>(), why) : std::nullopt;
    if (!change) return between::failed(why);
    changes.push_back(*change);
  }
  const JobName job{between::count_in(request, "job"),
                    static_cast<std::uint32_t>(between::count_in(request, "user")),
                    between::text_in(request, "slurm_job")};
  const auto done = order(job, changes, "/dev/shm", why);
  if (!done) return between::failed(why);
  std::vector<std::string> words = done->words;
  if (words.size() > most_words) {
    words.resize(most_words);
    words.back() = fmt::format("and {} more", done->words.size() - most_words + 1);
  }
  return {{"processes", done->processes},
          {"answered", done->answered},
          {"ms", static_cast<std::uint64_t>(done->seconds * 1000)},
          {"good", done->good ? 1u : 0u},
          {"words", words}};
}

std::optional<Ordered> ordered_of(const Json& answer) {
  const auto words = answer.find("words");
  if (words == answer.end() || !words->is_array() || words->size() > most_words) return {};
  Ordered done;
  done.processes = between::count_in(answer, "processes");
  done.answered = between::count_in(answer, "answered");
  done.seconds = static_cast<double>(between::count_in(answer, "ms")) / 1000;
  done.good = between::count_in(answer, "good") == 1;
  for (const Json& one : *words) {
    if (!one.is_string()) return {};
    done.words.push_back(between::safe(one.get_ref<const std::string&>()));
  }
  return done;
}

}  // namespace weir::tools::top
