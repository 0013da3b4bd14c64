// One of the two ends: engine, queue pair and memory on one port, and both ways over them.
//
// Thread rule: one thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/between/pair.h"
#include "tools/perf/measure.h"
#include "tools/perf/verbs_way.h"
#include "tools/perf/weir_way.h"

namespace weir::tools::perf {

// What an end has to know of the other one.
struct Card {
  PeerName name;
  std::vector<std::byte> engine;
  std::vector<std::byte> pair;
  Shown memory;
};

class End {
 public:
  // On the port that `settings` choose. If something cannot be had: nullptr, and the reason in
  // `why`.
  static std::unique_ptr<End> open(const config::Settings& settings, PeerName self,
                                   std::uint64_t largest, std::string& why);
  ~End();

  Card card() const;
  bool has_atomics() const;
  const verbs::PortChoice& port() const { return engine_->port(); }

  // The end with `connects` asks for the connection of verbs, the other one waits for it. False,
  // and the reason in `why`, if there is no way.
  bool meet(const Card& theirs, bool connects, bool same_host, std::string& why);

  Way& way(bool over_weir) {
    return over_weir ? static_cast<Way&>(*weir_way_) : static_cast<Way&>(*verbs_way_);
  }
  std::uint64_t largest() const { return largest_; }
  // Whether the puts of the other end with numbers from `first` to `last` are here as they were
  // sent, except those whose places others have taken since.
  bool verify(std::uint64_t first, std::uint64_t last, std::uint64_t bytes) const;

 private:
  explicit End(const config::Settings& settings) : settings_(settings) {}

  const config::Settings settings_;
  std::uint64_t largest_ = 0;
  std::unique_ptr<Engine> engine_;
  std::optional<Memory> memory_;
  std::unique_ptr<between::Pair> pair_;
  std::unique_ptr<VerbsWay> verbs_way_;
  std::unique_ptr<WeirWay> weir_way_;
};

}  // namespace weir::tools::perf
