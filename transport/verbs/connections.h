// Connections by librdmacm, with queue pairs of our own: librdmacm handles addresses and routes, we
// handle queues. Nothing here blocks; `next` returns what happened.
//
// Thread rule: the engine's lock.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/ids.h"
#include "base/status.h"
#include "transport/verbs/device.h"
#include "transport/verbs/queues.h"
#include "transport/wire/hello.h"

namespace weir::verbs {

struct ConnectionEvent {
  enum class Kind : std::uint8_t {
    request,       // `request`, `hello`
    answer,        // `lane`, `hello`: the queue pair can send
    established,   // `lane`: the peer confirmed what we accepted
    rejected,      // `lane`, `reject`: weir on the other side refused
    failed,        // `lane`, `reason`
    disconnected,  // `lane`
    device_gone,   // nothing works any more
  };
  Kind kind;
  LaneId lane = LaneId::none;
  RequestId request = RequestId::none;
  wire::Hello hello{};
  wire::Reject reject = wire::Reject::crossed;
  FailReason reason = FailReason::none;
};

class Connections {
 public:
  // Listens on the device's address, any port. On failure nullptr, and the reason in `why`.
  static std::unique_ptr<Connections> listen(const Device& device, std::string& why);
  ~Connections();

  std::uint16_t port() const;
  // From here on requests are refused at once. There is no port any more.
  void stop_listening() { listener_.reset(); }
  int fd() const { return channel_->fd; }

  // The queues whose pairs are connected from now on; nullptr: none, and no pair can be connected.
  void attach(Queues* queues) { queues_ = queues; }

  // The traffic class that later `connect`s resolve paths for; without it, the node's default.
  void set_traffic_class(std::uint8_t traffic_class) { traffic_class_ = traffic_class; }

  // Asks the process at `card` for a connection of `lane`. False: it could not even be tried.
  bool connect(LaneId lane, const wire::Card& card, const wire::Hello& hello,
               std::uint32_t qp_number);
  // Accepts `request` with the queue pair of `lane`. False: it is gone, or the pair refused.
  bool accept(RequestId request, LaneId lane, const wire::Hello& hello, std::uint32_t qp_number);
  // The address that the request came from, for messages.
  std::string asker(RequestId request) const;
  void reject(RequestId request, wire::Reject reason);
  // Drops `request` without a reason of ours to the peer.
  void forget(RequestId request);
  // Ends the attempt or the connection of `lane`, if there is one.
  void drop(LaneId lane);

  // The next event, if any. Never waits.
  std::optional<ConnectionEvent> next();

 private:
  using Channel = std::unique_ptr<rdma_event_channel, Destroyer<rdma_destroy_event_channel>>;
  using Id = std::unique_ptr<rdma_cm_id, Destroyer<rdma_destroy_id>>;

  struct Connection {
    Id id;
    wire::Hello hello{};  // ours
    std::uint32_t qp_number = 0;
  };

  Connections() = default;
  std::optional<ConnectionEvent> handle(const rdma_cm_event& event, rdma_cm_id* new_id);
  bool step_pair(rdma_cm_id* id, LaneId lane, ibv_qp_state state);
  std::optional<ConnectionEvent> on_answer(LaneId lane, Connection& connection,
                                           const rdma_cm_event& event);
  bool send_request(Connection& connection);
  rdma_conn_param parameters(const Connection& connection, const void* data,
                             std::size_t bytes) const;

  const Device* device_ = nullptr;
  Queues* queues_ = nullptr;
  std::optional<std::uint8_t> traffic_class_;
  Channel channel_;
  Id listener_;
  std::unordered_map<std::uint32_t, Connection> connections_;  // by LaneId
  std::unordered_map<rdma_cm_id*, LaneId> lanes_;
  std::unordered_map<std::uint64_t, Id> requests_;  // by RequestId
  std::uint64_t requests_seen_ = 0;
};

}  // namespace weir::verbs
