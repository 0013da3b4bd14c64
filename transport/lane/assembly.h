// Messages whose cars (wire/car.h) have not all arrived: their bytes, put together as they come.
//
//   car ──take──▶ the half message of its train ──the last one──▶ Whole ──give_back──▶ free
//
// Cars of a train may come in any order, as when those of a rail that broke go over another one. A
// half message holds no receive buffer, so one that waits for its rest stops nobody. A peer has few
// of them at a time; one that begins more breaks the rules.
//
// Pure; the caller serialises. Allocates when more messages are half here than ever before.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "transport/wire/car.h"

namespace weir {

class Assembly {
 public:
  // `message_bytes`: of most messages; a longer one gets memory of its own. `most_bytes`: of any.
  // `room_bytes`: what the caller wants to have before each message.
  Assembly(std::uint32_t message_bytes, std::uint32_t most_bytes, std::uint32_t room_bytes)
      : usual_bytes_(message_bytes), most_bytes_(most_bytes), room_bytes_(room_bytes) {}

  enum class Took : std::uint8_t {
    part,       // others are to come
    whole,      // that was the last one
    bad,        // no correct peer sends it
    no_memory,  // the message is lost
  };

  struct Whole {
    std::byte* bytes = nullptr;  // with the room before
    std::uint32_t length_bytes = 0;
    std::uint8_t tag = 0;
    std::uint8_t lead_bytes = 0;
    std::uint32_t capacity_bytes = 0;  // for `give_back`
  };

  // A message with the tag of a car, from the peer that the caller numbers so.
  Took take(std::uint32_t from, const std::byte* message, std::size_t size, Whole& whole) {
    const std::optional<wire::Car> car = wire::get_car(message, size);
    if (!car || car->length_bytes > most_bytes_) return Took::bad;
    Half** const at = find(from, *car);
    if (at == nullptr) return Took::bad;
    Half* const half = *at != nullptr ? *at : begin(*at, from, *car);
    if (half == nullptr) return Took::no_memory;
    const std::uint64_t bit = std::uint64_t{1} << car->number;
    const bool is_same = half->whole.length_bytes == car->length_bytes &&
                         half->count == car->count && half->whole.tag == car->tag;
    if (!is_same || (half->came & bit) != 0) return Took::bad;
    half->came |= bit;
    std::memcpy(half->whole.bytes + car->offset, message + wire::car_header_bytes,
                size - wire::car_header_bytes);
    if (half->came != ~std::uint64_t{0} >> (wire::most_cars - half->count)) return Took::part;
    whole = half->whole;
    remove(at);
    return Took::whole;
  }

  // The caller is done with a whole message.
  void give_back(const Whole& whole) {
    bytes_ -= whole.capacity_bytes;
    std::byte* const memory = whole.bytes - room_bytes_;
    if (whole.capacity_bytes == usual_bytes_ && spare_.size() < most_spare) {
      spare_.emplace_back(memory);
    } else {
      delete[] memory;
    }
  }

  // The peer is gone: the rest of its messages never comes.
  void forget(std::uint32_t from) {
    Half** at = &chain_of(from);
    while (*at != nullptr) {
      if ((*at)->from != from) {
        at = &(*at)->next;
        continue;
      }
      const Whole whole = (*at)->whole;
      remove(at);
      give_back(whole);
    }
  }

  // Of half messages, and whole ones that were not given back.
  std::uint64_t bytes() const { return bytes_; }

  ~Assembly() {
    for (Half*& chain : chains_) {
      while (chain != nullptr) {
        delete[](chain->whole.bytes - room_bytes_);
        delete std::exchange(chain, chain->next);
      }
    }
    while (free_ != nullptr) delete std::exchange(free_, free_->next);
  }

  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  // A peer sends whole trains, one after the other: there are more only when a rail broke, for each
  // rail that did.
  static constexpr std::size_t most_of_a_peer = 16;

 private:
  static constexpr std::size_t most_spare = 32;  // kept for the next ones

  struct Half {
    Half* next = nullptr;
    std::uint32_t from = 0;
    std::uint32_t train = 0;
    std::uint64_t came = 0;  // a bit for each car
    std::uint8_t count = 0;
    Whole whole;
  };

  Half*& chain_of(std::uint32_t from) { return chains_[from % chains_.size()]; }

  // Where the half message of the car is, or belongs; nullptr if the peer has too many.
  Half** find(std::uint32_t from, const wire::Car& car) {
    Half** at = &chain_of(from);
    for (std::size_t of_peer = 0; *at != nullptr; at = &(*at)->next) {
      if ((*at)->from != from) continue;
      if ((*at)->train == car.train) return at;
      if (++of_peer >= most_of_a_peer) return nullptr;
    }
    return at;
  }

  Half* begin(Half*& at, std::uint32_t from, const wire::Car& car) {
    const std::uint32_t capacity = std::max(car.length_bytes, usual_bytes_);
    std::byte* memory = nullptr;
    if (capacity == usual_bytes_ && !spare_.empty()) {
      memory = spare_.back().release();
      spare_.pop_back();
    } else {
      memory = new (std::nothrow) std::byte[room_bytes_ + capacity];
    }
    Half* half = free_ != nullptr ? free_ : new (std::nothrow) Half;
    if (memory == nullptr || half == nullptr) {
      delete[] memory;
      if (half != free_) delete half;
      return nullptr;
    }
    if (half == free_) free_ = half->next;
    bytes_ += capacity;
    *half = {
        nullptr,   from,
        car.train, 0,
        car.count, {memory + room_bytes_, car.length_bytes, car.tag, car.lead_bytes, capacity}};
    return at = half;
  }

  void remove(Half** at) {
    Half* const half = *at;
    *at = half->next;
    half->next = std::exchange(free_, half);
  }

  const std::uint32_t usual_bytes_;
  const std::uint32_t most_bytes_;
  const std::uint32_t room_bytes_;
  std::array<Half*, 64> chains_{};  // by peer
  Half* free_ = nullptr;
  std::vector<std::unique_ptr<std::byte[]>> spare_;
  std::uint64_t bytes_ = 0;
};

}  // namespace weir
