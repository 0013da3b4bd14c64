#include "transport/verbs/completion_queues.h"

#include <fcntl.h>

#include <algorithm>

#include "transport/verbs/refusals.h"

namespace weir::verbs {
namespace {

constexpr std::uint32_t pairs_planned = 16;

// Without the provider's lock, where it can go without. The processes of a node take turns with the
// adapter's completion vectors, so that not all interrupts come to one CPU.
ibv_cq* create_queue(const Device& device, int entries, ibv_comp_channel* channel) {
  const auto vectors = static_cast<unsigned>(std::max(device.context()->num_comp_vectors, 1));
  const unsigned vector = device.port().turn % vectors;
  if (device.has_thread_domain()) {
    ibv_cq_init_attr_ex attributes{};
    attributes.cqe = static_cast<std::uint32_t>(entries);
    attributes.channel = channel;
    attributes.comp_vector = vector;
    attributes.wc_flags = IBV_WC_STANDARD_FLAGS;
    attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attributes.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    if (ibv_cq_ex* const made = ibv_create_cq_ex(device.context(), &attributes)) {
      return ibv_cq_ex_to_cq(made);
    }
  }
  return ibv_create_cq(device.context(), entries, nullptr, channel, static_cast<int>(vector));
}

}  // namespace

std::unique_ptr<CompletionQueues> CompletionQueues::create(const Device& device,
                                                           std::uint32_t receives,
                                                           std::uint32_t sends, std::string& why) {
  std::unique_ptr<CompletionQueues> made(new CompletionQueues(device, receives));
  // Without a channel the event thread only looks less often.
  made->channel_.reset(ibv_create_comp_channel(device.context()));
  if (made->channel_) {
    const int fd = made->channel_->fd;
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  if (!made->add_queue(pairs_planned * sends)) {
    why = cannot_create("a completion queue", device, made->limits());
    return nullptr;
  }
  return made;
}

std::string CompletionQueues::limits() const {
  return std::to_string(device_.limits().max_cqe) + " entries (max_cqe), and has " +
         std::to_string(device_.limits().max_cq) + " such queues (max_cq)";
}

CompletionQueues::Queue& CompletionQueues::of(const ibv_cq* cq) {
  return *std::find_if(queues_.begin(), queues_.end(),
                       [&](const Queue& queue) { return queue.cq.get() == cq; });
}

std::uint32_t CompletionQueues::most_completions() const {
  std::uint32_t most = receives_;
  for (const Queue& queue : queues_) most += queue.sends;
  return most;
}

// Rather twice what is needed: it is a call of the kernel.
bool CompletionQueues::make_room(Queue& queue, std::uint32_t sends) {
  const std::uint32_t entries = entries_for(queue.sends + sends);
  const auto limit = static_cast<std::uint32_t>(device_.limits().max_cqe);
  if (entries <= static_cast<std::uint32_t>(queue.cq->cqe)) return true;
  if (entries > limit || !grows_) return false;
  grows_ = ibv_resize_cq(queue.cq.get(), static_cast<int>(std::min(limit, entries * 2))) == 0 ||
           ibv_resize_cq(queue.cq.get(), static_cast<int>(entries)) == 0;
  return grows_;
}

// For so many work requests, or what the device has room for.
bool CompletionQueues::add_queue(std::uint32_t sends) {
  const auto limit = static_cast<std::uint32_t>(device_.limits().max_cqe);
  const int entries = static_cast<int>(std::min(limit, entries_for(sends)));
  errno = 0;
  Queue queue;
  queue.cq.reset(create_queue(device_, entries, channel_.get()));
  if (!queue.cq) return false;
  listen(queue.cq.get());
  queues_.push_back(std::move(queue));
  return true;
}

ibv_cq* CompletionQueues::with_room(std::uint32_t sends, std::string& why) {
  for (std::size_t i = queues_.size(); i-- > 0;) {
    if (make_room(queues_[i], sends)) return queues_[i].cq.get();
  }
  const std::uint32_t least = entries_for(sends);
  const auto limit = static_cast<std::uint32_t>(device_.limits().max_cqe);
  if (least > limit) {
    why = "a completion queue of " + device_.port().name() + " needs " + std::to_string(least) +
          " entries; the device allows " + std::to_string(limit) +
          " (max_cqe). Lower btl_weir_window_max";
    return nullptr;
  }
  // Each is twice the last, so that there are few.
  const std::uint32_t planned = std::max(queues_.back().sends * 2, sends);
  if (add_queue(planned) || add_queue(sends)) return newest();
  why = cannot_create("another completion queue", device_, limits());
  return nullptr;
}

int CompletionQueues::poll_each(int most, ibv_wc* found) {
  int count = 0;
  first_polled_ = (first_polled_ + 1) % queues_.size();
  for (std::size_t i = 0; i < queues_.size() && count < most; ++i) {
    ibv_cq* const cq = queues_[(first_polled_ + i) % queues_.size()].cq.get();
    const int more = ibv_poll_cq(cq, most - count, found + count);
    if (more < 0) return more;
    count += more;
  }
  return count;
}

void CompletionQueues::take_events() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (channel_ && ibv_get_cq_event(channel_.get(), &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
    listen(cq);
  }
}

void CompletionQueues::listen() {
  for (const Queue& queue : queues_) listen(queue.cq.get());
}

void CompletionQueues::listen(ibv_cq* cq) {
  if (channel_) ibv_req_notify_cq(cq, 1);
}

}  // namespace weir::verbs
