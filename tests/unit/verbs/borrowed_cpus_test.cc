// CPUs that are lent to threads of ours, on this very machine.
#include "transport/verbs/borrowed_cpus.h"

#include <gtest/gtest.h>

#include <thread>

#include "transport/verbs/locality.h"

namespace weir::verbs {
namespace {

// Of a thread that is started now.
Cpus born_with() {
  Cpus cpus;
  std::thread([&] { cpus = own_cpus(); }).join();
  return cpus;
}

TEST(BorrowedCpus, ThreadsAreBornWithThemAndTheCallerGetsItsOwnBack) {
  const Cpus own = own_cpus();
  ASSERT_FALSE(own.empty());
  std::string why;
  {
    const BorrowedCpus one(std::to_string(own.back()), why);
    EXPECT_EQ(born_with(), Cpus{own.back()});
    const BorrowedCpus any("any", why);
    EXPECT_GE(born_with().size(), own.size());
  }
  EXPECT_EQ(own_cpus(), own);
  EXPECT_EQ(why, "");
}

TEST(BorrowedCpus, OfNoneThatIsThereNothingIsBorrowed) {
  const Cpus own = own_cpus();
  for (const char* wish : {"none", "3-1", "1023"}) {
    std::string why;
    const BorrowedCpus borrowed(wish, why);
    EXPECT_NE(why.find(wish), std::string::npos) << why;
    EXPECT_EQ(own_cpus(), own);
  }
  std::string why;
  const BorrowedCpus unasked("auto", why);
  EXPECT_EQ(why, "");
  EXPECT_EQ(born_with(), own);
}

}  // namespace
}  // namespace weir::verbs
