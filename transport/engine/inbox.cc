#include "transport/engine/inbox.h"

#include <algorithm>

namespace weir {

Inbox::Inbox() {
  taken_messages_.reserve(256);
  taken_ends_.reserve(256);
  ends_.reserve(256);
  in_hand_.reserve(8);
}

bool Inbox::has_news_for_application(bool taken) const {
  const auto is_one = [](const Notice& notice) { return notice.is_for_application(); };
  return std::any_of(notices_.begin(), notices_.end(), is_one) ||
         (taken && taken_notices_.any_of(is_one));
}

// When a handler makes progress, the last message of a buffer may be handled before an earlier one
// of the same buffer is finished; the buffer is released only after both.
bool Inbox::finishes_buffer(const Delivery& message) {
  if (!message.last) {
    const auto found = std::find(postponed_.begin(), postponed_.end(), message.buffer);
    if (found == postponed_.end()) return false;
    postponed_.erase(found);
  }
  const bool needed = std::find(in_hand_.begin(), in_hand_.end(), message.buffer) != in_hand_.end();
  if (needed) {
    postponed_.push_back(message.buffer);
    return false;
  }
  return true;
}

}  // namespace weir
