// What a device lacks is not offered.
#include "transport/btl/capability.h"

#include <gtest/gtest.h>

namespace weir::btl {
namespace {

constexpr std::uint32_t atomics = MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS;
constexpr std::uint32_t add_and_swap = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_CSWAP;
constexpr Offer all{module_flags, add_and_swap};

TEST(Capability, AtomicsOfTheAdapterAreNotGlobal) {
  const Offer offer = what_to_offer(all, {IBV_ATOMIC_HCA, 16}, false);
  EXPECT_EQ(offer.flags, module_flags);
  EXPECT_EQ(offer.atomic_flags, add_and_swap);
}

TEST(Capability, GlobalOnesAre) {
  const Offer offer = what_to_offer(all, {IBV_ATOMIC_GLOB, 16}, false);
  EXPECT_EQ(offer.flags, module_flags);
  EXPECT_EQ(offer.atomic_flags, add_and_swap | MCA_BTL_ATOMIC_SUPPORTS_GLOB);
}

TEST(Capability, WithoutAtomicsTheRestStays) {
  const Offer offer = what_to_offer(all, {IBV_ATOMIC_NONE, 16}, false);
  EXPECT_EQ(offer.flags, module_flags & ~atomics);
  EXPECT_EQ(offer.atomic_flags, 0u);
}

TEST(Capability, SeveralAdaptersOfANodeAreAtomicOnlyGlobally) {
  EXPECT_EQ(what_to_offer(all, {IBV_ATOMIC_HCA, 16, true}, false).atomic_flags, 0u);
  EXPECT_NE(what_to_offer(all, {IBV_ATOMIC_GLOB, 16, true}, false).atomic_flags, 0u);
}

TEST(Capability, WithoutFetchesPutsStay) {
  const Offer offer = what_to_offer(all, {IBV_ATOMIC_GLOB, 0}, false);
  EXPECT_EQ(offer.flags, module_flags & ~(atomics | MCA_BTL_FLAGS_GET));
  EXPECT_NE(offer.flags & MCA_BTL_FLAGS_PUT, 0u);
  EXPECT_EQ(offer.atomic_flags, 0u);
}

TEST(Capability, WhereMessagesAreSpreadNothingIsOneSided) {
  const Offer offer = what_to_offer(all, {IBV_ATOMIC_GLOB, 16}, true);
  EXPECT_EQ(offer.flags, module_flags & ~(atomics | MCA_BTL_FLAGS_PUT));
  EXPECT_NE(offer.flags & MCA_BTL_FLAGS_GET, 0u);
  EXPECT_EQ(offer.atomic_flags, 0u);
}

TEST(Capability, WhatWasTurnedOffStaysOff) {
  const Offer offer = what_to_offer({MCA_BTL_FLAGS_SEND, 0}, {IBV_ATOMIC_GLOB, 16}, false);
  EXPECT_EQ(offer.flags, std::uint32_t{MCA_BTL_FLAGS_SEND});
  EXPECT_EQ(offer.atomic_flags & add_and_swap, 0u);
}

}  // namespace
}  // namespace weir::btl
