// `weir top`: what the processes of this node are doing, from the memory they share. Reads only.

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "tools/commands.h"
#include "tools/top/report.h"

namespace weir::tools {
namespace {

struct TopOptions {
  bool once = false;
  bool json = false;
  bool peers = false;
  double interval_s = 1;
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

void run(const TopOptions& options) {
  const bool screen = ::isatty(STDOUT_FILENO) == 1 && !options.once && !options.json;
  const auto pause = [&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
  };
  top::Look before;
  if (options.once && options.prometheus.empty()) {  // rates need two looks
    before = top::look(options.directory);
    if (!before.ports.empty()) pause();
  }
  for (;;) {
    top::Look now = top::look(options.directory);
    if (!options.prometheus.empty()) {
      write_whole(options.prometheus, top::to_prometheus(now));
    } else if (options.json) {
      fmt::print("{}\n", top::to_json(now, before, options.peers).dump());
    } else {
      if (screen) fmt::print("\x1b[H\x1b[2J");
      fmt::print("{}", top::to_table(now, before, options.peers));
    }
    std::fflush(stdout);
    if (options.once) {
      if (now.ports.empty()) throw CLI::RuntimeError(1);
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
  top->add_option("--interval", options->interval_s, "Seconds between two looks")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  top->add_option("--prometheus", options->prometheus,
                  "Write FILE in Prometheus's text format at each look, and print nothing "
                  "(FILE.prom for node_exporter's textfile collector)")
      ->type_name("FILE");
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
      "with several rails has a row under each port. Tokens and reads are current; the other\n"
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
      "Exit status: 0; 1 when --once found no process; 2 on wrong usage.\n"
      "\n"
      "Examples:\n"
      "  weir top\n"
      "  weir top --peers\n"
      "  weir top --once --json | jq '.ports[].processes[] | {rank, tokens_held}'\n"
      "  weir top --interval 15 --prometheus /var/lib/node_exporter/weir.prom");
  top->callback([options] { run(*options); });
}

}  // namespace weir::tools
