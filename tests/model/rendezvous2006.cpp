// The model of the rendezvous protocols against the simulation of src/p2p, which is exact: two
// nodes and one message leave nothing to contend for.
#include "model/rendezvous2006.hpp"

#include <gtest/gtest.h>

#include "sim/messages.hpp"
#include "sim/profile.hpp"

namespace tutti {
namespace {

using model::Rendezvous;

struct Pair {
  Rendezvous model;
  p2p::Protocol protocol;
  const char* name;
};
constexpr Pair kProtocols[] = {
    {Rendezvous::write, p2p::Protocol::write, "write"},
    {Rendezvous::read, p2p::Protocol::read, "read"},
    {Rendezvous::read_interrupt, p2p::Protocol::read_interrupt, "read_interrupt"}};

TEST(RendezvousModel, IsTheSimulationExactly) {
  for (const char* profile : {"via2003", "ib2006", "infiniband"}) {
    const sim::Network n = sim::test::profile(profile);
    for (const Pair& pair : kProtocols) {
      for (const std::size_t bytes :
           {std::size_t{8192}, std::size_t{65536}, std::size_t{1} << 20}) {
        for (const double sender : {0.0, 5.0, 200.0, 5000.0}) {
          for (const double receiver : {0.0, 40.0, 5000.0}) {
            sim::Exchange exchange{bytes, pair.protocol};
            exchange.sender_computes = static_cast<sim::Time>(sender * sim::kMicrosecond);
            exchange.receiver_computes = static_cast<sim::Time>(receiver * sim::kMicrosecond);
            sim::ExchangeTimes times;
            std::string message;
            ASSERT_TRUE(sim::run_exchange(n, exchange, &times, &message).ok()) << message;
            const auto expected = model::rendezvous(n, pair.model, bytes, sender, receiver);
            const auto us = [](sim::Time t) { return static_cast<double>(t) / sim::kMicrosecond; };
            EXPECT_NEAR(us(times.sender), expected.sender, 1e-4)
                << profile << " " << pair.name << " " << bytes << " B, " << sender << " and "
                << receiver << " us";
            EXPECT_NEAR(us(times.receiver), expected.receiver, 1e-4)
                << profile << " " << pair.name << " " << bytes << " B, " << sender << " and "
                << receiver << " us";
          }
        }
      }
    }
  }
}

TEST(RendezvousModel, OnlyARequestToSendInterruptsAndOnlyWhereItIsAskedFor) {
  const sim::Network n = sim::test::profile("ib2006");
  for (const Pair& pair : kProtocols) {
    sim::Exchange exchange{65536, pair.protocol};
    exchange.receiver_computes = 1'000'000'000;
    sim::ExchangeTimes times;
    std::string message;
    ASSERT_TRUE(sim::run_exchange(n, exchange, &times, &message).ok()) << message;
    EXPECT_EQ(times.receiver_interrupts, pair.model == Rendezvous::read_interrupt ? 1U : 0U);
    EXPECT_EQ(times.sender_interrupts, 0U);
  }
}

TEST(RendezvousModel, OverlapIsTheShareThatIsHidden) {
  EXPECT_DOUBLE_EQ(model::overlap(100, 100, 200), 0);
  EXPECT_DOUBLE_EQ(model::overlap(100, 100, 100), 1);
  EXPECT_DOUBLE_EQ(model::overlap(100, 50, 125), 0.5);
  EXPECT_DOUBLE_EQ(model::overlap(100, 0, 100), 0);
  EXPECT_DOUBLE_EQ(model::overlap(100, 100, 250), 0);
}

}  // namespace
}  // namespace tutti
