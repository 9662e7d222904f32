#include "mpi/record/node_roll.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <set>

namespace tutti::roll {
namespace {

constexpr std::uint64_t kMagic = 0x316c6c6f7265646fu;  // "oderoll1"
constexpr std::uint32_t kMostRanks = 1 << 16, kMostSites = 1 << 12;

/// In front of all: the machines of a job have one byte order, and one version of tutti.
struct Head {
  std::uint64_t magic = kMagic, now_ns = 0;
  std::uint32_t ranks = 0, record_bytes = sizeof(tutti_record);
};
/// In front of each rank's two copies of its record, and its places behind them.
struct RankHead {
  std::uint32_t sites = 0, process = '?';
};
struct Site {
  std::uint64_t address = 0;
  char text[120] = "";
};

template <class Value>
void append(const Value& value, std::vector<std::byte>* out) {
  const std::size_t at = out->size();
  out->resize(at + sizeof value);
  std::memcpy(out->data() + at, &value, sizeof value);
}

/// Takes values from the front of bytes, as long as there are enough.
class Reader {
 public:
  explicit Reader(const std::vector<std::byte>& bytes) noexcept : bytes_(bytes) {}
  template <class Value>
  bool read(Value* out) noexcept {
    if (bytes_.size() - at_ < sizeof *out) return false;
    std::memcpy(out, bytes_.data() + at_, sizeof *out);
    at_ += sizeof *out;
    return true;
  }

 private:
  const std::vector<std::byte>& bytes_;
  std::size_t at_ = 0;
};

std::set<std::uint64_t> places_of(const RankSeen& rank) {
  std::set<std::uint64_t> places;
  for (const CallSeen& call : rank.calls) places.insert({call.site, call.passed.site});
  for (const CommSeen& comm : rank.comms) {
    for (const Passed& passed : comm.past) places.insert(passed.site);
  }
  places.erase(0);
  return places;
}

void pack_rank(const tutti_record& first, const tutti_record& second, const RankSeen& seen,
               std::vector<std::byte>* out) {
  const std::set<std::uint64_t> places = places_of(seen);
  append(RankHead{static_cast<std::uint32_t>(std::min<std::size_t>(places.size(), kMostSites)),
                  static_cast<unsigned char>(seen.process)},
         out);
  append(first, out);
  append(second, out);
  std::uint32_t count = 0;
  for (const std::uint64_t place : places) {
    if (count++ == kMostSites) break;
    Site site;
    site.address = place;
    std::snprintf(site.text, sizeof site.text, "%s", site_in_rank(seen, place).c_str());
    append(site, out);
  }
}

bool unpack_rank(Reader* reader, std::uint64_t later_ns, NodeRoll* out) {
  RankHead head;
  tutti_record first, second;
  if (!reader->read(&head) || head.sites > kMostSites || !reader->read(&first) ||
      !reader->read(&second))
    return false;
  RankSeen seen;
  if (!read_copies(first, second, &seen)) return false;
  seen.process = static_cast<char>(head.process);
  for (CallSeen& call : seen.calls) {
    if (call.since_ns != 0) call.since_ns += later_ns;
  }
  for (std::uint32_t i = 0; i < head.sites; ++i) {
    Site site;
    if (!reader->read(&site)) return false;
    out->sites[{seen.rank, site.address}].assign(site.text, strnlen(site.text, sizeof site.text));
  }
  out->ranks.push_back(std::move(seen));
  return true;
}

}  // namespace

std::string NodeRoll::site(const RankSeen& rank, std::uint64_t address) const {
  const auto found = sites.find({rank.rank, address});
  return found != sites.end() ? found->second : std::string();
}

void NodeRoll::add(NodeRoll&& other) {
  std::ranges::move(other.ranks, std::back_inserter(ranks));
  sites.merge(other.sites);
}

std::vector<std::byte> pack_node(const std::vector<const tutti_record*>& records,
                                 std::uint64_t now_ns) {
  std::vector<tutti_record> copies(2 * records.size());
  for (std::size_t i = 0; i < 2 * records.size(); ++i)
    copy_record(*records[i % records.size()], &copies[i]);
  std::vector<std::byte> out;
  Head head;
  head.now_ns = now_ns;
  append(head, &out);
  std::uint32_t ranks = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    RankSeen seen;
    if (!read_record(copies[i], &seen)) continue;  // none yet
    pack_rank(copies[i], copies[records.size() + i], seen, &out);
    ++ranks;
  }
  std::memcpy(out.data() + offsetof(Head, ranks), &ranks, sizeof ranks);
  return out;
}

bool unpack_node(const std::vector<std::byte>& packed, std::uint64_t now_ns, NodeRoll* out) {
  Reader reader(packed);
  Head head;
  if (!reader.read(&head) || head.magic != kMagic || head.record_bytes != sizeof(tutti_record) ||
      head.ranks > kMostRanks)
    return false;
  for (std::uint32_t i = 0; i < head.ranks; ++i) {
    if (!unpack_rank(&reader, now_ns - head.now_ns, out)) return false;
  }
  return true;
}

}  // namespace tutti::roll
