// What the ranks did and waited for, summed at the end.

#include <cstring>

#include "transport/btl/last_words.h"
#include "transport/btl/module.h"
#include "transport/btl/report.h"

namespace weir::btl {
namespace {

// Processes come here soon after each other, from the end of the same barrier.
constexpr std::chrono::seconds patience{5};

LastWords own_words(Module& module) {
  LastWords own;
  module.for_each_engine([&](Engine& engine) { own.add(engine.snapshot()); });
  own.registered_peak_bytes = module.registered_peak_bytes();
  own.rail_losses = module.rdma_counters.rail_losses;
  own.ns = static_cast<std::uint64_t>((Engine::clock() - module.begun).ns);
  return own;
}

}  // namespace

void report_summary(Module& module) {
  LastWords sum = own_words(module);
  const opal_process_name_t self = opal_proc_local_get()->proc_name;
  const std::uint32_t all = std::max(job_size(), 1u);
  std::uint32_t ranks = 1;
  const bool exchanged =
      all > 1 && module.stays_with_runtime && exchange_last_words(&sum, sizeof sum, patience);
  // Where some may be dead the fence may never end, but those who live have spoken by now.
  const bool some_spoke = deaths_may_be_survivable && module.stays_with_runtime;
  if (self.vpid == 0 && (exchanged || some_spoke)) {
    for (opal_process_name_t name = self; ++name.vpid < all;) {
      const Published found = last_words_of(name);
      if (found.size != sizeof(LastWords)) continue;
      LastWords words;
      std::memcpy(&words, found.bytes.get(), sizeof words);
      sum.add(words);
      ++ranks;
    }
  }
  if (self.vpid == 0) print(summary_text(sum, ranks, all));
}

}  // namespace weir::btl
