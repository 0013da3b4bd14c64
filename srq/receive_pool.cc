#include "srq/receive_pool.h"

#include <algorithm>
#include <cassert>

namespace weir {

void ReceivePool::add_slab(std::uint64_t address, std::uint32_t lkey, std::uint32_t count) {
  buffers_.reserve(buffers_.size() + count);
  free_.reserve(buffers_.size() + count);
  for (std::uint32_t i = 0; i < count; ++i) {
    free_.push_back(BufferId{total()});
    buffers_.push_back({address + std::uint64_t{i} * buffer_bytes_, lkey, State::free});
  }
}

std::uint32_t ReceivePool::post(std::uint32_t count, std::vector<ReceivePost>& posts) {
  count = std::min(count, free());
  for (std::uint32_t i = 0; i < count; ++i) {
    const BufferId id = free_.back();
    free_.pop_back();
    Buffer& buffer = buffers_[index(id)];
    buffer.state = State::posted;
    posts.push_back({id, buffer_bytes_, buffer.lkey, buffer.address});
  }
  posted_ += count;
  return count;
}

bool ReceivePool::arrive(BufferId id) {
  if (index(id) >= total() || buffers_[index(id)].state != State::posted) return false;
  buffers_[index(id)].state = State::held;
  --posted_;
  ++held_;
  return true;
}

bool ReceivePool::release(BufferId id) {
  if (index(id) >= total() || buffers_[index(id)].state != State::held) return false;
  buffers_[index(id)].state = State::free;
  --held_;
  free_.push_back(id);
  return true;
}

std::byte* ReceivePool::data(BufferId id) const {
  assert(index(id) < total());
  return reinterpret_cast<std::byte*>(buffers_[index(id)].address);
}

bool ReceivePool::conserved() const {
  const auto count = [this](State state) {
    return static_cast<std::uint32_t>(
        std::count_if(buffers_.begin(), buffers_.end(),
                      [state](const Buffer& buffer) { return buffer.state == state; }));
  };
  return count(State::posted) == posted_ && count(State::held) == held_ &&
         count(State::free) == free() && posted_ + held_ + free() == total();
}

}  // namespace weir
