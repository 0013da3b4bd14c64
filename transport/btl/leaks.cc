// Finds operations that are not over, and memory that was not given back, at the end.

#include "transport/btl/module.h"
#include "transport/btl/report.h"

namespace weir::btl {

void report_leaks(Module& module) {
  std::string leaks;
  const auto count = [&](std::uint64_t number, const char* what) {
    if (number > 0) leaks += (leaks.empty() ? "" : ", ") + std::to_string(number) + " " + what;
  };
  count(module.operations.out(), "one-sided operations");
  count(module.handles.out(), "handles of registered memory");
  count(module.registrations_in_use(), "registrations in use");
  count(module.descriptors.out(), "descriptors");
  if (module.rails != nullptr) count(module.rails->parts.out(), "parts of messages");
  count(module.trains.bytes_half(), "bytes of incomplete messages");
  const Engine::Remains remains = module.engine->remains();
  count(remains.transfers, "unfinished transfers");
  count(remains.chunks, "chunks posted to the adapter");
  count(remains.pending_frames, "pending frames");
  count(remains.send_slots, "send slots");
  count(remains.receive_buffers, "receive buffers held");
  count(remains.credits, "eager credits");
  if (const std::uint64_t repeated = module.operations.repeated(); repeated > 0) {
    complain("weir has a bug: one-sided operations ended twice, " + std::to_string(repeated) +
             " times. Open MPI heard of the first end only.");
  }
  if (leaks.empty()) return;
  complain("leaked " + leaks + ": the program left requests behind, or weir has a bug.");
}

}  // namespace weir::btl
