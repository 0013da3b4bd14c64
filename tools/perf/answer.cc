#include "tools/perf/answer.h"

#include <algorithm>
#include <thread>

#include "tools/perf/end.h"

namespace weir::tools::perf {
namespace {

using between::count_in;
using between::failed;
using between::Json;
using between::text_in;

constexpr std::uint32_t most_operations = 1'000'000;
constexpr std::size_t longest_card = 4096;  // as hexadecimal digits

bool is_set(const Json& request, const char* key) { return count_in(request, key) != 0; }

Operation operation_in(const Json& request) {
  const std::string name = text_in(request, "operation");
  return name == "put"   ? Operation::put
         : name == "get" ? Operation::get
         : name == "add" ? Operation::add
                         : Operation::send;
}

Json open(std::unique_ptr<End>& end, const Json& request, const config::Settings& settings) {
  const PeerName self{count_in(request, "job", UINT32_MAX), is_set(request, "first") ? 0u : 1u};
  const std::uint64_t largest =
      std::clamp<std::uint64_t>(count_in(request, "largest"), 8, largest_bytes);
  std::string why;
  end.reset();
  end = End::open(settings, self, largest, why);
  if (end == nullptr) return failed(why);
  const Card card = end->card();
  return {{"engine", between::to_hex(card.engine)},
          {"pair", between::to_hex(card.pair)},
          {"address", card.memory.address},
          {"key", card.memory.rkey},
          {"atomics", end->has_atomics() ? 1u : 0u}};
}

Json meet(End& end, const Json& request) {
  const bool first = is_set(request, "first");
  const Card theirs{{count_in(request, "job", UINT32_MAX), first ? 1u : 0u},
                    between::from_hex(text_in(request, "engine", longest_card)),
                    between::from_hex(text_in(request, "pair", longest_card)),
                    {count_in(request, "address"), count_in(request, "key", UINT32_MAX)}};
  std::string why;
  return end.meet(theirs, first, is_set(request, "same_host"), why) ? Json{{"met", true}}
                                                                    : failed(why);
}

Json run(End& end, const Json& request, const config::Settings& settings) {
  const std::string kind = text_in(request, "kind");
  Measure what;
  what.operation = operation_in(request);
  what.kind = kind == "stream" ? Kind::stream : kind == "both" ? Kind::both : Kind::latency;
  what.bytes = std::clamp<std::uint64_t>(count_in(request, "bytes"), 1, end.largest());
  what.count = std::max(1u, count_in(request, "count", most_operations));
  what.first = is_set(request, "first");
  what.check = is_set(request, "check");
  what.yields = std::thread::hardware_concurrency() <= (is_set(request, "same_host") ? 2u : 1u);
  // The engine gives a silent peer up first, and says more.
  what.silence = doctor::milliseconds(settings.peer_timeout_ns / 1'000'000 + 2000);
  std::string why;
  Way& way = end.way(text_in(request, "over") == "weir");
  const std::uint64_t started_before = way.started;
  const auto figures = measure(way, what, why);
  if (!figures) return failed(why);
  return {{"us", figures->us},
          {"us_99", figures->us_99},
          {"seconds", figures->seconds},
          {"started_before", started_before},
          {"started", way.started}};
}

}  // namespace

Answerer::Answerer() = default;
Answerer::~Answerer() = default;

Json Answerer::to(const std::string& what, const Json& request, const config::Settings& settings) {
  if (what == "perf open") return open(end_, request, settings);
  if (end_ == nullptr) return failed("this end is not open");
  if (what == "perf meet") return meet(*end_, request);
  if (what == "perf run") return run(*end_, request, settings);
  if (what == "perf verify") {
    const std::uint64_t bytes =
        std::clamp<std::uint64_t>(count_in(request, "bytes"), 1, end_->largest());
    return end_->verify(count_in(request, "started_before"), count_in(request, "started"), bytes)
               ? Json{{"right", true}}
               : failed("the data is wrong");
  }
  if (what == "perf close") {
    end_.reset();
    return Json{{"closed", true}};
  }
  return failed("this weir does not know '" + what + "'");
}

}  // namespace weir::tools::perf
