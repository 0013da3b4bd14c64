#include "tools/perf/end.h"

#include <algorithm>

#include "transport/btl/device_wish.h"
#include "transport/btl/engine_options.h"
#include "transport/verbs/choose_ports.h"

namespace weir::tools::perf {

std::unique_ptr<End> End::open(const config::Settings& settings, PeerName self,
                               std::uint64_t largest, std::string& why) {
  std::unique_ptr<End> end(new End(settings));
  end->largest_ = largest;
  const auto port = verbs::choose_port(btl::device_wish(settings), why);
  if (!port) return nullptr;
  Engine::Options options = btl::engine_options(settings, self, {});
  options.node.processes = 0;  // both ends may be here
  end->engine_ = Engine::open(options, *port, why);
  if (end->engine_ == nullptr) return nullptr;
  end->engine_->expect_peers(1);
  if (!end->engine_->start(why)) return nullptr;
  const verbs::Device& device = end->engine_->device();
  end->memory_ = Memory::make(device, largest, why);
  if (!end->memory_) return nullptr;
  end->pair_ = between::Pair::listen(device, settings, places, 0, why);
  if (end->pair_ == nullptr) return nullptr;
  end->verbs_way_ = std::make_unique<VerbsWay>(*end->memory_, *end->pair_);
  end->weir_way_ = std::make_unique<WeirWay>(*end->memory_, *end->engine_, settings);
  return end;
}

// Says goodbye, if the other end is there: else the connection would be missed.
End::~End() {
  if (weir_way_ != nullptr && weir_way_->why.empty()) engine_->shutdown(*weir_way_);
}

Card End::card() const {
  const auto engine = engine_->card();
  return {engine_->options().core.self,
          {engine.begin(), engine.end()},
          pair_->card(),
          memory_->shown()};
}

bool End::has_atomics() const { return engine_->device().limits().atomic_cap != IBV_ATOMIC_NONE; }

bool End::meet(const Card& theirs, bool connects, bool same_host, std::string& why) {
  PeerId peer = PeerId::none;
  if (!engine_->add_peer(theirs.name, theirs.engine, peer, why)) return false;
  weir_way_->meet(peer, theirs.memory, same_host);
  verbs_way_->meet(theirs.memory);
  return connects ? pair_->connect(theirs.pair, why) : pair_->accept(why);
}

bool End::verify(std::uint64_t first, std::uint64_t last, std::uint64_t bytes) const {
  const std::uint64_t most = std::min<std::uint64_t>(last, memory_->places_for(bytes));
  for (std::uint64_t number = std::max(first, last - most); number < last; ++number) {
    if (!memory_->is_as_sent(memory_->at(memory_->place(number, bytes)), bytes, number)) {
      return false;
    }
  }
  return true;
}

}  // namespace weir::tools::perf
