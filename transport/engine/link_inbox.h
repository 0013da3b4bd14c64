// News of connections, for the frames of one rail to go over another (transport/rail). The event
// thread has them served: what is to be done about them must not wait while the application
// computes.
//
// Thread rule: the engine's lock, except for `serve`.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/link_news.h"

namespace weir {

class LinkInbox {
 public:
  // As Engine::watch_links.
  void watch(Atomic<bool>& news, std::function<void()> serve) {
    has_news_ = &news;
    serve_ = std::move(serve);
  }
  // True if the event thread is to look.
  bool add(const LinkNews& news) {
    if (has_news_ == nullptr) return false;
    if (news.kind == LinkNews::Kind::message && arrived_.size() >= most_waiting) return false;
    arrived_.push_back(news);
    has_news_->store(true, std::memory_order_release);
    return true;
  }
  // All of them, oldest first. `taken` is empty.
  void take(std::vector<LinkNews>& taken) { taken.swap(arrived_); }

  // Of the event thread, without the lock.
  void serve() {
    if (has_news_ != nullptr && has_news_->load(std::memory_order_acquire)) serve_();
  }

 private:
  // Messages of peers about other rails that wait. An exchange is asked for again.
  static constexpr std::size_t most_waiting = 1024;

  std::vector<LinkNews> arrived_;
  Atomic<bool>* has_news_ = nullptr;  // of whoever serves them; the lock orders the news
  std::function<void()> serve_;
};

}  // namespace weir
