// Profiles of a job as the tests of the report make them up.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/generated/function_index.h"
#include "mpi/report/profile.hpp"

namespace tutti::report {

inline constexpr std::uint64_t kWorld = 0x1111;

/// A job whose ranks come to collectives of the world at given times, all from one place for each
/// kind of collective. Times in ns.
class MadeUpJob {
 public:
  struct Times {
    std::uint64_t begin, end;
  };

  explicit MadeUpJob(std::int32_t size) : profiles_(static_cast<std::size_t>(size)) {
    for (std::int32_t rank = 0; rank < size; ++rank) {
      RankProfile& profile = at(rank);
      profile.rank = rank;
      profile.comms.push_back({kWorld, size, rank, "MPI_COMM_WORLD"});
    }
  }

  /// The next collective; `times`: of each rank. `partner`: for whom all have waited longest.
  void meet(Coll coll, const std::vector<Times>& times, std::int32_t root = TUTTI_NO_RANK,
            std::int32_t partner = TUTTI_NO_RANK) {
    ++number_;
    for (std::size_t rank = 0; rank < times.size(); ++rank) {
      RankProfile& profile = profiles_[rank];
      const auto [begin, end] = times[rank];
      const std::uint32_t place = place_of(&profile, coll);
      SiteCounts& counts = profile.sites[place].counts;
      counts.calls += 1;
      counts.ns += end - begin;
      counts.bytes += 8;
      counts.least = counts.most = 8;
      profile.kinds[place].collectives += 1;
      profile.kinds[place].kept.push_back({number_, begin, end, place, root, partner});
    }
  }

  RankProfile& at(std::int32_t rank) { return profiles_[static_cast<std::size_t>(rank)]; }
  std::vector<RankProfile>& profiles() { return profiles_; }

 private:
  /// Of the site and of the kind.
  static std::uint32_t place_of(RankProfile* profile, Coll coll) {
    for (std::uint32_t i = 0; i < profile->sites.size(); ++i) {
      if (profile->sites[i].key.coll == static_cast<std::int16_t>(coll)) return i;
    }
    Site site;
    site.key.comm = kWorld;
    site.key.coll = static_cast<std::int16_t>(coll);
    site.key.function = coll == Coll::bcast ? TUTTI_MPI_Bcast : TUTTI_MPI_Allreduce;
    site.key.size_class = 3;
    site.text = coll == Coll::bcast ? "app+0x20" : "app+0x10";
    profile->sites.push_back(site);
    profile->kinds.emplace_back();
    return static_cast<std::uint32_t>(profile->sites.size() - 1);
  }

  std::vector<RankProfile> profiles_;
  std::uint64_t number_ = 0;
};

}  // namespace tutti::report
