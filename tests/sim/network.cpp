// Profiles, and what is said about bad input.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "profile.hpp"
#include "sim/job.hpp"

namespace tutti::sim {
namespace {

constexpr const char* kGood =
    "name = \"x\"\nsource = \"y\"\n[via]\nTm = 1\nTd = 1\nTs = 1\nTn = 1\nTa = 1\nTr = "
    "1\nTt_per_byte = 0.01\n"
    "[host]\nTc_per_byte = 0.001\nTo = 0\nTo_per_byte = 0.001\nline = 0.1\ncounter_bytes = "
    "8\ncopied_bytes = 0\n";

/// What load_network says to a profile of this text; empty when it takes it.
std::string complaint(const std::string& text) {
  const std::string path =
      ::testing::TempDir() + "tutti_profile_" + std::to_string(::getpid()) + ".toml";
  std::ofstream(path) << text;
  Network network;
  std::string message;
  const bool good = load_network(path, &network, &message).ok();
  std::filesystem::remove(path);
  EXPECT_EQ(good, message.empty()) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << "more than a line: " << message;
  return message;
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kGood;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(Profiles, AllOfThemLoad) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TUTTI_PROFILES)) {
    Network network;
    std::string message;
    EXPECT_TRUE(load_network(entry.path(), &network, &message).ok()) << message;
    EXPECT_EQ(network.name, entry.path().stem());
    ++found;
  }
  EXPECT_GT(found, 0);
}

TEST(Profiles, GoodTextIsTaken) { EXPECT_EQ(complaint(kGood), ""); }

TEST(Profiles, BadTextIsToldInOneLine) {
  EXPECT_NE(complaint(replaced("Ts = 1\n", "")).find("'Ts' is missing in [via]"),
            std::string::npos);
  EXPECT_NE(complaint(replaced("Tn = 1", "Tn = -1")).find("Tn in [via] is negative"),
            std::string::npos);
  EXPECT_NE(complaint(replaced("Tn = 1", "Tn = \"a\"")).find("Tn in [via] is not a number"),
            std::string::npos);
  EXPECT_NE(complaint(replaced("Tn = 1", "Tn = nan")).find("Tn in [via] is not a number"),
            std::string::npos);
  EXPECT_NE(complaint(replaced("line = 0.1", "line = 0.1\nhandlers_elsewhere = 1"))
                .find("handlers_elsewhere in [host] is not true or false"),
            std::string::npos);
  EXPECT_EQ(complaint(replaced("line = 0.1", "line = 0.1\nhandlers_elsewhere = true")), "");
  EXPECT_NE(complaint(replaced("Tn = 1", "Tn = 1\nTx = 2")).find("no term 'Tx' in [via]"),
            std::string::npos);
  EXPECT_NE(complaint(replaced("[via]", "[loggp]")).find("no term"), std::string::npos);
  EXPECT_NE(complaint(replaced("Tn = 1", "Tn =")).find("toml:"), std::string::npos);
  EXPECT_NE(complaint("").find("'name' is missing"), std::string::npos);
  EXPECT_NE(complaint(std::string(kGood) +
                      "[fat_tree]\nleaf_nodes = 4\noversubscription = 8\nhop = 0.1\n")
                .find("oversubscription"),
            std::string::npos);
  Network network;
  std::string message;
  EXPECT_FALSE(load_network("/nonexistent.toml", &network, &message).ok());
  EXPECT_NE(message.find("/nonexistent.toml"), std::string::npos);
}

TEST(Jobs, MoreRanksThanMemoryIsOneLine) {
  std::unique_ptr<SimJob> job;
  std::string message;
  EXPECT_EQ(SimJob::create({1 << 29, 1, test::profile("via2003"), true}, &job, &message).code,
            Code::no_memory);
  EXPECT_NE(message.find("536870912 ranks need about"), std::string::npos) << message;
  EXPECT_EQ(SimJob::create({0, 1, test::profile("via2003"), true}, &job, &message).code,
            Code::invalid_argument);
  EXPECT_EQ(SimJob::create({1 << 20, 1 << 20, test::profile("via2003"), true}, &job, &message).code,
            Code::invalid_argument);
}

TEST(Jobs, AnAlgorithmThatCannotRunThereSaysWhy) {
  std::unique_ptr<SimJob> job;
  std::string message;
  ASSERT_TRUE(SimJob::create({4, 1, test::profile("via2003"), true}, &job, &message).ok())
      << message;
  const Algorithm* flat = find_algorithm(Coll::bcast, "flat");
  Call call;
  call.coll = Coll::bcast;
  call.bytes = 4;
  EXPECT_EQ(job->run(
                   {flat, flat->defaults()}, [&](int) { return call; }, 1, &message)
                .code,
            Code::unsupported);
  EXPECT_EQ(message, "bcast flat cannot run here: members do not share memory");
}

}  // namespace
}  // namespace tutti::sim
