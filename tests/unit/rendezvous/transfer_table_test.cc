// The life of a transfer, and ids that outlive it.
#include "rendezvous/transfer_table.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

using enum TransferState;

TEST(Transfer, HasTheEdgesOfThePicture) {
  constexpr TransferState states[] = {waiting, running, done, failed};
  for (TransferState from : states) {
    for (TransferState to : states) {
      const bool over = from == done || from == failed;
      const bool expected = !over && to != waiting && from != to;
      EXPECT_EQ(allowed(from, to), expected) << to_text(from) << " to " << to_text(to);
    }
  }
}

TEST(TransferTable, KnowsOnlyTheLiving) {
  TransferTable table;
  EXPECT_EQ(table.find(TransferId::none), nullptr);
  EXPECT_EQ(table.find(TransferId{0}), nullptr);
  Transfer& first = table.create({.token = 7});
  const TransferId id = first.id;
  EXPECT_EQ(table.find(id), &first);
  EXPECT_EQ(table.find(TransferId{1}), nullptr);
  table.release(first);
  EXPECT_EQ(table.find(id), nullptr);
  Transfer& second = table.create({.token = 8});
  EXPECT_EQ(&second, &first);  // the same slot
  EXPECT_NE(second.id, id);
  EXPECT_EQ(table.find(id), nullptr);
  EXPECT_EQ(table.find(second.id)->request.token, 8u);
  EXPECT_EQ(second.state, waiting);
  EXPECT_EQ(table.slots(), 1u);
}

TEST(TransferTable, ReusesItsSlots) {
  TransferTable table;
  table.reserve(4);
  EXPECT_EQ(table.slots(), 4u);
  for (int round = 0; round < 100; ++round) {
    Transfer* transfers[4];
    for (Transfer*& t : transfers) t = &table.create({});
    EXPECT_EQ(table.live(), 4u);
    for (Transfer* t : transfers) table.release(*t);
  }
  EXPECT_EQ(table.slots(), 4u);
  EXPECT_EQ(table.live(), 0u);
}

}  // namespace
}  // namespace weir
