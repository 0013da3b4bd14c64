// The `weir` command.

#include <fmt/core.h>

#include <exception>

#include "tools/commands.h"

int main(int argc, char** argv) {
  CLI::App app{"weir - an RDMA transport for Open MPI that never floods the receiver"};
  app.name("weir");
  app.set_version_flag("--version", "weir " WEIR_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Run an MPI program over weir:\n"
      "  mpirun --mca pml ob1 --mca btl weir,self -np 4 ./my_app\n"
      "What can be set: weir config explain");
  weir::tools::add_info(app);
  weir::tools::add_doctor(app);
  weir::tools::add_top(app);
  weir::tools::add_set(app);
  weir::tools::add_perf(app);
  weir::tools::add_tune(app);
  weir::tools::add_config(app);
  weir::tools::add_sim(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();  // a subcommand's own
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // 0: --help and --version
  } catch (const std::exception& error) {
    fmt::print(stderr, "weir: {}\n", error.what());
    return 1;
  }
  return 0;
}
