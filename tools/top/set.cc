// `weir set`: other caps for a job that runs, through the memory that `weir top` reads.

#include <fmt/core.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/between/host_options.h"
#include "tools/commands.h"
#include "tools/top/hosts.h"
#include "tools/top/order.h"
#include "tools/top/report.h"

namespace weir::tools {
namespace {

using namespace std::chrono_literals;

struct SetOptions {
  std::vector<std::string> changes;
  top::Wanted wanted;
  between::HostOptions hosts;
  std::string directory = "/dev/shm";
};

std::vector<top::Change> changes_of(const SetOptions& options) {
  std::vector<top::Change> changes;
  for (const std::string& text : options.changes) {
    std::string why;
    const auto change = top::read_change(text, why);
    if (!change) throw CLI::ValidationError(why);
    changes.push_back(*change);
  }
  return changes;
}

// The one that is wanted; of a Slurm job, all. Throws if that is not clear.
std::vector<top::JobLook> chosen(const top::Look& look, const SetOptions& options) {
  std::vector<top::JobLook> jobs = top::jobs_of(look);
  std::erase_if(jobs, [&](const top::JobLook& job) { return !options.wanted.has(job.name); });
  if (jobs.empty()) {
    fmt::print("No weir process of {} is visible {}.\n", top::to_text(options.wanted),
               options.hosts.any() ? "there" : "on this node");
    throw CLI::RuntimeError(1);
  }
  const bool mixed = std::any_of(jobs.begin(), jobs.end(),
                                 [](const top::JobLook& job) { return !job.only_on.empty(); });
  if (mixed || (jobs.size() > 1 && !options.wanted.slurm_job)) {
    std::string list;
    for (const top::JobLook& job : jobs) {
      list += fmt::format("\n  --job {}  ({}{})", job.name.job, top::owner_of(job),
                          job.only_on.empty() ? "" : ", --hosts " + job.only_on);
    }
    throw std::runtime_error("there are several jobs; name one:" + list);
  }
  return jobs;
}

void show_changes(const top::JobLook& job, const std::vector<top::Change>& changes) {
  for (const std::string& words : top::words_of(changes, job.members.front().member->caps)) {
    fmt::print("  {}\n", words);
  }
  const bool takes_tokens =
      std::any_of(job.members.begin(), job.members.end(),
                  [](const top::JobMember& one) { return one.member->takes_tokens; });
  for (const auto& [cap, value] : changes) {
    if (std::string_view(cap_names[cap]) == "tokens" && !takes_tokens) {
      fmt::print("  tokens limit nothing here: admission is off\n");
    }
  }
}

bool set_here(const top::JobLook& job, const std::vector<top::Change>& changes,
              const std::string& directory) {
  std::string why;
  const auto done = top::order(job.name, changes, directory, why);
  if (!done) throw std::runtime_error(why);
  for (const std::string& words : done->words) fmt::print("  {}\n", words);
  fmt::print("{} answered after {:.1f} s\n", done->answered, done->seconds);
  return done->good;
}

// Each host does it there; one that does not say so in time is named.
bool set_there(top::Hosts& hosts, const top::JobLook& job,
               const std::vector<std::string>& changes) {
  std::map<std::string, between::Json> questions;
  for (const top::JobMember& one : job.members) {
    questions[one.port->host] = top::order_for(job.name, changes);
  }
  std::map<std::string, std::string> why_not;
  const auto answers = hosts.ask(questions, top::order_patience + 5s, why_not);
  bool all_good = true;
  std::size_t answered = 0;
  for (const auto& [name, question] : questions) {
    const auto said = answers.find(name);
    const auto done = said == answers.end() ? std::nullopt : top::ordered_of(said->second);
    if (!done) {
      const auto why = why_not.find(name);
      fmt::print("  {}: {}\n", name,
                 why == why_not.end() ? "it says what no weir set says" : why->second);
    } else {
      fmt::print("  {}: {} of {} answered after {:.1f} s\n", name, done->answered, done->processes,
                 done->seconds);
      for (const std::string& words : done->words) fmt::print("    {}\n", words);
      answered += done->answered;
    }
    all_good = all_good && done && done->good;
  }
  fmt::print("{} answered\n", answered);
  return all_good;
}

void run(const SetOptions& options) {
  const std::vector<top::Change> changes = changes_of(options);
  std::optional<top::Hosts> hosts;
  if (options.hosts.any()) hosts.emplace(options.hosts);
  const top::Look look = hosts ? hosts->look() : top::look(options.directory);
  bool all_good = true;
  if (hosts) {
    for (const auto& [name, why] : hosts->silent()) {
      fmt::print("{} does not answer: {}\n", name, why);
      all_good = false;
    }
  }
  for (const top::JobLook& job : chosen(look, options)) {
    fmt::print("job {}: {}\n", job.name.job, top::extent_of(job));
    show_changes(job, changes);
    std::fflush(stdout);
    all_good = (hosts ? set_there(*hosts, job, options.changes)
                      : set_here(job, changes, options.directory)) &&
               all_good;
  }
  if (!all_good) throw CLI::RuntimeError(1);
}

}  // namespace

void add_set(CLI::App& app) {
  auto options = std::make_shared<SetOptions>();
  CLI::App* set = app.add_subcommand("set", "Change caps of a job that runs");
  set->add_option("CHANGE", options->changes,  // CLI11 2.4 takes no name with '='
                  "KEY=VALUE, as in weir.yaml, of window_max, receive_memory_max, reads_max, "
                  "reads_window_max, tokens or rate_max")
      ->required()
      ->expected(1, -1);
  set->add_option("--job", options->wanted.job,
                  "The job, by its number in 'weir top'; needed if there are several")
      ->type_name("JOB");
  set->add_option("--slurm-job", options->wanted.slurm_job, "All of this job of Slurm")
      ->type_name("ID");
  between::add_host_options(*set, options->hosts);
  set->add_option("--directory", options->directory, "Where the shared memory is")
      ->capture_default_str();
  set->footer(
      "So a job that floods a fabric is slowed down, not killed. Its processes take the values\n"
      "within a second, after the checks of a configuration file, and one of them writes a line.\n"
      "Other keys cannot change while a job runs. Without --hosts it changes the job's processes\n"
      "on this node. Users may change their own jobs, root all.\n"
      "\n"
      "rate_max is what makes room for others: bytes a second, of each process. Other caps bound\n"
      "what waits, and a job that has always one chunk under way still takes its share of a link.\n"
      "Receivers read large messages, so it is theirs that counts; small ones their senders send.\n"
      "\n"
      "A lower cap takes effect as traffic goes on. Reads under way complete. Receive memory goes\n"
      "back once peers have used or returned their credits. A window keeps what its peers need at\n"
      "least, and never gets larger than the receive queue was made for.\n"
      "\n"
      "Exit status: 0; 1 when a process did not take a value, a host did not answer, or there was "
      "none;\n"
      "2 on wrong usage.\n"
      "\n"
      "Examples:\n"
      "  weir set rate_max=10MiB\n"
      "  weir set --job 816906241 reads_window_max=256KiB tokens=8\n"
      "  weir set --hosts \"$(squeue -h -j 4711 -o %N)\" --slurm-job 4711 rate_max=1MiB\n"
      "  weir set rate_max=auto                    # as before");
  set->callback([options] { run(*options); });
}

}  // namespace weir::tools
