// The flight recorder's events: taken out of a record, and out of a file's bytes.
#include "mpi/record/events.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "mpi/generated/function_index.h"

namespace {

using tutti::Coll;
using tutti::roll::Event;
using tutti::roll::Recorded;

constexpr std::uint32_t kPlaces = 8;
constexpr std::uint64_t kWorld = 0x1111, kHandle = 0x44000000;

/// A record with a ring of few places for its first lane.
class EventsTest : public testing::Test {
 protected:
  EventsTest() : memory_(TUTTI_RECORD_HEAD / 64 + kPlaces) {
    tutti_record& record = the_record();
    record.magic = TUTTI_RECORD_MAGIC;
    record.signature = TUTTI_MPI_TABLE_SIGNATURE;
    record.rank = 3;
    record.size = 4;
    record.any_source = -2;
    record.any_tag = -1;
    record.lanes[0].events = TUTTI_RECORD_HEAD - offsetof(tutti_record, lanes);
    record.lanes[0].mask = kPlaces - 1;
    record.comms[1].id = kWorld;
    record.comms[1].handle = kHandle;
    record.comms[1].since_ns = 50;
    std::strcpy(record.comms[1].name, "MPI_COMM_WORLD");
  }

  tutti_record& the_record() { return *reinterpret_cast<tutti_record*>(memory_.data()); }

  /// The next call of the lane, which has ended.
  tutti_event& add(tutti_mpi_function function, std::uint64_t end_ns) {
    tutti_lane& lane = the_record().lanes[0];
    tutti_event& event = memory_[TUTTI_RECORD_HEAD / 64 + (lane.count / 2) % kPlaces];
    event = {};
    event.count = lane.count + 1;
    event.of = tutti_event_of(function, 0, 0);
    event.end_ns = end_ns;
    lane.count += 2;
    return event;
  }

  void add_collective(std::uint64_t number, std::uint64_t end_ns) {
    tutti_event& event = add(TUTTI_MPI_Bcast, end_ns);
    event.bytes = 16;
    event.what = static_cast<std::uint64_t>(Coll::bcast) | 0xffff00 | std::uint64_t{2} << 32;
    const std::uint64_t past =
        offsetof(tutti_record, comms) + sizeof(tutti_comm_row) + offsetof(tutti_comm_row, past);
    event.of = tutti_event_of(TUTTI_MPI_Bcast, past / 8, number);
  }

  std::vector<Event> events() {
    auto recorded = std::make_unique<Recorded>();
    EXPECT_TRUE(tutti::roll::read_recorded(the_record(), recorded.get()));
    return tutti::roll::events_of(*recorded);
  }

  /// As the plugin writes it.
  std::string file() {
    const tutti::roll::FileHead head;
    const std::uint32_t used = tutti::roll::used_events(the_record().lanes[0]);
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
    bytes.append(reinterpret_cast<const char*>(memory_.data()),
                 TUTTI_RECORD_HEAD + used * sizeof(tutti_event));
    return bytes + "the maps";
  }

  std::vector<tutti_event> memory_;  // of the alignment of events
};

TEST_F(EventsTest, SaysWhatWasCalled) {
  add_collective(7, 100);
  tutti_event& message = add(TUTTI_MPI_Recv_c, 200);
  message.bytes = kHandle;
  message.what = static_cast<std::uint32_t>(-2) | std::uint64_t{9} << 32;
  message.of |= TUTTI_EVENT_WAITED;
  message.begin_ns = 150;
  message.partner = 1;
  message.partner_us = 20;
  const std::vector<Event> found = events();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].call.name, "MPI_Bcast");
  EXPECT_EQ(found[0].call.comm, "MPI_COMM_WORLD");
  EXPECT_EQ(found[0].call.passed.number, 7u);
  EXPECT_EQ(found[0].call.passed.bytes, 16u);
  EXPECT_EQ(found[0].call.passed.root, 2);
  EXPECT_FALSE(found[0].waited);
  EXPECT_EQ(found[1].call.name, "MPI_Recv");
  EXPECT_EQ(found[1].call.peer, -1);  // any
  EXPECT_EQ(found[1].call.tag, 9);
  EXPECT_EQ(found[1].call.comm, "MPI_COMM_WORLD");
  EXPECT_TRUE(found[1].waited);
  EXPECT_EQ(found[1].begin, 150u);
  EXPECT_EQ(found[1].end, 200u);
  EXPECT_EQ(found[1].partner, 1);
  EXPECT_EQ(found[1].partner_us, 20u);
}

TEST_F(EventsTest, KeepsTheLastInOrder) {
  for (std::uint64_t number = 1; number <= 3 * kPlaces + 2; ++number)
    add_collective(number, 100 + number);
  const std::vector<Event> found = events();
  ASSERT_EQ(found.size(), kPlaces);
  for (std::uint32_t i = 0; i < kPlaces; ++i)
    EXPECT_EQ(found[i].call.passed.number, 2 * kPlaces + 3 + i);
}

TEST_F(EventsTest, LeavesOutACallThatIsWrittenDownWhileItWaits) {
  add_collective(1, 100);
  add_collective(2, 110);
  tutti_lane& lane = the_record().lanes[0];
  lane.count -= 1;  // in the second one
  lane.function = TUTTI_MPI_Bcast;
  const std::vector<Event> inside = events();
  ASSERT_EQ(inside.size(), 2u);
  EXPECT_EQ(inside[0].end, 100u);
  EXPECT_EQ(inside[1].end, 0u);  // by what the lane says
  lane.count += 1;
  const std::vector<Event> behind = events();
  ASSERT_EQ(behind.size(), 2u);
  EXPECT_EQ(behind[1].end, 110u);
}

TEST_F(EventsTest, LeavesOutWhatMayBeBeingWritten) {
  for (std::uint64_t number = 1; number <= kPlaces + 2; ++number)
    add_collective(number, 100 + number);
  the_record().lanes[0].count += 1;  // the next call ends where the oldest is
  const std::vector<Event> found = events();
  ASSERT_EQ(found.size(), kPlaces);  // and the unfinished one
  EXPECT_EQ(found.front().call.passed.number, 4u);
  EXPECT_TRUE(found.back().call.inside);
}

TEST_F(EventsTest, ShowsTheCallThatHasNotEnded) {
  add_collective(1, 100);
  tutti_lane& lane = the_record().lanes[0];
  lane.count += 1;
  lane.function = TUTTI_MPI_Barrier;
  lane.since_count = lane.count;
  lane.since_ns = 300;
  const std::vector<Event> found = events();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[1].call.inside);
  EXPECT_EQ(found[1].call.name, "MPI_Barrier");
  EXPECT_EQ(found[1].begin, 300u);
}

TEST_F(EventsTest, DoesNotNameACommunicatorThatHasTheRowOfAnother) {
  add_collective(1, 40);  // before it had the row
  EXPECT_EQ(events()[0].call.comm, "");
}

TEST_F(EventsTest, ReadsAFile) {
  for (std::uint64_t number = 1; number <= 3; ++number) add_collective(number, 100 + number);
  Recorded recorded;
  std::string why;
  ASSERT_TRUE(tutti::roll::read_recorded(file(), &recorded, &why)) << why;
  EXPECT_EQ(recorded.head.rank, 3);
  EXPECT_EQ(recorded.maps, "the maps");
  EXPECT_EQ(tutti::roll::events_of(recorded).size(), 3u);
}

TEST_F(EventsTest, SaysWhatIsWrongWithAFile) {
  add_collective(1, 100);
  const std::string whole = file();
  Recorded recorded;
  std::string why;
  EXPECT_FALSE(tutti::roll::read_recorded("", &recorded, &why));
  EXPECT_EQ(why, "no file of tutti's recorder");
  for (const std::size_t bytes : {sizeof(tutti::roll::FileHead), sizeof(tutti_record),
                                  whole.size() - sizeof "the maps" - 10}) {
    EXPECT_FALSE(tutti::roll::read_recorded(whole.substr(0, bytes), &recorded, &why)) << bytes;
    EXPECT_EQ(why, "damaged: it ends too early");
  }
  std::string other = whole;
  other[8] = 1;  // another size of the head
  EXPECT_FALSE(tutti::roll::read_recorded(other, &recorded, &why));
  EXPECT_EQ(why, "of another version of tutti");
}

}  // namespace
