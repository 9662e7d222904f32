// What the messages of one group have in common: the matching, and the receives from anybody in it.
#pragma once

#include <cstdint>

#include "engine/engine.hpp"
#include "p2p/list.hpp"
#include "p2p/matching.hpp"
#include "p2p/packet.hpp"
#include "p2p/transfer.hpp"
#include "team/group.hpp"

namespace tutti::p2p {

struct Context {
  void add_wild(Transfer& receive) noexcept {
    members.background = false;
    wild.push_back(receive);
    receive.wild = true;
  }
  void remove_wild(Transfer& receive) noexcept {
    wild.remove(receive);
    members.background = wild.empty();
    receive.wild = false;
  }

  std::uint64_t id[2] = {0, 0};
  Group* group = nullptr;  // nullptr: messages have come, but this rank has not used the group yet
  Matcher matcher;
  Membership members;                       // for receives from anybody
  List<Transfer, &Transfer::in_peer> wild;  // these
  Task guard;                               // ends them when a member dies
};

/// The header of a message's first packet.
inline Header envelope(const Context& context, const Group& group, std::size_t bytes, int tag,
                       PacketKind kind) noexcept {
  Header header{};
  header.context[0] = context.id[0];
  header.context[1] = context.id[1];
  header.source = static_cast<std::uint32_t>(group.rank());
  header.tag = tag;
  header.bytes = bytes;
  header.kind = kind;
  return header;
}

inline Header envelope(const Transfer& send, PacketKind kind, std::uint8_t detail = 0) noexcept {
  Header header = envelope(*send.context, *send.group, send.bytes, send.tag, kind);
  header.transfer = send.id;
  header.detail = detail;
  return header;
}

}  // namespace tutti::p2p
