// Machines made up here: which adapter each process of a node takes.
#include "transport/verbs/locality.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

namespace weir::verbs {
namespace {

Cpus range(unsigned first, unsigned count) {
  Cpus cpus(count);
  std::iota(cpus.begin(), cpus.end(), first);
  return cpus;
}

// Two sockets with 16 cores and four adapters each.
const std::vector<Cpus> two_sockets = {range(0, 16),  range(0, 16),  range(0, 16),  range(0, 16),
                                       range(16, 16), range(16, 16), range(16, 16), range(16, 16)};

std::vector<unsigned> users(const std::vector<Cpus>& near, const std::vector<Place>& places) {
  std::vector<unsigned> count(near.size());
  for (const Place& place : places) ++count[nearest(near, place)];
  return count;
}

std::vector<Place> processes(unsigned count, const auto& cpus_of) {
  std::vector<Place> places;
  for (unsigned i = 0; i < count; ++i) {
    places.push_back({.own = cpus_of(i), .online = 32, .turn = i});
  }
  return places;
}

const std::vector<unsigned> four_each(8, 4);

TEST(Locality, ProcessesBoundToCoresUseTheAdaptersOfTheirSocketAlike) {
  EXPECT_EQ(users(two_sockets, processes(32, [](unsigned i) { return range(i, 1); })), four_each);
  // Mapped by socket: neighbours in turn are not neighbours in place.
  EXPECT_EQ(
      users(two_sockets, processes(32, [](unsigned i) { return range(i % 2 * 16 + i / 2, 1); })),
      four_each);
}

TEST(Locality, ProcessesBoundToSocketsUseTheirAdaptersAlike) {
  EXPECT_EQ(users(two_sockets, processes(32, [](unsigned i) { return range(i % 2 * 16, 16); })),
            four_each);
  EXPECT_EQ(users(two_sockets, processes(32, [](unsigned i) { return range(i / 16 * 16, 16); })),
            four_each);
}

// CPU n of 16 and CPU n + 32 are one core; so are, with another firmware, CPUs 2n and 2n + 1.
TEST(Locality, CoresWithTwoThreadsUseTheAdaptersOfTheirSocketAlike) {
  const std::vector<Cpus> apart(4, cpus_in("0-15,32-47"));
  const std::vector<Cpus> adjacent(4, range(0, 32));
  const auto cores = [](unsigned cpus, const auto& core_of) {
    Cores first;
    for (unsigned cpu = 0; cpu < cpus; ++cpu) first.push_back(core_of(cpu));
    return first;
  };
  const auto used = [](const std::vector<Cpus>& near, const Cores& cores, const auto& cpus_of) {
    std::vector<Place> places = processes(16, cpus_of);
    for (Place& place : places) place.cores = cores;
    return users(near, places);
  };
  const Cores halves = cores(64, [](unsigned cpu) { return cpu % 32; });
  const Cores pairs = cores(64, [](unsigned cpu) { return cpu / 2 * 2; });
  const std::vector<unsigned> alike(4, 4);
  EXPECT_EQ(used(apart, halves, [](unsigned i) { return Cpus{i, i + 32}; }), alike);
  EXPECT_EQ(used(apart, halves, [](unsigned i) { return Cpus{i + 32}; }), alike);
  EXPECT_EQ(used(adjacent, pairs, [](unsigned i) { return Cpus{2 * i, 2 * i + 1}; }), alike);
}

TEST(Locality, ProcessesThatAreNotBoundUseAllAlike) {
  EXPECT_EQ(users(two_sockets, processes(32, [](unsigned) { return range(0, 32); })), four_each);
}

TEST(Locality, NobodyUsesAnAdapterOfTheOtherSocket) {
  const Place there{.own = range(20, 4), .online = 32, .turn = 0};
  EXPECT_GE(nearest(two_sockets, there), 4u);
}

TEST(Locality, WhereTheKernelDoesNotSayProcessesTakeTurns) {
  const std::vector<Cpus> unknown(2);
  EXPECT_EQ(users(unknown, processes(8, [](unsigned) { return range(0, 32); })),
            (std::vector<unsigned>{4, 4}));
  EXPECT_EQ(nearest({Cpus{}}, Place{}), 0u);
}

// Which adapters the processes use as rails, all together: each as often as it is used.
std::vector<unsigned> rail_users(const std::vector<Cpus>& near, const std::vector<Place>& places) {
  std::vector<unsigned> count(near.size());
  for (const Place& place : places) {
    for (const std::size_t rail : one_or_two(near, place, places.size())) ++count[rail];
  }
  return count;
}

const std::vector<unsigned> once_each(8, 1);

TEST(Locality, AFewProcessesHaveTwoRailsOfTheirOwnEach) {
  EXPECT_EQ(rail_users(two_sockets, processes(4, [](unsigned i) { return range(i * 8, 8); })),
            once_each);
  EXPECT_EQ(rail_users(two_sockets, processes(4, [](unsigned i) { return range(i * 8, 1); })),
            once_each);
  const std::vector<Cpus> one_socket(8, range(0, 32));
  EXPECT_EQ(rail_users(one_socket, processes(4, [](unsigned) { return range(0, 32); })), once_each);
  EXPECT_EQ(rail_users({Cpus{}, Cpus{}}, processes(1, [](unsigned) { return range(0, 32); })),
            (std::vector<unsigned>{1, 1}));
}

TEST(Locality, ProcessesThatFillTheAdaptersHaveOneRailEach) {
  EXPECT_EQ(rail_users(two_sockets, processes(8, [](unsigned i) { return range(i * 4, 4); })),
            once_each);
  EXPECT_EQ(rail_users(two_sockets, processes(32, [](unsigned i) { return range(i, 1); })),
            four_each);
  EXPECT_EQ(rail_users({Cpus{}}, processes(1, [](unsigned) { return range(0, 32); })),
            (std::vector<unsigned>{1}));
}

TEST(Locality, AFarAdapterIsNoSecondRail) {
  const std::vector<Cpus> one_near = {range(0, 16), range(16, 16)};
  const Place place{.own = range(0, 16), .online = 32, .turn = 0};
  EXPECT_EQ(one_or_two(one_near, place, 1), (std::vector<std::size_t>{0}));
}

TEST(Locality, ReadsTheKernelsLists) {
  EXPECT_EQ(cpus_in("0-3,8"), (Cpus{0, 1, 2, 3, 8}));
  EXPECT_EQ(cpus_in("8,0-1"), (Cpus{0, 1, 8}));
  EXPECT_TRUE(cpus_in("").empty());
  EXPECT_TRUE(cpus_in("3-1").empty());
  EXPECT_TRUE(cpus_in("0-4000000000").empty());
  EXPECT_TRUE(cpus_in("all").empty());
  EXPECT_TRUE(cpus_in("1-2x").empty());
  EXPECT_FALSE(own_cpus().empty());

  std::string root = std::filesystem::temp_directory_path() / "weir-locality-XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  std::filesystem::create_directories(root + "/mlx5_0/device");
  std::ofstream(root + "/mlx5_0/device/local_cpulist") << "4-5\n";
  EXPECT_EQ(cpus_near("mlx5_0", root), (Cpus{4, 5}));
  EXPECT_TRUE(cpus_near("mlx5_1", root).empty());
  std::filesystem::remove_all(root);
}

TEST(Locality, ReadsWhichCpusAreOneCore) {
  std::string root = std::filesystem::temp_directory_path() / "weir-cores-XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  EXPECT_TRUE(cores_of_machine(4, root).empty());
  const auto write = [&](const std::string& folder, const std::string& file, const char* text) {
    std::filesystem::create_directories(root + "/" + folder);
    std::ofstream(root + "/" + folder + "/" + file) << text << "\n";
  };
  for (const char* cpu : {"0", "2"}) {
    write("cpu" + std::string(cpu) + "/topology", "thread_siblings_list", "0,2");
  }
  write("cpu3/topology", "thread_siblings_list", "3");  // CPU 1 is offline
  write("smt", "active", "1");
  EXPECT_EQ(cores_of_machine(4, root), (Cores{0, 1, 0, 3}));
  write("smt", "active", "0");
  EXPECT_TRUE(cores_of_machine(4, root).empty());
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace weir::verbs
