#include "tools/data_files.h"

namespace weir::tools {

namespace fs = std::filesystem;

fs::path command_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

std::string data_file(const std::string& name) {
  return (command_folder().parent_path() / WEIR_DATA_FOLDER / name).string();
}

bool is_of_a_build() {
  std::error_code error;
  return fs::exists(command_folder().parent_path() / "CMakeCache.txt", error);
}

std::string helper_program(const std::string& name) {
  std::error_code error;
  const fs::path built = command_folder() / name;
  if (fs::exists(built, error)) return built.string();
  return (command_folder().parent_path() / WEIR_HELPER_FOLDER / name).string();
}

}  // namespace weir::tools
