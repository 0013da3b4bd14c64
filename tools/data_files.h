// Where the weir command finds the files that it reads or runs.
#pragma once

#include <filesystem>
#include <string>

namespace weir::tools {

// PREFIX/bin, or the build's.
std::filesystem::path command_folder();

// `name` is as below tools/: "tune/tune". From the installed command's PREFIX/share/weir, or from
// the sources that it was built of.
std::string data_file(const std::string& name);

// A program that is built and installed with the command, but is not for people: beside it, or in
// PREFIX/libexec/weir.
std::string helper_program(const std::string& name);

}  // namespace weir::tools
