#include "tools/top/answer.h"

#include "tools/top/order.h"
#include "tools/top/page.h"

namespace weir::tools::top {

between::Json Answerer::to(const std::string& what, const between::Json& request) {
  if (what == "top order") return order_as_told(request);
  const std::size_t from = between::count_in(request, "from");
  if (from == 0) look_ = look("/dev/shm");
  return to_page(look_, from);
}

}  // namespace weir::tools::top
