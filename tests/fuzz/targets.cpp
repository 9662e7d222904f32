#include "fuzz/targets.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/settings.hpp"
#include "base/settings_file.hpp"
#include "core/job.hpp"
#include "fabric/groups/groups.hpp"
#include "fabric/key.hpp"
#include "fabric/shm/shm.hpp"
#include "fabric/sim/network.hpp"
#include "fabric/wrap/fault.hpp"
#include "mpi/generated/function_index.h"
#include "mpi/record/node_roll.hpp"
#include "offload/mapping.hpp"
#include "offload/wire.hpp"
#include "p2p/peer.hpp"
#include "select/rules.hpp"
#include "select/select.hpp"
#include "team/packet.hpp"

namespace tutti::fuzz {
namespace {

/// What a target says that is wrong although no sanitizer sees it.
void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

/// Reads every byte, so that AddressSanitizer sees where they lie.
void touch(const void* data, std::size_t bytes) {
  volatile std::uint8_t byte;
  for (std::size_t i = 0; i < bytes; ++i) byte = static_cast<const std::uint8_t*>(data)[i];
  static_cast<void>(byte);
}

std::string text_of(const Bytes& input) { return {input.begin(), input.end()}; }

template <class Value>
Bytes bytes_of(const Value& value) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(&value);
  return Bytes(data, data + sizeof value);
}

/// The value at the beginning of the input, the rest zeros.
template <class Value>
Value value_of(const Bytes& input) {
  Value value{};
  std::memcpy(static_cast<void*>(&value), input.data(), std::min(input.size(), sizeof value));
  return value;
}

std::vector<Bytes> nothing() { return {Bytes{}}; }

std::vector<Bytes> choices() {
  const std::string_view text = builtin_choices();
  const auto* bytes = reinterpret_cast<const Bytes::value_type*>(text.data());
  return {Bytes(bytes, bytes + text.size())};
}

// ---- multicast

/// In memory of the exact size.
void run_packet(const Bytes& input) {
  const std::unique_ptr<std::byte[]> copy(new std::byte[input.size()]);
  if (!input.empty()) std::memcpy(copy.get(), input.data(), input.size());
  MulticastPacket packet;
  if (!read_packet(copy.get(), input.size(), false, &packet)) return;
  require(packet.bytes + kPacketOverhead == input.size(), "a packet of another length");
  touch(packet.data, packet.bytes);
}

std::vector<Bytes> packets() {
  std::vector<Bytes> all;
  for (const std::size_t bytes : {0, 1, 64, 1300}) {
    const std::vector<std::byte> data(bytes, std::byte{0x5a});
    Bytes out(bytes + kPacketOverhead);
    write_packet({3, 7, 1, data.data(), bytes}, false, reinterpret_cast<std::byte*>(out.data()));
    all.push_back(std::move(out));
  }
  return all;
}

const groups::GroupName& group() {
  static const groups::GroupName name = [] {
    const std::uint64_t id[2] = {1, 2};
    return groups::name_group(Secret{}, id);
  }();
  return name;
}

void run_trailer(const Bytes& input) {
  const std::unique_ptr<std::byte[]> copy(new std::byte[input.size()]);
  if (!input.empty()) std::memcpy(copy.get(), input.data(), input.size());
  groups::Origin origin;
  const bool long_enough = groups::read_origin(copy.get(), input.size(), &origin);
  if (groups::is_sealed(group(), copy.get(), input.size()) && long_enough)
    require(input.size() >= groups::kTrailerBytes, "a short datagram");
}

std::vector<Bytes> trailers() {
  Bytes out(40 + groups::kTrailerBytes, 0x11);
  groups::write_trailer(group(), {1, 2}, reinterpret_cast<std::byte*>(out.data()), 40);
  return {out};
}

// ---- keys

/// A key whose words are anything and whose check is right: as a rank that has gone wrong makes
/// them.
void run_key(const Bytes& input) {
  static std::vector<std::unique_ptr<shm::ShmFabric>>* const ranks = [] {
    auto* made = new std::vector<std::unique_ptr<shm::ShmFabric>>;
    Settings settings;
    settings.arena = std::size_t{1} << 20;
    require(shm::ShmFabric::create_threads(2, settings, made).ok(), "no fabric");
    return made;
  }();
  shm::ShmFabric& fabric = *ranks->front();
  Key key = value_of<Key>(input);
  Remote remote;
  static_cast<void>(fabric.attach(1, key, &remote).ok());
  key = seal_key(shm::kArenaKey, key.words[1], key.words[2], key.words[3]);
  if (!fabric.attach(1, key, &remote).ok()) return;
  Remote arena;
  require(fabric.arena_of(1, &arena).ok(), "no arena");
  const auto* begin = static_cast<const std::byte*>(arena.mapped);
  const auto* at = static_cast<const std::byte*>(remote.mapped);
  require(at >= begin && at <= begin + arena.bytes &&
              remote.bytes <= static_cast<std::size_t>(begin + arena.bytes - at),
          "a key that leads out of its arena");
}

std::vector<Bytes> keys() {
  const Key whole = seal_key(shm::kArenaKey, 0, std::size_t{1} << 20, 1);
  const Key part = seal_key(shm::kArenaKey, 4096, 64, 1);
  const Key user = seal_key(shm::kUserKey, 0x7f0000001000, 4096, 1);
  return {bytes_of(whole), bytes_of(part), bytes_of(user)};
}

// ---- messages

/// An inbound area with anything in it, and what its first slots then are.
void run_message(const Bytes& input) {
  alignas(p2p::Site) static std::byte unused[sizeof(p2p::Site)];  // front() asks nothing of it
  const std::size_t bytes = p2p::inbound_bytes(p2p::kRingBytes);
  static auto* const area = new (std::align_val_t{64}) std::byte[bytes];
  p2p::Peer peer(reinterpret_cast<p2p::Site&>(unused), 0);
  peer.area = area;
  // The flag, then what lies in the slot in front of it and at the beginning of the ring.
  const auto flag = value_of<std::uint64_t>(input);
  const std::size_t rest = input.size() > 8 ? input.size() - 8 : 0;
  const std::size_t in_slot = std::min(rest, p2p::kSlotBytes - sizeof(Word));
  const std::size_t in_ring = std::min<std::size_t>(rest, 4096);
  if (rest != 0) {
    std::memcpy(area + p2p::kSlotBytes - sizeof(Word) - in_slot, input.data() + 8, in_slot);
    std::memcpy(area + p2p::kSlots * p2p::kSlotBytes, input.data() + 8, in_ring);
  }
  peer.flag().store(flag, std::memory_order_relaxed);
  peer.ring_read = flag >> 40 << 6;  // somewhere in the ring
  p2p::Packet packet{};
  if (!peer.front(&packet)) return;
  require(packet.payload >= area && packet.payload + packet.header.payload <= area + bytes,
          "a packet outside of its area");
  touch(packet.payload, packet.header.payload);
}

std::vector<Bytes> messages() {
  std::vector<Bytes> all;
  constexpr auto kInSlot = static_cast<std::uint16_t>(p2p::kInlineBytes);
  for (const std::uint16_t payload :
       {std::uint16_t{0}, std::uint16_t{8}, std::uint16_t{200}, kInSlot,
        static_cast<std::uint16_t>(kInSlot + 1), std::uint16_t{4000}}) {
    for (const bool header_in_slot : {false, true}) {
      p2p::Header header{};
      header.bytes = payload;
      header.payload = payload;
      const std::size_t lines = p2p::lines_of(payload, header_in_slot);
      Bytes out = bytes_of(p2p::Flag::make(0, lines, false, header_in_slot));
      out.resize(8 + (lines == 0 || header_in_slot ? p2p::kSlotBytes - 8 : lines * 64));
      std::memcpy(out.data() + out.size() - sizeof header, &header, sizeof header);
      all.push_back(std::move(out));
    }
  }
  return all;
}

// ---- dedicated processors

constexpr std::size_t kApps = 6;

/// A request of an APP that has opened three groups of four members, then what its data would be.
void run_request(const Bytes& input) {
  const auto request = value_of<offload::Request>(input);
  if (request.kind == offload::kOpenGroup) {
    if (!offload::opens_soundly(request, 3, kApps)) return;
    require(request.group <= 3, "a group that leaves others out");
    const std::size_t longest = sizeof(offload::GroupHeader) + kApps * 4;
    require(request.bytes >= sizeof(offload::GroupHeader) && request.bytes <= longest,
            "a list that is not as long as one");
    return;
  }
  if (!offload::is_sound(request, 4)) return;
  require(request.root >= 0 && request.root < 4, "a root that is no member");
  Call call;
  call.coll = static_cast<Coll>(request.kind);
  call.root = request.root;
  call.bytes = static_cast<std::size_t>(request.bytes);
  if (request.place == offload::Place::memory) return;
  for (int rank = 0; rank < 4; ++rank) {
    require(offload::sent_bytes(call, rank, 4) <= offload::kCellBytes &&
                offload::received_bytes(call, rank, 4) <= offload::kCellBytes,
            "data that fits into no cell");
  }
}

std::vector<Bytes> requests() {
  std::vector<Bytes> all;
  for (const Coll coll : {Coll::barrier, Coll::bcast, Coll::allreduce, Coll::alltoall}) {
    offload::Request request;
    request.kind = static_cast<std::uint8_t>(coll);
    request.place = offload::Place::here;
    request.bytes = 8;
    all.push_back(bytes_of(request));
  }
  offload::Request open;
  open.kind = offload::kOpenGroup;
  open.group = 3;
  open.place = offload::Place::cell;
  open.bytes = sizeof(offload::GroupHeader) + 4 * 4;
  all.push_back(bytes_of(open));
  return all;
}

/// The list of a group in memory of its exact size, as APP 2 of six sends it.
void run_group(const Bytes& input) {
  if (input.size() < sizeof(offload::GroupHeader)) return;
  const auto header = value_of<offload::GroupHeader>(input);
  const std::size_t rest = input.size() - sizeof header;
  const std::unique_ptr<std::byte[]> members(new std::byte[rest]);
  if (rest != 0) std::memcpy(members.get(), input.data() + sizeof header, rest);
  if (!offload::is_sound(header, members.get(), rest, 2, kApps)) return;
  for (int member = 0; member < header.size; ++member) {
    std::uint32_t rank;
    std::memcpy(&rank, members.get() + static_cast<std::size_t>(member) * 4, 4);
    require(rank < kApps, "a member that is no APP");
  }
}

std::vector<Bytes> groups_of_apps() {
  Bytes out = bytes_of(offload::GroupHeader{{1, 2}, 1, 3});
  for (const std::int32_t rank : {0, 2, 5}) {
    const Bytes one = bytes_of(rank);
    out.insert(out.end(), one.begin(), one.end());
  }
  return {out};
}

// ---- text

/// A file of its own that has the bytes, and its path.
const char* file_of(const Bytes& input) {
  static const int file = memfd_create("fuzz", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  require(ftruncate(file, 0) == 0, "no file");
  require(pwrite(file, input.data(), input.size(), 0) == static_cast<ssize_t>(input.size()),
          "no file");
  return path.c_str();
}

void run_settings(const Bytes& input) {
  setenv("TUTTI_CONFIG", file_of(input), 1);
  Settings settings;
  std::string message;
  if (!load_settings(&settings, &message).ok())
    require(!message.empty(), "settings are refused without a word");
}

void run_choices(const Bytes& input) {
  Rules rules;
  std::string message;
  if (!Rules::parse(text_of(input), "choices", &rules, &message).ok())
    require(!message.empty(), "choices are refused without a word");
}

void run_algorithms(const Bytes& input) {
  const std::string text = text_of(input);
  std::string message;
  Forced forced;
  if (!Forced::parse(text, &forced, &message).ok())
    require(!message.empty(), "algorithms are refused without a word");
  offload::Ratio ratio;
  static_cast<void>(offload::parse_ratio(text, &ratio, &message).ok());
  std::size_t size = 0;
  static_cast<void>(parse_bytes(text, &size));
}

void run_faults(const Bytes& input) {
  wrap::FaultSpec spec;
  std::string message;
  if (!wrap::FaultSpec::parse(text_of(input), &spec, &message))
    require(!message.empty(), "faults are refused without a word");
}

std::vector<Bytes> faults() {
  const std::string text =
      "kill:op=signal:at=40:rank=1,delay:op=put:rank=6:peer=5:us=200:count=0,nocma,"
      "slow:op=put:us=500:every=3";
  return {Bytes(text.begin(), text.end())};
}

void run_profile(const Bytes& input) {
  sim::Network network;
  std::string message;
  if (!sim::load_network(file_of(input), &network, &message).ok())
    require(!message.empty(), "a profile is refused without a word");
}

}  // namespace

// ---- the stall report of several nodes

/// Two ranks in a collective.
std::vector<std::byte> packed_node() {
  static tutti_record record;
  record.magic = TUTTI_RECORD_MAGIC;
  record.signature = TUTTI_MPI_TABLE_SIGNATURE;
  record.size = 4;
  record.pid = getpid();
  record.lanes[0].count = record.lanes[0].detail_count = 1;
  record.lanes[0].detail =
      offsetof(tutti_record, comms) + offsetof(tutti_comm_row, past) + sizeof(tutti_past);
  record.comms[0].id = record.comms[0].stride = 1;
  record.comms[0].size = 4;
  record.comms[0].past[1] = {1, 0, 8, 0};
  return roll::pack_node({&record, &record}, 1);
}

/// A node's ranks are too long to be made at random: the input says how much of them comes, and
/// which bytes are others (two bytes: a place; one: what is there).
void run_node(const Bytes& input) {
  static const std::vector<std::byte> whole = packed_node();
  std::vector<std::byte> packed = whole;
  const std::size_t scale = packed.size() / 65536 + 1;
  if (!input.empty() && input[0] < 16) packed.resize(packed.size() * input[0] / 16);
  for (std::size_t i = 1; i + 3 <= input.size() && !packed.empty(); i += 3) {
    const std::size_t place = (input[i] | static_cast<std::size_t>(input[i + 1]) << 8) * scale;
    packed[place % packed.size()] = static_cast<std::byte>(input[i + 2]);
  }
  roll::NodeRoll node;
  if (!roll::unpack_node(packed, 2, &node)) return;
  const auto site = [&node](const roll::RankSeen& rank, std::uint64_t address) {
    return node.site(rank, address);
  };
  const std::string text = roll::text_of(roll::call_roll(node.ranks, site), 4, 2);
  touch(text.data(), text.size());
}

const std::vector<Target> kTargets = {
    {"packet", run_packet, packets},
    {"trailer", run_trailer, trailers},
    {"key", run_key, keys},
    {"message", run_message, messages},
    {"request", run_request, requests},
    {"group", run_group, groups_of_apps},
    {"faults", run_faults, faults},
    {"profile", run_profile, nothing},
    {"settings", run_settings, nothing},
    {"choices", run_choices, choices},
    {"algorithms", run_algorithms, nothing},
    {"node", run_node, nothing},
};

}  // namespace tutti::fuzz
