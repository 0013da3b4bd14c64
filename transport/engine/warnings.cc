#include "transport/engine/warnings.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "flowctl/shm/segment.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/refusals.h"

namespace weir {
namespace {

// Of each kind so many are reported; the rest is only counted.
constexpr std::uint64_t most_refusals = 8;
constexpr int most_outages = 8;
constexpr int most_port_changes = 8;
constexpr int most_orders = 100;

}  // namespace

std::string cannot_register(const verbs::Device& device, std::size_t bytes) {
  const int error = errno;
  return "cannot register " + std::to_string((bytes + 1023) / 1024) + " KiB of memory with " +
         device.port().name() + ": " + verbs::registration_error(error);
}

void Warnings::breakdown(const std::string& what) {
  inbox_.tell(
      port() + " failed: " + what +
          ". This process can no longer reach any peer. Look for the driver's messages in this "
          "host's kernel log (dmesg), and check the adapter with ibv_devinfo. If both show "
          "nothing, report this as a bug",
      Notice::Kind::breakdown);
}

// A line when connections break, and one when they were made again.
void Warnings::on_outage(const Outage& outage, const Core& core) {
  if (!outage.over) {
    ++outages_;
    resent_before_ = core.counters().frames_resent;
  }
  if (outages_ > most_outages) return;
  const std::string peer = "rank " + std::to_string(core.name(outage.peer).rank);
  if (outage.over) {
    const std::int64_t ms = outage.took.ns / milliseconds(1).ns;
    inbox_.tell("the broken connections of " + port() + " were made again, the last to " + peer +
                ", after " + std::to_string(ms) + " ms. " +
                std::to_string(core.counters().frames_resent - resent_before_) +
                " frames were sent again.");
    return;
  }
  const bool known = outage.completion != CompletionStatus::success;
  inbox_.tell("a connection of " + port() + " broke, to " + peer + ": " + to_text(outage.reason) +
              (known ? std::string(" (") + to_text(outage.completion) + ")" : "") +
              ". weir makes it again, and any other that breaks. Their messages wait, for "
              "btl_weir_peer_timeout at most.");
}

// Without other rails the adapter sends again until the port is back, or until retries run out and
// the peers are lost; the reason is then known. Only one process of a job and node reports it.
void Warnings::on_port(bool is_down) {
  if (!options_.node.tells || ++port_changes_ > most_port_changes) return;
  if (!is_down) return inbox_.tell(port() + " is active again.");
  const char* const meanwhile =
      options_.core.among_rails ? "Messages go over the other rails"
                                : "Messages wait for it. Peers out of reach for longer than "
                                  "btl_weir_peer_timeout are given up";
  inbox_.tell(port() + " went down (port error). " + meanwhile +
              ". Check the cable, the switch port and ibv_devinfo.");
}

void Warnings::no_limit_event() {
  const int error = errno;
  if (std::exchange(no_limit_event_, true) || !options_.node.tells) return;
  inbox_.tell(port() + " has no limit event for shared receive queues (" + std::strerror(error) +
              "): while the application computes, the receive window grows only once a second. A "
              "larger btl_weir_window_initial helps. The job goes on.");
}

void Warnings::lane_refused() {
  const std::string why = verbs::reason();
  inbox_.tell(port() + " refuses work requests of a queue pair (" + why + ").");
}

void Warnings::window_cannot_grow(std::size_t bytes, std::uint64_t window) {
  inbox_.tell("the receive window cannot grow any further: " + cannot_register(device_, bytes) +
              ". The job goes on with " + std::to_string(window) + " receive buffers.");
}

void Warnings::small_window(const Core& core) {
  if (!speaks_for_node() || std::exchange(small_window_, true)) return;
  inbox_.tell("the receive window is limited to " + std::to_string(core.window_max()) +
              " buffers, fewer than the four that each peer needs (two for messages, two for "
              "credits). Senders will have to repeat (RNR NAK), and will wait for a process that "
              "computes. Raise btl_weir_window_max or btl_weir_receive_memory_max.");
}

void Warnings::forks(int error) {
  if (!speaks_for_node()) return;
  inbox_.tell(
      std::string("a program that calls fork() may corrupt messages, because this kernel "
                  "does not copy registered pages for the child and ibv_fork_init failed (") +
      std::strerror(error) +
      "). For such programs use mpirun -x RDMAV_FORK_SAFE=1, or a kernel from 5.12 on.");
}

void Warnings::refused(Refusal&& refusal, std::uint64_t count) {
  if (count > most_refusals) return;
  refusal.last = count == most_refusals;
  inbox_.tell(std::move(refusal));
}

void Warnings::caps_changed(const std::string& words) {
  if (!speaks_for_node() || words.empty() || ++orders_ > most_orders) return;
  inbox_.tell("'weir set' changed caps of this job's processes on this host: " + words + ".");
}

void Warnings::caps_refused(const std::string& why) {
  if (++orders_ > most_orders) return;
  inbox_.tell("does not take the caps that 'weir set' asks for: " + why + ".");
}

void Warnings::no_proxy(const std::string& why) {
  inbox_.tell("takes no part in the proxy of " + port() + ": " + why +
              ". It sends by itself, and the job goes on.");
}

void Warnings::proxy_copies(std::size_t bytes, int error) {
  inbox_.tell("cannot register the " + std::to_string(bytes / 1024) +
              " KiB of the proxy's memory with " + port() + ": " +
              verbs::registration_error(error) +
              ". As a server it copies the frames that it sends for others, and the job goes on.");
}

void Warnings::processes_missing(std::uint32_t members) {
  inbox_.tell("only " + std::to_string(members) + " of the job's " +
              std::to_string(options_.node.processes) +
              " processes on this host share a read budget and tokens. Together they may put more "
              "into the adapter than the settings allow. Do containers have a /dev/shm or process "
              "ids of their own, or are there more than " +
              std::to_string(NodeState::most_processes) + " processes?");
}

}  // namespace weir
