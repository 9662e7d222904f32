// Random programs of blocking, non-blocking and persistent collectives over overlapping teams,
// against the serial model. All ranks draw the same program from a seed, which is printed where
// something fails; how each waits, dawdles and looks around is its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../base/random_seed.hpp"
#include "core/job.hpp"
#include "support/collective_model.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::Case;
using test::Model;
using test::Rank;

/// More steps for TEST_LEVEL=2, fewer for 0 and under sanitizers.
int level() {
  const char* text = std::getenv("TEST_LEVEL");
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return text == nullptr ? 0 : std::atoi(text);
#else
  return text == nullptr ? 1 : std::atoi(text);
#endif
}

/// One collective in the program, and this rank's part in it.
struct Item {
  Item(Coll coll, int members, int root, std::size_t count, std::uint64_t round, int member,
       bool in_place, const Reduction& reduction)
      : model(std::make_unique<Model>(coll, members, root, count, round)),
        mine(std::make_unique<Case>(*model, member, in_place, reduction)),
        its_member(member),
        its_in_place(in_place) {}
  bool right() const {
    const auto expected = model->expected(its_member);
    return mine->result(expected.size()) == expected;
  }
  /// New data in the same buffers, for another start of a persistent operation.
  void refill(std::uint64_t round, const Reduction& reduction) {
    model =
        std::make_unique<Model>(model->coll(), model->size(), model->root(), model->count(), round);
    const Case fresh(*model, its_member, its_in_place, reduction);
    std::copy(fresh.send.begin(), fresh.send.end(), mine->send.begin());
    std::copy(fresh.recv.begin(), fresh.recv.end(), mine->recv.begin());
    mine->before = fresh.before;
  }
  std::string text() const {
    return std::string(name(model->coll())) + " of " + std::to_string(model->size()) +
           " members, member " + std::to_string(its_member) + ", root " +
           std::to_string(model->root()) + ", count " + std::to_string(model->count()) +
           (its_in_place ? ", in place" : "");
  }
  std::unique_ptr<Model> model;
  std::unique_ptr<Case> mine;
  int its_member;
  bool its_in_place;
  Operation* operation = nullptr;
  std::size_t team = 0;
};

/// A team as all ranks know it; `team` is set on its members while it lives.
struct Group {
  std::vector<std::int32_t> members;
  int member = -1;  // this rank's place, or -1
  Team* team = nullptr;
};

class Program {
 public:
  Program(Rank& rank, std::uint64_t seed)
      : r_(rank),
        seed_(seed),
        shared_(seed),
        own_(seed * 31 + static_cast<std::uint64_t>(rank.rank)) {
    EXPECT_TRUE(find_reduction(Op::sum, Type::i32, &reduction_));
    for (int i = 0; i < 4; ++i) groups_.push_back(new_group(i == 0));
  }

  void run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      switch (shared_() % 16) {
        case 0:
          replace_group(1 + shared_() % (groups_.size() - 1));
          break;
        case 1:
        case 2:
        case 3:
        case 4:
        case 5:
          blocking();
          break;
        case 6:
          persistent();
          break;
        default:
          nonblocking();
          break;
      }
      look_around();
    }
    while (!outstanding_.empty()) finish(own_() % outstanding_.size());
    // What was given up while active completes by itself, as long as the rank is inside now and
    // then. Its buffers belong to it until nothing is pending any more.
    const Engine& engine = static_cast<JobImpl&>(r_.job).engine();
    for (std::uint32_t round = 0; engine.background().pending() != 0 && round < 2'000'000; ++round)
      r_.job.relax(round);
    EXPECT_EQ(engine.background().pending(), 0u) << "an operation never completed, seed " << seed_;
    for (const Item& item : abandoned_)
      EXPECT_TRUE(item.right()) << "released while active: " << item.text() << " seed " << seed_;
    for (std::size_t i = 0; i < groups_.size(); ++i) release(i);
  }

 private:
  Group new_group(bool everybody) {
    Group group;
    group.members.resize(static_cast<std::size_t>(r_.size));
    std::iota(group.members.begin(), group.members.end(), 0);
    std::shuffle(group.members.begin(), group.members.end(), shared_);
    const auto size = everybody ? group.members.size() : 1 + shared_() % group.members.size();
    group.members.resize(size);
    const auto place = std::find(group.members.begin(), group.members.end(), r_.rank);
    const std::uint64_t number = ++made_;
    if (place == group.members.end()) return group;
    group.member = static_cast<int>(place - group.members.begin());
    TeamSpec spec{{seed_, number}, group.member, static_cast<int>(size), group.members.data()};
    const Status status = r_.job.create_team(spec, &group.team);
    EXPECT_TRUE(status.ok()) << name(status.code);
    return group;
  }
  void release(std::size_t index) {
    Group& group = groups_[index];
    if (group.team != nullptr) r_.job.release_team(group.team);
    group.team = nullptr;
  }
  void replace_group(std::size_t index) {
    for (std::size_t i = outstanding_.size(); i-- > 0;) {
      if (outstanding_[i].team == index) finish(i);
    }
    // A team may be given back only when its operations are over here.
    const bool busy = std::any_of(abandoned_.begin(), abandoned_.end(),
                                  [&](const Item& item) { return item.team == index; });
    if (busy) {
      kept_.push_back(groups_[index]);
    } else {
      release(index);
    }
    groups_[index] = new_group(false);
  }

  /// Draws the next collective; false when this rank has no part in it.
  bool draw(std::unique_ptr<Item>* out) {
    static constexpr std::size_t kCounts[] = {0,   1,   2,    14,   15,   30,    200,   254,
                                              255, 300, 1279, 1281, 3000, 16383, 16385, 30000};
    const std::size_t index = shared_() % groups_.size();
    Group& group = groups_[index];
    const auto coll = static_cast<Coll>(shared_() % kColls);
    const std::size_t pick = shared_() % std::size(kCounts);
    std::size_t count = coll == Coll::barrier ? 0 : kCounts[pick];
    if (coll == Coll::alltoall || coll == Coll::scatter || coll == Coll::reduce_scatter) count /= 4;
    const auto size = static_cast<int>(group.members.size());
    const int root = static_cast<int>(shared_() % group.members.size());
    const bool in_place = shared_() % 2 == 0;
    ++round_;
    if (group.team == nullptr) return false;
    *out = std::make_unique<Item>(coll, size, root, count, round_ + seed_, group.member, in_place,
                                  reduction_);
    (*out)->team = index;
    return true;
  }
  Team& team_of(const Item& item) { return *groups_[item.team].team; }

  void expect_ok(const Status& status, const Item& item) {
    EXPECT_TRUE(status.ok()) << name(status.code) << ": "
                             << (status.detail != nullptr ? status.detail : "") << ": "
                             << item.text() << " seed " << seed_;
  }
  void expect_right(const Item& item) {
    EXPECT_TRUE(item.right()) << "wrong result: " << item.text() << " rank " << r_.rank << " seed "
                              << seed_;
  }

  void blocking() {
    std::unique_ptr<Item> item;
    if (!draw(&item)) return;
    expect_ok(r_.job.run(team_of(*item), item->mine->call), *item);
    expect_right(*item);
  }
  void nonblocking() {
    std::unique_ptr<Item> item;
    const bool abandon = shared_() % 12 == 0;
    if (!draw(&item)) return;
    const Status status = r_.job.start(team_of(*item), item->mine->call, &item->operation);
    expect_ok(status, *item);
    if (!status.ok()) return;
    if (abandon) {
      r_.job.release(item->operation);
      abandoned_.push_back(std::move(*item));
    } else {
      outstanding_.push_back(std::move(*item));
    }
  }
  void persistent() {
    std::unique_ptr<Item> item;
    const std::uint64_t starts = 1 + shared_() % 3;
    const bool mine = draw(&item);
    round_ += starts;
    if (!mine) return;
    expect_ok(r_.job.prepare(team_of(*item), item->mine->call, &item->operation), *item);
    for (std::uint64_t i = 0; i < starts; ++i) {
      item->refill(round_ + seed_ * 7 + i, reduction_);
      expect_ok(r_.job.restart(*item->operation), *item);
      if (own_() % 2 == 0) dawdle();
      if (i + 1 == starts) break;  // the last start is waited for later
      expect_ok(r_.job.wait(*item->operation), *item);
      expect_right(*item);
    }
    outstanding_.push_back(std::move(*item));
  }

  void finish(std::size_t index) {
    Item item = std::move(outstanding_[index]);
    outstanding_.erase(outstanding_.begin() + static_cast<std::ptrdiff_t>(index));
    Status status;
    if (own_() % 3 == 0) {
      std::uint32_t round = 0;
      while (!r_.job.test(*item.operation, &status)) r_.job.relax(round++);
    } else {
      status = r_.job.wait(*item.operation);
    }
    expect_ok(status, item);
    expect_right(item);
    r_.job.release(item.operation);
  }
  void dawdle() { usleep(static_cast<useconds_t>(own_() % 300)); }
  void look_around() {
    switch (own_() % 8) {
      case 0:
        dawdle();
        break;
      case 1:
        r_.job.progress();
        break;
      case 2:
        if (!outstanding_.empty()) finish(own_() % outstanding_.size());
        break;
      case 3: {
        Status status;
        if (!outstanding_.empty()) {
          static_cast<void>(
              r_.job.test(*outstanding_[own_() % outstanding_.size()].operation, &status));
        }
        break;
      }
      default:
        break;
    }
    while (outstanding_.size() > 40) finish(own_() % outstanding_.size());
  }

  Rank& r_;
  std::uint64_t seed_;
  std::mt19937_64 shared_, own_;
  Reduction reduction_;
  std::vector<Group> groups_;
  std::vector<Group> kept_;  // replaced while an abandoned operation was active; never given back
  std::vector<Item> outstanding_, abandoned_;
  std::uint64_t made_ = 0, round_ = 0;
};

struct Variant {
  std::string name;
  bool processes;
  std::string fault;
  std::string algorithm;
  SegmentKind segment = SegmentKind::memfd;
  Switch progress_thread = Switch::automatic;
  bool check = false;
  bool mixed = false;  // cells for all and cells for neighbours, in trees of several degrees
};

/// What Variant::mixed chooses: by the size, so on one team in any order.
constexpr char kMixedCells[] = R"([node]
barrier: * tree(degree=2)
bcast: ..16 tree; 17..64 flat; 65..1K tree(degree=1)
reduce: ..40 flat; 41..1K tree(degree=3)
allreduce: ..16 tree(degree=7); 17..60 tree(degree=2); 61..200 flat; 201..1K tree
)";

class Random : public ::testing::TestWithParam<Variant> {};

TEST_P(Random, ProgramsMatchTheModel) {
  const Variant& setup = GetParam();
  const auto base = testing::random_seed();
  const int steps = level() == 0 ? 60 : level() == 1 ? 250 : 2000;
  std::vector<int> sizes = level() == 0 ? std::vector<int>{2, 4} : std::vector<int>{2, 3, 4, 5, 8};
  if (setup.mixed) sizes.push_back(17);
  Settings settings;
  settings.arena = std::size_t{512} << 20;
  settings.deadline_s = 60;
  settings.spin_us = 100;
  settings.fault = setup.fault;
  settings.algorithm = setup.algorithm;
  settings.segment = setup.segment;
  settings.progress_thread = setup.progress_thread;
  if (setup.check) settings.check = Check::contract;
  const std::string choices = ::testing::TempDir() + "mixed-" + std::to_string(getpid());
  if (setup.mixed) {
    std::ofstream(choices) << kMixedCells;
    settings.choices = choices;
  }
  for (const int ranks : sizes) {
    const std::uint64_t seed = base * 100 + static_cast<std::uint64_t>(ranks);
    const auto body = [&](Rank& r) { Program(r, seed).run(steps); };
    if (setup.processes) {
      EXPECT_TRUE(test::all_exited(test::run_processes(ranks, settings, body))) << "seed " << seed;
    } else {
      test::run_threads(ranks, settings, body);
    }
    if (HasFailure()) break;
  }
  if (setup.mixed) std::remove(choices.c_str());
}

std::vector<Variant> setups() {
  const std::string paper = "barrier=degree_k,bcast=binomial,reduce=degree_k,allreduce=degree_k";
  std::vector<Variant> all = {
      {"Threads", false, "", ""},
      {"ThreadsChecked", false, "", paper, SegmentKind::memfd, Switch::automatic, true},
      {"ThreadsWithoutProgressThread", false, "", "", SegmentKind::memfd, Switch::off},
      {"ThreadsWithoutCma", false, "nocma", ""},
      {"ThreadsLatePuts", false, "delay:op=put:us=50:count=0", paper},
      {"ThreadsDeaf", false, "deaf", ""},
      {"ThreadsMixedCells", false, "", "", SegmentKind::memfd, Switch::automatic, true, true},
      {"ThreadsMixedCellsAlone", false, "", "", SegmentKind::memfd, Switch::off, false, true},
  };
#ifndef __SANITIZE_THREAD__  // which cannot see other processes
  all.push_back({"Processes", true, "", ""});
  all.push_back({"ProcessesPosixWithoutCma", true, "nocma", "", SegmentKind::posix});
  all.push_back({"ProcessesLatePuts", true, "delay:op=put:us=50:count=0", paper});
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Random, ::testing::ValuesIn(setups()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace tutti
