// What a host's answerer tells of its processes for `weir top --hosts`, in pages short enough for a
// line; and how the pages of many hosts become a look. What another host says is not believed: it
// is bounded, its types are checked, and its texts are made harmless.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <string>

#include "tools/between/lines.h"
#include "tools/top/report.h"

namespace weir::tools::top {

inline constexpr std::size_t members_of_a_page = 32;
inline constexpr std::size_t most_members_of_a_host = 4096;

// The processes of the look from number `from` on. "next" is where the next page begins; 0: this is
// the last one.
between::Json to_page(const Look& look, std::size_t from);

// Adds what `host` says to the look, and tells where the next page begins. False, and the reason in
// `why`, if it is no page, or one of a weir with other counters: then nothing is added.
bool add_page(const between::Json& page, const std::string& host, Look& look, std::size_t& next,
              std::string& why);

}  // namespace weir::tools::top
