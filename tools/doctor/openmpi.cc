// Open MPI: is it there, does it find and load the plugin, and would it use it.

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "tools/data_files.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/subprocess.h"

namespace weir::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr milliseconds patience{20000};  // ompi_info opens every plugin, on a slow disk perhaps
constexpr const char* plugin = "mca_btl_weir.so";
constexpr const char* tested[] = {"4.1.", "5.0."};
constexpr const char* path_variable = "OMPI_MCA_mca_base_component_path";

std::string first_program(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string file = find_program(name); !file.empty()) return file;
  }
  return {};
}

std::string text_after(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  if (at == std::string::npos) return {};
  const auto start = at + mark.size();
  return text.substr(start, text.find_first_of(" \n", start) - start);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Where Open MPI looks for plugins; `own_folder` is where its own are.
std::vector<std::string> search_path(const std::string& own_folder) {
  const std::string home = variable("HOME") + "/.openmpi/components";
  const std::string set = variable(path_variable);
  if (set.empty()) return {own_folder, home};
  std::vector<std::string> folders;
  std::istringstream words(set);
  for (std::string word; std::getline(words, word, ':');) {
    const bool own = word == "SYS_DEFAULT" || word == "SYSTEM_DEFAULT";
    const bool users = word == "USER_DEFAULT" || word == "USR_DEFAULT";
    folders.push_back(own ? own_folder : users ? home : word);
  }
  return folders;
}

// The build this command is of: BUILD/bin/weir and BUILD/lib/openmpi.
std::string build_folder() { return (command_folder().parent_path() / "lib" / "openmpi").string(); }

std::string why_not_loaded(const std::string& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return dlerror();
  const bool has_component = dlsym(handle, "mca_btl_weir_component") != nullptr;
  dlclose(handle);
  return has_component ? "" : "it has no mca_btl_weir_component";
}

Finding check_plugin(const std::string& ompi_info, const std::string& own_folder) {
  constexpr const char* name = "plugin";
  const std::string have_it_found = fmt::format(
      "{}, or copy the plugin into {}",
      is_of_a_build() ? "eval \"$(tools/env)\" in weir's folder" : "module load weir", own_folder);
  std::string folder;
  for (const std::string& candidate : search_path(own_folder)) {
    if (folder.empty() && fs::exists(candidate + "/" + plugin)) folder = candidate;
  }
  std::vector<std::string> environment;
  const bool in_path = !folder.empty();
  if (!in_path) {
    folder = build_folder();
    if (!fs::exists(folder + "/" + plugin)) {
      return fail(name, fmt::format("{} is neither where Open MPI looks nor in {}", plugin, folder),
                  is_of_a_build()
                      ? "build weir (cmake --build build), then " + have_it_found
                      : "install weir's plugin for this Open MPI: the package weir-openmpi4 or "
                        "weir-openmpi5, or a build with -DWITH_OPENMPI=PREFIX");
    }
    environment.push_back(fmt::format("{}={}:{}", path_variable, own_folder, folder));
  }
  const std::string file = folder + "/" + plugin;
  std::string why;
  const auto listed =
      run_program({ompi_info, "--param", "btl", "weir", "--level", "9", "--parsable"}, environment,
                  patience, why);
  if (!listed || listed->output.find("mca:btl:weir:") == std::string::npos) {
    if (listed) why = why_not_loaded(file);
    if (why.empty()) {
      why = "it loads by itself, so it was built for another Open MPI, or btl excludes it (" +
            std::string("OMPI_MCA_btl='") + variable("OMPI_MCA_btl") + "')";
    }
    return fail(name, fmt::format("Open MPI does not load {}: {}", file, why),
                "build weir against this Open MPI: cmake --fresh -B build -G Ninja "
                "-DWITH_OPENMPI=PREFIX && cmake --build build");
  }
  if (!in_path) {
    return warn(name, fmt::format("Open MPI can load {}, but does not look there", file),
                have_it_found);
  }
  return ok(name, fmt::format("Open MPI loads {}", file));
}

// Which layers would take the messages before the BTLs are asked. `components`: ompi_info's list.
Finding check_priority(const std::string& components) {
  constexpr const char* name = "selection";
  const std::string pml = variable("OMPI_MCA_pml");
  if (pml == "ob1") return ok(name, "OMPI_MCA_pml=ob1 is set: messages go to the BTLs");
  constexpr const char* fix = "mpirun --mca pml ob1 --mca btl weir,self";
  if (!pml.empty()) {
    return warn(name, fmt::format("OMPI_MCA_pml={} is set, which may go past every BTL", pml), fix);
  }
  std::string others;
  for (const char* other : {"mca:pml:ucx:", "mca:mtl:ofi:", "mca:mtl:psm2:"}) {
    if (components.find(other) != std::string::npos) {
      const std::string text = other;
      others += (others.empty() ? "" : ", ") + text.substr(4, text.size() - 5);
    }
  }
  std::replace(others.begin(), others.end(), ':', ' ');
  if (others.empty()) return ok(name, "no other layer stands before the BTLs");
  return warn(
      name, fmt::format("Open MPI has {}, which take over where there is an adapter", others), fix);
}

std::string find_ompi_info() { return first_program({"ompi_info", "ompi_info.openmpi"}); }

}  // namespace

std::string open_mpi_version(std::string& why) {
  const std::string ompi_info = find_ompi_info();
  if (ompi_info.empty()) {
    why = "there is no ompi_info in PATH";
    return {};
  }
  // It opens no plugin for this.
  const auto said = run_program({ompi_info, "--version"}, {}, patience, why);
  if (!said) return {};
  std::string version = text_after(said->output, "Open MPI v");
  if (version.empty()) why = ompi_info + " does not tell";
  return version;
}

Findings check_open_mpi() {
  constexpr const char* name = "open mpi";
  constexpr const char* install = "install Open MPI: apt-get install openmpi-bin";
  const std::string ompi_info = find_ompi_info();
  if (ompi_info.empty()) return {fail(name, "there is no ompi_info in PATH", install)};
  std::string why;
  const auto all = run_program({ompi_info, "--parsable"}, {}, patience, why);
  const auto path =
      run_program({ompi_info, "--parsable", "--path", "pkglibdir"}, {}, patience, why);
  if (!all || !path || all->status != 0) {
    if (all) why = all->output.substr(0, all->output.find('\n'));
    return {fail(name, fmt::format("{} does not work: {}", ompi_info, why), install)};
  }
  const std::string version = text_after(all->output, "ompi:version:full:");
  const std::string own_folder = text_after(path->output, "path:pkglibdir:");
  const std::string mpirun = first_program({"mpirun.openmpi", "mpirun"});

  Findings findings;
  const std::string what =
      fmt::format("Open MPI {} ({})", version, mpirun.empty() ? "no mpirun" : mpirun);
  if (mpirun.empty()) {
    findings.push_back(fail(name, what, install));
  } else if (std::any_of(std::begin(tested), std::end(tested),
                         [&](const char* series) { return version.starts_with(series); })) {
    findings.push_back(ok(name, what));
  } else {
    findings.push_back(warn(name, what + ": weir is tested with 4.1 and 5.0 only",
                            "use one of those, or build weir against this one and run tests/run"));
  }
  findings.push_back(check_plugin(ompi_info, own_folder));
  findings.push_back(check_priority(all->output));
  return findings;
}

}  // namespace weir::tools::doctor
