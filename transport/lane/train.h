// How a message that is longer than a frame is cut into cars (PROTOCOL.md §2.1); assembly.h puts
// them together again.
//
// Pure; a value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/wire/car.h"
#include "transport/wire/frame.h"

namespace weir {

class Train {
 public:
  // A message of up to `most_payload` bytes would fit into one frame. `lead_bytes`: as in
  // wire::Car.
  Train(std::uint32_t number, std::uint32_t length_bytes, std::uint8_t tag, std::uint8_t lead_bytes,
        std::uint32_t most_payload)
      : car_bytes_(bytes_of_car(most_payload)) {
    car_.train = number;
    car_.length_bytes = length_bytes;
    car_.tag = tag;
    car_.lead_bytes = lead_bytes;
    const std::uint32_t last = bytes_of_last(most_payload);
    const std::uint32_t before = length_bytes > last ? length_bytes - last : 0;
    car_.count = static_cast<std::uint8_t>((before + car_bytes_ - 1) / car_bytes_ + 1);
  }

  // The longest message.
  static std::uint32_t most_bytes(std::uint32_t most_payload) {
    return (wire::most_cars - 1) * bytes_of_car(most_payload) + bytes_of_last(most_payload);
  }

  std::uint32_t cars() const { return car_.count; }
  // Writes a car to `at`: `write(to, offset, bytes)` writes that part of the message. Returns the
  // car's length.
  template <typename Write>
  std::uint32_t write_car(std::uint32_t number, std::byte* at, Write&& write) const {
    wire::Car car = car_;
    car.number = static_cast<std::uint8_t>(number);
    car.offset = number * car_bytes_;
    const std::uint32_t left = car.length_bytes - car.offset;
    const std::uint32_t bytes = number + 1 == car.count ? left : car_bytes_;
    wire::put(at, car);
    write(at + wire::car_header_bytes, car.offset, bytes);
    return static_cast<std::uint32_t>(wire::car_header_bytes) + bytes;
  }

 private:
  // The largest MTU of RDMA ports [IBTA 14.2.5.6]. A car that fills packets costs none for its
  // rest; the last one has it, so that this is no car more.
  static constexpr std::uint32_t packet_bytes = 4096;

  static std::uint32_t bytes_of_last(std::uint32_t most_payload) {
    return most_payload - static_cast<std::uint32_t>(wire::car_header_bytes);
  }
  static std::uint32_t bytes_of_car(std::uint32_t most_payload) {
    const auto headers = static_cast<std::uint32_t>(wire::first_payload_offset);
    const std::uint32_t frame = most_payload + headers;
    const std::uint32_t rest = frame > packet_bytes ? frame % packet_bytes : 0;
    return bytes_of_last(most_payload) - rest;
  }

  wire::Car car_;
  std::uint32_t car_bytes_;
};

}  // namespace weir
