// A message that is longer than a frame travels as a train: as several messages, its cars, each
// with this header first. PROTOCOL.md §2.1. Bytes from a peer are untrusted: `get_car` checks them.
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace weir::wire {

// The tag of a car. No receiver of Open MPI's can have it: its tags end before.
inline constexpr std::uint8_t car_tag = 255;

inline constexpr std::uint32_t most_cars = 64;  // of a train

struct Car {
  std::uint32_t train = 0;         // its sender counts them
  std::uint32_t length_bytes = 0;  // of the whole message
  std::uint32_t offset = 0;        // of the car's payload in it
  std::uint8_t tag = 0;            // of the message
  std::uint8_t lead_bytes = 0;  // of the message that are a header of the layer above; 0: unknown
  std::uint8_t number = 0;      // of the car
  std::uint8_t count = 0;       // of the train's cars
};

inline constexpr std::size_t car_header_bytes = 16;

inline void put(std::byte* at, const Car& car) {
  const std::uint64_t words[] = {
      car.train | std::uint64_t{car.length_bytes} << 32,
      car.offset | std::uint64_t{car.tag} << 32 | std::uint64_t{car.lead_bytes} << 40 |
          std::uint64_t{car.number} << 48 | std::uint64_t{car.count} << 56};
  static_assert(sizeof words == car_header_bytes);
  std::memcpy(at, words, sizeof words);
}

// The header of a message of `size` bytes with the tag of a car. Nothing if it is no car: its
// payload does not lie in the message, or it does not in its train.
inline std::optional<Car> get_car(const std::byte* message, std::size_t size) {
  if (size <= car_header_bytes) return std::nullopt;
  std::uint64_t words[2];
  std::memcpy(words, message, sizeof words);
  const auto byte = [&](int at) { return static_cast<std::uint8_t>(words[1] >> at); };
  const Car car{static_cast<std::uint32_t>(words[0]),
                static_cast<std::uint32_t>(words[0] >> 32),
                static_cast<std::uint32_t>(words[1]),
                byte(32),
                byte(40),
                byte(48),
                byte(56)};
  const std::size_t payload = size - car_header_bytes;
  const bool fits = car.offset <= car.length_bytes && payload <= car.length_bytes - car.offset &&
                    car.lead_bytes <= car.length_bytes;
  const bool counts = car.count <= most_cars && car.number < car.count;
  return fits && counts && car.tag != car_tag ? std::optional(car) : std::nullopt;
}

}  // namespace weir::wire
