// What the profiles of all ranks say together, as tables, as JSON and as a page.
#include "mpi/report/summary.hpp"

#include <gtest/gtest.h>

#include "profiles.hpp"
#include "select/select.hpp"

namespace tutti::report {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

/// Rank 1 comes 8 ms late to ten allreduces, which take 2 ms then.
MadeUpJob late_job() {
  MadeUpJob job(2);
  for (std::uint64_t t = 0; t < 100 * kMs; t += 10 * kMs)
    job.meet(Coll::allreduce, {{t, t + 10 * kMs}, {t + 8 * kMs, t + 10 * kMs}});
  return job;
}

Choice choice_of(std::string_view name) {
  Choice choice;
  choice.algorithm =
      name == "mpi" ? &host_algorithm(Coll::allreduce) : find_algorithm(Coll::allreduce, name);
  return choice;
}

Learnt trial_of(std::string_view taken, std::string_view against) {
  Learnt one;
  one.coll = Coll::allreduce;
  one.size = 2;
  one.least = 8;
  one.most = 15;
  one.taken = choice_of(taken);
  one.against = choice_of(against);
  one.ratio = 3;
  return one;
}

TEST(Summary, SharesAndImbalance) {
  MadeUpJob job = late_job();
  const Summary found = summarise(job.profiles(), {}, 0.2);
  ASSERT_EQ(found.sites.size(), 1u);
  const SiteRow& row = found.sites[0];
  EXPECT_EQ(row.call, "MPI_Allreduce");
  EXPECT_EQ(row.comm, "MPI_COMM_WORLD");
  EXPECT_EQ(row.counts.calls, 20u);
  EXPECT_NEAR(row.all, 0.12, 1e-9);
  EXPECT_NEAR(row.waiting, 0.08, 1e-9);
  EXPECT_NEAR(row.transfer, 0.04, 1e-9);
  EXPECT_EQ(row.slowest_rank, 0);
  EXPECT_NEAR(row.imbalance(), 0.1 / 0.06, 1e-9);
  EXPECT_NEAR(found.waiting() + found.transfer() + found.other(), row.all, 1e-9);
  EXPECT_TRUE(found.exact());
  EXPECT_FALSE(row.measured);
}

TEST(Summary, SavedIsWhatTrialsHaveMeasuredOfTheTransfer) {
  MadeUpJob job = late_job();
  const SiteRow row = summarise(job.profiles(), {trial_of("flat", "mpi")}, 0.2).sites[0];
  EXPECT_TRUE(row.measured);
  EXPECT_NEAR(row.saved, 0.04 * 2, 1e-9);
  const SiteRow mpis = summarise(job.profiles(), {trial_of("mpi", "flat")}, 0.2).sites[0];
  EXPECT_TRUE(mpis.measured);
  EXPECT_EQ(mpis.saved, 0);  // it is the MPI that runs them
  EXPECT_FALSE(summarise(job.profiles(), {trial_of("flat", "blocks")}, 0.2).sites[0].measured);
  Learnt larger = trial_of("flat", "mpi");
  larger.least = 16;
  larger.most = 31;
  EXPECT_FALSE(summarise(job.profiles(), {larger}, 0.2).sites[0].measured);
}

TEST(Summary, ACallThatIsNotComparedIsNotToldApart) {
  MadeUpJob job = late_job();
  for (RankProfile& profile : job.profiles()) profile.kinds[0].kept.clear();
  const Summary found = summarise(job.profiles(), {}, 0.2);
  EXPECT_FALSE(found.sites[0].compared);
  EXPECT_NEAR(found.other(), 0.12, 1e-9);
  EXPECT_FALSE(found.exact());
}

TEST(Summary, TheTextNamesTheLateRankFirst) {
  MadeUpJob job = late_job();
  const std::string text = text_of(summarise(job.profiles(), {}, 0.2));
  EXPECT_NE(text.find("20.0 % waiting for late ranks"), std::string::npos) << text;
  EXPECT_NE(text.find("10 (100.0 %)                8.000           0.080000"), std::string::npos)
      << text;
  EXPECT_EQ(text_of(summarise(std::vector<RankProfile>(2), {}, 0.2)), "");
}

TEST(Page, HoldsTheReportAndNoEndOfTheScript) {
  const std::string page = page_of("{\"program\": \"</script><b>\"}");
  EXPECT_NE(page.find("\\u003c/script>\\u003cb>"), std::string::npos);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_EQ(page.find("/*the report*/"), std::string::npos);
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
}

}  // namespace
}  // namespace tutti::report
