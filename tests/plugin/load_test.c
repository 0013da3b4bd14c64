/* Loads the plugin as Open MPI does, but strictly: all symbols at once, none shared. Says what is
 * wrong and ends with 1 if the component is not what a loader looks for.
 *
 * usage: load_test PLUGIN */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <opal_config.h>
#include <opal/mca/btl/btl.h>

static int faults = 0;

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "load_test: %s\n", what);
  faults = 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: load_test PLUGIN\n");
    return 2;
  }
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) {
    fprintf(stderr, "load_test: %s\n", dlerror());
    return 1;
  }
  const mca_btl_base_component_t* component = dlsym(plugin, "mca_btl_weir_component");
  check(component != NULL, "there is no mca_btl_weir_component");
  if (component != NULL) {
    const mca_base_component_t* version = &component->btl_version;
    check(version->mca_major_version == MCA_BASE_VERSION_MAJOR &&
              version->mca_minor_version == MCA_BASE_VERSION_MINOR,
          "the MCA base version differs");
    check(strcmp(version->mca_type_name, "btl") == 0, "the type is not btl");
    check(version->mca_type_major_version == 3, "the BTL interface version is not 3");
    check(strcmp(version->mca_component_name, "weir") == 0, "the name is not weir");
    check(version->mca_project_major_version == OPAL_MAJOR_VERSION &&
              version->mca_project_minor_version == OPAL_MINOR_VERSION,
          "made for another Open MPI");
    check(version->mca_register_component_params != NULL, "no register function");
    check(version->mca_open_component != NULL, "no open function");
    check(component->btl_init != NULL, "no init function");
    check(component->btl_progress != NULL, "no progress function");
    if (component->btl_progress != NULL) {
      check(component->btl_progress() == 0, "progress before init finds something");
    }
  }
  check(dlclose(plugin) == 0, "dlclose failed");
  check(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL, "dlclose did not unload it");
  if (faults == 0) printf("load_test: ok\n");
  return faults;
}
