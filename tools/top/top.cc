// `weir top`: what the processes of this node are doing, from the memory they share.

#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "flowctl/shm/segment.h"
#include "tools/between/host_options.h"
#include "tools/commands.h"
#include "tools/top/hosts.h"
#include "tools/top/report.h"

namespace weir::tools {
namespace {

struct TopOptions {
  bool once = false;
  bool json = false;
  bool peers = false;
  bool tidy = false;
  double interval_s = 1;
  std::string sort;
  top::Wanted wanted;
  between::HostOptions hosts;
  std::string prometheus;
  std::string directory = "/dev/shm";
};

// Whoever collects it sees the old file or the new one, never half of one.
void write_whole(const std::string& path, const std::string& text) {
  const std::string beside = path + ".new";
  errno = 0;
  std::ofstream file(beside, std::ios::trunc);
  file << text;
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  }
}

// The terminal, while the table is on it: keys come at once and unseen. As it was, in the end.
class Screen {
 public:
  Screen() {
    if (::isatty(STDIN_FILENO) != 1 || ::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios now = before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    takes_keys_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
    ::signal(SIGINT, [](int) { ended_ = 1; });
    ::signal(SIGTERM, [](int) { ended_ = 1; });
  }
  ~Screen() {
    if (takes_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static std::size_t columns() {
    winsize size{};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 80;
  }
  static std::size_t rows() {
    winsize size{};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
    return known ? size.ws_row : 24;
  }
  static bool ended() { return ended_ != 0; }

  // Over the last text, in one piece, so that nothing flickers.
  static void show(const std::string& text) {
    std::string all = "\x1b[H";
    std::size_t row = 1;
    std::istringstream lines(text);
    for (std::string line; row < rows() && std::getline(lines, line); ++row) {
      all += line.substr(0, columns()) + "\x1b[K\n";
    }
    fmt::print("{}\x1b[J", all);
    std::fflush(stdout);
  }
  // A key, or nothing after so long.
  std::optional<char> key(double seconds) const {
    pollfd input{takes_keys_ ? STDIN_FILENO : -1, POLLIN, 0};
    char c = 0;
    if (::poll(&input, 1, static_cast<int>(seconds * 1000)) <= 0) return std::nullopt;
    if (::read(STDIN_FILENO, &c, 1) != 1) return 'q';
    return c;
  }

 private:
  static inline volatile std::sig_atomic_t ended_ = 0;
  termios before_{};
  bool takes_keys_ = false;
};

// The one behind the one that is chosen, in a circle.
template <typename T>
T next_of(const std::vector<T>& all, const T& chosen) {
  const auto at = std::find(all.begin(), all.end(), chosen);
  return at == all.end() || at + 1 == all.end() ? all.front() : *(at + 1);
}

void press(char key, top::Shape& shape, const top::Look& look) {
  switch (key) {
    case 's': shape.sorted_by = next_of(top::sortable_columns(), shape.sorted_by); break;
    case 'r': shape.reversed = !shape.reversed; break;
    case 'p': shape.peers = !shape.peers; break;
    case 'j': {
      std::set<std::uint64_t> there;
      for (const top::JobLook& job : top::jobs_of(look)) there.insert(job.name.job);
      std::vector<std::optional<std::uint64_t>> jobs{std::nullopt};
      jobs.insert(jobs.end(), there.begin(), there.end());
      shape.wanted.job = next_of(jobs, shape.wanted.job);
      break;
    }
    default: break;
  }
}

// Looks at this host, or at those that the user named.
class Looker {
 public:
  explicit Looker(const TopOptions& options) : directory_(options.directory) {
    if (options.hosts.any()) hosts_.emplace(options.hosts);
  }

  top::Look look() { return hosts_ ? hosts_->look() : top::look(directory_); }

  std::vector<std::pair<std::string, std::string>> silent() const {
    return hosts_ ? hosts_->silent() : std::vector<std::pair<std::string, std::string>>{};
  }
  // Those that do not answer, in a line.
  std::string silent_line() const {
    std::string text;
    for (const auto& [name, why] : silent()) text += (text.empty() ? "" : " ") + name;
    return text.empty() ? "" : "no answer: " + text + "\n";
  }

 private:
  std::string directory_;
  std::optional<top::Hosts> hosts_;
};

void run_on_screen(const TopOptions& options, Looker& looker, top::Shape shape) {
  const Screen screen;
  top::Look before, now = looker.look();
  for (auto due = std::chrono::steady_clock::now(); !Screen::ended();) {
    shape.width = Screen::columns();
    const std::string state =
        fmt::format("by {}{}{}  s: sort  r: reverse  j: job  p: peers  q: quit\n",
                    shape.sorted_by.empty() ? "job and rank" : shape.sorted_by,
                    shape.reversed ? ", least first" : "",
                    shape.wanted.job ? fmt::format("  job {}", *shape.wanted.job) : "");
    Screen::show(state + looker.silent_line() + top::to_table(now, before, shape));
    const std::chrono::duration<double> left = due - std::chrono::steady_clock::now();
    if (const auto key = screen.key(std::max(left.count(), 0.0))) {
      if (*key == 'q') return;
      press(*key, shape, now);
      continue;
    }
    if (std::chrono::steady_clock::now() < due) continue;
    due = std::chrono::steady_clock::now() +
          std::chrono::duration_cast<std::chrono::steady_clock::duration>(
              std::chrono::duration<double>(options.interval_s));
    before = std::exchange(now, looker.look());
  }
}

std::string as_json(const top::Look& now, const top::Look& before, const TopOptions& options,
                    const Looker& looker) {
  nlohmann::json all = top::to_json(now, before, options.peers);
  if (options.hosts.any()) {
    nlohmann::json silent = nlohmann::json::object();
    for (const auto& [name, why] : looker.silent()) silent[name] = why;
    all["no_answer"] = silent;
  }
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void run(const TopOptions& options) {
  if (options.tidy) {
    fmt::print("segments removed: {}\n", remove_stale_segments(options.directory));
    return;
  }
  const bool screen =
      ::isatty(STDOUT_FILENO) == 1 && !options.once && !options.json && options.prometheus.empty();
  const top::Shape shape{
      .peers = options.peers, .sorted_by = options.sort, .wanted = options.wanted};
  Looker looker(options);
  if (screen) return run_on_screen(options, looker, shape);
  const auto pause = [&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
  };
  top::Look before;
  if (options.once && options.prometheus.empty()) {  // rates need two looks
    before = looker.look();
    if (!before.ports.empty()) pause();
  }
  for (;;) {
    top::Look now = looker.look();
    if (!options.prometheus.empty()) {
      write_whole(options.prometheus, top::to_prometheus(now));
    } else if (options.json) {
      fmt::print("{}\n", as_json(now, before, options, looker));
    } else {
      fmt::print("{}", top::to_table(now, before, shape));
      for (const auto& [name, why] : looker.silent()) {
        fmt::print("{} does not answer: {}\n", name, why);
      }
    }
    std::fflush(stdout);
    if (options.once) {
      if (now.ports.empty() || !looker.silent().empty()) throw CLI::RuntimeError(1);
      return;
    }
    before = std::move(now);
    pause();
  }
}

}  // namespace

void add_top(CLI::App& app) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = app.add_subcommand(
      "top", "Show live what weir's processes on this node send, receive, hold and wait for");
  top->add_flag("--once", options->once, "Show it once, with rates over one interval, and end");
  top->add_flag("--json", options->json, "Print one JSON object for each look, with all counters");
  top->add_flag("--peers", options->peers,
                "Show the peers of each process, too: up to 32, first those that frames wait for; "
                "not for Prometheus");
  CLI::Option* const tidy =
      top->add_flag("--tidy", options->tidy,
                    "Remove what killed processes of this user left in shared memory, and end (for "
                    "Slurm's Epilog)");
  top->add_option("--sort", options->sort,
                  "Sort by this column, largest first; by default by job and rank")
      ->type_name("COLUMN")
      ->check(CLI::IsMember(top::sortable_columns()));
  top->add_option("--job", options->wanted.job,
                  "Show this job only; not in JSON and for Prometheus")
      ->type_name("JOB");
  top->add_option("--slurm-job", options->wanted.slurm_job, "Likewise, by its number in Slurm")
      ->type_name("ID");
  between::add_host_options(*top, options->hosts);
  top->add_option("--interval", options->interval_s, "Seconds between two looks")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  CLI::Option* const prometheus =
      top->add_option("--prometheus", options->prometheus,
                      "Write FILE in Prometheus's text format at each look, and print nothing "
                      "(FILE.prom for node_exporter's textfile collector)")
          ->type_name("FILE");
  for (CLI::Option* const own : {tidy, prometheus}) {  // these are for each node by itself
    for (const char* const hosts : {"--hosts", "--hostfile"}) own->excludes(hosts);
  }
  top->add_option("--directory", options->directory, "Where the shared memory is")
      ->capture_default_str();
  top->footer(
      "Columns:\n"
      "  SENT/s, GOT/s    bytes of messages and puts\n"
      "  MSG/s            messages both ways\n"
      "  GET/s            bytes of large messages that are read\n"
      "  W, RECVMEM       receive buffers, and their memory\n"
      "  TOKENS, WANTS    tokens of the node held, and waited for\n"
      "  WAITS            how long it waits for these, or for reads\n"
      "  EXCUSE           tokens not waited for, because their process stood still\n"
      "  READS            bytes of the node's read budget held or waited for\n"
      "  c                the read window\n"
      "  CONNS, BROKE     connections, and connections that broke\n"
      "  AGAIN, LOST      connections made again, and peers given up\n"
      "  READ50, READ99   time of a read: median and 99th percentile since the last look\n"
      "                   (without chains and reads below 4 KiB)\n"
      "  WAKE/s, VAIN/s   wake-ups of the overlap thread, and of these wake-ups in vain\n"
      "  UP/s, UP%        messages and ends of transfers that it handed up; its time\n"
      "  SERVER, QUEUE    rank that sends for this one now (proxy), and frames that wait for it\n"
      "  RELAY/s          frames that this one took to send for others\n"
      "\n"
      "Processes with node_sharing off share nothing: their TOKENS and READS are 0. A process\n"
      "with several rails has a row under each port. With --hosts a table has one job, on all\n"
      "these hosts. Tokens and reads are current; the other\n"
      "columns are up to a second old. The line of a port shows its counters that are not 0. A\n"
      "user sees their own processes in this container, root those of all users.\n"
      "\n"
      "Columns of peers:\n"
      "  SENT/s, GOT/s    frames\n"
      "  QUEUED, POSTED   frames not posted yet, and work requests not completed\n"
      "  CREDITS, LENT    frames that may be sent, and frames that the peer may send\n"
      "  READS, WRITES    chunks under way\n"
      "  WAITS FOR        what queued frames wait for: the connection, tokens of the node,\n"
      "                   credits of the peer, room in the send queue, or the next turn\n"
      "\n"
      "On a terminal the table fits the width; --once shows all columns. Keys: s sorts by the "
      "next\n"
      "column, r reverses the order, j shows the next job only, p shows peers, q ends.\n"
      "\n"
      "Exit status: 0; 1 when --once found no process, or a host did not answer; 2 on wrong "
      "usage.\n"
      "\n"
      "Examples:\n"
      "  weir top\n"
      "  weir top --peers --sort QUEUED\n"
      "  weir top --once --json | jq '.ports[].processes[] | {rank, tokens_held}'\n"
      "  weir top --hosts node[1-8] --sort SENT/s\n"
      "  weir top --hosts \"$(squeue -h -j 4711 -o %N)\" --slurm-job 4711 --peers\n"
      "  weir top --interval 15 --prometheus /var/lib/node_exporter/weir.prom");
  top->callback([options] { run(*options); });
}

}  // namespace weir::tools
