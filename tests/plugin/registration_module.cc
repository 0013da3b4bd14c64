// A plugin with a registration cache, as small as can be, for unload_test.
#include "transport/verbs/registration_cache.h"

using namespace weir::verbs;
using weir::Access;

// Makes a cache, uses `bytes` at `address`, and ends it. 0 if that worked.
extern "C" __attribute__((visibility("default"))) int use_cache(void* address, std::size_t bytes) {
  std::string why;
  static std::uint32_t key;
  auto cache = RegistrationCache::create(
      {nullptr,
       [](void*, void*, std::size_t, Access, std::uint32_t& lkey, std::uint32_t& rkey) -> void* {
         lkey = rkey = ++key;
         return &key;
       },
       [](void*, void*) {}},
      {}, why);
  if (cache == nullptr) return 1;
  Registration* const registration = cache->get(address, bytes, Access::local_write);
  if (registration == nullptr) return 2;
  cache->put(registration);
  return 0;
}
