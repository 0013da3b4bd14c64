// What base/atomic.h gives the product's code in tests of its orders: atomics in a weak memory, and
// memory between them.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <cstring>

#include "tests/unit/order/weak_memory.h"

namespace weir {

// As std::atomic. Outside of the runs' threads it has the newest value.
template <typename T>
class Atomic {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  using Order = std::memory_order;

 public:
  static constexpr bool is_always_lock_free = true;

  constexpr Atomic() = default;
  constexpr Atomic(T initial) : initial_(initial) {}  // NOLINT: as std::atomic
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(Order order = Order::seq_cst) const { return of(memory().load(this, word(), order)); }
  void store(T value, Order order = Order::seq_cst) {
    memory().store(this, word(), word(value), order);
  }
  T exchange(T value, Order order = Order::seq_cst) {
    return change(order, [value](T) { return value; });
  }
  bool compare_exchange_strong(T& expected, T wanted, Order order = Order::seq_cst) {
    return compare_exchange_strong(expected, wanted, order,
                                   order == Order::release   ? Order::relaxed
                                   : order == Order::acq_rel ? Order::acquire
                                                             : order);
  }
  bool compare_exchange_strong(T& expected, T wanted, Order order, Order failed) {
    const T was =
        of(memory().exchange(this, word(), order, failed, [&](std::uint64_t& value) {
          if (of(value) != expected) return false;
          value = word(wanted);
          return true;
        }));
    if (was == expected) return true;
    expected = was;
    return false;
  }
  T fetch_add(T by, Order order = Order::seq_cst) {
    return change(order, [by](T was) { return static_cast<T>(was + by); });
  }
  T fetch_sub(T by, Order order = Order::seq_cst) {
    return change(order, [by](T was) { return static_cast<T>(was - by); });
  }

  // As libstdc++ 12 does it: who waits counts himself, and who notifies asks the kernel only if
  // somebody is counted.
  void wait(T old, Order order = Order::seq_cst) const {
    while (load(order) == old) {
      count(+1, Order::seq_cst);
      memory().sleep(this, word(), word(old));
      count(-1, Order::release);
    }
  }
  void notify_one() {
    if (memory().load(waiters(), 0, Order::seq_cst) != 0) memory().wake(this, word());
  }

 private:
  static weak::Memory& memory() { return *weak::Memory::current; }
  static std::uint64_t word(T value) {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
  }
  static T of(std::uint64_t word) {
    T value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
  std::uint64_t word() const { return word(initial_); }
  template <typename Change>
  T change(Order order, Change&& change) {
    return of(memory().exchange(this, word(), order, order, [&](std::uint64_t& value) {
      value = word(change(of(value)));
      return true;
    }));
  }
  // A place of its own.
  const void* waiters() const { return reinterpret_cast<const std::byte*>(this) + 1; }
  void count(int by, Order order) const {
    const auto add = [by](std::uint64_t& value) {
      value += static_cast<std::uint64_t>(by);
      return true;
    };
    memory().exchange(waiters(), 0, order, order, add, false);
  }

  T initial_{};
};

class Mutex {
 public:
  void lock() { weak::Memory::current->lock(this); }
  void unlock() { weak::Memory::current->unlock(this); }

 private:
  std::uint64_t unused_ = 0;
};

// Memory that the code under test does not order by itself.
class Plain {
 public:
  void read() const { weak::Memory::current->touch(this, false); }
  void write() { weak::Memory::current->touch(this, true); }

 private:
  std::uint64_t unused_ = 0;
};

}  // namespace weir
