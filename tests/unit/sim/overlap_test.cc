// What moves on while the application computes: a get of 32 MiB at 100 Gbit/s, started, and then no
// call of MPI. Only the event thread looks, every millisecond.
#include <gtest/gtest.h>

#include <vector>

#include "tools/sim/engine.h"

namespace weir::sim {
namespace {

constexpr std::uint64_t get_bytes = 32 << 20;
constexpr PeerName first{7, 0};
constexpr PeerName second{7, 1};

struct Ends : Upcalls {
  void on_message(const Delivery&) override {}
  void on_retired(SendSlot*, bool) override {}
  void on_failure(const Failure&) override { ++failures; }
  void on_transfer(const TransferEnd& end) override { ended += end.ok ? 1 : 0; }
  int ended = 0;
  int failures = 0;
};

Engine::Config config_of(PeerName self, std::uint64_t chain_bytes) {
  Engine::Config config;
  config.core.self = self;
  config.core.shrink_after = {};
  config.core.transfers.chain_bytes = chain_bytes;
  config.nic.srq_depth = config.core.window.max;
  return config;
}

class Overlap {
 public:
  explicit Overlap(std::uint64_t chain_bytes)
      : fabric_({}, {}, 1),
        connections_(fabric_),
        reader_(fabric_, connections_, 0, config_of(first, chain_bytes)),
        owner_(fabric_, connections_, 1, config_of(second, chain_bytes)),
        ours_(get_bytes),
        theirs_(get_bytes, std::byte{0x5a}) {
    peer_ = reader_.add_peer(second, 1);
    owner_.add_peer(first, 0);
    const auto bytes = reinterpret_cast<std::uint64_t>(theirs_.data());
    request_ = {.peer = peer_,
                .remote_address = bytes,
                .local_address = reinterpret_cast<std::uint64_t>(ours_.data()),
                .length_bytes = get_bytes,
                .rkey = owner_.nic().register_memory(bytes, get_bytes, Access::all)};
    // Twice with progress: now c is known, and the second lane is there if it is wanted.
    for (int i = 0; i < 2; ++i) {
      reader_.transfer(request_);
      for (const int before = ends_.ended; ends_.ended == before && ends_.failures == 0;) turn();
      for (int j = 0; j < 1000; ++j) turn();
    }
  }

  // How long it takes until the last byte is there.
  Duration compute() {
    ours_.assign(get_bytes, std::byte{0});
    const Time begin = fabric_.events.now();
    reader_.transfer(request_);
    while (ours_.back() == std::byte{0} && fabric_.violations.empty()) fabric_.events.step();
    for (const std::string& violation : fabric_.violations) ADD_FAILURE() << violation;
    EXPECT_TRUE(ours_ == theirs_);
    return fabric_.events.now() - begin;
  }

  std::uint64_t chains() const { return reader_.core().counters().chains; }

 private:
  void turn() {
    fabric_.events.run_until(fabric_.events.now() + microseconds(1));
    reader_.progress(ends_);
    owner_.progress(ends_);
  }

  Fabric fabric_;
  Connections connections_;
  Engine reader_;
  Engine owner_;
  Ends ends_;
  std::vector<std::byte> ours_;
  std::vector<std::byte> theirs_;
  PeerId peer_;
  TransferRequest request_;
};

TEST(Overlap, AChainMovesOnWithoutSoftware) {
  Overlap scheduled(0);
  Overlap offloaded(1 << 20);
  const Duration one_by_one = scheduled.compute();
  const Duration by_itself = offloaded.compute();
  EXPECT_EQ(scheduled.chains(), 0u);
  EXPECT_GE(offloaded.chains(), 1u);
  const auto gbits = [](Duration time) {
    return static_cast<double>(get_bytes) * 8 / static_cast<double>(time.ns);
  };
  std::printf(
      "32 MiB while the application computes: %.1f Gbit/s chunk by chunk, %.1f as a chain\n",
      gbits(one_by_one), gbits(by_itself));
  EXPECT_LT(by_itself.ns * 4, one_by_one.ns);
}

}  // namespace
}  // namespace weir::sim
