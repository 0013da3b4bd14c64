#include "tools/top/page.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "flowctl/shm/segment.h"
#include "tools/top/who.h"

namespace weir::tools::top {
namespace {

using between::count_in;
using between::Json;
using between::text_in;

constexpr std::size_t longest_text = 200;
constexpr std::size_t counter_words = sizeof(Counters) / sizeof(std::uint64_t);
using PeerWords = PeerRow::Words;

// False unless it is a list of just so many such numbers.
bool read_words(const Json& object, const char* key, std::span<std::uint64_t> words) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array() || found->size() != words.size()) return false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Json& word = (*found)[i];
    if (!word.is_number_unsigned()) return false;
    words[i] = word.get<std::uint64_t>();
  }
  return true;
}

const Json* list_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? &*found : nullptr;
}

// What a member is, besides counters and caps.
template <class Member>
auto head_of(Member& member) {
  return std::tie(member.process.pid, member.process.start_ticks, member.job, member.rank,
                  member.tokens_held, member.tokens_waited_for, member.read_tokens, member.active,
                  member.waiting_since, member.shown_at, member.in_proxy, member.server.pid,
                  member.server.start_ticks, member.proxy_waiting, member.proxy_taken,
                  member.takes_tokens, member.order_seen, member.read_times.sum_ns, member.slot);
}
using HeadWords =
    std::array<std::uint64_t, std::tuple_size_v<decltype(head_of(std::declval<MemberView&>()))>>;

HeadWords pack_head(const MemberView& member) {
  return std::apply([](auto... fields) { return HeadWords{static_cast<std::uint64_t>(fields)...}; },
                    head_of(member));
}

void take_head(const HeadWords& words, MemberView& member) {
  auto next = words.begin();
  std::apply(
      [&](auto&... fields) {
        ((fields = static_cast<std::remove_reference_t<decltype(fields)>>(*next++)), ...);
      },
      head_of(member));
}

Json to_page(const PortLook& port, const MemberView& member) {
  std::array<std::uint64_t, counter_words> counters;
  for (std::size_t i = 0; i < counter_words; ++i) {
    counters[i] = member.counters.*counter_table[i].field;
  }
  std::array<std::uint64_t, std::tuple_size_v<Caps>> caps;
  std::transform(member.caps.begin(), member.caps.end(), caps.begin(),
                 [](std::int64_t cap) { return static_cast<std::uint64_t>(cap); });
  Json peers = Json::array();
  for (const PeerRow& row : member.peers) peers.push_back(row.pack());
  return {{"head", pack_head(member)}, {"slurm_job", slurm_job_of(port, member)}, {"caps", caps},
          {"counters", counters},      {"read_times", member.read_times.counts},  {"peers", peers}};
}

bool take_member(const Json& said, PortLook& port) {
  MemberView member;
  HeadWords head;
  std::array<std::uint64_t, std::tuple_size_v<Caps>> caps;
  std::array<std::uint64_t, counter_words> counters;
  const Json* const peers = list_in(said, "peers");
  if (!said.is_object() || peers == nullptr || peers->size() > Board::most_peers ||
      !read_words(said, "head", head) || !read_words(said, "caps", caps) ||
      !read_words(said, "counters", counters) ||
      !read_words(said, "read_times", member.read_times.counts)) {
    return false;
  }
  take_head(head, member);
  for (std::size_t i = 0; i < caps.size(); ++i) {
    member.caps[i] = static_cast<std::int64_t>(caps[i]);
  }
  for (std::size_t i = 0; i < counter_words; ++i) {
    member.counters.*counter_table[i].field = counters[i];
  }
  for (const Json& one : *peers) {
    PeerWords words;
    const Json row{{"words", one}};
    if (!read_words(row, "words", words)) return false;
    member.peers.push_back(PeerRow::unpack(words));
  }
  const std::string slurm_job = text_in(said, "slurm_job", longest_text);
  if (is_slurm_job(slurm_job)) port.slurm_jobs[member.process.pid] = slurm_job;
  port.node.members.push_back(std::move(member));
  return true;
}

Json adapter_to_page(const verbs::HwCounters& adapter) {
  Json all = Json::object();
  each_adapter_counter(
      adapter, [&](const char* name, const char*, std::uint64_t value) { all[name] = value; });
  return all;
}

void take_adapter(const Json& said, verbs::HwCounters& adapter) {
  each_adapter_field(adapter, [&](const char* name, const char*, auto& value) {
    if (said.contains(name)) value = count_in(said, name);
  });
}

// The port that this page tells more of, or a new one.
PortLook& port_of(Look& look, PortLook&& port) {
  for (PortLook& known : look.ports) {
    if (known.host == port.host && known.node.path == port.node.path) return known;
  }
  return look.ports.emplace_back(std::move(port));
}

}  // namespace

Json to_page(const Look& look, std::size_t from) {
  Json ports = Json::array();
  std::size_t number = 0;
  const std::size_t end = std::min(from + members_of_a_page, most_members_of_a_host);
  for (const PortLook& port : look.ports) {
    Json members = Json::array();
    for (const MemberView& member : port.node.members) {
      if (number >= from && number < end) members.push_back(to_page(port, member));
      ++number;
    }
    if (members.empty()) continue;
    ports.push_back({{"path", port.node.path},
                     {"device", port.node.device},
                     {"port", port.node.port},
                     {"sharers", port.node.sharers},
                     {"user", port.node.user},
                     {"user_name", port.user},
                     {"at_ns", port.at_ns},
                     {"adapter", adapter_to_page(port.adapter)},
                     {"processes", members}});
  }
  return {{"layout", layout_hash()},
          {"ports", ports},
          {"segments_left_out", look.left_out},
          {"next", number > end && end < most_members_of_a_host ? end : 0}};
}

bool add_page(const Json& page, const std::string& host, Look& look, std::size_t& next,
              std::string& why) {
  if (count_in(page, "layout") != layout_hash()) {
    why = "its weir counts other things than this one: install the same version on both";
    return false;
  }
  const Json* const ports = list_in(page, "ports");
  std::vector<PortLook> said;
  std::size_t members = 0;
  bool good = ports != nullptr;
  for (std::size_t i = 0; good && i < ports->size(); ++i) {
    const Json& one = (*ports)[i];
    const Json* const processes = one.is_object() ? list_in(one, "processes") : nullptr;
    const auto adapter = one.is_object() ? one.find("adapter") : one.end();
    good = processes != nullptr && adapter != one.end() && adapter->is_object() &&
           (members += processes->size()) <= members_of_a_page;
    if (!good) break;
    PortLook port;
    port.host = host;
    port.node.path = text_in(one, "path", longest_text);
    port.node.device = text_in(one, "device", longest_text);
    port.node.port = static_cast<std::uint32_t>(count_in(one, "port"));
    port.node.sharers = text_in(one, "sharers", longest_text);
    port.node.user = static_cast<std::uint32_t>(count_in(one, "user"));
    port.user = text_in(one, "user_name", longest_text);
    port.at_ns = count_in(one, "at_ns");
    take_adapter(*adapter, port.adapter);
    for (const Json& process : *processes) good = good && take_member(process, port);
    said.push_back(std::move(port));
  }
  if (!good) {
    why = "it says what no weir top says";
    return false;
  }
  for (PortLook& port : said) {
    auto slurm_jobs = std::move(port.slurm_jobs);
    auto more = std::exchange(port.node.members, {});
    PortLook& known = port_of(look, std::move(port));
    known.slurm_jobs.merge(slurm_jobs);
    std::move(more.begin(), more.end(), std::back_inserter(known.node.members));
  }
  next = std::min<std::size_t>(count_in(page, "next"), most_members_of_a_host);
  if (next == 0) look.left_out += count_in(page, "segments_left_out");
  return true;
}

}  // namespace weir::tools::top
