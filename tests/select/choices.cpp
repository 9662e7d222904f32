// A site's choices (TUTTI_CHOICES): what is read, what is taken, what is refused, and that ranks
// which have read different rules do not start.
#include "select/tuned.hpp"

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

Tuned load(const std::string& text) {
  const File file(text);
  Tuned tuned;
  std::string message;
  EXPECT_TRUE(Tuned::load(file.path(), &tuned, &message).ok()) << message;
  return tuned;
}

std::string complaint(const std::string& text) {
  const File file(text);
  Tuned tuned;
  std::string message;
  EXPECT_FALSE(Tuned::load(file.path(), &tuned, &message).ok()) << text;
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

std::string chosen(const Shape& s, const Tuned& tuned, const std::string& forced = "") {
  Forced wanted;
  std::string message;
  EXPECT_TRUE(Forced::parse(forced, &wanted, &message).ok()) << message;
  const Choice choice = choose(s, wanted, &tuned);
  return std::string(choice.algorithm->name) + ":" + std::to_string(choice.parameters.value[0]);
}

TEST(Choices, TheFirstRuleThatMatchesIsTakenBeforeTheThresholds) {
  const Tuned tuned = load(
      "# a comment, and an empty line\n\n"
      "allreduce nodes 3-16 1024 degree_k:degree=7  # predicted: 20 us\n"
      "allreduce nodes 2-64 * degree_k:degree=1\n");
  EXPECT_EQ(chosen(shape(Coll::allreduce, false, 8, 8), tuned), "degree_k:7");
  EXPECT_EQ(chosen(shape(Coll::allreduce, false, 8, 1025), tuned), "degree_k:1");
  EXPECT_EQ(chosen(shape(Coll::allreduce, false, 2, 8), tuned), "degree_k:1");
  const Shape far = shape(Coll::allreduce, false, 65, 8);
  EXPECT_EQ(chosen(far, tuned), chosen(far, Tuned{}));
  const Shape near = shape(Coll::allreduce, true, 8, 8);
  EXPECT_EQ(chosen(near, tuned), chosen(near, Tuned{}));
  EXPECT_EQ(tuned.of(shape(Coll::allreduce, false, 8, 8))->why, "predicted: 20 us");
  EXPECT_EQ(tuned.of(shape(Coll::allreduce, false, 8, 8))->line, 3);
}

TEST(Choices, ARuleThatCannotRunIsPassedOver) {
  const Tuned tuned = load("bcast node 2-8 * flat\nbcast node 2-8 * blocks:block=4096\n");
  EXPECT_EQ(chosen(shape(Coll::bcast, true, 4, 100), tuned), "flat:0");
  EXPECT_EQ(chosen(shape(Coll::bcast, true, 4, 1 << 20), tuned), "blocks:4096");
}

TEST(Choices, ForcingComesFirst) {
  const Tuned tuned = load("bcast node 2-8 * flat\n");
  EXPECT_EQ(chosen(shape(Coll::bcast, true, 4, 100), tuned, "bcast=blocks:block=8192"),
            "blocks:8192");
}

TEST(Choices, TheTableHasThem) {
  const Tuned tuned = load("bcast node 2-8 500 blocks:block=4096\n");
  const ChoiceTable table(shape(Coll::bcast, true, 4, 0), Forced{}, &tuned);
  EXPECT_STREQ(table.at(500).algorithm->name, "blocks");
  EXPECT_STREQ(table.at(501).algorithm->name, "flat");
}

TEST(Choices, TheHashIsOfTheRulesAndNotOfTheComments) {
  const std::uint64_t one = load("bcast node 2-8 500 flat\n").hash();
  EXPECT_EQ(load("# why\nbcast  node 2-8 500 flat # because\n").hash(), one);
  EXPECT_NE(load("bcast node 2-8 501 flat\n").hash(), one);
  EXPECT_NE(load("bcast node 2-8 500 flat\nbcast node 2-8 500 flat\n").hash(), one);
  EXPECT_EQ(load("# nothing\n").hash(), 0U);
}

TEST(Choices, BadOnesAreToldInOneLine) {
  EXPECT_NE(complaint("bcast node 2-8 500\n").find(":1: a rule is OP WHERE RANKS BYTES ALGORITHM"),
            std::string::npos);
  EXPECT_NE(complaint("\nbcats node 2-8 500 flat\n").find(":2: no collective 'bcats'"),
            std::string::npos);
  EXPECT_NE(complaint("bcast node 2-8 500 falt\n").find("bcast has no algorithm 'falt'"),
            std::string::npos);
  EXPECT_NE(complaint("bcast somewhere 2-8 500 flat\n").find("node or nodes"), std::string::npos);
  for (const char* ranks : {"8-2", "0-4", "1-4", "a", "2-", "-2", "2-99999999999", "2-3-4"}) {
    EXPECT_NE(complaint(std::string("bcast node ") + ranks + " 500 flat\n").find("no range"),
              std::string::npos)
        << ranks;
  }
  EXPECT_NE(complaint("bcast node 2-8 5K flat\n").find("no number of bytes"), std::string::npos);
  EXPECT_NE(complaint("bcast node 2-8 -1 flat\n").find("no number of bytes"), std::string::npos);
  Tuned tuned;
  std::string message;
  EXPECT_FALSE(Tuned::load("/nonexistent", &tuned, &message).ok());
  EXPECT_NE(message.find("/nonexistent: cannot be read"), std::string::npos) << message;
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

TEST(Choices, EqualOnesAreUsedAndDifferentOnesRefusedByAll) {
  const File blocks("bcast node 2-8 * blocks\n"), flat("bcast node 2-8 * flat\n");
  EXPECT_EQ(create({blocks.path(), blocks.path()}, "blocks"), (std::vector<int>{0, 0}));
  EXPECT_EQ(create({flat.path(), flat.path()}, "flat"), (std::vector<int>{0, 0}));
  EXPECT_EQ(create({blocks.path(), flat.path()}, "blocks"), (std::vector<int>{3, 3}));
  EXPECT_EQ(create({blocks.path(), "/nonexistent"}, "blocks"), (std::vector<int>{3, 3}));
}

}  // namespace
}  // namespace tutti
