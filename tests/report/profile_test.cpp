// A rank's profile: out of events, thinned out, and as bytes.
#include "mpi/report/profile.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>

#include "profiles.hpp"

namespace tutti::report {
namespace {

class ProfileTest : public testing::Test {
 protected:
  ProfileTest() : record_(std::make_unique<tutti_record>()) {
    tutti_comm_row& row = record_->comms[1];
    row.id = kWorld;
    row.handle = 0x44;
    row.size = 4;
    row.rank = 3;
    row.since_ns = 50;
    std::strcpy(row.name, "MPI_COMM_WORLD");
  }

  tutti_event collective(std::uint64_t number, std::uint64_t bytes, std::uint64_t begin,
                         std::uint64_t end, bool nonblocking = false) const {
    const std::uint64_t place =
        nonblocking ? offsetof(tutti_comm_row, made) : offsetof(tutti_comm_row, past);
    const std::uint64_t detail = offsetof(tutti_record, comms) + sizeof(tutti_comm_row) + place;
    tutti_event event = {};
    event.site = 0x1000;
    event.bytes = bytes;
    event.begin_ns = begin;
    event.end_ns = end;
    event.what = static_cast<std::uint64_t>(Coll::allreduce) |
                 std::uint64_t{static_cast<std::uint32_t>(TUTTI_NO_RANK)} << 32;
    event.of =
        tutti_event_of(nonblocking ? TUTTI_MPI_Wait : TUTTI_MPI_Allreduce, detail / 8, number);
    return event;
  }

  std::unique_ptr<tutti_record> record_;
};

TEST_F(ProfileTest, CallsAreCountedByPlaceAndSize) {
  Profile profile(100);
  profile.add(*record_, collective(1, 8, 100, 110));
  profile.add(*record_, collective(2, 8, 200, 230));
  profile.add(*record_, collective(3, 4096, 300, 400));
  const RankProfile& found = profile.profile();
  ASSERT_EQ(found.sites.size(), 2u);
  EXPECT_EQ(found.sites[0].counts.calls, 2u);
  EXPECT_EQ(found.sites[0].counts.bytes, 16u);
  EXPECT_EQ(found.sites[0].counts.ns, 40u);
  EXPECT_EQ(found.sites[0].counts.longest_ns, 30u);
  EXPECT_EQ(found.sites[1].counts.least, 4096u);
  ASSERT_EQ(found.kinds.size(), 2u);
  EXPECT_EQ(found.kinds[0].kept.size(), 2u);
  EXPECT_EQ(found.comms[found.kinds[0].comm].name, "MPI_COMM_WORLD");
}

TEST_F(ProfileTest, AWaitForACollectiveHasNoArrival) {
  Profile profile(100);
  profile.add(*record_, collective(1, 8, 100, 110, true));
  EXPECT_EQ(profile.profile().sites[0].counts.calls, 1u);
  EXPECT_TRUE(profile.profile().sites[0].key.nonblocking);
  EXPECT_TRUE(profile.profile().kinds.empty());
}

TEST_F(ProfileTest, ARowThatWasAnothersThenNamesNobody) {
  Profile profile(100);
  profile.add(*record_, collective(1, 8, 20, 40));
  EXPECT_EQ(profile.profile().sites[0].key.comm, 0u);
  EXPECT_TRUE(profile.profile().kinds.empty());
}

TEST_F(ProfileTest, MessagesHaveTheirCommunicatorAndNoSize) {
  tutti_event event = {};
  event.of = tutti_event_of(TUTTI_MPI_Recv, 0, 0);
  event.bytes = 0x44;  // its handle
  event.begin_ns = 100;
  event.end_ns = 150;
  Profile profile(100);
  profile.add(*record_, event);
  EXPECT_EQ(profile.profile().sites[0].key.comm, kWorld);
  EXPECT_EQ(profile.profile().sites[0].key.size_class, SiteKey::kNone);
  EXPECT_EQ(profile.profile().sites[0].counts.bytes, 0u);
}

TEST_F(ProfileTest, WhatIsFrequentIsThinnedOutAndWhatIsRareStays) {
  Profile profile(1000), other(500);  // two members with other room
  for (std::uint64_t number = 1; number <= 20000; ++number) {
    const std::uint64_t bytes = number % 2000 == 0 ? 4096 : 8;
    for (Profile* one : {&profile, &other})
      one->add(*record_, collective(number, bytes, 100 * number, 100 * number + 1));
  }
  const auto& kinds = profile.profile().kinds;
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].collectives, 19990u);
  EXPECT_LE(kinds[0].kept.size(), 1000u);
  EXPECT_GE(kinds[0].kept.size(), 400u);
  EXPECT_EQ(kinds[1].kept.size(), 10u);
  std::set<std::uint64_t> numbers;
  for (const Arrival& arrival : kinds[0].kept) numbers.insert(arrival.number);
  for (const Arrival& arrival : other.profile().kinds[0].kept)
    EXPECT_TRUE(numbers.contains(arrival.number)) << "both must have kept " << arrival.number;
  // Of a program that calls from two places in turn, both are among them.
  std::size_t even = 0;
  for (const std::uint64_t number : numbers) even += number % 2 == 0;
  EXPECT_GT(even, numbers.size() / 3);
  EXPECT_LT(even, numbers.size() * 2 / 3);
}

TEST_F(ProfileTest, BytesAndBack) {
  MadeUpJob job(2);
  job.meet(Coll::allreduce, {{0, 60}, {10, 60}}, 1, 0);
  job.at(1).clock = 5;
  job.at(1).missed = 6;
  const std::string bytes = packed(job.at(1));
  RankProfile back;
  ASSERT_TRUE(unpack(bytes.data(), bytes.size(), &back));
  EXPECT_EQ(back.rank, 1);
  EXPECT_EQ(back.clock, 5u);
  EXPECT_EQ(back.missed, 6u);
  EXPECT_EQ(back.sites[0].text, "app+0x10");
  EXPECT_EQ(back.comms[0].name, "MPI_COMM_WORLD");
  EXPECT_EQ(back.kinds[0].kept[0].begin, 10u);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_FALSE(unpack(bytes.data(), cut, &back)) << cut;
}

}  // namespace
}  // namespace tutti::report
