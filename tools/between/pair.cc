#include "tools/between/pair.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "tools/doctor/waiting.h"
#include "transport/btl/path_options.h"
#include "transport/verbs/reach.h"
#include "transport/wire/hello.h"

namespace weir::tools::between {
namespace {

using doctor::milliseconds;
using verbs::ConnectionEvent;

constexpr milliseconds connect_patience{10000};
// 268 ms, seven times: a packet that never passes is known within 2 s. Soft-RoCE between two
// machines on busy CPUs repeats with less although nothing is lost.
constexpr std::uint8_t ack_timeout_code = 16;

}  // namespace

std::unique_ptr<Pair> Pair::listen(const verbs::Device& device, const config::Settings& settings,
                                   std::uint32_t receives, std::uint32_t mtu_bytes,
                                   std::string& why) {
  std::unique_ptr<Pair> pair(new Pair(device));
  verbs::QueuePairOptions options;
  btl::set_path(options, settings);
  if (mtu_bytes != 0) options.mtu_bytes = mtu_bytes;
  options.ack_timeout_code = ack_timeout_code;
  if (settings.pkey != config::automatic) {
    options.pkey_index = device.pkey_index(static_cast<std::uint16_t>(settings.pkey), why);
    if (!options.pkey_index) return nullptr;
  }
  pair->queues_ = verbs::Queues::create(device, receives, options, why);
  if (pair->queues_ == nullptr) return nullptr;
  pair->connections_ = verbs::Connections::listen(device, why);
  if (pair->connections_ == nullptr) return nullptr;
  pair->connections_->attach(pair->queues_.get());
  if (options.traffic_class) pair->connections_->set_traffic_class(*options.traffic_class);
  return pair;
}

std::vector<std::byte> Pair::card() const {
  wire::Card card;
  card.port = connections_->port();
  verbs::describe_fabric(device_.port(), card);
  const auto bytes = wire::encode(card);
  return {bytes.begin(), bytes.end()};
}

bool Pair::connect(std::span<const std::byte> card, std::string& why) {
  const auto theirs = wire::decode_card(card);
  if (!theirs) {
    why = "the other host's weir sent an address that this one does not understand";
    return false;
  }
  why = verbs::why_unreachable(device_.port(), *theirs);
  const std::uint32_t number = why.empty() ? queues_->create_pair(lane, why) : 0;
  if (number == 0) return false;
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

bool Pair::accept(std::string& why) {
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
  const std::uint32_t number = queues_->create_pair(lane, why);
  if (number == 0) return false;
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

std::uint32_t Pair::path_mtu() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ibv_qp* const pair = queues_->pair(lane);
  if (pair == nullptr || ibv_query_qp(pair, &attributes, IBV_QP_PATH_MTU, &initial) != 0) return 0;
  return 128u << attributes.path_mtu;
}

}  // namespace weir::tools::between
