#include "tools/perf/weir_way.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "transport/btl/eager_max.h"
#include "transport/lane/train.h"

namespace weir::tools::perf {
namespace {

// Set in the token of a read that an announcement has caused.
constexpr std::uint64_t of_message = std::uint64_t{1} << 63;

// As if alone on the node.
std::uint32_t eager_bytes(const config::Settings& settings, std::uint32_t frame_bytes) {
  if (settings.proxy_servers > 0) return frame_bytes;
  const std::uint64_t most = settings.eager_max_bytes == config::automatic
                                 ? btl::automatic_eager_max(1, false)
                                 : static_cast<std::uint64_t>(settings.eager_max_bytes);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(most, Train::most_bytes(frame_bytes)));
}

}  // namespace

WeirWay::WeirWay(const Memory& memory, Engine& engine, const config::Settings& settings)
    : Way(memory),
      engine_(engine),
      frame_bytes_(engine.max_payload_bytes()),
      eager_bytes_(eager_bytes(settings, frame_bytes_)),
      assembly_(eager_bytes_, Train::most_bytes(frame_bytes_), 0) {}

// ---- sending ----

bool WeirWay::send_word(Tag tag, std::uint64_t word) {
  const Status status = engine_.send_filled(
      peer_, sizeof word, tag, [&](std::byte* at) { std::memcpy(at, &word, sizeof word); });
  return status == Status::ok;
}

Status WeirWay::send_train() {
  const std::byte* const from = memory_.at(Memory::source(sent));
  const Train train(trains_++, static_cast<std::uint32_t>(bytes_), whole, 0, frame_bytes_);
  const auto write = [&](std::byte* to, std::uint32_t offset, std::uint32_t bytes) {
    std::memcpy(to, from + offset, bytes);
  };
  return engine_.send_train(peer_, train.cars(), [&](std::uint32_t number, std::byte* at) {
    return train.write_car(number, at, write);
  });
}

bool WeirWay::send() {
  Status status = Status::ok;
  if (bytes_ <= std::min(frame_bytes_, eager_bytes_)) {
    status = engine_.send_filled(
        peer_, static_cast<std::uint32_t>(bytes_), whole,
        [&](std::byte* at) { std::memcpy(at, memory_.at(Memory::source(sent)), bytes_); });
  } else if (bytes_ <= eager_bytes_ && engine_.wants_trains()) {
    status = send_train();
  } else {
    status = send_word(announced, sent) ? Status::ok : Status::back_pressure;
  }
  if (status != Status::ok) return false;
  ++sent;
  return true;
}

bool WeirWay::start(Operation operation) {
  const std::uint64_t number = started++;
  const std::uint64_t source = Memory::source(number);
  const std::uint64_t place = memory_.place(number, bytes_);
  TransferRequest request;
  request.peer = peer_;
  request.length_bytes = bytes_;
  request.lkey = memory_.lkey();
  request.rkey = theirs_.rkey;
  request.token = number;
  request.local_address = memory_.address(operation == Operation::put ? source : place);
  switch (operation) {
    case Operation::put:
      request.kind = TransferKind::put;
      request.opcode = Opcode::write;
      request.remote_address = theirs_.address + place;
      break;
    case Operation::get: request.remote_address = theirs_.address + source; break;
    default:
      request.opcode = Opcode::fetch_add;
      request.operand = 1;
      request.remote_address = theirs_.address + memory_.word(Memory::Word::added_by_weir);
      ++added_;
  }
  transfers_[number % places] = {operation, added_ - 1, false};
  engine_.transfer(request);
  return true;
}

void WeirWay::poll() {
  engine_.progress(*this);
  if (!why.empty()) return;
  if (!replies_ && received - told_ >= batch()) owes_news_ = true;
  while (greetings_owed_ > 0 && send_word(greeting, 0)) --greetings_owed_;
  if (owes_news_ && send_word(news, received)) {
    owes_news_ = false;
    told_ = received;
  }
}

std::uint64_t WeirWay::moved() const {
  const Counters& counters = engine_.counters();
  return counters.frames_received + counters.chunks_sent + counters.sends_signalled;
}

// ---- what comes ----

void WeirWay::take_whole(const std::byte* bytes, std::uint64_t length) {
  if (length != bytes_) {
    return fail(fmt::format("{} B came in place of {} B", length, bytes_));
  }
  if (arrived_ - received >= window()) return fail("more messages came than may be under way");
  const std::uint64_t number = arrived_++;
  std::memcpy(memory_.at(memory_.place(number, bytes_)), bytes,
              length);  // as a receive of MPI does
  came_[number % places] = Came::whole;
  advance();
}

void WeirWay::take_car(const Delivery& car) {
  Assembly::Whole message;
  switch (assembly_.take(0, car.payload, car.length_bytes, message)) {
    case Assembly::Took::part: return;
    case Assembly::Took::whole:
      take_whole(message.bytes, message.length_bytes);
      return assembly_.give_back(message);
    default: return fail("the parts of a message do not fit together");
  }
}

// The other end says that message `number` waits in its memory.
void WeirWay::read_announced(std::uint64_t number) {
  if (number != arrived_ || arrived_ - received >= window()) {
    return fail("the other end announces what it may not send");
  }
  ++arrived_;
  TransferRequest request;
  request.peer = peer_;
  request.length_bytes = bytes_;
  request.lkey = memory_.lkey();
  request.rkey = theirs_.rkey;
  request.token = number | of_message;
  request.local_address = memory_.address(memory_.place(number, bytes_));
  request.remote_address = theirs_.address + Memory::source(number);
  engine_.transfer(request);
}

void WeirWay::on_message(const Delivery& message) {
  if (!why.empty()) return;
  if (message.tag == wire::car_tag) return take_car(message);
  if (message.tag == whole) return take_whole(message.payload, message.length_bytes);
  std::uint64_t word = 0;
  if (message.length_bytes != sizeof word) return fail("a message has a wrong length");
  std::memcpy(&word, message.payload, sizeof word);
  switch (message.tag) {
    case announced: return read_announced(word);
    case greeting: ++greeted; return;
    case news:
      if (word > sent) return fail("the other end acknowledges what was not sent");
      acknowledged = std::max(acknowledged, word);
      return;
    default: return fail("a message of unknown kind came");
  }
}

void WeirWay::on_transfer(const TransferEnd& end) {
  if (!why.empty()) return;
  if (!end.ok) return fail("a transfer failed");
  const std::uint64_t number = end.token & ~of_message;
  if ((end.token & of_message) != 0) {
    came_[number % places] = Came::read;
  } else {
    transfers_[number % places].over = true;
  }
  advance();
}

// Counts those that are over, in the order of their begin.
void WeirWay::advance() {
  for (; ended < started && transfers_[ended % places].over; ++ended) {
    const Transfer& transfer = transfers_[ended % places];
    look_at(transfer.operation, ended, transfer.added);
    transfers_[ended % places].over = false;
  }
  for (; received < arrived_ && came_[received % places] != Came::no; ++received) {
    const std::byte* const at = memory_.at(memory_.place(received, bytes_));
    if (check_ && !memory_.is_as_sent(at, bytes_, received)) fail_check();
    if (came_[received % places] == Came::read) owes_news_ = true;  // the sender waits for each
    if (replies_) acknowledged = sent;
    came_[received % places] = Came::no;
  }
}

void WeirWay::on_failure(const Failure& failure) {
  std::string text = to_text(failure.reason);
  if (failure.completion != CompletionStatus::success) {
    text += fmt::format(" ({})", to_text(failure.completion));
  }
  fail(fmt::format("{}; {}", text, remedy(failure.reason, failure.completion, same_host_)));
}

void WeirWay::on_warning(const std::string& what) { fmt::print(stderr, "weir perf: {}\n", what); }

}  // namespace weir::tools::perf
