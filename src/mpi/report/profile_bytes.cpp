// A profile as bytes, for a rank of the same version.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "mpi/report/profile.hpp"

namespace tutti::report {
namespace {

struct Writer {
  std::string bytes;

  template <class Value>
  void put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class Value>
  void put_all(const std::vector<Value>& values) {
    static_assert(std::is_trivially_copyable_v<Value>);
    put(values.size());
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
  }
  void put_text(const std::string& text) {
    put(text.size());
    bytes += text;
  }
};

/// Once something is missing nothing more is read.
struct Reader {
  const char* at;
  std::size_t left;
  bool whole = true;

  bool take(void* out, std::size_t bytes) {
    whole = whole && bytes <= left;
    if (!whole) return false;
    if (bytes != 0) std::memcpy(out, at, bytes);
    at += bytes;
    left -= bytes;
    return true;
  }
  template <class Value>
  void get(Value* value) {
    take(value, sizeof *value);
  }
  /// A number of things of which each has so many bytes at least.
  std::size_t get_count(std::size_t least) {
    std::size_t count = 0;
    get(&count);
    whole = whole && count <= left / least;
    return whole ? count : 0;
  }
  template <class Value>
  void get_all(std::vector<Value>* values) {
    values->resize(get_count(sizeof(Value)));
    take(values->data(), values->size() * sizeof(Value));
  }
  void get_text(std::string* text) {
    text->resize(get_count(1));
    take(text->data(), text->size());
  }
};

/// Whether all places in it are there.
bool fits_together(const RankProfile& profile) {
  return std::ranges::all_of(profile.kinds, [&profile](const KindArrivals& kind) {
    return kind.comm < profile.comms.size() &&
           std::ranges::all_of(kind.kept, [&profile](const Arrival& arrival) {
             return arrival.site < profile.sites.size();
           });
  });
}

}  // namespace

std::string packed(const RankProfile& profile) {
  Writer out;
  out.put(profile.rank);
  out.put(profile.clock);
  out.put(profile.missed);
  out.put(profile.sites.size());
  for (const Site& site : profile.sites) {
    out.put(site.key);
    out.put(site.counts);
    out.put_text(site.text);
  }
  out.put(profile.comms.size());
  for (const CommSeen& comm : profile.comms) {
    out.put(comm.id);
    out.put(comm.size);
    out.put(comm.rank);
    out.put_text(comm.name);
  }
  out.put(profile.kinds.size());
  for (const KindArrivals& kind : profile.kinds) {
    out.put(kind.comm);
    out.put(kind.halved);
    out.put(kind.collectives);
    out.put_all(kind.kept);
  }
  return std::move(out.bytes);
}

bool unpack(const char* bytes, std::size_t size, RankProfile* out) {
  Reader in{bytes, size};
  RankProfile profile;
  in.get(&profile.rank);
  in.get(&profile.clock);
  in.get(&profile.missed);
  profile.sites.resize(in.get_count(sizeof(SiteKey) + sizeof(SiteCounts)));
  for (Site& site : profile.sites) {
    in.get(&site.key);
    in.get(&site.counts);
    in.get_text(&site.text);
  }
  profile.comms.resize(in.get_count(sizeof(CommSeen::id)));
  for (CommSeen& comm : profile.comms) {
    in.get(&comm.id);
    in.get(&comm.size);
    in.get(&comm.rank);
    in.get_text(&comm.name);
  }
  profile.kinds.resize(in.get_count(sizeof(KindArrivals::collectives)));
  for (KindArrivals& kind : profile.kinds) {
    in.get(&kind.comm);
    in.get(&kind.halved);
    in.get(&kind.collectives);
    in.get_all(&kind.kept);
  }
  if (!in.whole || in.left != 0 || !fits_together(profile)) return false;
  *out = std::move(profile);
  return true;
}

}  // namespace tutti::report
