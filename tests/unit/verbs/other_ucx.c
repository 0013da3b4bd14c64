/* libucs, libucm and libucp as of a UCX that weir was not built for: all that weir looks for is
 * there, and only the version tells. */
#define FUNCTION(name) \
  void name(void) {}
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
FUNCTION(ucs_rcache_create)
FUNCTION(ucs_rcache_destroy)
FUNCTION(ucs_rcache_get)
FUNCTION(ucs_rcache_region_put)
FUNCTION(ucs_rcache_region_invalidate)
FUNCTION(ucs_status_string)
FUNCTION(ucm_set_event_handler)
FUNCTION(ucm_unset_event_handler)
FUNCTION(ucm_set_external_event)
FUNCTION(ucm_vm_munmap)
int ucm_global_opts;

void ucp_get_version(unsigned* major, unsigned* minor, unsigned* patch) {
  *major = 1;
  *minor = 99;
  *patch = 0;
}
