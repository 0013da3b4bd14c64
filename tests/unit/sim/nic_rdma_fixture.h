// Two adapters with a connected pair: left touches memory of right. For the tests of RDMA.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tools/sim/nic.h"

namespace weir::sim {

constexpr std::uint32_t piece_bytes = 4096;

class NicRdmaTest : public ::testing::Test {
 protected:
  explicit NicRdmaTest(std::uint32_t max_rd_atomic = 16, bool loses_fetches = false)
      : fabric({}, {}, 1),
        left(fabric, 0, {.max_rd_atomic = max_rd_atomic, .loses_fetches = loses_fetches}),
        right(fabric, 1, {}),
        theirs(64 * piece_bytes),
        ours(64 * piece_bytes) {
    a = left.create_qp(128);
    b = right.create_qp(128);
    left.connect_qp(a, 1, b);
    right.connect_qp(b, 0, a);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      theirs[i] = static_cast<std::byte>(i / piece_bytes * 7 + i);
    }
    rkey = right.register_memory(address(theirs), theirs.size(), Access::all);
  }

  static std::uint64_t address(const std::vector<std::byte>& memory, std::size_t offset = 0) {
    return reinterpret_cast<std::uint64_t>(memory.data() + offset);
  }

  // From or to `local` of ours and `remote` of theirs.
  WorkRequest request(Opcode opcode, std::size_t local, std::uint32_t bytes, std::size_t remote,
                      std::uint32_t key) {
    return {
        0,  LaneId{0}, opcode, true, false, bytes, 1, address(ours, local), address(theirs, remote),
        key};
  }
  void post(WorkRequest request) {
    request.id = next_id++;
    left.post_send(a, request);
  }
  // Reads `bytes` at `offset` of theirs to the same place of ours.
  void read(std::size_t offset, std::uint32_t bytes, std::uint32_t key) {
    post(request(Opcode::read, offset, bytes, offset, key));
  }
  void read_piece(std::size_t i) { read(i * piece_bytes, piece_bytes, rkey); }

  // Writes `bytes` at `offset` of ours to the same place of theirs.
  void write(std::size_t offset, std::uint32_t bytes, std::uint32_t key, bool inlined = false) {
    WorkRequest made = request(Opcode::write, offset, bytes, offset, key);
    made.inlined = inlined;
    post(made);
  }
  void write_piece(std::size_t i) { write(i * piece_bytes, piece_bytes, rkey); }
  // Atomics on word `at` of theirs; what was there lands in word `to` of ours.
  void add(std::size_t at, std::uint64_t operand, std::size_t to) {
    WorkRequest made = request(Opcode::fetch_add, to * 8, 8, at * 8, rkey);
    made.operand = operand;
    post(made);
  }
  void swap(std::size_t at, std::uint64_t compare, std::uint64_t operand, std::size_t to) {
    WorkRequest made = request(Opcode::compare_swap, to * 8, 8, at * 8, rkey);
    made.operand = operand;
    made.compare = compare;
    post(made);
  }
  static std::uint64_t& word(std::vector<std::byte>& memory, std::size_t at) {
    return *reinterpret_cast<std::uint64_t*>(memory.data() + at * 8);
  }

  void send(Nic& from, QpNumber qp, std::uint64_t id, std::uint32_t bytes = 8) {
    from.post_send(qp, {id, LaneId{0}, Opcode::send, true, false, bytes, 1, address(text)});
  }
  void post_receive(std::uint32_t bytes = 64) {
    const ReceivePost post{BufferId{0}, bytes, 1, address(buffer)};
    right.post_receives({&post, 1});
  }

  std::vector<Completion> poll(Nic& nic) {
    std::vector<Completion> out;
    QpCompletion completion;
    while (nic.poll(completion)) out.push_back(completion.completion);
    return out;
  }
  std::vector<CompletionStatus> statuses(Nic& nic) {
    std::vector<CompletionStatus> out;
    for (const Completion& completion : poll(nic)) out.push_back(completion.status);
    return out;
  }
  void run(Duration time) { fabric.events.run_until(fabric.events.now() + time); }

  // Until the left adapter made so many completions. Returns how long that took.
  Duration run_until_done(std::size_t completions) {
    const Time start = fabric.events.now();
    while (left.completions_made() < completions && fabric.events.step()) {
    }
    return fabric.events.now() - start;
  }

  Fabric fabric;
  Nic left;
  Nic right;
  std::vector<std::byte> theirs;
  std::vector<std::byte> ours;
  std::vector<std::byte> text = std::vector<std::byte>(64);
  std::vector<std::byte> buffer = std::vector<std::byte>(64);
  QpNumber a{};
  QpNumber b{};
  std::uint32_t rkey = 0;
  std::uint64_t next_id = 0;
};

using Statuses = std::vector<CompletionStatus>;
using enum CompletionStatus;

}  // namespace weir::sim
