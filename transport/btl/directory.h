// What this process exports, in memory that peers read: where they look up a key when the handle
// that Open MPI gave them is not of the memory they ask for (exported.h).
//
// Listed is what is registered for all peers, as the memory of windows is; ob1's registrations for
// one message are not. An entry is there before Open MPI has the handle, and until it gives it
// back.
//
// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "transport/btl/exported.h"
#include "transport/verbs/device.h"
#include "transport/verbs/memory.h"

namespace weir::btl {

class Directory {
 public:
  static constexpr std::uint32_t nowhere = UINT32_MAX;

  // With room for so many. nullptr, and errno set, if the memory cannot be registered.
  static std::unique_ptr<Directory> create(const verbs::Device& device, std::uint32_t entries);

  // Where it is listed; nowhere if all entries are taken.
  std::uint32_t add(const Export& memory);
  void remove(std::uint32_t place);

  // Fills in how peers find this.
  void show(Exported& exported) const;

 private:
  Directory(verbs::RegisteredMemory memory, std::uint32_t entries);

  verbs::RegisteredMemory memory_;
  std::span<Export> entries_;
  std::mutex lock_;
  std::vector<std::uint32_t> free_;
};

}  // namespace weir::btl
