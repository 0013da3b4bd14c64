#include "transport/btl/trains.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "transport/btl/module.h"

namespace weir::btl {
namespace {

// Room before each message for the header that it gets here. The 2 puts that header on a multiple
// of 8 where it replaces ob1's shortest one, of 14 bytes.
constexpr std::uint32_t room_bytes = sizeof(Ob1Rendezvous) + 2;

}  // namespace

Trains::Trains(Module& module, std::size_t most_bytes)
    : module_(module),
      frame_bytes_(module.engine->max_payload_bytes()),
      most_bytes_(std::min<std::size_t>(most_bytes, Train::most_bytes(frame_bytes_))),
      // The peer's limit may be another one.
      assembly_(static_cast<std::uint32_t>(most_bytes_), Train::most_bytes(frame_bytes_),
                room_bytes) {}

// ---- sending ----

Train Trains::make(std::size_t bytes, mca_btl_base_tag_t tag, std::size_t lead_bytes) {
  return {next_train_.fetch_add(1, std::memory_order_relaxed), static_cast<std::uint32_t>(bytes),
          tag, static_cast<std::uint8_t>(lead_bytes), frame_bytes_};
}

bool Trains::send(Endpoint& endpoint, const Message& message, mca_btl_base_tag_t tag) {
  const bool knows_header = tag == ob1_match_tag && is_ob1_match(message.header_size);
  const Train train = make(message.bytes(), tag, knows_header ? message.header_size : 0);
  const auto header_bytes = static_cast<std::uint32_t>(message.header_size);
  // A payload in pieces is packed as a whole once it may go, because a convertor cuts at elements
  // only.
  std::unique_ptr<std::byte[]> pieces;
  if (message.packs) pieces.reset(new (std::nothrow) std::byte[message.payload_size]);
  const std::byte* const payload = message.packs ? pieces.get() : message.payload();
  if (payload == nullptr) return false;
  const auto write = [&](std::byte* to, std::uint32_t offset, std::uint32_t bytes) {
    if (offset == 0) {
      std::memcpy(to, message.header, header_bytes);
      std::memcpy(to + header_bytes, payload, bytes - header_bytes);
    } else {
      std::memcpy(to, payload + (offset - header_bytes), bytes);
    }
  };
  const auto fill = [&](std::uint32_t number, std::byte* at) {
    if (message.packs && number == 0) {
      std::size_t size = message.payload_size;
      pack(message.convertor, pieces.get(), size);
    }
    return train.write_car(number, at, write);
  };
  const auto over = [&](Engine& engine, PeerId peer) {
    return engine.send_train(peer, train.cars(), fill);
  };
  Status status = module_.spreads(tag) ? Status::elsewhere : over(*module_.engine, endpoint.id);
  if (status == Status::elsewhere) [[unlikely]]
    status = module_.rails->frames.send(endpoint, tag, over);
  if (status == Status::peer_failed) progress(module_);  // as in traffic.cc
  set_limit();
  return status == Status::ok || status == Status::peer_failed;
}

int Trains::send_whole(Endpoint& endpoint, Descriptor& descriptor, mca_btl_base_tag_t tag) {
  if (descriptor.heap == nullptr) return OPAL_ERR_BAD_PARAM;  // already sent
  const auto length = static_cast<std::uint32_t>(descriptor.segment.seg_len);
  const std::unique_ptr<std::byte[]> whole = std::move(descriptor.heap);
  const Train train = make(length, tag, 0);
  const auto write = [&](std::byte* to, std::uint32_t offset, std::uint32_t bytes) {
    std::memcpy(to, whole.get() + offset, bytes);
  };
  // The descriptor completes with its last car.
  const bool waits = descriptor.waits;
  for (std::uint32_t i = 0; i < train.cars(); ++i) {
    auto bytes = std::make_unique_for_overwrite<std::byte[]>(module_.engine->max_payload_bytes());
    const std::uint32_t size = train.write_car(i, bytes.get(), write);
    Descriptor* const told = waits && i + 1 == train.cars() ? &descriptor : nullptr;
    if (told != nullptr) module_.owed_bytes.fetch_add(size, std::memory_order_relaxed);
    module_.waiting_sends.push({&endpoint, wire::car_tag, size, std::move(bytes), told});
  }
  return waits ? 0 : module_.complete_at_once(descriptor, OPAL_SUCCESS);
}

void Trains::on_announced(Endpoint& reader) {
  if (reader.announced.fetch_add(1, std::memory_order_relaxed) + 1 < stream_begins) return;
  std::lock_guard guard(lock_);
  // Others may have ended meanwhile.
  if (reader.reads_stream || reader.announced.load(std::memory_order_relaxed) <= stream_ends)
    return;
  reader.reads_stream = true;
  streams_.fetch_add(1, std::memory_order_relaxed);
  halt(reader);
}

void Trains::on_read(Endpoint& reader) {
  if (reader.announced.fetch_sub(1, std::memory_order_relaxed) - 1 == stream_ends) {
    end_stream(reader);
  }
}

void Trains::end_stream(Endpoint& endpoint) {
  {
    std::lock_guard guard(lock_);
    if (!endpoint.reads_stream) return;
    endpoint.reads_stream = false;
    streams_.fetch_sub(1, std::memory_order_relaxed);
  }
  judge(endpoint);
}

void Trains::set_limit() {
  const bool wanted = streams_.load(std::memory_order_relaxed) == 0 &&
                      (module_.rails != nullptr ? module_.rails->engines.want_trains()
                                                : module_.engine->wants_trains());
  const std::size_t limit = wanted ? most_bytes_ : std::min<std::size_t>(frame_bytes_, most_bytes_);
  const std::atomic_ref now(module_.btl_eager_limit);
  if (now.load(std::memory_order_relaxed) != limit) [[unlikely]]
    now.store(limit, std::memory_order_relaxed);
}

// ---- receiving ----

bool Trains::on_car(PeerId from, Endpoint& endpoint, const Delivery& car) {
  Assembly::Whole whole;
  Assembly::Took took{};
  {
    std::lock_guard guard(lock_);
    took = assembly_.take(static_cast<std::uint32_t>(from), car.payload, car.length_bytes, whole);
  }
  switch (took) {
    case Assembly::Took::part: return true;
    case Assembly::Took::bad: return false;
    case Assembly::Took::no_memory: throw std::bad_alloc();
    case Assembly::Took::whole: break;
  }
  hand_up(from, endpoint, whole);
  std::lock_guard guard(lock_);
  assembly_.give_back(whole);
  return true;
}

void Trains::hand_up(PeerId from, Endpoint& endpoint, const Assembly::Whole& whole) {
  Delivery message{.peer = from,
                   .buffer = BufferId::none,
                   .above = &endpoint,
                   .payload = whole.bytes,
                   .length_bytes = whole.length_bytes,
                   .tag = whole.tag,
                   .last = true};
  if (whole.tag != ob1_match_tag || !is_ob1_match(whole.lead_bytes)) {
    return take_whole(module_, message);
  }
  const std::uint32_t bytes = whole.length_bytes - whole.lead_bytes;
  Ob1Rendezvous header{};
  std::memcpy(&header, whole.bytes, whole.lead_bytes);
  header.type = ob1_rendezvous_tag;
  header.message_bytes = bytes;
  header.request = request_of_train(bytes);
  std::byte* const at = whole.bytes + whole.lead_bytes - sizeof header;
  std::memcpy(at, &header, sizeof header);
  message.tag = ob1_rendezvous_tag;
  message.payload = at;
  message.length_bytes = static_cast<std::uint32_t>(sizeof header) + bytes;
  endpoint.early_bytes.fetch_add(bytes, std::memory_order_relaxed);
  kept_.fetch_add(bytes, std::memory_order_relaxed);
  take_whole(module_, message);  // the answer may come at once
  judge(endpoint);
}

bool Trains::take_answer(Endpoint& endpoint, const Descriptor& descriptor) {
  if (descriptor.segment.seg_len < ob1_ack_request_at + sizeof(std::uint64_t)) return false;
  std::uint64_t request = 0;
  std::memcpy(&request, descriptor.payload() + ob1_ack_request_at, sizeof request);
  if ((request & 1) == 0) return false;
  const auto bytes = static_cast<std::int64_t>(request >> 1);
  endpoint.early_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  kept_.fetch_sub(bytes, std::memory_order_relaxed);
  judge(endpoint);
  return true;
}

// Stops a peer that is above a bound, and lets peers send again once all is below half.
void Trains::judge(Endpoint& endpoint) {
  const std::int64_t of_peer = endpoint.early_bytes.load(std::memory_order_relaxed);
  const std::int64_t of_all = kept_.load(std::memory_order_relaxed);
  if (of_peer <= most_kept_of_one / 2 && of_all <= most_kept / 2) {
    if (any_refrains_.load(std::memory_order_relaxed)) let_some();
  } else if (of_peer > most_kept_of_one || of_all > most_kept) {
    std::lock_guard guard(lock_);
    halt(endpoint);
  }
}

// The caller has the lock.
void Trains::halt(Endpoint& endpoint) {
  if (endpoint.refrains) return;
  endpoint.refrains = true;
  refrained_.push_back(&endpoint);
  any_refrains_.store(true, std::memory_order_relaxed);
  module_.engine->count(&Counters::trains_halted);
  let(endpoint, false);
}

// Lets all peers send that are within their bounds again.
void Trains::let_some() {
  std::lock_guard guard(lock_);
  std::erase_if(refrained_, [&](Endpoint* endpoint) {
    if (endpoint->reads_stream) return false;
    if (endpoint->early_bytes.load(std::memory_order_relaxed) > most_kept_of_one / 2) return false;
    endpoint->refrains = false;
    let(*endpoint, true);
    return true;
  });
  any_refrains_.store(!refrained_.empty(), std::memory_order_relaxed);
}

void Trains::let(Endpoint& endpoint, bool may) {
  module_.engine->let_train(endpoint.id, may);
  if (module_.rails != nullptr) module_.rails->engines.let_train(endpoint, may);
}

void Trains::forget(Endpoint& endpoint) {
  end_stream(endpoint);
  std::lock_guard guard(lock_);
  assembly_.forget(static_cast<std::uint32_t>(endpoint.id));
}

}  // namespace weir::btl
