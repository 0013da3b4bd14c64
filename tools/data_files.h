// Where the weir command finds the files that it reads or runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weir::tools {

// PREFIX/bin, or the build's.
std::filesystem::path command_folder();

// `name` is as below tools/: "tune/tune". In PREFIX/share/weir; a build's is a link to tools/.
std::string data_file(const std::string& name);

// Runs one of them in this program's place. Returns 1 if that cannot be, and has said why.
int become(const std::string& name, std::vector<std::string> arguments);

// Not installed: there is a checkout, with tools/env.
bool is_of_a_build();

// A program that is built and installed with the command, but is not for people: beside it, or in
// PREFIX/libexec/weir.
std::string helper_program(const std::string& name);

}  // namespace weir::tools
