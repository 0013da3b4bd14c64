// A list of the memory that this process exports, for peers to read. A peer looks a key up here
// when the handle that Open MPI gave it names other memory than it asks for (exported.h).
//
// The list has memory that is registered for all peers, such as windows, but no memory that ob1
// registers for one message. An entry exists before Open MPI has the handle, and until Open MPI
// gives the handle back.
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

  // The entry's place; nowhere if all entries are taken.
  std::uint32_t add(const Export& memory);
  void remove(std::uint32_t place);

  // Fills in where peers find this directory.
  void show(Exported& exported) const;

 private:
  Directory(verbs::RegisteredMemory memory, std::uint32_t entries);

  verbs::RegisteredMemory memory_;
  std::span<Export> entries_;
  std::mutex lock_;
  std::vector<std::uint32_t> free_;
};

}  // namespace weir::btl
