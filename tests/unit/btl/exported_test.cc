// What peers hear about registered memory: right, or seen to be wrong.
#include "transport/btl/exported.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace weir::btl {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t somewhere = 0x7f0000001000;

TEST(Export, CoversItsMemoryAndNothingElse) {
  const Export memory = Export::of(7, somewhere, page);
  EXPECT_TRUE(memory.covers(somewhere, page));
  EXPECT_TRUE(memory.covers(somewhere + page - 1, 1));
  EXPECT_TRUE(memory.covers(somewhere + page, 0));
  EXPECT_FALSE(memory.covers(somewhere, page + 1));
  EXPECT_FALSE(memory.covers(somewhere - 1, 1));
  EXPECT_FALSE(memory.covers(somewhere + page, 1));
  EXPECT_FALSE(memory.covers(somewhere + 8, UINT64_MAX));
  EXPECT_FALSE(Export{}.covers(0, 0));
}

// As who reads a table whose entries move may find one.
TEST(Export, TheHalvesOfTwoAreNoWhole) {
  std::array<Export, 40> exports;
  for (std::uint32_t i = 0; i < exports.size(); ++i) {
    exports[i] = Export::of(100 + i, somewhere + i * page, i % 3 == 0 ? 2 * page : page);
    EXPECT_TRUE(exports[i].is_whole());
  }
  for (const Export& one : exports) {
    for (const Export& other : exports) {
      if (one.rkey == other.rkey) continue;
      for (std::size_t words = 1; words < sizeof(Export) / 8; ++words) {
        Export mixed = one;
        std::memcpy(static_cast<void*>(&mixed), &other, words * 8);
        if (mixed.length_bytes == other.length_bytes && words == 2) continue;  // it is the other
        EXPECT_FALSE(mixed.is_whole()) << one.rkey << " " << other.rkey << " " << words;
      }
    }
  }
}

TEST(Export, IsFoundInADirectoryWithGaps) {
  std::array<Export, 5> directory{};
  directory[1] = Export::of(1, somewhere, page);
  directory[3] = Export::of(3, somewhere + 8 * page, 2 * page);
  ASSERT_NE(find_export(directory, somewhere + 9 * page, 24), nullptr);
  EXPECT_EQ(find_export(directory, somewhere + 9 * page, 24)->rkey, 3u);
  EXPECT_EQ(find_export(directory, somewhere + 4 * page, 24), nullptr);
  EXPECT_EQ(find_export(directory, somewhere + page - 8, 24), nullptr);  // half of it
}

TEST(Export, SaysWhatWasAskedForAndWhatTheKeyCovers) {
  const TransferRequest read{
      .remote_address = 0x7f0000002008, .length_bytes = 24, .opcode = Opcode::read};
  EXPECT_EQ(to_text(read, Export::of(0x12, somewhere, page)),
            "a read of 24 bytes at 0x7f0000002008 (key 0x12 covers 4096 bytes at 0x7f0000001000)");
  const TransferRequest swap{
      .remote_address = somewhere, .length_bytes = 8, .opcode = Opcode::compare_swap};
  EXPECT_EQ(to_text(swap, {}),
            "an atomic operation on 8 bytes at 0x7f0000001000 (with a key of unknown memory)");
}

TEST(Export, SaysWhatItDoesNotAllow) {
  const Export all = Export::of(1, somewhere, page);
  const Export readable = Export::of(1, somewhere, page, without(Access::all, Access::remote_read));
  for (const Opcode opcode :
       {Opcode::read, Opcode::write, Opcode::fetch_add, Opcode::compare_swap}) {
    EXPECT_TRUE(all.allows(opcode));
    EXPECT_EQ(readable.allows(opcode), opcode == Opcode::read);
  }
  EXPECT_TRUE(readable.covers(somewhere, page));
  EXPECT_FALSE(readable.covers(somewhere, page + 1));
  Export mixed = readable;
  mixed.lacks = 0;
  EXPECT_FALSE(mixed.is_whole());
}

TEST(Exported, IsReadAsItIs) {
  Exported shared{.memory = Export::of(1, somewhere, page),
                  .directory_address = 5,
                  .directory_rkey = 6,
                  .directory_entries = 7};
  const Exported copy = read_shared(shared);
  EXPECT_EQ(std::memcmp(&copy, &shared, sizeof copy), 0);
}

// ---- further rails ----

constexpr SideExport sides_of(std::uint32_t rkey, std::uint8_t traits) {
  return {{rkey, rkey + 1, 0}, traits};
}

TEST(Exported, SidesBelongToTheirMemory) {
  Exported one{.memory = Export::of(1, somewhere, page)};
  EXPECT_FALSE(one.whole_sides().any()) << "none were set";
  Exported other{.memory = Export::of(2, somewhere + page, page)};
  one.set_sides(sides_of(5, SideExport::window));
  other.set_sides(sides_of(7, SideExport::window));
  EXPECT_EQ(one.whole_sides(), sides_of(5, SideExport::window));
  Exported mixed = one;
  mixed.sides = other.sides;
  EXPECT_FALSE(mixed.whole_sides().any());
  mixed.sides_check = other.sides_check;
  EXPECT_FALSE(mixed.whole_sides().any()) << "of other memory";
}

TEST(SideExport, SaysWhatMayGoOverWhichRail) {
  const SideExport message = sides_of(5, SideExport::apart(1) | SideExport::apart(2));
  EXPECT_EQ(message.rkey(Opcode::read, 1), 5u);
  EXPECT_EQ(message.rkey(Opcode::read, 3), 0u) << "not there";
  EXPECT_EQ(message.rkey(Opcode::write, 1), 0u) << "its end is told over the first rail";
  EXPECT_EQ(message.fenced(), 0);
  // Rail 1 is another port of the first rail's adapter.
  const SideExport window = sides_of(5, SideExport::window | SideExport::apart(2));
  EXPECT_EQ(window.rkey(Opcode::write, 1), 5u);
  EXPECT_EQ(window.rkey(Opcode::write, 2), 6u);
  EXPECT_EQ(window.rkey(Opcode::fetch_add, 1), 5u);
  EXPECT_EQ(window.rkey(Opcode::compare_swap, 2), 0u)
      << "two adapters are not atomic to each other";
  EXPECT_EQ(window.fenced(), SideExport::apart(2));
}

}  // namespace
}  // namespace weir::btl
