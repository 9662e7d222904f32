// Random programs of messages, and an independent check of what came of them.
//
// In each round all ranks draw the same plan: who sends what to whom, with which tag, size and
// mode, in which of several teams. Receives are drawn freely (sources and tags named or not,
// buffers sometimes too short), so some match nothing; a rank takes what is left with matched
// probes and cancels what is over. Which message a receive from anybody gets depends on time, so
// the check does not predict it: it holds what happened against MPI's rules (MPI 4.1, section 3.5)
// over the order of sends and the order of receives.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "p2p/messages.hpp"
#include "team/team.hpp"

namespace tutti::test {

using p2p::Arrival;
using p2p::Messages;
using p2p::Transfer;

struct PlannedMessage {
  int from = 0, to = 0;  // job ranks
  int team = 0;
  int tag = 0;
  std::size_t bytes = 0;
  SendMode mode = SendMode::standard;
  std::uint64_t number = 0;  // in the order of the sender's sends
};

/// The bytes of a message: who it is, then a pattern that depends on that.
inline void fill(const PlannedMessage& m, std::uint64_t round, std::vector<std::byte>* data) {
  data->resize(m.bytes);
  std::uint64_t state = m.number * 0x9e3779b97f4a7c15 + round * 1000003 +
                        static_cast<std::uint64_t>(m.from) * 7919 + 1;
  for (std::size_t i = 0; i < m.bytes; i += 8) {
    std::uint64_t word = i == 0 ? m.number : state;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(data->data() + i, &word, std::min<std::size_t>(8, m.bytes - i));
  }
}

struct Weights {
  int messages = 40;  // per rank and round
  std::size_t largest = 300'000;
  bool synchronous = true;
};

class Program {
 public:
  /// `teams`: by number, this rank's end of each; `members`: job ranks in team order, by team.
  Program(Messages& messages, int rank, int size, std::vector<Team*> teams,
          std::vector<std::vector<int>> members, std::uint64_t seed, Weights weights)
      : messages_(messages),
        rank_(rank),
        size_(size),
        teams_(std::move(teams)),
        members_(std::move(members)),
        seed_(seed),
        weights_(weights) {}
  ~Program() { give_up(); }

  void begin(std::uint64_t round) {
    give_up();
    round_ = round;
    plan_round();
    std::mt19937_64 own(seed_ * 31 + round * 1009 + static_cast<std::uint64_t>(rank_));
    for (std::size_t i = 0; i < incoming_.size() + 2; ++i) wishes_.push_back(wish(own));
    // Sends and receives alternate at random.
    std::size_t next_send = 0, next_receive = 0;
    while (next_send < outgoing_.size() || next_receive < wishes_.size()) {
      const bool send =
          next_receive == wishes_.size() || (next_send < outgoing_.size() && own() % 2 == 0);
      if (send) {
        start_send(outgoing_[next_send++]);
      } else {
        start_receive(wishes_[next_receive++], own() % 8 == 0);
      }
    }
  }

  /// Completes what has arrived, and takes what no receive waits for.
  void look() {
    for (Posted& posted : receives_) {
      if (!posted.over) posted.over = messages_.test(*posted.transfer, &posted.receipt);
    }
    for (Transfer* send : sends_) {
      Receipt receipt;
      messages_.test(*send, &receipt);
    }
    for (std::size_t team = 0; team < teams_.size(); ++team) {
      Receipt seen;
      Arrival* arrival = nullptr;
      if (!messages_.probe_now(*teams_[team], kAnySource, kAnyTag, &seen)) continue;
      if (!messages_.take_now(*teams_[team], seen.source, seen.tag, &seen, &arrival)) {
        ADD_FAILURE() << "a message that was probed is gone";
        continue;
      }
      auto& posted = receives_.emplace_back();
      posted.team = static_cast<int>(team);
      posted.source = seen.source;
      posted.tag = seen.tag;
      posted.buffer.assign(seen.bytes + kGuard, kUntouched);
      posted.room = seen.bytes;
      EXPECT_TRUE(
          messages_
              .start_receive_taken(arrival, posted.buffer.data(), posted.room, &posted.transfer)
              .ok());
      posted.over = messages_.test(*posted.transfer, &posted.receipt);
    }
  }

  bool finished() const {
    std::size_t received = 0;
    for (const Posted& posted : receives_) received += posted.over && !posted.receipt.cancelled;
    return received >= incoming_.size() &&
           std::none_of(sends_.begin(), sends_.end(),
                        [](const Transfer* t) { return t->active(); });
  }
  std::string state() const {
    std::size_t received = 0, sending = 0;
    for (const Posted& posted : receives_) received += posted.over;
    for (const Transfer* t : sends_) sending += t->active();
    return "rank " + std::to_string(rank_) + ": " + std::to_string(received) + " of " +
           std::to_string(incoming_.size()) + " received, " + std::to_string(sending) +
           " sends open";
  }

  /// After finished(): cancels what matched nothing, and checks everything.
  void end() {
    for (Posted& posted : receives_) {
      if (posted.over) continue;
      messages_.cancel(*posted.transfer);
      posted.over = messages_.test(*posted.transfer, &posted.receipt);
      EXPECT_TRUE(posted.over && posted.receipt.cancelled) << "a receive that nothing was sent to";
    }
    for (Transfer* send : sends_) {
      Receipt receipt;
      EXPECT_TRUE(messages_.test(*send, &receipt) && receipt.status.ok())
          << name(receipt.status.code);
    }
    for (Posted& posted : receives_) check_contents(posted);
    for (std::size_t team = 0; team < teams_.size(); ++team) check_order(static_cast<int>(team));
    received_ += incoming_.size();
  }

  std::uint64_t received() const { return received_; }

 private:
  static constexpr std::size_t kGuard = 16;
  static constexpr std::byte kUntouched{0xa5};

  struct Wish {
    int team, source, tag;
    std::size_t room;
  };
  struct Posted {  // in the order of posting
    Transfer* transfer = nullptr;
    std::vector<std::byte> buffer;
    std::size_t room = 0;
    int team = 0, source = 0, tag = 0;
    bool over = false;
    Receipt receipt;
    const PlannedMessage* got = nullptr;
  };

  int team_rank(int team, int job_rank) const {
    const auto& members = members_[static_cast<std::size_t>(team)];
    return static_cast<int>(std::find(members.begin(), members.end(), job_rank) - members.begin());
  }

  std::size_t draw_size(std::mt19937_64& random) const {
    std::size_t bytes;
    switch (random() % 16) {
      case 0:
        bytes = 0;
        break;
      case 1:
        bytes = random() % (random() % 2 == 0 ? 20'000 : 70'000);
        break;  // around the thresholds
      case 2:
        bytes = random() % 4 == 0 ? random() % weights_.largest : random() % 2'000;
        break;
      case 3:
      case 4:
        bytes = random() % 300;
        break;  // around what fits into a slot
      default:
        bytes = random() % 64;
    }
    return std::min(bytes, weights_.largest);
  }

  void plan_round() {
    std::mt19937_64 shared(seed_ * 17 + round_ * 104729);
    plan_.clear();
    for (int from = 0; from < size_; ++from) {
      const int count =
          static_cast<int>(shared() % static_cast<std::uint64_t>(weights_.messages * 2));
      for (int i = 0; i < count; ++i) {
        PlannedMessage m;
        m.from = from;
        // Bursts to one rank, so that rings and allowances fill up.
        m.to = shared() % 4 == 0 || i == 0
                   ? static_cast<int>(shared() % static_cast<std::uint64_t>(size_))
                   : plan_.back().to;
        m.team = static_cast<int>(shared() % teams_.size());
        m.tag = static_cast<int>(shared() % 4);
        m.bytes = draw_size(shared);
        const auto mode = shared() % 8;
        m.mode = mode == 0 && weights_.synchronous ? SendMode::synchronous
                 : mode == 1                       ? SendMode::buffered
                                                   : SendMode::standard;
        m.number = static_cast<std::uint64_t>(i);
        // Its size tells a message from others with the same envelope, also where it was cut off.
        while (std::any_of(plan_.begin(), plan_.end(),
                           [&](const PlannedMessage& o) { return alike(o, m); }))
          ++m.bytes;
        plan_.push_back(m);
      }
    }
    for (const PlannedMessage& m : plan_) {
      if (m.from == rank_) outgoing_.push_back(&m);
      if (m.to == rank_) incoming_.push_back(&m);
    }
  }

  static bool alike(const PlannedMessage& a, const PlannedMessage& b) {
    return a.from == b.from && a.to == b.to && a.team == b.team && a.tag == b.tag &&
           a.bytes == b.bytes;
  }

  /// A receive, like one of the messages to come or like none of them.
  Wish wish(std::mt19937_64& random) {
    Wish w{static_cast<int>(random() % teams_.size()), 0, static_cast<int>(random() % 5),
           random() % 100};
    if (!incoming_.empty() && random() % 8 != 0) {
      const PlannedMessage& m = *incoming_[random() % incoming_.size()];
      w = {m.team, team_rank(m.team, m.from), m.tag,
           m.bytes + (random() % 4 == 0 ? random() % 40'000 : 0)};
      if (random() % 16 == 0) w.room = random() % (m.bytes + 1);
    } else {
      w.source = static_cast<int>(random() % static_cast<std::uint64_t>(size_));
    }
    if (random() % 4 == 0) w.source = kAnySource;
    if (random() % 4 == 0) w.tag = kAnyTag;
    return w;
  }

  void start_send(const PlannedMessage* m) {
    auto& data = data_.emplace_back(std::make_unique<std::vector<std::byte>>());
    fill(*m, round_, data.get());
    Team& team = *teams_[static_cast<std::size_t>(m->team)];
    const int to = team_rank(m->team, m->to);
    if (m->mode == SendMode::buffered && m->number % 2 == 0) {
      EXPECT_TRUE(
          messages_.send(team, data->data(), m->bytes, to, m->tag, SendMode::buffered).ok());
      std::fill(data->begin(), data->end(), std::byte{0});  // it may be reused
      return;
    }
    Transfer* transfer = nullptr;
    if (m->number % 4 == 1 && m->mode == SendMode::standard &&
        messages_.send_now(team, data->data(), m->bytes, to, m->tag)) {
      std::fill(data->begin(), data->end(), std::byte{0});  // it may be reused
      return;
    }
    if (m->number % 3 == 0) {
      EXPECT_TRUE(
          messages_.prepare_send(team, data->data(), m->bytes, to, m->tag, m->mode, &transfer)
              .ok());
      EXPECT_TRUE(messages_.restart(*transfer).ok());
    } else {
      EXPECT_TRUE(
          messages_.start_send(team, data->data(), m->bytes, to, m->tag, m->mode, &transfer).ok());
    }
    if (m->number % 5 == 0 && m->mode != SendMode::synchronous) {
      messages_.release(
          transfer);  // it is completed without us; the data lives until the next round
    } else {
      sends_.push_back(transfer);
    }
  }

  void start_receive(const Wish& w, bool persistent) {
    auto& posted = receives_.emplace_back();
    posted.team = w.team;
    posted.source = w.source;
    posted.tag = w.tag;
    posted.room = w.room;
    posted.buffer.assign(w.room + kGuard, kUntouched);
    Team& team = *teams_[static_cast<std::size_t>(w.team)];
    if (w.room % 2 != 0) {
      EXPECT_TRUE(messages_
                      .receive_or_start(team, posted.buffer.data(), w.room, w.source, w.tag,
                                        &posted.receipt, &posted.transfer)
                      .ok());
      posted.over = posted.transfer == nullptr;
    } else if (persistent) {
      EXPECT_TRUE(messages_
                      .prepare_receive(team, posted.buffer.data(), w.room, w.source, w.tag,
                                       &posted.transfer)
                      .ok());
      EXPECT_TRUE(messages_.restart(*posted.transfer).ok());
    } else {
      EXPECT_TRUE(
          messages_
              .start_receive(team, posted.buffer.data(), w.room, w.source, w.tag, &posted.transfer)
              .ok());
    }
  }

  /// Finds the message that a receive says it has got, and compares it.
  void check_contents(Posted& posted) {
    if (posted.receipt.cancelled) return;
    const Receipt& r = posted.receipt;
    const auto& members = members_[static_cast<std::size_t>(posted.team)];
    ASSERT_TRUE(r.source >= 0 && r.source < size_);
    EXPECT_TRUE(posted.source == kAnySource || posted.source == r.source);
    EXPECT_TRUE(posted.tag == kAnyTag || posted.tag == r.tag);
    const std::size_t there = std::min(r.bytes, posted.room);
    EXPECT_EQ(r.status.code, r.bytes > posted.room ? Code::truncated : Code::ok)
        << name(r.status.code);
    for (const PlannedMessage* m : incoming_) {
      if (m->team != posted.team || m->tag != r.tag ||
          m->from != members[static_cast<std::size_t>(r.source)] || m->bytes != r.bytes) {
        continue;
      }
      EXPECT_FALSE(taken(*m)) << "a message was received twice";
      posted.got = m;
      std::vector<std::byte> expected;
      fill(*m, round_, &expected);
      EXPECT_TRUE(there == 0 || std::memcmp(expected.data(), posted.buffer.data(), there) == 0)
          << "wrong contents: source " << r.source << " tag " << r.tag << " bytes " << r.bytes
          << " room " << posted.room;
      break;
    }
    EXPECT_NE(posted.got, nullptr)
        << "nobody sent this: source " << r.source << " tag " << r.tag << " bytes " << r.bytes;
    for (std::size_t i = there; i < posted.buffer.size(); ++i) {
      if (posted.buffer[i] != kUntouched) {
        ADD_FAILURE() << "written past the message, at " << i << " of " << posted.room;
        break;
      }
    }
  }
  bool taken(const PlannedMessage& m) const {
    return std::any_of(receives_.begin(), receives_.end(),
                       [&](const Posted& p) { return p.got == &m; });
  }

  bool accepts(const Posted& posted, const PlannedMessage& m) const {
    return posted.team == m.team &&
           (posted.source == kAnySource || posted.source == team_rank(m.team, m.from)) &&
           (posted.tag == kAnyTag || posted.tag == m.tag);
  }

  /// MPI's two rules. Messages do not overtake: of two from one sender that a receive could take,
  /// the later goes to it only if the earlier went to a receive posted before. Receives do not
  /// either: of two that could take a message, the later gets it only if the earlier has got one,
  /// and not a later one of the same sender.
  void check_order(int team) {
    for (std::size_t later = 0; later < receives_.size(); ++later) {
      const Posted& r2 = receives_[later];
      if (r2.team != team || r2.got == nullptr) continue;
      for (const PlannedMessage* m1 : incoming_) {
        if (m1->team != team || m1->from != r2.got->from || m1->number >= r2.got->number ||
            !accepts(r2, *m1)) {
          continue;
        }
        bool before = false;
        for (std::size_t i = 0; i < later; ++i) before = before || receives_[i].got == m1;
        EXPECT_TRUE(before) << "message " << r2.got->number << " of rank " << m1->from
                            << " overtook " << m1->number;
      }
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        const Posted& r1 = receives_[earlier];
        if (!accepts(r1, *r2.got)) continue;
        EXPECT_FALSE(r1.receipt.cancelled) << "a receive was passed over";
        if (r1.got != nullptr && r1.got->from == r2.got->from) {
          EXPECT_LT(r1.got->number, r2.got->number) << "a receive overtook an earlier one";
        }
      }
    }
  }

  void give_up() {
    for (Transfer* send : sends_) messages_.release(send);
    for (Posted& posted : receives_) messages_.release(posted.transfer);
    sends_.clear();
    receives_.clear();
    wishes_.clear();
    outgoing_.clear();
    incoming_.clear();
    old_data_ = std::move(data_);  // sends that were released may still read it
    data_.clear();
  }

  Messages& messages_;
  const int rank_, size_;
  const std::vector<Team*> teams_;
  const std::vector<std::vector<int>> members_;
  const std::uint64_t seed_;
  const Weights weights_;
  std::uint64_t round_ = 0, received_ = 0;
  std::vector<PlannedMessage> plan_;
  std::vector<const PlannedMessage*> outgoing_, incoming_;
  std::vector<Wish> wishes_;
  std::vector<Transfer*> sends_;
  std::vector<Posted> receives_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> data_, old_data_;
};

}  // namespace tutti::test
