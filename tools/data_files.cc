#include "tools/data_files.h"

#include <filesystem>

namespace weir::tools {
namespace {

namespace fs = std::filesystem;

// PREFIX/bin, or the build's.
fs::path own_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

}  // namespace

std::string data_file(const std::string& name) {
  std::error_code error;
  const fs::path installed = own_folder().parent_path() / WEIR_DATA_FOLDER / name;
  return fs::exists(installed, error) ? installed.string() : WEIR_SOURCES "/" + name;
}

std::string helper_program(const std::string& name) {
  std::error_code error;
  const fs::path built = own_folder() / name;
  if (fs::exists(built, error)) return built.string();
  return (own_folder().parent_path() / WEIR_HELPER_FOLDER / name).string();
}

}  // namespace weir::tools
