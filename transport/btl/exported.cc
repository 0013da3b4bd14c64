#include "transport/btl/exported.h"

#include <cstdio>

namespace weir::btl {

const Export* find_export(std::span<const Export> directory, std::uint64_t address,
                          std::uint64_t bytes) {
  for (const Export& memory : directory) {
    if (memory.covers(address, bytes)) return &memory;
  }
  return nullptr;
}

std::string to_text(const TransferRequest& request, const Export& memory) {
  const char* what = "an atomic operation on";
  if (request.opcode == Opcode::read) what = "a read of";
  if (request.opcode == Opcode::write) what = "a write of";
  char text[200];
  std::snprintf(text, sizeof text, "%s %llu bytes at 0x%llx", what,
                static_cast<unsigned long long>(request.length_bytes),
                static_cast<unsigned long long>(request.remote_address));
  std::string all = text;
  if (!memory.is_whole()) return all + " (with a key of unknown memory)";
  std::snprintf(text, sizeof text, " (key 0x%x covers %llu bytes at 0x%llx)", memory.rkey,
                static_cast<unsigned long long>(memory.length_bytes),
                static_cast<unsigned long long>(memory.address));
  return all + text;
}

}  // namespace weir::btl
