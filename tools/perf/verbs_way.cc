#include "tools/perf/verbs_way.h"

#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/status.h"

namespace weir::tools::perf {
namespace {

constexpr std::uint64_t signal_every = 16;  // a completion for so many sends

std::uint64_t read(std::uint64_t* word) {
  return std::atomic_ref(*word).load(std::memory_order_acquire);
}

}  // namespace

VerbsWay::VerbsWay(const Memory& memory, between::Pair& pair) : Way(memory), pair_(pair) {
  for (std::uint32_t i = 0; i < places; ++i) free_.push_back(BufferId{i});
  post_receives(free_);
  free_.clear();
}

void VerbsWay::post_receives(std::span<const BufferId> buffers) {
  std::array<ReceivePost, places> receives;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    receives[i] = {buffers[i], static_cast<std::uint32_t>(memory_.piece_bytes()), memory_.lkey(),
                   memory_.address(memory_.piece_place(index(buffers[i])))};
  }
  if (pair_.queues().post(std::span<const ReceivePost>(receives.data(), buffers.size()))) return;
  fail(fmt::format("a receive cannot be posted: {}", std::strerror(errno)));
}

void VerbsWay::post(std::span<const WorkRequest> works) {
  posted_ += works.size();
  if (!pair_.queues().post(works)) {
    fail(fmt::format("a work request cannot be posted: {}", std::strerror(errno)));
  }
}

// `work` has the opcode, and the addresses of the first piece.
void VerbsWay::post_pieces(WorkRequest work, bool ends_operation) {
  const std::uint32_t count = pieces();
  for (std::uint32_t i = 0; i < count; ++i) {
    work.id = posted_ + i;
    work.lane = between::Pair::lane;
    work.length_bytes = piece_bytes(i);
    work.lkey = memory_.lkey();
    work.rkey = theirs_.rkey;
    const bool is_last = i + 1 == count;
    work.signalled = (ends_operation && is_last) || work.id % signal_every == signal_every - 1;
    works_[i] = work;
    work.address += memory_.piece_bytes();
    work.remote_address += memory_.piece_bytes();
  }
  post(std::span(works_.data(), count));
}

bool VerbsWay::send() {
  const std::uint32_t count = pieces();
  if (!has_room(count) || pieces_sent_ + count > pieces_allowed_) return false;
  pieces_sent_ += count;
  WorkRequest work{};
  work.opcode = Opcode::send;
  work.inlined = bytes_ <= pair_.queues().inline_bytes();
  work.address = memory_.address(Memory::source(sent++));
  post_pieces(work, false);
  return true;
}

bool VerbsWay::start(Operation operation) {
  if (!has_room(pieces())) return false;
  const std::uint64_t source = Memory::source(started);
  const std::uint64_t place = memory_.place(started, bytes_);
  ++started;
  WorkRequest work{};
  work.address = memory_.address(operation == Operation::put ? source : place);
  switch (operation) {
    case Operation::put:
      work.opcode = Opcode::write;
      work.inlined = bytes_ <= pair_.queues().inline_bytes();
      work.remote_address = theirs_.address + place;
      break;
    case Operation::get:
      work.opcode = Opcode::read;
      work.remote_address = theirs_.address + source;
      break;
    default:
      work.opcode = Opcode::fetch_add;
      work.operand = 1;
      ++added_;
      work.remote_address = theirs_.address + memory_.word(Memory::Word::added_by_verbs);
  }
  post_pieces(work, true);
  under_way_.push_back({posted_ - 1, operation, added_ - 1});
  return true;
}

void VerbsWay::finish() {
  outbox_.receives = pieces_received_;
  outbox_.messages = told_ = received;
  owes_mail_ = posted_ - completed_ >= queue_depth;
  if (!owes_mail_) post_mailbox();
}

void VerbsWay::post_mailbox() {
  std::uint64_t* const outbox = memory_.word_at(Memory::Word::outbox);
  std::memcpy(outbox, &outbox_, sizeof outbox_);
  WorkRequest work{};
  work.id = posted_;
  work.lane = between::Pair::lane;
  work.opcode = Opcode::write;
  work.signalled = true;
  work.inlined = sizeof outbox_ <= pair_.queues().inline_bytes();
  work.length_bytes = sizeof outbox_;
  work.lkey = memory_.lkey();
  work.address = reinterpret_cast<std::uint64_t>(outbox);
  work.remote_address = theirs_.address + memory_.word(Memory::Word::mailbox);
  work.rkey = theirs_.rkey;
  post({&work, 1});
}

void VerbsWay::take_mail() {
  std::uint64_t* const mail = memory_.word_at(Memory::Word::mailbox);
  const std::uint64_t receives = read(mail), messages = read(mail + 1);
  if (receives > pieces_sent_ || messages > sent) {
    return fail("the other end acknowledges what was not sent");
  }
  pieces_allowed_ = std::max(pieces_allowed_, receives + places);
  acknowledged = std::max(acknowledged, messages);
  greeted = read(mail + 2);
}

void VerbsWay::on_receive(const Completion& completion) {
  const std::uint32_t piece = pieces_of_message_;
  if (completion.length_bytes != piece_bytes(piece)) {
    return fail(
        fmt::format("{} B came in place of {} B", completion.length_bytes, piece_bytes(piece)));
  }
  ++pieces_received_;
  const auto buffer = static_cast<BufferId>(completion.id);
  free_.push_back(buffer);
  const std::uint64_t place = memory_.piece_place(index(buffer));
  if (check_ && !memory_.is_as_sent(memory_.at(place), completion.length_bytes, received,
                                    piece * memory_.piece_bytes())) {
    fail_check();
  }
  if (++pieces_of_message_ < pieces()) return;
  pieces_of_message_ = 0;
  ++received;
  // The answer says that the message has come, and that there are receives for the next one.
  if (replies_) acknowledged = sent;
  if (replies_) pieces_allowed_ = pieces_sent_ + places;
}

void VerbsWay::poll() {
  const int count = pair_.queues().poll(verbs::Queues::poll_most, [&](const Completion& one) {
    if (!why.empty()) return;
    if (one.status != CompletionStatus::success) {
      fail(
          fmt::format("{} ({})", to_text(one.status), remedy(FailReason::send_failed, one.status)));
    } else if (one.opcode == Opcode::receive) {
      on_receive(one);
    } else {
      completed_ = one.id + 1;  // and all before it, because they complete in order
    }
  });
  if (count < 0) fail("the completion queue is broken");
  if (!why.empty()) return;
  for (; !under_way_.empty() && under_way_.front().last_work < completed_; under_way_.pop_front()) {
    look_at(under_way_.front().operation, ended, under_way_.front().added);
    ++ended;
  }
  take_mail();
  if (!free_.empty()) {
    post_receives(free_);
    free_.clear();
  }
  if (owes_mail_ || (!replies_ && received - told_ >= batch())) finish();
}

}  // namespace weir::tools::perf
