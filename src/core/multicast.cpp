#include "core/multicast.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/multicast_trial.hpp"
#include "fabric/groups/groups.hpp"
#include "fabric/udp/udp.hpp"

namespace tutti {
namespace {

/// What a rank tells the others of a medium before the trial. `why` it has none: empty where
/// another one serves it.
struct Offer {
  std::uint32_t code = static_cast<std::uint32_t>(Code::unsupported);
  std::uint32_t datagram_bytes = 0;
  char why[96] = {};
};
using Offers = std::array<Offer, kMedia>;
using Opened = std::array<std::unique_ptr<NetworkDatagrams>, kMedia>;

Status open_ip(udp::Family family, const Settings& settings, int rank, const groups::Secret& secret,
               std::unique_ptr<NetworkDatagrams>* out, std::string* message) {
  std::unique_ptr<udp::UdpDatagrams> datagrams;
  TUTTI_TRY(
      udp::UdpDatagrams::open(family, settings.net_interface, rank, secret, &datagrams, message));
  *out = std::move(datagrams);
  return Status::success();
}

void say(const Status& status, const std::string& why, const NetworkDatagrams* datagrams,
         Offer* offer) {
  offer->code = static_cast<std::uint32_t>(status.code);
  if (status.ok()) offer->datagram_bytes = static_cast<std::uint32_t>(datagrams->datagram_bytes());
  std::strncpy(offer->why, why.c_str(), sizeof offer->why - 1);
}

/// The network's own where it has one, else IP multicast of either version on the interface that
/// the settings name.
Offers open_media(const Settings& settings, Network& network, int rank,
                  const groups::Secret& secret, Opened* opened) {
  Offers offers;
  const auto offer = [&](std::size_t medium, const auto& open) {
    std::string why;
    const Status status = open(&(*opened)[medium], &why);
    say(status, why, (*opened)[medium].get(), &offers[medium]);
  };
  if (network.has_datagrams()) {
    offer(kOwn, [&](auto* out, std::string* why) {
      return network.open_datagrams(rank, secret, out, why);
    });
    return offers;
  }
  for (const auto& [medium, family] : {std::pair{kIp6, udp::Family::ip6}, {kIp4, udp::Family::ip4}})
    offer(medium, [&, family = family](auto* out, std::string* why) {
      return open_ip(family, settings, rank, secret, out, why);
    });
  return offers;
}

/// The bytes of a datagram that every rank can send. On failure `*message` says who has none, where
/// that is worth a word.
Status common_bytes(const std::vector<Offers>& all, std::size_t medium, std::uint32_t* bytes,
                    std::string* message) {
  *bytes = ~std::uint32_t{0};
  for (const Offers& offers : all) {
    const Offer& offer = offers[medium];
    *bytes = std::min(*bytes, offer.datagram_bytes);
    if (offer.code == 0) continue;
    const auto rank = static_cast<std::int32_t>(&offers - all.data());
    if (offer.why[0] != 0) *message = "rank " + std::to_string(rank) + ": " + offer.why;
    return {static_cast<Code>(offer.code), rank, "a rank has no multicast"};
  }
  return Status::success();
}

const char* name_of(std::size_t medium, const Network& network) {
  if (medium == kOwn) return network.name();
  return udp::name_of(medium == kIp6 ? udp::Family::ip6 : udp::Family::ip4);
}

/// The secret of rank 0, which decides where groups are.
Status share_secret(Bootstrap& bootstrap, groups::Secret* out, std::string* message) {
  struct Drawn {
    groups::Secret secret;
    std::uint32_t code;
  } mine{};
  if (bootstrap.rank() == 0)
    mine.code = static_cast<std::uint32_t>(groups::draw_secret(&mine.secret).code);
  std::vector<Drawn> all(static_cast<std::size_t>(bootstrap.size()));
  TUTTI_TRY(bootstrap.allgather(&mine, all.data(), sizeof mine));
  *out = all[0].secret;
  if (all[0].code == 0) return Status::success();
  *message = "the system gives no random numbers for multicast groups";
  return Status::error(static_cast<Code>(all[0].code), "no secret for multicast groups");
}

}  // namespace

Status connect_multicast(Bootstrap& bootstrap, const Settings& settings, nodes::NodesFabric& fabric,
                         std::string* message) {
  if (settings.multicast == Switch::off) {
    *message = "TUTTI_MULTICAST is off";
    return Status::error(Code::unsupported, "off");
  }
  groups::Secret secret;
  TUTTI_TRY(share_secret(bootstrap, &secret, message));
  Opened opened;
  const Offers mine = open_media(settings, fabric.network(), bootstrap.rank(), secret, &opened);
  std::vector<Offers> all(static_cast<std::size_t>(bootstrap.size()));
  TUTTI_TRY(bootstrap.allgather(&mine, all.data(), sizeof mine));
  Candidates candidates;
  std::array<std::uint32_t, kMedia> bytes{};
  unsigned usable = 0;
  Status status;
  for (std::size_t medium = 0; medium < kMedia; ++medium) {
    // The last one tells why there is none.
    status = common_bytes(all, medium, &bytes[medium], message);
    if (!status.ok()) continue;
    candidates[medium].datagrams = opened[medium].get();
    usable |= bit_of(medium);
  }
  if (usable == 0) return status;
  if (settings.multicast != Switch::on)
    TUTTI_TRY(try_multicast(bootstrap, fabric, candidates, &usable, message));
  if (usable == 0) return Status::error(Code::unsupported, "multicast does not get through");
  const auto best = static_cast<std::size_t>(std::countr_zero(usable));
  *message = std::string("multicast between the nodes: ") + name_of(best, fabric.network()) +
             " on " + opened[best]->place() + ", datagrams of " + std::to_string(bytes[best]) +
             " bytes";
  fabric.adopt_datagrams(std::move(opened[best]), bytes[best]);
  return Status::success();
}

}  // namespace tutti
