// Frames over several rails: which rail takes a frame, and where frames go when a rail's connection
// breaks, or is there again. A frame goes over another rail once both ends know that it has not
// arrived (rail/handover.h). ob1 numbers its messages, so these need no order among rails;
// fragments of one do (compat.h, ob1_fragment_tag), and keep to the first rail.
//
// Thread rule: any thread, but not under an engine's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "transport/btl/compat.h"
#include "transport/btl/endpoint.h"
#include "transport/btl/rail_engines.h"
#include "transport/btl/rail_parts.h"
#include "transport/btl/rail_reports.h"

namespace weir::btl {

class FramesOverRails {
 public:
  // `spread`: messages go over all rails in turn.
  FramesOverRails(RailEngines& engines, PartsOverRails& parts, Endpoints& endpoints,
                  RailReports& reports, bool spread);

  bool spread() const { return spread_; }
  // Whether those with this tag do.
  bool spreads(mca_btl_base_tag_t tag) const { return spread_ && tag != ob1_fragment_tag; }
  // `send(engine, peer)` sends over one rail; goes on until one takes it.
  template <typename Send>
  Status send(Endpoint& endpoint, mca_btl_base_tag_t tag, Send&& send) {
    return endpoint.rails.links.send(
        engines_.count(), spreads(tag) ? next_in_turn(endpoint) : 0, [&](std::size_t rail) {
          const PeerId peer = endpoint.id_on(rail);
          return peer != PeerId::none ? send(engines_[rail], peer) : Status::elsewhere;
        });
  }
  // Sends a message that is in a slot of the first rail's, which goes back there.
  Status send_copy(Endpoint& endpoint, SendSlot* slot, std::uint32_t length_bytes,
                   std::uint8_t tag);

  // Whether there is news: connections that come and go, and peers' messages about them.
  bool has_news() const { return has_news_.load(std::memory_order_relaxed); }
  // Handles the news: carries frames of a broken rail over another one. Event threads call it, so
  // this does not wait for an application that computes.
  void serve_links();
  // From here on, `serve_links` does nothing.
  void end();
  // The rail has given the peer up. False if that loses something, or there is no other way.
  bool survive(Endpoint& endpoint, std::size_t rail, const Failure& failure);

  // Whether the first rail to some peer is broken. `ask_again` asks for lost ones, not too often.
  bool any_down() const { return down_.load(std::memory_order_relaxed) != 0; }
  void ask_again();

 private:
  class Ways;

  Endpoint* endpoint_on(std::size_t rail, PeerId peer);
  void on_news(std::size_t rail, const LinkNews& news);
  void on_given_away(Endpoint& endpoint, std::size_t rail, std::size_t frames, std::size_t lost);
  void lose_way(Endpoint& endpoint, std::size_t rail, FailReason reason);
  void give_up_first(const Endpoint& endpoint, const Failure& failure);
  void give_up_further(Endpoint& endpoint, std::size_t rail, const Failure& failure);
  void explain_loss(const Endpoint& endpoint, const Failure& failure) const;
  std::size_t next_in_turn(Endpoint& endpoint);

  RailEngines& engines_;
  PartsOverRails& parts_;
  Endpoints& endpoints_;
  RailReports& reports_;
  const bool spread_;
  std::atomic<std::uint32_t> down_{0};     // peers whose first rail broke
  std::atomic<std::int64_t> asked_ns_{0};  // when the first rail was last asked for again
  std::mutex lock_;                        // of the members below, and changes of peers' links
  Atomic<bool> has_news_{false};           // some engine has news
  std::vector<LinkNews> news_;             // news being handled
  bool ended_ = false;
};

}  // namespace weir::btl
