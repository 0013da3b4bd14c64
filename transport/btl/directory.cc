#include "transport/btl/directory.h"

#include <utility>

namespace weir::btl {

std::unique_ptr<Directory> Directory::create(const verbs::Device& device, std::uint32_t entries) {
  auto memory = verbs::RegisteredMemory::to_be_read(device, entries * sizeof(Export));
  if (!memory) return nullptr;
  return std::unique_ptr<Directory>(new Directory(std::move(memory), entries));
}

Directory::Directory(verbs::RegisteredMemory memory, std::uint32_t entries)
    : memory_(std::move(memory)),
      entries_(reinterpret_cast<Export*>(memory_.data()), entries),
      free_(entries) {
  for (std::uint32_t i = 0; i < entries; ++i) free_[i] = entries - 1 - i;
}

// A peer that reads an entry while it is written sees that it is not whole.
std::uint32_t Directory::add(const Export& memory) {
  const std::lock_guard guard(lock_);
  if (free_.empty()) return nowhere;
  const std::uint32_t place = free_.back();
  free_.pop_back();
  entries_[place] = memory;
  return place;
}

void Directory::remove(std::uint32_t place) {
  if (place == nowhere) return;
  const std::lock_guard guard(lock_);
  entries_[place] = {};
  free_.push_back(place);
}

void Directory::show(Exported& exported) const {
  exported.directory_address = reinterpret_cast<std::uint64_t>(entries_.data());
  exported.directory_rkey = memory_.rkey();
  exported.directory_entries = static_cast<std::uint16_t>(entries_.size());
}

}  // namespace weir::btl
