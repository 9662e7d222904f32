#include "base/status.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <type_traits>

namespace tutti {
namespace {

Status fails_with(Code code) {
  TUTTI_TRY(Status::error(code, "why"));
  return Status::error(Code::internal, "not reached");
}

TEST(Status, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(Code::internal); ++code) {
    names.insert(name(static_cast<Code>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::internal) + 1);
  EXPECT_FALSE(names.contains("unknown status"));
  EXPECT_STREQ(name(static_cast<Code>(200)), "unknown status");
}

TEST(Status, CarriesPeerAndDetail) {
  EXPECT_TRUE(Status::success().ok());
  EXPECT_EQ(Status::success().peer, -1);
  const Status lost = Status::peer_lost(3, "killed");
  EXPECT_FALSE(lost.ok());
  EXPECT_EQ(lost.code, Code::peer_lost);
  EXPECT_EQ(lost.peer, 3);
  EXPECT_STREQ(lost.detail, "killed");
  EXPECT_EQ(Status::timeout(5).code, Code::timeout);
  EXPECT_EQ(Status::timeout(5).peer, 5);
}

TEST(Status, TryReturnsTheFirstFailure) {
  const Status status = fails_with(Code::no_memory);
  EXPECT_EQ(status.code, Code::no_memory);
  EXPECT_STREQ(status.detail, "why");
  EXPECT_EQ(fails_with(Code::ok).code, Code::internal);
}

static_assert(sizeof(Status) <= 16 && std::is_trivially_copyable_v<Status>,
              "travels in two registers");

}  // namespace
}  // namespace tutti
