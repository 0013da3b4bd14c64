// The headers the plugin is built with belong to the Open MPI that is here; what is handed up to
// it.
#include "transport/btl/compat.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <map>

namespace weir::btl {
namespace {

TEST(Compat, IsMadeForTheOpenMpiThatIsHere) { EXPECT_TRUE(made_for_this_open_mpi()); }

#if OPAL_MAJOR_VERSION < 5
// Its modules have more fields than ours.
TEST(Compat, IsNotMadeForOneWithCuda) {
  const bool here = opal_built_with_cuda_support;
  opal_built_with_cuda_support = !here;
  EXPECT_FALSE(made_for_this_open_mpi());
  opal_built_with_cuda_support = here;
}
#endif

// Where a header was missing, ours says what a mutex is.
TEST(Compat, MutexesAreAsLargeAsOpenMpiMakesThem) {
  EXPECT_EQ(opal_mutex_t_class.cls_sizeof, sizeof(opal_mutex_t));
}

// Counts the messages of a tag instead of whoever takes them.
class Receiver {
 public:
  explicit Receiver(mca_btl_base_tag_t tag) : entry_(mca_btl_base_active_message_trigger[tag]) {
    entry_.cbfunc = count;
    count_ = 0;
  }
  ~Receiver() { entry_ = before_; }
  int count_now() const { return count_; }

 private:
#if OPAL_MAJOR_VERSION >= 5
  static void count(mca_btl_base_module_t*, const mca_btl_base_receive_descriptor_t*) { ++count_; }
#else
  static void count(mca_btl_base_module_t*, mca_btl_base_tag_t, mca_btl_base_descriptor_t*, void*) {
    ++count_;
  }
#endif
  inline static int count_ = 0;
  mca_btl_active_message_callback_t& entry_;
  const mca_btl_active_message_callback_t before_ = entry_;
};

// ob1 reads a whole header, whatever the length is: it would take what lies behind the payload.
TEST(Compat, APayloadShorterThanOb1sHeaderStaysBelow) {
  mca_btl_base_module_t module{};
  const std::array<std::byte, 64> payload{};
  // By what comes after MCA_BTL_TAG_PML: match, rendezvous, rget, ack, nack, frag, get, put, fin,
  // and from 5.0 on cid.
  const std::size_t cid = OPAL_MAJOR_VERSION >= 5 ? 32 : 14;
  const std::map<int, std::size_t> shortest{{1, 14}, {2, 32}, {3, 48}, {4, 40},
                                            {6, 32}, {8, 56}, {9, 24}, {10, cid}};
  for (int tag = MCA_BTL_TAG_PML; tag < MCA_BTL_TAG_OSC_RDMA; ++tag) {
    const auto known = shortest.find(tag - MCA_BTL_TAG_PML);
    const std::size_t least = known != shortest.end() ? known->second : 14;
    const Receiver ob1(static_cast<mca_btl_base_tag_t>(tag));
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, least - 1}) {
      deliver(module, nullptr, static_cast<mca_btl_base_tag_t>(tag), payload.data(), length);
    }
    EXPECT_EQ(ob1.count_now(), 0) << tag;
    for (const std::size_t length : {least, payload.size()}) {
      deliver(module, nullptr, static_cast<mca_btl_base_tag_t>(tag), payload.data(), length);
    }
    EXPECT_EQ(ob1.count_now(), 2) << tag;
  }
}

// ob1 5.0 keeps those without a lock; of failures only the application's threads are to hear.
TEST(Compat, TheOverlapThreadLeavesUnlockedMessagesToTheApplication) {
  const bool leaves = OPAL_MAJOR_VERSION >= 5;
  EXPECT_EQ(is_for_application(MCA_BTL_TAG_PML + 10), leaves);  // MCA_PML_OB1_HDR_TYPE_CID
  for (const int tag : {0x30, 0x31}) {                          // MCA_BTL_TAG_FT_RBCAST, _AGREE
    EXPECT_EQ(is_for_application(static_cast<mca_btl_base_tag_t>(tag)), leaves) << tag;
  }
  for (int tag = MCA_BTL_TAG_PML; tag < MCA_BTL_TAG_PML + 10; ++tag) {
    EXPECT_FALSE(is_for_application(static_cast<mca_btl_base_tag_t>(tag))) << tag;
  }
}

// What others than ob1 send may be as short as they like.
TEST(Compat, OtherTagsTakeAnyLength) {
  mca_btl_base_module_t module{};
  const std::byte payload{};
  for (const int tag : {MCA_BTL_TAG_BTL, MCA_BTL_TAG_OSC_RDMA, MCA_BTL_TAG_USR}) {
    const Receiver other(static_cast<mca_btl_base_tag_t>(tag));
    deliver(module, nullptr, static_cast<mca_btl_base_tag_t>(tag), &payload, 0);
    deliver(module, nullptr, static_cast<mca_btl_base_tag_t>(tag), &payload, 1);
    EXPECT_EQ(other.count_now(), 2) << tag;
  }
}

}  // namespace
}  // namespace weir::btl
