#include "transport/core/bad_frame.h"

#include <algorithm>

namespace weir {

const char* to_text(FrameFault fault) {
  switch (fault) {
    case FrameFault::none: return "nothing wrong";
    case FrameFault::twice: return "it was delivered before";
    case FrameFault::lane: return "it came on a queue pair for RDMA reads only";
    case FrameFault::length: return "it is longer than a receive buffer";
    case FrameFault::layout: return "its headers do not fit its length";
    case FrameFault::sequence: return "another frame was due";
    case FrameFault::after_goodbye: return "it came after the goodbye";
    case FrameFault::eager_credits: return "it was sent without an eager credit";
    case FrameFault::control_credits: return "it was sent without a control credit";
    case FrameFault::returned_credits: return "it returns credits never granted";
    case FrameFault::granted_credits: return "it grants more credits than there can be";
    case FrameFault::relayed: return "it was relayed for a stranger or out of turn";
    case FrameFault::lane_end: return "the end of a second lane was not due";
    case FrameFault::handover: return "it is about several rails, and there is one";
    case FrameFault::part: return "it asks or answers out of turn whether to part";
  }
  return "unknown fault";
}

BadFrame describe(FrameFault fault, std::uint32_t due, const std::byte* frame, std::size_t size) {
  BadFrame bad{fault, due, static_cast<std::uint32_t>(size), {}};
  std::copy_n(frame, std::min(size, bad.begin.size()), bad.begin.begin());
  return bad;
}

}  // namespace weir
