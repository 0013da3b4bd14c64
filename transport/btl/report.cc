#include "transport/btl/report.h"

#include <algorithm>
#include <cstdio>

namespace weir::btl {
namespace {

std::string own_host() {
  return opal_process_info.nodename != nullptr ? opal_process_info.nodename : "unknown";
}

// The fault of a frame, and its first bytes, for a bug report.
std::string frame_text(const BadFrame& frame) {
  std::string text = std::string(to_text(frame.fault)) + "; frame " + std::to_string(frame.due) +
                     " of the lane, " + std::to_string(frame.size_bytes) + " bytes:";
  const std::size_t shown = std::min<std::size_t>(frame.size_bytes, frame.begin.size());
  for (std::size_t i = 0; i < shown; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, " %02x", std::to_integer<unsigned>(frame.begin[i]));
    text += byte;
  }
  return text;
}

// The peer's host works, and the process has gone: nobody has to look for a fault.
bool says_dead(FailReason reason) {
  return reason == FailReason::vanished || reason == FailReason::connect_refused ||
         reason == FailReason::connect_spoilt;
}

}  // namespace

std::string rank_text(PeerName name) {
  std::string text = "rank " + std::to_string(name.rank);
  if (name.job != opal_proc_local_get()->proc_name.jobid) {
    text += " of job " + std::to_string(name.job);
  }
  return text;
}

void complain(const std::string& text) {
  opal_output(0, "weir: rank %u on host %s: %s",
              static_cast<unsigned>(opal_proc_local_get()->proc_name.vpid), own_host().c_str(),
              text.c_str());
}

void print(const std::string& text) { opal_output(0, "weir: %s", text.c_str()); }

void note(int level, const std::string& text) {
  opal_output_verbose(level, verbose_stream(), "weir: %s", text.c_str());
}

void report_unavailable(const std::string& why) {
  if (asked_for("weir") && first_on_node()) {
    opal_output(0, "weir: not available on host %s: %s.", own_host().c_str(), why.c_str());
  } else {
    note(5, "not available: " + why);
  }
}

void report_warning(const std::string& what) {
  if (asked_for("weir") && first_on_node()) {
    opal_output(0, "weir: %s", what.c_str());
  } else {
    note(1, what);
  }
}

void report_no_overlap(const std::string& why) {
  report_warning("overlap is off, so large messages wait while the program computes: " + why);
}

void report_start_failure(const std::string& why) {
  if (asked_for("weir")) {
    complain("cannot start: " + why + ".");
  } else {
    note(1, "cannot start: " + why);
  }
}

void report_bad_configuration(const std::vector<config::Problem>& problems) {
  constexpr std::size_t most = 20;
  std::string text = "not used on host " + own_host() + ", because its configuration is wrong:";
  bool for_this_run = false;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    for_this_run = for_this_run || is_for_this_run(problems[i].layer);
    if (i < most) text += "\n  " + to_text(problems[i]);
  }
  if (problems.size() > most) text += "\n  and more";
  text += "\n'weir config explain KEY' tells what a key takes.";
  if (!for_this_run && !asked_for("weir")) {
    note(5, text);
  } else if (first_on_node()) {
    opal_output(0, "weir: %s", text.c_str());
  }
}

void report_refusal(const Refusal& refusal) {
  const char* why = "it does not know this process's key, so it is not part of this job";
  if (refusal.reason == wire::Reject::version) why = "it shares no protocol version with us";
  if (refusal.reason == wire::Reject::buffer) why = "its btl_weir_buffer_size differs from ours";
  const std::string claim = refusal.greeted
                                ? ", which says it is " + rank_text(refusal.from) + ": " + why
                                : ": it did not send weir's greeting";
  complain("refused a connection request from " + refusal.address + claim + ". The job goes on." +
           (refusal.last ? " Further ones are only counted (btl_weir_requests_refused)." : ""));
}

void report_failure(PeerName peer, const opal_proc_t* proc, const std::string& port,
                    const Failure& failure, const Export& memory, bool survivable) {
  const char* host = proc != nullptr ? opal_get_proc_hostname(proc) : nullptr;
  const bool same_host = host != nullptr && host == own_host();
  std::string text = "lost " + rank_text(peer) + " on host " +
                     (host != nullptr ? host : "unknown") + " (device " + port +
                     "): " + to_text(failure.reason);
  if (failure.completion != CompletionStatus::success) {
    text += std::string(" (") + to_text(failure.completion) + ")";
  }
  if (failure.request.peer != PeerId::none) text += ": " + to_text(failure.request, memory);
  if (failure.reason == FailReason::bad_frame) text += " (" + frame_text(failure.frame) + ")";
  text += ". " + std::string(remedy(failure.reason, failure.completion, same_host)) + ".";
  if (!survivable) return complain(text);
  text += " Open MPI tells the program, which may go on without it.";
  says_dead(failure.reason) ? note(1, text) : complain(text);
}

}  // namespace weir::btl
