#include "transport/verbs/connections.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "transport/verbs/addresses.h"

namespace weir::verbs {
namespace {

constexpr int resolve_timeout_ms = 2000;
constexpr int backlog = 1024;

// Reason of a refusal: invalid service ID. [IBTA 12.6.7.2]
constexpr int nobody_listens = 8;

std::span<const std::byte> private_data(const rdma_cm_event& event) {
  return {static_cast<const std::byte*>(event.param.conn.private_data),
          event.param.conn.private_data == nullptr ? 0u : event.param.conn.private_data_len};
}

}  // namespace

std::unique_ptr<Connections> Connections::listen(const Device& device, std::string& why) {
  std::unique_ptr<Connections> made(new Connections);
  made->device_ = &device;
  const auto fail = [&](const char* what) {
    why = std::string(what) + " for " + device.port().name() + " (" +
          to_text(device.port().address) + "): " + std::strerror(errno) +
          ". Check that the rdma_ucm module is loaded and /dev/infiniband/rdma_cm exists";
    return nullptr;
  };
  made->channel_.reset(rdma_create_event_channel());
  if (!made->channel_) return fail("cannot open the RDMA connection manager");
  fcntl(made->fd(), F_SETFL, fcntl(made->fd(), F_GETFL) | O_NONBLOCK);

  rdma_cm_id* id = nullptr;
  if (rdma_create_id(made->channel_.get(), &id, nullptr, RDMA_PS_TCP) != 0) {
    return fail("cannot create a connection id");
  }
  made->listener_.reset(id);
  sockaddr_storage address = device.port().address;
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0 ||
      rdma_listen(id, backlog) != 0) {
    return fail("cannot listen for connections");
  }
  return made;
}

Connections::~Connections() {
  requests_.clear();
  connections_.clear();
  listener_.reset();
}

std::uint16_t Connections::port() const { return ntohs(rdma_get_src_port(listener_.get())); }

rdma_conn_param Connections::parameters(const Connection& connection, const void* data,
                                        std::size_t bytes) const {
  rdma_conn_param parameters{};
  parameters.private_data = data;
  parameters.private_data_len = static_cast<std::uint8_t>(bytes);
  parameters.responder_resources = device_->most_fetches_answered();
  parameters.initiator_depth = device_->most_fetches_started();
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;
  parameters.srq = 1;
  parameters.qp_num = connection.qp_number;
  return parameters;
}

bool Connections::connect(LaneId lane, const wire::Card& card, const wire::Hello& hello,
                          std::uint32_t qp_number) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP) != 0) return false;
  Id owned(id);
  if (traffic_class_) {
    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &*traffic_class_,
                    sizeof *traffic_class_);
  }
  sockaddr_storage from = device_->port().address;
  sockaddr_storage to = make_address(card.address, card.port, device_->port().interface);
  if (rdma_resolve_addr(id, reinterpret_cast<sockaddr*>(&from), reinterpret_cast<sockaddr*>(&to),
                        resolve_timeout_ms) != 0) {
    return false;
  }
  connections_[index(lane)] = {std::move(owned), hello, qp_number};
  lanes_[id] = lane;
  return true;
}

// Moves the queue pair to its next state, with the path that connection management resolved.
bool Connections::step_pair(rdma_cm_id* id, LaneId lane, ibv_qp_state state) {
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = state;
  return rdma_init_qp_attr(id, &attributes, &mask) == 0 && queues_ != nullptr &&
         queues_->has_pair(lane) && queues_->modify(lane, attributes, mask);
}

bool Connections::accept(RequestId request, LaneId lane, const wire::Hello& hello,
                         std::uint32_t qp_number) {
  const auto found = requests_.find(static_cast<std::uint64_t>(request));
  if (found == requests_.end()) return false;
  rdma_cm_id* const id = found->second.get();
  Connection connection{std::move(found->second), hello, qp_number};
  requests_.erase(found);
  const auto data = wire::encode(hello);
  rdma_conn_param answer = parameters(connection, data.data(), data.size());
  const bool accepted = step_pair(id, lane, IBV_QPS_INIT) && step_pair(id, lane, IBV_QPS_RTR) &&
                        step_pair(id, lane, IBV_QPS_RTS) && rdma_accept(id, &answer) == 0;
  if (!accepted) return false;  // the id goes, and with it the peer's attempt
  connections_[index(lane)] = std::move(connection);
  lanes_[id] = lane;
  return true;
}

std::string Connections::asker(RequestId request) const {
  const auto found = requests_.find(static_cast<std::uint64_t>(request));
  if (found == requests_.end()) return "unknown";
  const sockaddr* const address = rdma_get_peer_addr(found->second.get());
  sockaddr_storage copy{};
  std::memcpy(&copy, address,
              address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return to_text(copy);
}

void Connections::reject(RequestId request, wire::Reject reason) {
  const auto found = requests_.find(static_cast<std::uint64_t>(request));
  if (found == requests_.end()) return;
  const auto data = wire::encode(reason);
  rdma_reject(found->second.get(), data.data(), static_cast<std::uint8_t>(data.size()));
  requests_.erase(found);
}

void Connections::forget(RequestId request) {
  requests_.erase(static_cast<std::uint64_t>(request));
}

void Connections::drop(LaneId lane) {
  const auto found = connections_.find(index(lane));
  if (found == connections_.end()) return;
  lanes_.erase(found->second.id.get());
  rdma_disconnect(found->second.id.get());  // harmless when there is no connection yet
  connections_.erase(found);
}

std::optional<ConnectionEvent> Connections::next() {
  for (;;) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_.get(), &event) != 0) return std::nullopt;
    // An id must outlive the acknowledgement of its events, so the caller acts only afterwards.
    rdma_cm_id* const new_id = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : nullptr;
    std::optional<ConnectionEvent> result = handle(*event, new_id);
    rdma_ack_cm_event(event);
    if (result) return result;
  }
}

std::optional<ConnectionEvent> Connections::handle(const rdma_cm_event& event, rdma_cm_id* new_id) {
  using Kind = ConnectionEvent::Kind;
  if (new_id != nullptr) {
    const RequestId request{++requests_seen_};
    requests_.emplace(requests_seen_, new_id);
    const std::optional<wire::Hello> hello = wire::decode_hello(private_data(event));
    // If the sender is not weir, or of an unknown version, the core refuses the empty hello.
    return ConnectionEvent{
        .kind = Kind::request, .request = request, .hello = hello.value_or(wire::Hello{})};
  }
  if (event.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
    return ConnectionEvent{.kind = Kind::device_gone};
  const auto found = lanes_.find(event.id);
  if (found == lanes_.end()) return std::nullopt;  // the listener, or dropped meanwhile
  const LaneId lane = found->second;
  Connection& connection = connections_.at(index(lane));
  const auto failed = [&](FailReason reason) {
    return ConnectionEvent{.kind = Kind::failed, .lane = lane, .reason = reason};
  };
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(event.id, resolve_timeout_ms) == 0) return std::nullopt;
      return failed(FailReason::connect_unreachable);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (send_request(connection)) return std::nullopt;
      return failed(FailReason::connect_unreachable);
    case RDMA_CM_EVENT_CONNECT_RESPONSE: return on_answer(lane, connection, event);
    case RDMA_CM_EVENT_ESTABLISHED: return ConnectionEvent{.kind = Kind::established, .lane = lane};
    case RDMA_CM_EVENT_REJECTED: {
      const std::optional<wire::Reject> reject = wire::decode_reject(private_data(event));
      if (!reject && event.status == nobody_listens) return failed(FailReason::connect_refused);
      // Other refusals by the connection manager (a stale connection, say) are temporary.
      return ConnectionEvent{
          .kind = Kind::rejected, .lane = lane, .reject = reject.value_or(wire::Reject::closing)};
    }
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR: return failed(FailReason::connect_unreachable);
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR: return failed(FailReason::connect_timeout);
    case RDMA_CM_EVENT_DISCONNECTED:
      return ConnectionEvent{.kind = Kind::disconnected, .lane = lane};
    default: return std::nullopt;
  }
}

bool Connections::send_request(Connection& connection) {
  const auto data = wire::encode(connection.hello);
  rdma_conn_param request = parameters(connection, data.data(), data.size());
  return rdma_connect(connection.id.get(), &request) == 0;
}

std::optional<ConnectionEvent> Connections::on_answer(LaneId lane, Connection& connection,
                                                      const rdma_cm_event& event) {
  using Kind = ConnectionEvent::Kind;
  const std::optional<wire::Hello> hello = wire::decode_hello(private_data(event));
  rdma_cm_id* const id = connection.id.get();
  if (!hello) {
    return ConnectionEvent{
        .kind = Kind::failed, .lane = lane, .reason = FailReason::rejected_stranger};
  }
  const bool ready = step_pair(id, lane, IBV_QPS_INIT) && step_pair(id, lane, IBV_QPS_RTR) &&
                     step_pair(id, lane, IBV_QPS_RTS) && rdma_establish(id) == 0;
  if (!ready) {
    // The peer may have ended the connection since it accepted.
    return ConnectionEvent{.kind = Kind::failed, .lane = lane, .reason = FailReason::connect_spoilt};
  }
  return ConnectionEvent{.kind = Kind::answer, .lane = lane, .hello = *hello};
}

}  // namespace weir::verbs
