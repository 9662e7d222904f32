// The C API: results of every collective in every form, and what it says to bad arguments. Ranks
// are forked.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace {

constexpr int kRanks = 3;

/// Runs `body` on kRanks forked ranks of one job; the number of ranks that did not exit with 0.
int run_job(const std::function<bool(tutti_job*, tutti_team*)>& body) {
  std::string directory = (std::filesystem::temp_directory_path() / "tutti-api-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) return -1;
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      tutti_bootstrap bootstrap;
      tutti_job* job = nullptr;
      tutti_team* team = nullptr;
      if (tutti_bootstrap_directory(directory.c_str(), rank, kRanks, &bootstrap) != TUTTI_OK)
        _exit(10);
      if (tutti_init(&bootstrap, 0, &job) != TUTTI_OK) _exit(11);
      tutti_bootstrap_free(&bootstrap);
      if (tutti_team_create(job, 7, rank, kRanks, nullptr, &team) != TUTTI_OK) _exit(12);
      const bool good = body(job, team);
      if (tutti_barrier(team) != TUTTI_OK) _exit(13);
      tutti_team_free(team);
      tutti_finalize(job);
      _exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  int bad = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++bad;
  }
  std::filesystem::remove_all(directory);
  return bad;
}

TEST(Api, CollectivesGiveTheirResults) {
  EXPECT_EQ(
      run_job([](tutti_job*, tutti_team* team) {
        const int rank = tutti_team_rank(team);
        bool good = tutti_team_size(team) == kRanks;
        int value = rank == 1 ? 42 : 0;
        good = good && tutti_bcast(team, &value, sizeof value, 1) == TUTTI_OK && value == 42;
        double mine[2] = {rank + 1.0, 2.0}, sum[2] = {0, 0};
        good = good && tutti_allreduce(team, mine, sum, 2, TUTTI_DOUBLE, TUTTI_PROD) == TUTTI_OK;
        good = good && sum[0] == 6.0 && sum[1] == 8.0;
        good = good && tutti_reduce(team, mine, sum, 1, TUTTI_DOUBLE, TUTTI_MAX, 2) == TUTTI_OK;
        good = good && (rank != 2 || sum[0] == 3.0);
        std::vector<int> all(kRanks, -1);
        good = good && tutti_allgather(team, &rank, all.data(), sizeof rank) == TUTTI_OK;
        return good && all == std::vector<int>({0, 1, 2});
      }),
      0);
}

/// A call of longs that are summed.
tutti_call summing(tutti_collective collective, const void* send, void* recv, size_t count) {
  tutti_call call{};
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = TUTTI_INT64;
  call.op = TUTTI_SUM;
  return call;
}

TEST(Api, PrefixesAndListedBlocksOfReductions) {
  EXPECT_EQ(run_job([](tutti_job*, tutti_team* team) {
              const int rank = tutti_team_rank(team);
              const long mine[3] = {rank + 1L, 10L * (rank + 1), 100L * (rank + 1)};
              long got[3] = {-1, -1, -1};
              tutti_call call = summing(TUTTI_SCAN, mine, got, 1);
              const long scanned[] = {1, 3, 6};
              bool good = tutti_run(team, &call) == TUTTI_OK && got[0] == scanned[rank];
              got[0] = -1;
              call.collective = TUTTI_EXSCAN;
              const long before[] = {-1, 1, 3};
              good = good && tutti_run(team, &call) == TUTTI_OK && got[0] == before[rank];
              const size_t counts[] = {sizeof(long), 0, 2 * sizeof(long)};
              const long wanted[][3] = {{6, -1, -1}, {-1, -1, -1}, {60, 600, -1}};
              got[0] = -1;
              call.collective = TUTTI_REDUCE_SCATTER;
              good = good && tutti_run(team, &call) == TUTTI_ERR_ARGUMENT;  // no counts
              call.counts = counts;
              good = good && tutti_run(team, &call) == TUTTI_OK &&
                     std::equal(got, got + 3, wanted[rank]);
              const size_t broken[] = {sizeof(long), 4, 4};
              call.counts = broken;
              return good && tutti_run(team, &call) == TUTTI_ERR_ARGUMENT;
            }),
            0);
}

/// Rank r has r + 1 ints for each rank; the same by alltoallv, and to and from rank 1 alone.
TEST(Api, EachRankSaysItsOwnCountsOnly) {
  EXPECT_EQ(run_job([](tutti_job*, tutti_team* team) {
              const int rank = tutti_team_rank(team);
              const auto mine = static_cast<size_t>(rank) + 1;
              std::vector<int> send(kRanks * mine), recv(1 + 2 + 3, -1);
              size_t sent[kRanks], from[kRanks], received[kRanks], to[kRanks];
              for (size_t r = 0, place = 0; r < kRanks; place += ++r) {
                sent[r] = mine * sizeof(int);
                from[r] = r * mine * sizeof(int);
                received[r] = (r + 1) * sizeof(int);
                to[r] = place * sizeof(int);
                for (size_t i = 0; i < mine; ++i)
                  send[r * mine + i] = 100 * rank + 10 * static_cast<int>(r);
              }
              tutti_call call{};
              call.collective = TUTTI_ALLTOALLV;
              call.send = send.data();
              call.send_counts = sent;
              call.send_displs = from;
              call.recv = recv.data();
              call.counts = received;
              call.displs = to;
              bool good = tutti_run(team, &call) == TUTTI_OK;
              const int own = 10 * rank;
              good = good && recv == std::vector<int>({own, 100 + own, 100 + own, 200 + own,
                                                       200 + own, 200 + own});
              call.collective = TUTTI_GATHERV;
              call.root = 1;
              call.send = send.data() + mine;
              call.bytes = sent[0];
              recv.assign(6, -1);
              good = good && tutti_run(team, &call) == TUTTI_OK;
              good = good && (rank != 1 || recv == std::vector<int>({10, 110, 110, 210, 210, 210}));
              call.collective = TUTTI_SCATTERV;  // and back
              call.send = recv.data();
              call.send_counts = received;
              call.send_displs = to;
              std::vector<int> back(mine, -1);
              call.recv = back.data();
              good = good && tutti_run(team, &call) == TUTTI_OK;
              good = good && back == std::vector<int>(mine, 100 * rank + 10);
              call.send_counts = nullptr;  // at the root: nothing can be sent
              return good && (rank != 1 || tutti_run(team, &call) == TUTTI_ERR_ARGUMENT);
            }),
            0);
}

TEST(Api, RequestsCompleteInAnyOrderAndRestart) {
  EXPECT_EQ(run_job([](tutti_job*, tutti_team* team) {
              const int rank = tutti_team_rank(team);
              std::vector<long> in(50000, rank), out(50000, -1), again(50000, -1);
              tutti_call call{};
              call.collective = TUTTI_ALLREDUCE;
              call.send = in.data();
              call.recv = out.data();
              call.count = in.size();
              call.type = TUTTI_INT64;
              call.op = TUTTI_SUM;
              tutti_request *first = nullptr, *second = nullptr;
              bool good = tutti_start(team, &call, &first) == TUTTI_OK;
              call.recv = again.data();
              good = good && tutti_prepare(team, &call, &second) == TUTTI_OK;
              for (int round = 0; round < 3; ++round) {
                std::fill(again.begin(), again.end(), -1);
                good = good && tutti_restart(second) == TUTTI_OK &&
                       tutti_wait(second) == TUTTI_OK && again.back() == 3;
              }
              int done = 0;
              while (good && done == 0) good = tutti_test(first, &done) == TUTTI_OK;
              tutti_request_free(first);
              tutti_request_free(second);
              return good && out.front() == 3 && out.back() == 3;
            }),
            0);
}

TEST(Api, MessagesArriveInOrderAndDescribeThemselves) {
  EXPECT_EQ(
      run_job([](tutti_job*, tutti_team* team) {
        const int rank = tutti_team_rank(team), next = (rank + 1) % kRanks,
                  previous = (rank + kRanks - 1) % kRanks;
        bool good = true;
        for (const size_t count : {size_t{1}, size_t{1000}, size_t{200000}}) {
          std::vector<int> first(count, rank), second(count, 10 + rank), got(count, -1);
          tutti_request *one = nullptr, *two = nullptr, *in = nullptr;
          const size_t bytes = count * sizeof(int);
          good = good &&
                 tutti_start_receive(team, got.data(), bytes, TUTTI_ANY_SOURCE, 5, &in) == TUTTI_OK;
          good = good && tutti_start_send(team, first.data(), bytes, next, 5, &one) == TUTTI_OK;
          good = good && tutti_start_send(team, second.data(), bytes, next, 6, &two) == TUTTI_OK;
          tutti_receipt receipt{};
          good = good && tutti_wait(in) == TUTTI_OK && tutti_get_receipt(in, &receipt) == TUTTI_OK;
          good = good && receipt.source == previous && receipt.tag == 5 && receipt.bytes == bytes;
          good = good && got.front() == previous && got.back() == previous;
          int found = 0;
          while (good && found == 0)
            good = tutti_probe(team, previous, TUTTI_ANY_TAG, &found, &receipt) == TUTTI_OK;
          good = good && receipt.tag == 6 && receipt.bytes == bytes;
          good = good && tutti_receive(team, got.data(), bytes, previous, 6, nullptr) == TUTTI_OK;
          good = good && got.front() == 10 + previous && got.back() == 10 + previous;
          int done = 0;
          while (good && done == 0) good = tutti_test(one, &done) == TUTTI_OK;
          good = good && tutti_wait(two) == TUTTI_OK;
          // Once more, by the same requests.
          good = good && tutti_restart(in) == TUTTI_OK && tutti_restart(one) == TUTTI_OK;
          good = good && tutti_wait(in) == TUTTI_OK && tutti_wait(one) == TUTTI_OK;
          good = good && got.back() == previous;
          for (tutti_request* request : {one, two, in}) tutti_request_free(request);
        }
        return good;
      }),
      0);
}

TEST(Api, MessagesThatDoNotFitAreStatuses) {
  EXPECT_EQ(run_job([](tutti_job*, tutti_team* team) {
              const int rank = tutti_team_rank(team);
              char data[8] = "message";
              char room[4] = "";
              tutti_receipt receipt{};
              bool good = tutti_send(team, data, 8, kRanks, 0) == TUTTI_ERR_ARGUMENT &&
                          tutti_send(team, data, 8, 0, -1) == TUTTI_ERR_ARGUMENT &&
                          tutti_receive(team, room, 4, -2, 0, nullptr) == TUTTI_ERR_ARGUMENT;
              if (rank == 0) good = good && tutti_send(team, data, 8, 1, 3) == TUTTI_OK;
              if (rank == 1) {
                good = good &&
                       tutti_receive(team, room, 4, 0, 3, &receipt) == TUTTI_ERR_TRUNCATED &&
                       receipt.bytes == 8 && room[3] == 's';
              }
              return good;
            }),
            0);
}

TEST(Api, BadArgumentsAreStatuses) {
  tutti_job* job = nullptr;
  EXPECT_EQ(tutti_init(nullptr, 0, &job), TUTTI_ERR_ARGUMENT);
  tutti_bootstrap bootstrap;
  EXPECT_EQ(tutti_bootstrap_directory("/no/such/directory", 0, 1, &bootstrap), TUTTI_ERR_ARGUMENT);
  EXPECT_EQ(run_job([](tutti_job* mine, tutti_team* team) {
              tutti_team* other = nullptr;
              double x = 0, y = 0;
              return tutti_bcast(team, &x, 8, kRanks) == TUTTI_ERR_ARGUMENT &&
                     tutti_allreduce(team, &x, &y, 1, TUTTI_DOUBLE, TUTTI_BAND) ==
                         TUTTI_ERR_UNSUPPORTED &&
                     tutti_allreduce(team, &x, &y, SIZE_MAX, TUTTI_DOUBLE, TUTTI_SUM) ==
                         TUTTI_ERR_TRUNCATED &&
                     tutti_team_create(mine, 9, 3, 3, nullptr, &other) == TUTTI_ERR_ARGUMENT;
            }),
            0);
  EXPECT_STREQ(tutti_status_text(TUTTI_ERR_PEER_LOST), "peer lost");
}

}  // namespace
