#include "core/multicast.hpp"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "fabric/groups/groups.hpp"
#include "fabric/udp/udp.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kTrialGroup[2] = {0x747269616c, 0};
constexpr std::uint64_t kTrialWord = 0x686561726420;

/// A trial: so many datagrams, so far apart, and how long others wait for the first. The second is
/// for networks that lose many, or that take their time to learn who is in a group.
struct Trial {
  int casts;
  int apart_ms;
  int patience_ms;
};
constexpr Trial kTrials[] = {{5, 1, 50}, {30, 5, 400}};

/// What a rank tells the others before the trial.
struct Offer {
  groups::Secret secret;  // rank 0's counts
  std::uint32_t code;
  std::uint32_t datagram_bytes;
  char why[96];
};

void pause(int milliseconds) noexcept {
  const timespec time{0, milliseconds * 1'000'000L};
  nanosleep(&time, nullptr);
}

bool hears(NetworkDatagrams& datagrams, int group, const Fabric& fabric, int patience_ms) {
  const std::uint64_t until =
      fabric.now_ns() + static_cast<std::uint64_t>(patience_ms) * 1'000'000U;
  do {
    std::uint64_t word = 0;
    if (datagrams.receive(group, &word, sizeof word) == sizeof word && word == kTrialWord)
      return true;
    pollfd readable{datagrams.descriptor(), POLLIN, 0};
    poll(&readable, 1, 5);
    datagrams.progress();
  } while (fabric.now_ns() < until);
  return false;
}

/// Rank 0's node casts; every other node listens with its first rank. True on all ranks when all
/// have heard it.
Status try_it(Bootstrap& bootstrap, const nodes::NodesFabric& fabric, NetworkDatagrams& datagrams,
              bool leads, bool* heard_by_all, std::int32_t* deaf_node) {
  const auto size = static_cast<std::size_t>(bootstrap.size());
  int group = -1;
  const bool here = fabric.node_of(bootstrap.rank()) == fabric.node_of(0);
  const bool joined = !leads || datagrams.join(kTrialGroup, 1, &group).ok();
  std::vector<std::uint8_t> answers(size);
  std::uint8_t answer = joined ? 1 : 0;
  TUTTI_TRY(bootstrap.allgather(&answer, answers.data(), 1));  // all are in the group
  *heard_by_all = false;
  for (const Trial& trial : kTrials) {
    answer = joined ? 1 : 0;
    if (leads && here && joined) {
      for (int i = 0; i < trial.casts; ++i) {
        static_cast<void>(datagrams.cast(group, &kTrialWord, sizeof kTrialWord));
        pause(trial.apart_ms);
      }
    } else if (leads && joined) {
      answer = hears(datagrams, group, fabric, trial.patience_ms) ? 1 : 0;
    }
    TUTTI_TRY(bootstrap.allgather(&answer, answers.data(), 1));
    const auto deaf = std::find(answers.begin(), answers.end(), 0);
    *heard_by_all = deaf == answers.end();
    if (*heard_by_all) break;
    *deaf_node = fabric.node_of(static_cast<std::int32_t>(deaf - answers.begin()));
  }
  if (group >= 0) datagrams.leave(group);
  return Status::success();
}

bool leads_its_node(const Bootstrap& bootstrap, const nodes::NodesFabric& fabric) {
  for (std::int32_t rank = 0; rank < bootstrap.rank(); ++rank)
    if (fabric.node_of(rank) == fabric.node_of(bootstrap.rank())) return false;
  return true;
}

/// The network's own where it has one, else IP multicast on the interface that the settings name.
Status open_datagrams(const Settings& settings, Network& network, int rank,
                      const groups::Secret& secret, std::unique_ptr<NetworkDatagrams>* out,
                      std::string* message) {
  if (network.has_datagrams()) return network.open_datagrams(rank, secret, out, message);
  std::unique_ptr<udp::UdpDatagrams> datagrams;
  TUTTI_TRY(udp::UdpDatagrams::open(settings.net_interface, rank, secret, &datagrams, message));
  *out = std::move(datagrams);
  return Status::success();
}

void say(const Status& status, const std::string& why, Offer* offer) {
  offer->code = static_cast<std::uint32_t>(status.code);
  std::strncpy(offer->why, why.c_str(), sizeof offer->why - 1);
}

}  // namespace

Status connect_multicast(Bootstrap& bootstrap, const Settings& settings, nodes::NodesFabric& fabric,
                         std::string* message) {
  if (settings.multicast == Switch::off) {
    *message = "TUTTI_MULTICAST is off";
    return Status::error(Code::unsupported, "off");
  }
  Offer mine{};
  Status status = bootstrap.rank() == 0 ? groups::draw_secret(&mine.secret) : Status::success();
  std::string why = status.ok() ? "" : status.detail;
  std::vector<Offer> offers(static_cast<std::size_t>(bootstrap.size()));
  // The secret of rank 0 decides where groups are, so it comes first.
  TUTTI_TRY(bootstrap.allgather(&mine, offers.data(), sizeof mine));
  const groups::Secret secret = offers[0].secret;
  std::unique_ptr<NetworkDatagrams> datagrams;
  if (status.ok())
    status = open_datagrams(settings, fabric.network(), bootstrap.rank(), secret, &datagrams, &why);
  say(status, why, &mine);
  if (status.ok()) mine.datagram_bytes = static_cast<std::uint32_t>(datagrams->datagram_bytes());
  mine.secret = {};
  TUTTI_TRY(bootstrap.allgather(&mine, offers.data(), sizeof mine));
  std::uint32_t shortest = ~std::uint32_t{0};
  for (const Offer& offer : offers) {
    if (offer.code != 0) {
      const auto rank = static_cast<std::int32_t>(&offer - offers.data());
      *message = "rank " + std::to_string(rank) + ": " + offer.why;
      return {static_cast<Code>(offer.code), rank, "a rank has no multicast"};
    }
    shortest = std::min(shortest, offer.datagram_bytes);
  }
  if (settings.multicast != Switch::on) {
    bool heard = false;
    std::int32_t deaf = 0;
    TUTTI_TRY(
        try_it(bootstrap, fabric, *datagrams, leads_its_node(bootstrap, fabric), &heard, &deaf));
    if (!heard) {
      *message = "datagrams from node " + std::to_string(fabric.node_of(0)) +
                 " do not get through to node " + std::to_string(deaf) + " on " +
                 datagrams->place();
      return Status::error(Code::unsupported, "multicast does not get through");
    }
  }
  const Network& network = fabric.network();
  *message = std::string("multicast between the nodes: ") +
             (network.has_datagrams() ? network.name() : "IP") + " on " + datagrams->place() +
             ", datagrams of " + std::to_string(shortest) + " bytes";
  fabric.adopt_datagrams(std::move(datagrams), shortest);
  return Status::success();
}

}  // namespace tutti
