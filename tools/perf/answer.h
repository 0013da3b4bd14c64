// What an answerer (tools/between) does for `weir perf`: opens its end, meets the other one, and
// runs one measurement after the other.
#pragma once

#include <memory>
#include <string>

#include "tools/between/lines.h"
#include "transport/config/settings.h"

namespace weir::tools::perf {

class End;

class Answerer {
 public:
  Answerer();
  ~Answerer();

  // `what`: one of "perf ...".
  between::Json to(const std::string& what, const between::Json& request,
                   const config::Settings& settings);

 private:
  std::unique_ptr<End> end_;
};

}  // namespace weir::tools::perf
