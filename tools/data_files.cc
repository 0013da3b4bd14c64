#include "tools/data_files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weir::tools {

namespace fs = std::filesystem;

fs::path command_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

std::string data_file(const std::string& name) {
  return (command_folder().parent_path() / WEIR_DATA_FOLDER / name).string();
}

int become(const std::string& name, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), data_file(name));
  std::vector<char*> raw;
  for (std::string& argument : arguments) raw.push_back(argument.data());
  raw.push_back(nullptr);
  ::execv(raw.front(), raw.data());
  std::fprintf(stderr, "weir: cannot run %s: %s\n", raw.front(), std::strerror(errno));
  return 1;
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
