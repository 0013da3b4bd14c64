// The reports of rails: in counters, to the user, and to Open MPI. An event thread must not call
// Open MPI, so it leaves its reports for the application's next call.
//
// Thread rule: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/transfer.h"
#include "transport/btl/endpoint.h"
#include "transport/btl/pvars.h"

namespace weir::btl {

class RailReports {
 public:
  struct Text {
    std::string says;
    bool loud;  // otherwise a note
  };
  // No rail takes frames of that one, so the peer is lost.
  struct Loss {
    Endpoint* endpoint;
    std::size_t rail;
  };
  using Report = std::variant<Text, Loss, TransferEnd>;

  explicit RailReports(RdmaCounters& counters) : counters(counters) {}

  // For the application's next call, in this order.
  void leave(Report report) {
    std::lock_guard guard(lock_);
    left_.push_back(std::move(report));
    any_left_.store(true, std::memory_order_release);
  }
  bool any_left() const { return any_left_.load(std::memory_order_relaxed); }
  std::vector<Report> take_left() {
    std::lock_guard guard(lock_);
    any_left_.store(false, std::memory_order_relaxed);
    return std::exchange(left_, {});
  }

  // Whether the user is told that a rail is lost, and that one works again: not every time.
  bool tells_loss() { return losses_told_.fetch_add(1) < most_losses_told; }
  bool tells_return() const { return losses_told_.load() <= most_losses_told; }

  RdmaCounters& counters;

 private:
  static constexpr int most_losses_told = 8;

  std::atomic<int> losses_told_{0};
  std::mutex lock_;
  std::vector<Report> left_;
  std::atomic<bool> any_left_{false};
};

}  // namespace weir::btl
