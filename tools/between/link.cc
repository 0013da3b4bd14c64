#include "tools/between/link.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/btl/device_wish.h"
#include "transport/verbs/choose_ports.h"

namespace weir::tools::between {
namespace {

using doctor::Clock;
using doctor::milliseconds;

constexpr milliseconds traffic_patience{8000};
constexpr std::uint32_t reads_under_way = Link::memory_bytes / Link::chunk_bytes;

// What the memory that peers read is filled with.
std::uint64_t pattern(std::size_t word) { return word * 0x9e3779b97f4a7c15 + 1; }

}  // namespace

std::unique_ptr<Link> Link::listen(const config::Settings& settings, std::uint32_t mtu_bytes,
                                   std::string& why) {
  const auto port = verbs::choose_port(btl::device_wish(settings), why);
  if (!port) return nullptr;
  std::optional<verbs::Device> opened = verbs::Device::open(*port, why);
  if (!opened) return nullptr;
  std::unique_ptr<Link> link(new Link);
  link->device_ = std::make_unique<verbs::Device>(std::move(*opened));
  const verbs::Device& device = *link->device_;
  link->out_ = verbs::RegisteredMemory::allocate(device, buffer_bytes);
  if (link->out_) link->in_ = verbs::RegisteredMemory::allocate(device, buffer_bytes * buffers);
  if (link->in_) link->shown_ = verbs::RegisteredMemory::to_be_read(device, memory_bytes);
  if (link->shown_) link->read_ = verbs::RegisteredMemory::allocate(device, memory_bytes);
  if (!link->read_) {
    why = "cannot register memory: " + verbs::registration_error(errno);
    return nullptr;
  }
  auto* const words = reinterpret_cast<std::uint64_t*>(link->shown_.data());
  for (std::size_t i = 0; i < memory_bytes / 8; ++i) words[i] = pattern(i);
  link->pair_ = Pair::listen(device, settings, buffers, mtu_bytes, why);
  if (link->pair_ == nullptr) return nullptr;
  for (std::uint32_t i = 0; i < buffers; ++i) {
    if (link->post_receive(i)) continue;
    why = fmt::format("no receive can be posted: {}", std::strerror(errno));
    return nullptr;
  }
  return link;
}

bool Link::post_receive(std::uint32_t buffer) {
  const ReceivePost post{
      BufferId{buffer}, buffer_bytes, in_.lkey(),
      reinterpret_cast<std::uint64_t>(in_.data() + std::size_t{buffer} * buffer_bytes)};
  return pair_->queues().post(std::span(&post, 1));
}

bool Link::send(std::uint32_t bytes) {
  const WorkRequest work{.id = posted_++,
                         .lane = Pair::lane,
                         .opcode = Opcode::send,
                         .signalled = true,
                         .inlined = bytes <= pair_->queues().inline_bytes(),
                         .length_bytes = bytes,
                         .lkey = out_.lkey(),
                         .address = reinterpret_cast<std::uint64_t>(out_.data())};
  return pair_->queues().post(std::span(&work, 1));
}

void Link::poll() {
  std::array<Completion, 16> done;
  const int count = pair_->queues().poll(done);
  for (int i = 0; i < count; ++i) {
    const Completion& completion = done[static_cast<std::size_t>(i)];
    if (completion.status != CompletionStatus::success) {
      if (failed_ == CompletionStatus::success) failed_ = completion.status;
    } else if (completion.opcode == Opcode::receive) {
      ++received_;
      last_bytes_ = completion.length_bytes;
      last_buffer_ = static_cast<std::uint32_t>(completion.id);
    } else {
      ++sent_;
    }
  }
}

template <typename Done>
bool Link::until(milliseconds limit, Done done, std::string& why) {
  const bool in_time = doctor::wait_for(limit, [&] {
    poll();
    return failed_ != CompletionStatus::success || done();
  });
  if (failed_ != CompletionStatus::success) {
    why = to_text(failed_);
  } else if (!in_time) {
    why = fmt::format("nothing came for {} s", limit.count() / 1000);
  }
  return in_time && failed_ == CompletionStatus::success;
}

std::vector<double> Link::ping(std::uint32_t bytes, std::uint32_t rounds, std::string& why) {
  bytes = std::clamp(bytes, 1u, buffer_bytes);
  std::vector<double> times;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const std::uint64_t before = received_;
    const auto start = Clock::now();
    if (!send(bytes)) why = fmt::format("a send cannot be posted: {}", std::strerror(errno));
    // The send queue has room for many; its completions are taken meanwhile.
    if (!why.empty() || !until(
                            traffic_patience, [&] { return received_ > before; }, why))
      return {};
    times.push_back(doctor::ms_since(start) * 1000 / 2);
    if (last_bytes_ != bytes) {
      why = fmt::format("{} B were sent, and {} B came back", bytes, last_bytes_);
      return {};
    }
    post_receive(last_buffer_);
  }
  return times;
}

bool Link::pong(std::uint32_t rounds, std::string& why) {
  const std::uint64_t first = received_;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    if (!until(
            traffic_patience, [&] { return received_ > first + round; }, why))
      return false;
    const std::uint32_t bytes = last_bytes_;
    post_receive(last_buffer_);
    if (!send(bytes)) {
      why = fmt::format("a send cannot be posted: {}", std::strerror(errno));
      return false;
    }
  }
  return until(
      traffic_patience, [&] { return sent_ == posted_; }, why);
}

double Link::read(std::uint64_t address, std::uint32_t key, milliseconds time, std::string& why) {
  if (!until(
          traffic_patience, [&] { return sent_ == posted_; }, why))
    return 0;
  std::memset(read_.data(), 0, memory_bytes);
  const std::uint64_t first = sent_;
  const auto start = Clock::now();
  const auto post = [&] {
    const std::uint64_t at = (posted_ - first) % reads_under_way * chunk_bytes;
    const WorkRequest work{.id = posted_++,
                           .lane = Pair::lane,
                           .opcode = Opcode::read,
                           .signalled = true,
                           .inlined = false,
                           .length_bytes = chunk_bytes,
                           .lkey = read_.lkey(),
                           .address = reinterpret_cast<std::uint64_t>(read_.data() + at),
                           .remote_address = address + at,
                           .rkey = key};
    return pair_->queues().post(std::span(&work, 1));
  };
  const auto over = [&] {
    return Clock::now() - start >= time && posted_ - first >= reads_under_way;
  };
  while (!over() || sent_ < posted_) {
    while (!over() && posted_ - sent_ < reads_under_way) {
      if (post()) continue;
      why = fmt::format("a read cannot be posted: {}", std::strerror(errno));
      return 0;
    }
    const std::uint64_t before = sent_;
    if (!until(
            traffic_patience, [&] { return sent_ > before; }, why))
      return 0;
  }
  const double seconds = doctor::ms_since(start) / 1000;
  const auto* const words = reinterpret_cast<const std::uint64_t*>(read_.data());
  for (std::size_t i = 0; i < memory_bytes / 8; ++i) {
    if (words[i] == pattern(i)) continue;
    why = fmt::format("the data is wrong from byte {} on", i * 8);
    return 0;
  }
  return static_cast<double>(sent_ - first) * chunk_bytes / seconds;
}

}  // namespace weir::tools::between
