// What an answerer (tools/between) does for `weir top` and `weir set` of many hosts.
#pragma once

#include <string>

#include "tools/between/lines.h"
#include "tools/top/report.h"

namespace weir::tools::top {

class Answerer {
 public:
  // `what`: "top order" or "top look".
  between::Json to(const std::string& what, const between::Json& request);

 private:
  Look look_;  // that the first page was of
};

}  // namespace weir::tools::top
