#include "srq/receive_pool.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace weir {

void ReceivePool::add_slab(std::uint64_t address, std::uint32_t lkey, std::uint32_t count) {
  assert(!retiring());
  slabs_.push_back({total(), count});
  buffers_.reserve(buffers_.size() + count);
  free_.reserve(buffers_.size() + count);
  for (std::uint32_t i = 0; i < count; ++i) {
    free_.push_back(BufferId{total_++});
    buffers_.push_back({address + std::uint64_t{i} * buffer_bytes_, lkey, State::free, false});
  }
  active_ += count;
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
  peak_used_ = std::max(peak_used_, backed() - posted_);
  return true;
}

void ReceivePool::withdraw(BufferId id) {
  buffers_[index(id)].state = State::withdrawn;
  ++withdrawn_;
  ++slab_of(id).withdrawn;
}

bool ReceivePool::retire(std::uint32_t keep, std::uint32_t most) {
  const std::uint32_t before = active_;
  for (auto slab = slabs_.rbegin(); slab != slabs_.rend(); ++slab) {
    if (slab->retiring) continue;
    if (active_ <= most || active_ - slab->count < keep) break;
    set_retiring(*slab, true);
    active_ -= slab->count;
  }
  return active_ < before;
}

void ReceivePool::restore(std::uint32_t want, std::uint32_t most) {
  for (Slab& slab : slabs_) {
    if (!slab.retiring) continue;
    if (active_ >= want || active_ + slab.count > most) return;
    set_retiring(slab, false);
    active_ += slab.count;
    for (std::uint32_t i = slab.first; i < slab.first + slab.count; ++i) {
      if (buffers_[i].state != State::withdrawn) continue;
      buffers_[i].state = State::free;
      free_.push_back(BufferId{i});
    }
    withdrawn_ -= slab.withdrawn;
    slab.withdrawn = 0;
  }
}

std::uint32_t ReceivePool::drop_slab() {
  if (!can_drop()) return 0;
  const std::uint32_t count = slabs_.back().count;
  total_ = slabs_.back().first;
  buffers_.resize(total_);
  withdrawn_ -= count;
  slabs_.pop_back();
  return count;
}

ReceivePool::Slab& ReceivePool::slab_of(BufferId id) {
  const auto after =
      std::upper_bound(slabs_.begin(), slabs_.end(), index(id),
                       [](std::uint32_t buffer, const Slab& slab) { return buffer < slab.first; });
  return *std::prev(after);
}

void ReceivePool::set_retiring(Slab& slab, bool retiring) {
  slab.retiring = retiring;
  for (std::uint32_t i = slab.first; i < slab.first + slab.count; ++i) {
    buffers_[i].retiring = retiring;
  }
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
  std::uint32_t active = 0;
  for (const Slab& slab : slabs_) active += slab.retiring ? 0 : slab.count;
  return count(State::posted) == posted_ && count(State::held) == held_ &&
         count(State::free) == free() && count(State::withdrawn) == withdrawn_ &&
         posted_ + held_ + free() + withdrawn_ == total() && buffers_.size() == total_ &&
         active == active_;
}

}  // namespace weir
