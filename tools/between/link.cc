#include "tools/between/link.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/btl/device_wish.h"
#include "transport/btl/path_options.h"
#include "transport/verbs/choose_ports.h"
#include "transport/verbs/reach.h"
#include "transport/wire/hello.h"

namespace weir::tools::between {
namespace {

using doctor::Clock;
using doctor::milliseconds;
using verbs::ConnectionEvent;

constexpr milliseconds connect_patience{10000};
constexpr milliseconds traffic_patience{8000};
// 268 ms, seven times: a packet that never passes is known within 2 s. Soft-RoCE between two
// machines on busy CPUs repeats with less although nothing is lost.
constexpr std::uint8_t ack_timeout_code = 16;
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
  btl::set_path(link->options_, settings);
  if (mtu_bytes != 0) link->options_.mtu_bytes = mtu_bytes;
  link->options_.ack_timeout_code = ack_timeout_code;
  if (settings.pkey != config::automatic) {
    link->options_.pkey_index = device.pkey_index(static_cast<std::uint16_t>(settings.pkey), why);
    if (!link->options_.pkey_index) return nullptr;
  }
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
  link->queues_ = verbs::Queues::create(device, buffers, link->options_, why);
  if (link->queues_ == nullptr) return nullptr;
  link->connections_ = verbs::Connections::listen(device, why);
  if (link->connections_ == nullptr) return nullptr;
  link->connections_->attach(link->queues_.get());
  if (link->options_.traffic_class) {
    link->connections_->set_traffic_class(*link->options_.traffic_class);
  }
  return link;
}

std::vector<std::byte> Link::card() const {
  wire::Card card;
  card.port = connections_->port();
  verbs::describe_fabric(device_->port(), card);
  const auto bytes = wire::encode(card);
  return {bytes.begin(), bytes.end()};
}

bool Link::make_pair(std::uint32_t& number, std::string& why) {
  number = queues_->create_pair(lane, why);
  if (number == 0) return false;
  for (std::uint32_t i = 0; i < buffers; ++i) {
    if (post_receive(i)) continue;
    why = fmt::format("no receive can be posted: {}", std::strerror(errno));
    return false;
  }
  return true;
}

bool Link::connect(std::span<const std::byte> card, std::string& why) {
  const auto theirs = wire::decode_card(card);
  if (!theirs) {
    why = "the other host's weir sent an address that this one does not understand";
    return false;
  }
  why = verbs::why_unreachable(device_->port(), *theirs);
  std::uint32_t number = 0;
  if (!why.empty() || !make_pair(number, why)) return false;
  if (!connections_->connect(lane, *theirs, {}, number)) {
    why = fmt::format("the connection manager refuses: {}", std::strerror(errno));
    return false;
  }
  bool ready = false;
  const bool in_time = doctor::wait_for(connect_patience, [&] {
    while (const auto event = connections_->next()) {
      if (event->kind == ConnectionEvent::Kind::answer) ready = true;
      if (event->kind == ConnectionEvent::Kind::failed) why = to_text(event->reason);
      if (event->kind == ConnectionEvent::Kind::rejected) why = "the other side refuses";
    }
    return ready || !why.empty();
  });
  if (!in_time) why = fmt::format("no answer within {} s", connect_patience.count() / 1000);
  return ready;
}

bool Link::accept(std::string& why) {
  std::optional<RequestId> request;
  if (!doctor::wait_for(connect_patience, [&] {
        while (const auto event = connections_->next()) {
          if (event->kind == ConnectionEvent::Kind::request) request = event->request;
        }
        return request.has_value();
      })) {
    why = fmt::format("no request came within {} s", connect_patience.count() / 1000);
    return false;
  }
  std::uint32_t number = 0;
  if (!make_pair(number, why)) return false;
  if (!connections_->accept(*request, lane, {}, number)) {
    why = fmt::format("the request cannot be accepted: {}", std::strerror(errno));
    return false;
  }
  bool ready = false;
  const bool in_time = doctor::wait_for(connect_patience, [&] {
    while (const auto event = connections_->next()) {
      if (event->kind == ConnectionEvent::Kind::established) ready = true;
      if (event->kind == ConnectionEvent::Kind::failed) why = to_text(event->reason);
    }
    return ready || !why.empty();
  });
  if (!in_time) why = "the other side does not confirm the connection";
  return ready;
}

std::uint32_t Link::path_mtu() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ibv_qp* const pair = queues_->pair(lane);
  if (pair == nullptr || ibv_query_qp(pair, &attributes, IBV_QP_PATH_MTU, &initial) != 0) return 0;
  return 128u << attributes.path_mtu;
}

bool Link::post_receive(std::uint32_t buffer) {
  const ReceivePost post{
      BufferId{buffer}, buffer_bytes, in_.lkey(),
      reinterpret_cast<std::uint64_t>(in_.data() + std::size_t{buffer} * buffer_bytes)};
  return queues_->post(std::span(&post, 1));
}

bool Link::send(std::uint32_t bytes) {
  const WorkRequest work{.id = posted_++,
                         .lane = lane,
                         .opcode = Opcode::send,
                         .signalled = true,
                         .inlined = bytes <= queues_->inline_bytes(),
                         .length_bytes = bytes,
                         .lkey = out_.lkey(),
                         .address = reinterpret_cast<std::uint64_t>(out_.data())};
  return queues_->post(std::span(&work, 1));
}

void Link::poll() {
  std::array<Completion, 16> done;
  const int count = queues_->poll(done);
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
                           .lane = lane,
                           .opcode = Opcode::read,
                           .signalled = true,
                           .inlined = false,
                           .length_bytes = chunk_bytes,
                           .lkey = read_.lkey(),
                           .address = reinterpret_cast<std::uint64_t>(read_.data() + at),
                           .remote_address = address + at,
                           .rkey = key};
    return queues_->post(std::span(&work, 1));
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
