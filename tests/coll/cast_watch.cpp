// When broadcasts by multicast are given up, and taken up again: the members' watches together, as
// their surveys bring them together.
#include "team/cast_watch.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tutti {
namespace {

constexpr int kTree = 2;  // a run of so many costs what a tree would

/// The run of repaired members that ends at `member` in a broadcast of `root`.
using Runs = std::function<int(std::uint64_t number, int root, int member)>;

class Members {
 public:
  explicit Members(int count) : totals_(static_cast<std::size_t>(count)) {
    for (CastTotals& totals : totals_) watches_.push_back(std::make_unique<CastWatch>(totals));
  }

  /// The next broadcast. Whether it was cast, which all must agree on.
  bool broadcast(int root, const Runs& runs) {
    const std::uint64_t number = next_++;
    const bool cast = watches_[0]->casts(number, root);
    for (const auto& watch : watches_) EXPECT_EQ(watch->casts(number, root), cast) << number;
    for (std::size_t member = 0; member < watches_.size(); ++member) {
      const int run = cast ? runs(number, root, static_cast<int>(member)) : 0;
      if (cast) {
        watches_[member]->seen(root, run, kTree, 1, run == 0 ? 0 : 1);
      } else {
        watches_[member]->went_by_tree();
      }
    }
    if (CastWatch::is_surveyed(number)) survey(number, cast);
    return cast;
  }
  /// Of `count` broadcasts from roots in turn, how many were cast.
  int broadcasts(int count, int roots, const Runs& runs) {
    int cast = 0;
    for (int i = 0; i < count; ++i) cast += broadcast(i % roots, runs) ? 1 : 0;
    return cast;
  }
  bool has_left() const { return watches_[0]->has_left(); }
  int roots_left() const { return watches_[0]->roots_left(); }
  const CastTotals& totals() const { return totals_[0]; }

 private:
  void survey(std::uint64_t number, bool held) {
    CastSurvey all;
    for (const auto& watch : watches_) {
      // As its word has it.
      all.merge(CastSurvey::of(watch->own().word(CastWatch::surveys_before(number) + 1)));
    }
    for (const auto& watch : watches_) watch->conclude(number, held ? &all : nullptr);
  }

  std::vector<CastTotals> totals_;
  std::vector<std::unique_ptr<CastWatch>> watches_;
  std::uint64_t next_ = 0;
};

int dead(std::uint64_t, int root, int member) { return (member - root + 8) % 8; }
int alive(std::uint64_t, int, int) { return 0; }

TEST(CastSurvey, WordsGrowWithTheNumberAndBringBackWhatWasPutIn) {
  CastSurvey survey;
  survey.merge({0x81, 200, 0xabcdef});
  survey.merge({0x02, 255, 7});
  survey.merge({0, 255, 5});
  const CastSurvey back = CastSurvey::of(survey.word(9));
  EXPECT_EQ(back.dear, 0x83U);
  EXPECT_EQ(back.share, 255U);
  EXPECT_EQ(back.root, 7U);
  EXPECT_LT(survey.word(9), CastSurvey{}.word(10));
  EXPECT_GE(CastSurvey{}.word(9), std::uint64_t{9} << CastSurvey::kNumberAt);
}

TEST(CastWatch, SurveysAreKnownBeforehand) {
  std::uint64_t surveys = 0;
  for (std::uint64_t number = 0; number < 10'000; ++number) {
    ASSERT_EQ(CastWatch::surveys_before(number), surveys) << number;
    if (CastWatch::is_surveyed(number)) ++surveys;
  }
  EXPECT_EQ(surveys, 3 + 10'000 / CastWatch::kPeriod);
  const std::uint64_t late = (CastWatch::kMostSurveys + 5) * CastWatch::kPeriod;
  EXPECT_EQ(CastWatch::surveys_before(late), CastWatch::kMostSurveys);
  EXPECT_FALSE(CastWatch::is_surveyed(late - 1));
}

TEST(CastWatch, WhereNothingGetsThroughTheTeamLeavesAndSeldomTries) {
  for (const int roots : {1, 2, 8}) {
    Members members(8);
    EXPECT_EQ(members.broadcasts(32, roots, dead), 32);
    EXPECT_EQ(members.has_left() || members.roots_left() == 1, true);
    const int tried = members.broadcasts(100'000, roots, dead);
    EXPECT_LT(tried, 1000) << roots;
    EXPECT_GT(tried, 0) << roots;
    EXPECT_EQ(members.totals().resumed, 0U) << roots;
    EXPECT_EQ(members.totals().by_tree, 100'000U - static_cast<std::uint64_t>(tried)) << roots;
  }
}

TEST(CastWatch, WhatGetsThroughAgainIsTakenUpAgain) {
  Members members(8);
  members.broadcasts(500, 8, dead);
  EXPECT_TRUE(members.has_left());
  members.broadcasts(3000, 8, alive);
  EXPECT_FALSE(members.has_left());
  EXPECT_EQ(members.totals().resumed, 1U);
  EXPECT_EQ(members.broadcasts(5000, 8, alive), 5000);
  members.broadcasts(600, 8, dead);
  EXPECT_TRUE(members.has_left());
  EXPECT_EQ(members.totals().left, 2U);
}

TEST(CastWatch, OneRootWhoseCastsAreLostIsLeftAlone) {
  Members members(8);
  const Runs one = [](std::uint64_t number, int root, int member) {
    return root == 3 ? dead(number, root, member) : 0;
  };
  members.broadcasts(64, 4, one);
  EXPECT_FALSE(members.has_left());
  EXPECT_EQ(members.roots_left(), 1);
  int cast = 0;
  for (int i = 0; i < 400; ++i) {
    const bool its = members.broadcast(i % 4, one);
    EXPECT_TRUE(its || i % 4 == 3) << i;
    cast += its ? 1 : 0;
  }
  EXPECT_EQ(cast, 300);
  members.broadcasts(4000, 4, alive);
  EXPECT_EQ(members.roots_left(), 0);
}

// Each member is the end of a long run for one root only.
TEST(CastWatch, RootsThatDifferentMembersMissCountTogether) {
  Members members(4);
  const Runs nothing = [](std::uint64_t, int root, int member) { return (member - root + 4) % 4; };
  members.broadcasts(32, 4, nothing);
  EXPECT_TRUE(members.has_left());
}

TEST(CastWatch, RunsThatCostNoMoreThanATreeAreNoReason) {
  Members members(8);
  const Runs some = [](std::uint64_t, int, int member) { return member % (kTree + 1); };
  EXPECT_EQ(members.broadcasts(5000, 8, some), 5000);
  const Runs seldom = [](std::uint64_t number, int root, int member) {
    return number % 3 == 0 ? dead(number, root, member) : 0;
  };
  EXPECT_EQ(members.broadcasts(5000, 1, seldom), 5000);
  EXPECT_EQ(members.totals().left, 0U);
}

TEST(CastWatch, ManyRootsThatSeldomCastSaySomethingTogether) {
  Members members(64);
  const Runs nothing = [](std::uint64_t, int root, int member) {
    return (member - root + 64) % 64;
  };
  members.broadcasts(300, 64, nothing);
  EXPECT_TRUE(members.has_left());
}

}  // namespace
}  // namespace tutti
