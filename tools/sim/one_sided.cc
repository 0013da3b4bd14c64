#include "tools/sim/one_sided.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace weir::sim {
namespace {

constexpr std::byte untouched{0x5a};

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

}  // namespace

OneSided::OneSided(Fabric& fabric, Engine& engine, const OneSidedScript& script)
    : fabric_(fabric),
      engine_(engine),
      script_(script),
      random_(fabric.random.fork(engine.node() + 1000)) {}

void OneSided::meet(std::vector<OneSided*> all) {
  all_ = std::move(all);
  targets_.resize(all_.size());
  if (page_bytes() == 0) return;
  Nic& nic = engine_.nic();
  pages_ = AlignedBytes(page_bytes());
  for (std::size_t i = 0; i < pages_.size(); ++i) pages_.data()[i] = page_byte(i);
  pages_key_ = nic.register_memory(address_of(pages_.data()), pages_.size(), Access::remote_read);
  if (script_.operations == 0) return;
  slots_ = AlignedBytes(all_.size() * script_.largest);
  slots_key_ =
      nic.register_memory(address_of(slots_.data()), slots_.size(),
                          Access::local_write | Access::remote_read | Access::remote_write);
  counter_key_ = nic.register_memory(address_of(&counter_), sizeof counter_,
                                     Access::local_write | Access::remote_atomic);
  for (Node node = 0; node < targets_.size(); ++node) {
    if (node != engine_.node()) targets_[node].to_do = script_.operations;
  }
}

void OneSided::start_some(Node to, PeerId peer) {
  Target& target = targets_[to];
  for (; target.to_fetch > 0 && !target.gone; --target.to_fetch) {
    start(peer, Kind::get, to, 0, AlignedBytes(all_[to]->script_.announced_bytes, untouched));
  }
  while (target.to_do > 0 && !target.gone && under_way_ < script_.at_a_time) {
    const std::uint32_t size =
        random_.chance(300) ? random_.between(0, 64) : random_.between(0, script_.largest);
    switch (random_.below(script_.atomics ? 3 : 2)) {
      case 0:
        start(peer, Kind::get, to, random_.between(0, script_.largest),
              AlignedBytes(size, untouched));
        break;
      case 1: {
        if (target.slot_busy) return;
        AlignedBytes content(size);
        for (std::byte& byte : content) byte = static_cast<std::byte>(random_.below(256));
        target.slot_busy = true;
        start(peer, Kind::put, to, 0, std::move(content));
        break;
      }
      default: start(peer, Kind::add, to, 0, AlignedBytes(8, untouched));
    }
    --target.to_do;
  }
}

void OneSided::start(PeerId peer, Kind kind, Node to, std::uint64_t offset, AlignedBytes memory) {
  const OneSided& other = *all_[to];
  const std::uint64_t slot = address_of(other.slots_.data()) + engine_.node() * script_.largest;
  TransferRequest request;
  request.peer = peer;
  request.token = operations_.size();
  request.length_bytes = memory.size();
  request.local_address = address_of(memory.data());
  switch (kind) {
    case Kind::get:
      request.remote_address = address_of(other.pages_.data()) + offset;
      request.rkey = other.pages_key_;
      break;
    case Kind::put:
      request.kind = TransferKind::put;
      request.opcode = Opcode::write;
      request.remote_address = slot;
      request.rkey = other.slots_key_;
      break;
    case Kind::add:
      request.opcode = Opcode::fetch_add;
      request.operand = 1;
      request.remote_address = address_of(&other.counter_);
      request.rkey = other.counter_key_;
      break;
  }
  // The vector's bytes stay in place.
  operations_.push_back({kind, to, offset, std::move(memory)});
  ++targets_[to].under_way;
  ++under_way_;
  engine_.transfer(request);
}

bool OneSided::on_end(const TransferEnd& end) {
  if (end.token >= operations_.size() || operations_[end.token].over) {
    fabric_.violation("an operation ended that was not under way");
    return true;
  }
  Operation& operation = operations_[end.token];
  Target& target = targets_[operation.to];
  operation.over = true;
  operation.failed = !end.ok;
  --target.under_way;
  --under_way_;
  if (!end.ok) {
    // The memory is the program's again: from here on nothing may land in it.
    std::fill(operation.memory.begin(), operation.memory.end(), untouched);
    target.slot_busy = false;
    return false;
  }
  check(operation);
  operation.memory = AlignedBytes();  // there may be many
  return true;
}

void OneSided::check(const Operation& operation) {
  Target& target = targets_[operation.to];
  const std::string where = fmt::format("node {}, to node {}: ", engine_.node(), operation.to);
  switch (operation.kind) {
    case Kind::get:
      for (std::size_t i = 0; i < operation.memory.size(); ++i) {
        if (operation.memory.data()[i] == all_[operation.to]->page_byte(operation.offset + i))
          continue;
        return fabric_.violation(where + "a get ended with wrong bytes");
      }
      return;
    case Kind::put: {
      const auto* slot = all_[operation.to]->slots_.data() + engine_.node() * script_.largest;
      if (!std::equal(operation.memory.begin(), operation.memory.end(), slot)) {
        fabric_.violation(where + "a put ended before its bytes were there");
      }
      target.slot_busy = false;
      return;
    }
    case Kind::add: {
      std::uint64_t before = 0;
      std::memcpy(&before, operation.memory.data(), sizeof before);
      if (before >= all_[operation.to]->counter_) {
        fabric_.violation(where + "a fetch-and-add saw a number that was not there yet");
      }
      ++added_;
      return;
    }
  }
}

void OneSided::check_end(bool troubled) {
  for (const Operation& operation : operations_) {
    if (!operation.failed) continue;
    for (const std::byte byte : operation.memory) {
      if (byte == untouched) continue;
      fabric_.violation("bytes landed after the operation had been given up");
      break;
    }
  }
  if (troubled || engine_.node() != 0) return;
  std::uint64_t added = 0;
  std::uint64_t counted = 0;
  for (const OneSided* one : all_) {
    added += one->added_;
    counted += one->counter_;
  }
  if (added != counted) fabric_.violation("fetch-and-adds were lost or done twice");
}

}  // namespace weir::sim
