// What trials have shown, kept in a file: written, read, and what is in it that cannot be used.
#include "select/kept.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace tutti {
namespace {

constexpr const char* kHost = "MPICH 5.0.2";

class Kept : public ::testing::Test {
 protected:
  void TearDown() override { std::remove(path_.c_str()); }
  std::string write(const std::vector<Learnt>& learnt) {
    std::string message;
    EXPECT_TRUE(write_kept(path_, kHost, learnt, &message).ok()) << message;
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  bool is_host(Coll coll, std::size_t bytes, const Shape& like) {
    std::string message;
    const Rules rules = read_kept(path_, kHost, &message);
    EXPECT_EQ(message, "");
    Shape shape = like;
    shape.coll = coll;
    shape.bytes = bytes;
    const Rule* const rule = rules.of(shape);
    return rule != nullptr && rule->choice.algorithm->left_to_host();
  }

  std::string path_ = ::testing::TempDir() + "kept-" + std::to_string(getpid());
};

Shape on_network(int size, bool bypass) {
  Shape shape;
  shape.size = size;
  shape.hosted = true;
  shape.mapped = false;
  shape.bypass = bypass;
  return shape;
}

/// The host, or what the rules choose.
void take(Learnt* one, bool host) {
  const auto all = algorithms();
  const auto mine = [one](const Algorithm* algorithm) { return algorithm->coll == one->coll; };
  const Choice rules{*std::find_if(all.begin(), all.end(), mine), {}};
  const Choice hosts{&host_algorithm(one->coll), {}};
  one->taken = host ? hosts : rules;
  one->against = host ? rules : hosts;
  one->chosen = !host;
}

Learnt learnt(Coll coll, std::size_t least, bool host) {
  Learnt one;
  one.coll = coll;
  one.size = 4;
  one.place = Where::Place::nodes;
  one.least = least;
  one.most = 2 * least - 1;
  take(&one, host);
  one.ratio = 1.5;
  return one;
}

TEST_F(Kept, HoldsWhereItWasMeasured) {
  write({learnt(Coll::bcast, 1024, true), learnt(Coll::allgather, 1024, false)});
  const Shape there = on_network(4, false);
  EXPECT_TRUE(is_host(Coll::bcast, 1024, there));
  EXPECT_TRUE(is_host(Coll::bcast, 2047, there));
  EXPECT_FALSE(is_host(Coll::bcast, 1023, there));
  EXPECT_FALSE(is_host(Coll::bcast, 2048, there));
  EXPECT_FALSE(is_host(Coll::allgather, 1024, there));
  EXPECT_FALSE(is_host(Coll::bcast, 1024, on_network(5, false)));
  EXPECT_FALSE(is_host(Coll::bcast, 1024, on_network(4, true))) << "of another network";
}

TEST_F(Kept, TheLastTrialCounts) {
  write({learnt(Coll::bcast, 1024, true), learnt(Coll::bcast, 4096, true)});
  const std::string text = write({learnt(Coll::bcast, 1024, false)});
  EXPECT_FALSE(is_host(Coll::bcast, 1024, on_network(4, false)));
  EXPECT_TRUE(is_host(Coll::bcast, 4096, on_network(4, false))) << text;
}

// Whoever runs by the rules may have won against one of two.
TEST_F(Kept, WhatHasNotLostStays) {
  const Learnt host = learnt(Coll::bcast, 1024, true);
  Learnt own = learnt(Coll::bcast, 1024, false);
  own.against = {find_algorithm(Coll::bcast, "binomial"),
                 find_algorithm(Coll::bcast, "binomial")->defaults()};
  write({host});
  const std::string text = write({own});
  EXPECT_TRUE(is_host(Coll::bcast, 1024, on_network(4, false))) << text;
}

TEST_F(Kept, AnotherAlgorithmOfTuttisIsKeptWithItsParameters) {
  Learnt one = learnt(Coll::bcast, 1024, false);
  one.taken = {find_algorithm(Coll::bcast, "binomial"),
               find_algorithm(Coll::bcast, "binomial")->defaults()};
  one.taken.parameters.value[0] = 2048;
  one.chosen = false;
  const std::string text = write({one, learnt(Coll::allgather, 1024, true)});
  EXPECT_NE(text.find("bcast: 1024..2047 binomial(block=2048)    # mpi took 1.50 times as long"),
            std::string::npos)
      << text;
  EXPECT_EQ(write({}), text) << "what is read is written again";
  std::string message;
  const Rules rules = read_kept(path_, kHost, &message);
  Shape shape = on_network(4, false);
  shape.coll = Coll::bcast;
  shape.bytes = 1500;
  ASSERT_NE(rules.of(shape), nullptr) << message;
  EXPECT_TRUE(same(rules.of(shape)->choice, one.taken));
}

// A rule cannot tell operators of the user from the others.
TEST_F(Kept, OperatorsThatFoldWholeVectorsAreNotKept) {
  Learnt one = learnt(Coll::allreduce, 1024, true);
  write({one});
  one.whole = true;
  take(&one, false);
  write({one});
  EXPECT_TRUE(is_host(Coll::allreduce, 1024, on_network(4, false)));
  std::remove(path_.c_str());
  take(&one, true);
  write({one});
  EXPECT_FALSE(is_host(Coll::allreduce, 1024, on_network(4, false)));
}

TEST_F(Kept, OfAnotherMpiIsNotUsed) {
  write({learnt(Coll::bcast, 1024, true)});
  std::string message;
  EXPECT_TRUE(read_kept(path_, "MPICH 4.0", &message).empty());
  EXPECT_NE(message.find("was not kept by this version"), std::string::npos) << message;
}

}  // namespace
}  // namespace tutti
