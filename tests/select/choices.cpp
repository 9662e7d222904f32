// A site's choices (TUTTI_CHOICES): what is read, what is taken, what is refused, and that ranks
// which have read different rules do not start.
#include "select/rules.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/core.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

/// A file that is gone with the object.
class File {
 public:
  explicit File(const std::string& text)
      : path_(::testing::TempDir() + "tutti_choices_" + std::to_string(::getpid()) + "_" +
              std::to_string(++count_)) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  static inline int count_ = 0;
  std::string path_;
};

Rules load(const std::string& text) {
  const File file(text);
  Rules rules;
  std::string message;
  EXPECT_TRUE(Rules::load(file.path(), &rules, &message).ok()) << message;
  return rules;
}

std::string complaint(const std::string& text) {
  const File file(text);
  Rules rules;
  std::string message;
  EXPECT_FALSE(Rules::load(file.path(), &rules, &message).ok()) << text;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_TRUE(message.starts_with(file.path() + ":")) << message;
  return message;
}

Shape shape(Coll coll, bool mapped, int size, std::size_t bytes) {
  Shape s;
  s.coll = coll;
  s.mapped = mapped;
  s.size = size;
  s.bytes = bytes;
  s.element_bytes = 4;
  s.block_bytes = 65536;
  return s;
}

std::string chosen(const Shape& s, const Rules& rules, const std::string& forced = "") {
  Forced wanted;
  std::string message;
  EXPECT_TRUE(Forced::parse(forced, &wanted, &message).ok()) << message;
  const Choice choice = choose(s, wanted, &rules);
  return std::string(choice.algorithm->name) + ":" + std::to_string(choice.parameters.value[0]);
}

TEST(Choices, TheFirstRuleThatMatchesIsTakenBeforeTheBuiltInOnes) {
  const Rules rules = load(
      "# a comment, and an empty line\n\n"
      "[nodes ranks=3..16]\n"
      "allreduce: ..1K degree_k(degree=7)  # predicted: 20 us\n"
      "[nodes ranks=..64]  # for the rest\n"
      "allreduce: * degree_k(degree=1)\n");
  EXPECT_EQ(chosen(shape(Coll::allreduce, false, 8, 8), rules), "degree_k:7");
  EXPECT_EQ(chosen(shape(Coll::allreduce, false, 8, 1024), rules), "degree_k:7");
  EXPECT_EQ(chosen(shape(Coll::allreduce, false, 8, 1025), rules), "degree_k:1");
  EXPECT_EQ(chosen(shape(Coll::allreduce, false, 2, 8), rules), "degree_k:1");
  const Shape far = shape(Coll::allreduce, false, 65, 8);
  EXPECT_EQ(chosen(far, rules), chosen(far, Rules{}));
  const Shape near = shape(Coll::allreduce, true, 8, 8);
  EXPECT_EQ(chosen(near, rules), chosen(near, Rules{}));
  EXPECT_EQ(rules.of(shape(Coll::allreduce, false, 8, 8))->why, "predicted: 20 us");
  EXPECT_EQ(rules.of(shape(Coll::allreduce, false, 8, 8))->line, 4);
  EXPECT_EQ(rules.of(shape(Coll::allreduce, false, 2, 8))->why, "for the rest");
}

std::string second(const Shape& s, const Rules& rules, const std::string& forced = "") {
  Forced wanted;
  std::string message;
  EXPECT_TRUE(Forced::parse(forced, &wanted, &message).ok()) << message;
  const ChoiceTable table(s, wanted, &rules);
  const Choice& choice = table.second_at(s.bytes);
  EXPECT_TRUE(choice.algorithm == nullptr || !same(choice, table.at(s.bytes)));
  return choice.algorithm == nullptr ? "" : rule_text(choice);
}

TEST(Choices, TheSecondIsWhatTheRulesHaveNext) {
  Shape s = shape(Coll::allgather, true, 4, 65536);
  s.hosted = s.user_memory = true;
  EXPECT_EQ(chosen(s, Rules{}), "blocks:0");
  EXPECT_EQ(second(s, Rules{}), "cma");
  s.user_memory = false;
  EXPECT_EQ(second(s, Rules{}), "") << "it cannot run there";
  s.user_memory = true;
  s.hosted = false;
  EXPECT_EQ(second(s, Rules{}), "") << "nothing is tried without a host";
  s.hosted = true;
  EXPECT_EQ(second(s, load("[node]\nallgather: * blocks\n")), "") << "the site has decided";
  EXPECT_EQ(second(s, Rules{}, "allgather=blocks"), "");
  s = shape(Coll::bcast, true, 4, 32768);
  s.hosted = true;
  EXPECT_EQ(second(s, Rules{}), "blocks(block=16384)") << "the same with other parameters";
  s.bytes = 1 << 20;
  EXPECT_EQ(second(s, Rules{}), "") << "there is only one";
  s = shape(Coll::allreduce, true, 4, 65536);
  s.hosted = s.fixed_order = true;
  EXPECT_EQ(second(s, Rules{}), "") << "the order is fixed";
}

/// Everybody writes where ranks share processors and the block is worth a system call.
TEST(Choices, LargeGathersAreWrittenByAllWhereProcessorsAreShared) {
  Shape s = shape(Coll::gather, true, 8, 65536);
  s.scarce = s.user_memory = true;
  EXPECT_EQ(chosen(s, Rules{}), "cma_write:0");
  s.bytes = 65535;
  EXPECT_EQ(chosen(s, Rules{}), "blocks:0");
  s.bytes = 65536;
  s.size = 7;
  EXPECT_EQ(chosen(s, Rules{}), "blocks:0");
  s.size = 8;
  s.scarce = false;
  EXPECT_EQ(chosen(s, Rules{}), "blocks:0");
  s.scarce = true;
  s.user_memory = false;
  EXPECT_EQ(chosen(s, Rules{}), "blocks:0");
  s.user_memory = s.bypass = true;
  EXPECT_EQ(chosen(s, Rules{}), "blocks:0") << "the network would have to know the memory";
}

/// What is divided along the machine is chosen where that divides the ranks, each of which has a
/// processor of its own.
TEST(Choices, LargeNodesGoAlongTheMachine) {
  for (const Coll coll : {Coll::bcast, Coll::reduce, Coll::allreduce, Coll::allgather}) {
    Shape s = shape(coll, true, 64, 16384);
    s.levels = 2;
    s.nearest = 8;
    EXPECT_EQ(chosen(s, Rules{}), "nested:0") << name(coll);
    s.scarce = true;
    EXPECT_NE(chosen(s, Rules{}), "nested:0") << name(coll) << " on shared processors";
    s.scarce = false;
    s.levels = 1;
    EXPECT_NE(chosen(s, Rules{}), "nested:0") << name(coll) << " on one part";
  }
}

/// A block of a byte for each member is the least that gathers and bundles need.
TEST(Choices, NestedAlgorithmsNeedRoomForEachMember) {
  Shape s = shape(Coll::alltoall, true, 64, 8);
  s.levels = 2;
  s.nearest = 8;
  EXPECT_EQ(chosen(s, Rules{}, "alltoall=nested:block=64"), "nested:64");
  EXPECT_NE(chosen(s, Rules{}, "alltoall=nested:block=63"), "nested:63");
  s.coll = Coll::allgather;
  EXPECT_EQ(chosen(s, Rules{}, "allgather=nested:block=8"), "nested:8");
  EXPECT_NE(chosen(s, Rules{}, "allgather=nested:block=7"), "nested:7");
}

/// Who computes meanwhile uses dedicated processors; who waits tries them beside its own algorithm.
TEST(Choices, DedicatedProcessorsServeWhatIsOverlapped) {
  Shape s = shape(Coll::allreduce, true, 4, 8);
  const std::string own = chosen(s, Rules{});
  s.hosted = s.dedicated = true;
  EXPECT_EQ(chosen(s, Rules{}), "dcp:0");
  EXPECT_EQ(second(s, Rules{}), "") << "they are what the user wants";
  s.waits = true;
  EXPECT_EQ(chosen(s, Rules{}), own);
  EXPECT_EQ(second(s, Rules{}), "dcp");
  EXPECT_EQ(chosen(s, Rules{}, "allreduce=dcp"), "dcp:0");
  EXPECT_EQ(chosen(s, load("[dedicated=blocking]\nallreduce: * dcp\n")), "dcp:0");
  EXPECT_EQ(chosen(s, load("[dedicated=overlapped]\nallreduce: * dcp\n")), own);
  s = shape(Coll::gather, true, 4, 8);
  s.hosted = s.dedicated = s.waits = true;
  EXPECT_EQ(second(s, Rules{}), "blocks") << "they do not serve it";
}

TEST(Choices, SectionsAskForWhatMembersHaveInCommon) {
  const Rules rules = load(
      "[nodes processors=scarce]\nbcast: * direct\n"
      "[nodes network=bypass ranks=4]\nbcast: * sendrecv_binomial\n"
      "[layers]\nbcast: * hierarchical\n"
      "[]\nbcast: * binomial(block=2K,degree=3)\n");
  Shape s = shape(Coll::bcast, false, 4, 8);
  EXPECT_EQ(chosen(s, rules), "binomial:2048");
  s.bypass = true;
  EXPECT_EQ(chosen(s, rules), "sendrecv_binomial:1024");
  s.scarce = true;
  EXPECT_EQ(chosen(s, rules), "direct:65536");
  s.hierarchical = true;
  EXPECT_EQ(chosen(s, rules), "hierarchical:0");
  s = shape(Coll::bcast, false, 5, 8);
  s.bypass = true;
  EXPECT_EQ(chosen(s, rules), "binomial:2048");
}

TEST(Choices, SizesHaveTwoEndsAndMayGrowWithTheRanks) {
  const Rules rules = load(
      "[nodes]\nallreduce: 1K..2K ring; ..1K*ranks degree_k(degree=7); 16K.. recursive_doubling; "
      "* degree_k(degree=1)\n");
  const auto at = [&](int size, std::size_t bytes) {
    return chosen(shape(Coll::allreduce, false, size, bytes), rules);
  };
  EXPECT_EQ(at(4, 1023), "degree_k:7");
  EXPECT_EQ(at(4, 1024), "ring:0");
  EXPECT_EQ(at(4, 2048), "ring:0");
  EXPECT_EQ(at(4, 2049), "degree_k:7");
  EXPECT_EQ(at(4, 4096), "degree_k:7");
  EXPECT_EQ(at(4, 4097), "degree_k:1");
  EXPECT_EQ(at(8, 4097), "degree_k:7");
  EXPECT_EQ(at(4, 16384), "recursive_doubling:0");
}

TEST(Choices, ARuleThatCannotRunIsPassedOver) {
  const Rules rules = load("[node ranks=2..8]\nbcast: * flat; * blocks(block=4K)\n");
  EXPECT_EQ(chosen(shape(Coll::bcast, true, 4, 100), rules), "flat:0");
  EXPECT_EQ(chosen(shape(Coll::bcast, true, 4, 1 << 20), rules), "blocks:4096");
}

TEST(Choices, ForcingComesFirst) {
  const Rules rules = load("[node]\nbcast: * flat\n");
  EXPECT_EQ(chosen(shape(Coll::bcast, true, 4, 100), rules, "bcast=blocks:block=8K"),
            "blocks:8192");
}

/// Of a call of an MPI program.
Shape hosted(Coll coll, bool mapped, int size, std::size_t bytes) {
  Shape s = shape(coll, mapped, size, bytes);
  s.hosted = true;
  return s;
}

TEST(Choices, EveryCollectiveCanBeLeftToTheMpi) {
  for (int i = 0; i < kColls; ++i) {
    const Coll coll = static_cast<Coll>(i);
    const std::string op = name(coll);
    EXPECT_EQ(chosen(hosted(coll, true, 4, 8), Rules{}, op + "=mpi"), "mpi:0");
    EXPECT_EQ(chosen(hosted(coll, false, 4, 8), load(op + ": * mpi\n")), "mpi:0");
    EXPECT_NE(chosen(hosted(coll, true, 4, 8), Rules{}), "mpi:0");
    EXPECT_EQ(find_algorithm(coll, "mpi"), &host_algorithm(coll));
  }
  const std::string more = complaint("bcast: * mpi(block=4K)\n");
  EXPECT_NE(more.find("bcast mpi has no parameter 'block' (it has none)"), std::string::npos)
      << more;
}

TEST(Choices, TheMpiTakesSizesAndPlacesAsAnyAlgorithm) {
  const Rules rules =
      load("[layers]\nallreduce: ..1K mpi\n[node ranks=3..]\nallreduce: 4K..8K mpi\n");
  const ChoiceTable table(hosted(Coll::allreduce, true, 4, 0), Forced{}, &rules);
  for (const auto& [bytes, left] :
       {std::pair{4095, false}, {4096, true}, {8192, true}, {8193, false}})
    EXPECT_EQ(table.at(static_cast<std::size_t>(bytes)).algorithm->left_to_host(), left) << bytes;
  EXPECT_NE(chosen(hosted(Coll::allreduce, true, 2, 4096), rules), "mpi:0");
  Shape hierarchical = hosted(Coll::allreduce, false, 4, 8);
  EXPECT_NE(chosen(hierarchical, rules), "mpi:0");
  hierarchical.hierarchical = true;
  EXPECT_EQ(chosen(hierarchical, rules), "mpi:0");
}

/// The team of a layer, and everything where there is no MPI.
TEST(Choices, TheMpiTakesWholeCallsOfMpiProgramsOnly) {
  const Rules rules = load("reduce: * mpi\n");
  const Shape inner = shape(Coll::reduce, true, 4, 8);
  EXPECT_EQ(chosen(inner, rules), chosen(inner, Rules{}));
  EXPECT_EQ(chosen(inner, rules, "reduce=mpi"), chosen(inner, Rules{}));
  EXPECT_STREQ(host_algorithm(Coll::reduce).restriction(inner, {}),
               "an MPI runs whole calls of MPI programs only");
}

TEST(Choices, AFixedOrderIsNotLeftToTheMpi) {
  Forced forced;
  std::string message;
  ASSERT_TRUE(Forced::parse("allreduce=mpi,bcast=mpi", &forced, &message).ok()) << message;
  for (const Coll coll : {Coll::allreduce, Coll::bcast}) {
    Shape s = hosted(coll, true, 4, 8);
    s.fixed_order = true;
    const ChoiceTable table(s, forced);
    EXPECT_EQ(table.at(8).algorithm->left_to_host(), coll == Coll::bcast);
    const std::string said = where_not_forced(s, forced, table);
    EXPECT_EQ(said.find("TUTTI_ALG: allreduce mpi cannot run with 4 ranks from 0 bytes on (no MPI "
                        "promises the order of TUTTI_FIXED_ORDER)") != std::string::npos,
              coll == Coll::allreduce)
        << said;
  }
}

/// Without memory that others can reach there is no way for so many bytes.
TEST(Choices, WhatNothingCanRunIsLeftToTheMpi) {
  Shape s = hosted(Coll::alltoall, false, 4, std::size_t{1} << 40);
  s.mail = s.acks = s.user_memory = false;
  s.block_bytes = 0;
  ASSERT_EQ(Rules::built_in().of(s), nullptr);
  EXPECT_TRUE(choose(s, Forced{}).algorithm->left_to_host());
  s.hosted = false;
  EXPECT_EQ(choose(s, Forced{}).algorithm, nullptr);
}

TEST(Choices, TheTableHasThem) {
  const Rules rules = load("[node]\nbcast: ..500 blocks(block=4096)\n");
  const ChoiceTable table(shape(Coll::bcast, true, 4, 0), Forced{}, &rules);
  EXPECT_STREQ(table.at(500).algorithm->name, "blocks");
  EXPECT_STREQ(table.at(501).algorithm->name, "flat");
}

TEST(Choices, TheTableHasRangesBetweenPowersOfTwo) {
  const Rules rules = load("[node]\nbcast: 1100..1200 blocks(block=4K); ..1300 blocks(block=8K)\n");
  for (const std::size_t bytes :
       {0, 8, 1024, 1099, 1100, 1150, 1200, 1201, 1300, 1301, 2048, 70000}) {
    const Shape s = shape(Coll::bcast, true, 4, bytes);
    const ChoiceTable table(s, Forced{}, &rules);
    const Choice asked = choose(s, Forced{}, &rules);
    EXPECT_EQ(table.at(bytes).algorithm, asked.algorithm) << bytes;
    EXPECT_EQ(table.at(bytes).parameters.value[0], asked.parameters.value[0]) << bytes;
  }
}

TEST(Choices, TheHashIsOfTheRulesAndNotOfTheComments) {
  const std::uint64_t one = load("[node]\nbcast: ..500 flat\n").hash();
  EXPECT_EQ(load("# why\n[ node ] # where\nbcast:  ..500  flat # because\n").hash(), one);
  EXPECT_NE(load("[node]\nbcast: ..501 flat\n").hash(), one);
  EXPECT_NE(load("[nodes]\nbcast: ..500 flat\n").hash(), one);
  EXPECT_NE(load("[node]\nbcast: ..500 flat\nbcast: ..500 flat\n").hash(), one);
  EXPECT_EQ(load("# nothing\n").hash(), 0U);
}

TEST(Choices, FormerNamesAreTaken) {
  Rules rules;
  std::string message;
  ASSERT_TRUE(
      Rules::parse("[nodes]\nallreduce: ..8K doubling; * halving\n", "a file", &rules, &message)
          .ok())
      << message;
  for (const Algorithm* const algorithm : algorithms()) {
    if (algorithm->former_name == nullptr) continue;
    EXPECT_EQ(find_algorithm(algorithm->coll, algorithm->former_name), algorithm);
    EXPECT_EQ(find_algorithm(algorithm->coll, algorithm->name), algorithm);
  }
}

TEST(Choices, BadOnesAreToldInOneLine) {
  const std::pair<const char*, const char*> all[] = {
      {"bcast node 2-8 500 flat\n", ":1: 'bcast node 2-8 500 flat' is neither a [section] nor OP:"},
      {"\nbcats: * flat\n", ":2: no collective 'bcats'"},
      {"bcast: * falt\n", "bcast has no algorithm 'falt'"},
      {"bcast: *\n", "behind the sizes comes an algorithm"},
      {"bcast:\n", "no algorithm behind 'bcast:'"},
      {"bcast: * flat;; * blocks\n", "'' are no sizes"},
      {"bcast: 5 flat\n", "'5' are no sizes"},
      {"bcast: .. flat\n", "'..' are no sizes"},
      {"bcast: 2K..1K flat\n", "'2K..1K' are no sizes"},
      {"bcast: 2K..*ranks flat\n", "are no sizes"},
      {"bcast: ..-1 flat\n", "'..-1' are no sizes"},
      {"bcast: * blocks(block=4K\n", "the parameters end in )"},
      {"bcast: * blocks(size=4K)\n", "has no parameter 'size', but 'block'"},
      {"bcast: * blocks(block=no)\n", "block takes a positive whole number"},
      {"bcast: * binomial(block=64K)\n", "'block=64K': block: 1 to 5120"},
      {"[node\n", "a section ends in ]"},
      {"[somewhere]\n", "'somewhere' is no condition; there are node, nodes, layers"},
      {"[node nodes]\n", "'nodes' is no condition"},
      {"[processors=few]\n", "'processors=few' is no condition"},
      {"[processors=own processors=scarce]\n", "'processors=scarce' is no condition"},
      {"[ranks=4 ranks=2..8]\n", "'ranks=2..8' is no condition"},
  };
  for (const auto& [text, wanted] : all)
    EXPECT_NE(complaint(text).find(wanted), std::string::npos) << complaint(text);
  for (const char* ranks : {"8..2", "0..4", "a", "..", "", "-2", "2..99999999999", "2..3..4"}) {
    const std::string said = complaint("[ranks=" + std::string(ranks) + "]\n");
    EXPECT_NE(said.find("is no condition"), std::string::npos) << said;
  }
  Rules rules;
  std::string message;
  EXPECT_FALSE(Rules::load("/nonexistent", &rules, &message).ok());
  EXPECT_NE(message.find("/nonexistent: cannot be read"), std::string::npos) << message;
  EXPECT_FALSE(Rules::load("/", &rules, &message).ok());
}

/// Every collective has an algorithm in every place, whatever its size and the operator.
TEST(Choices, TheBuiltInOnesLeaveNothingOut) {
  Rules rules;
  std::string message;
  ASSERT_TRUE(Rules::parse(builtin_choices(), "built-in", &rules, &message).ok()) << message;
  EXPECT_GT(rules.size(), 60u);
  for (int coll = 0; coll < kColls; ++coll) {
    for (const int size : {2, 5, 8, 9, 64}) {
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{1} << 24}) {
        for (int bits = 0; bits < 32; ++bits) {
          Shape s = shape(static_cast<Coll>(coll), (bits & 1) != 0, size, bytes);
          if (s.coll == Coll::barrier) s.bytes = 0;
          s.longest_block = s.bytes;
          s.hierarchical = !s.mapped && (bits & 2) != 0;
          s.scarce = (bits & 4) != 0;
          s.divisible = s.commutative = (bits & 8) != 0;
          s.at_once = (bits & 16) != 0 && s.divisible && reduces(s.coll);
          EXPECT_NE(rules.of(s), nullptr)
              << name(s.coll) << " of " << bytes << " bytes, " << size << " ranks, " << bits;
        }
      }
    }
  }
}

/// Creates a job on each of two ranks, rank r with `files[r]`; gives the exit statuses: 0 where the
/// job was made and used the algorithm `wanted` for a broadcast of 8 bytes, 3 where all was
/// refused.
std::vector<int> create(const std::string (&files)[2], const char* wanted) {
  const auto body = [&](Bootstrap& bootstrap) {
    setenv("TUTTI_CHOICES", files[bootstrap.rank()].c_str(), 1);
    setenv("TUTTI_LOG", "quiet", 1);
    Host host;
    host.rank = bootstrap.rank();
    host.size = bootstrap.size();
    host.self = &bootstrap;
    host.allgather = [](void* self, const void* in, void* out, std::size_t bytes) {
      return static_cast<Bootstrap*>(self)->allgather(in, out, bytes);
    };
    std::unique_ptr<Job> job;
    if (!Job::create(host, false, &job).ok()) return 3;
    const std::int32_t members[2] = {0, 1};
    Team* team = nullptr;
    if (!job->create_team({{1, 2}, host.rank, 2, members}, &team).ok()) return 4;
    Call call;
    call.coll = Coll::bcast;
    call.bytes = 8;
    std::uint64_t data = 0;
    call.recv = &data;
    const bool right = job->algorithm(*team, call) == std::string(wanted);
    const bool ran = job->run(*team, call).ok();
    static_cast<void>(job->run(*team, Call{}));
    return right && ran ? 0 : 5;
  };
  std::vector<int> codes;
  for (const int status : test::fork_ranks(2, body)) codes.push_back(WEXITSTATUS(status));
  return codes;
}

TEST(Choices, WithoutAnMpiNothingCanBeForcedUponIt) {
  EXPECT_EQ(create({"", ""}, "flat"), (std::vector<int>{0, 0}));
  setenv("TUTTI_ALG", "allreduce=mpi", 1);
  EXPECT_EQ(create({"", ""}, "flat"), (std::vector<int>{3, 3}));
  unsetenv("TUTTI_ALG");
}

TEST(Choices, EqualOnesAreUsedAndDifferentOnesRefusedByAll) {
  const File blocks("[node]\nbcast: * blocks\n"), flat("[node]\nbcast: * flat\n");
  EXPECT_EQ(create({blocks.path(), blocks.path()}, "blocks"), (std::vector<int>{0, 0}));
  EXPECT_EQ(create({flat.path(), flat.path()}, "flat"), (std::vector<int>{0, 0}));
  EXPECT_EQ(create({blocks.path(), flat.path()}, "blocks"), (std::vector<int>{3, 3}));
  EXPECT_EQ(create({blocks.path(), "/nonexistent"}, "blocks"), (std::vector<int>{3, 3}));
}

}  // namespace
}  // namespace tutti
