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
  top->add_flag("--json", options->json, "Print one JSON object a look, with all counters");
  top->add_flag("--peers", options->peers,
                "Show also what each process has to do with its peers (up to 32 of them, those "
                "that something waits for first); not for Prometheus");
  top->add_option("--interval", options->interval_s, "Seconds between two looks")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  top->add_option("--prometheus", options->prometheus,
                  "Write FILE in Prometheus's text format at each look, and print nothing: for "
                  "node_exporter's textfile collector, FILE ends in .prom")
      ->type_name("FILE");
  top->add_option("--directory", options->directory, "Where the shared memory is")
      ->capture_default_str();
  top->footer(
      "Columns: SENT/s and GOT/s bytes of messages and puts, MSG/s messages both ways, GET/s\n"
      "bytes of large messages that are read, W and RECVMEM receive buffers and their memory,\n"
      "TOKENS of the node held, WANTS those waited for, WAITS how long for them or for reads,\n"
      "EXCUSE those of processes that stood still, which were not waited for, READS bytes of\n"
      "the node's read budget held or waited for, c the read window, CONNS connections, BROKE\n"
      "those that broke, AGAIN of these made again, LOST peers given up; once there were reads\n"
      "READ50 and READ99 the times below which half and 99 % of those since the last look\n"
      "stayed (not chains, nor reads below 4 KiB); once a thread stood in for an application\n"
      "that computes (overlap) WAKE/s its wake-ups, VAIN/s those in vain, UP/s messages and\n"
      "ends of transfers that it handed up, UP% the time that took; with a proxy SERVER the\n"
      "rank that sends for this one now, QUEUE frames that wait for it, RELAY/s frames taken to\n"
      "be sent for others.\n"
      "Processes with node_sharing off share nothing: their TOKENS and READS are 0. A process\n"
      "with several rails has a row under each port. What a process shows is up to a second\n"
      "old, tokens and reads are of now. Above them the port's own counters that are not 0.\n"
      "Shown are the processes of this user, for root of all users, in this container.\n\n"
      "Peers: SENT/s and GOT/s frames, QUEUED those that are not posted yet, POSTED work\n"
      "requests whose end is not known, CREDITS frames that may be sent, LENT those that the\n"
      "peer may send, READS and WRITES chunks under way, WAITS FOR what holds up the queued\n"
      "ones: the connection, tokens of the node, credits of the peer, room in the send queue,\n"
      "or only the next turn.\n\n"
      "Exit status: 0; 1 when --once found no process; 2 on wrong usage.\n\n"
      "Examples:\n"
      "  weir top\n"
      "  weir top --peers\n"
      "  weir top --once --json | jq '.ports[].processes[] | {rank, tokens_held}'\n"
      "  weir top --interval 15 --prometheus /var/lib/node_exporter/weir.prom");
  top->callback([options] { run(*options); });
}

}  // namespace weir::tools
