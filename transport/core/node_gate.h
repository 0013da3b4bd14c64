// The node's limits on what this process posts: first the proxy, then the tokens.
//
// Pure; the caller serialises.
#pragma once

#include <cstdint>

#include "base/now.h"
#include "base/time.h"
#include "transport/core/node_line.h"
#include "transport/core/peer.h"
#include "transport/core/relay_server.h"
#include "transport/core/relay_task.h"
#include "transport/core/request_gate.h"

namespace weir {

class NodeGate final : public RequestGate {
 public:
  // All arguments outlive this object.
  NodeGate(NodeLine& line, RelayTask& task, RelayServer& server)
      : line_(line), task_(task), server_(server) {}

  // From here on frames may go through the proxy.
  void add_proxy() { has_proxy_ = true; }

  bool passes(const SendSlot& frame) override { return !has_proxy_ && line_.passes(frame); }
  Way way(const Now& now, Peer& peer, SendSlot& frame) override {
    return has_proxy_ ? task_.way(now, peer, frame) : Way::own_lane;
  }
  bool admit(const Now& now, Peer& peer, SendSlot& frame) override {
    if (!line_.admit(now, peer, frame)) return false;
    if (frame.kind == wire::FrameKind::relayed) server_.on_posted(frame);
    return true;
  }
  bool admit_chunk(const Now& now, std::uint32_t bytes, std::uint16_t& tokens) override {
    return line_.admit_chunk(now, bytes, tokens);
  }

 private:
  NodeLine& line_;
  RelayTask& task_;
  RelayServer& server_;
  bool has_proxy_ = false;
};

}  // namespace weir
