// What the opaque handles of the C API are.
#pragma once

#include <memory>
#include <optional>

#include "coll/parcels.hpp"
#include "core/core.hpp"
#include "p2p/messages.hpp"
#include "tutti/tutti.h"

namespace tutti::api {

/// What a call points to.
struct Owned {
  Reduction reduction{};
  std::optional<Parcels> parcels;
};

}  // namespace tutti::api

struct tutti_job {
  tutti_bootstrap bootstrap;  // for the pump; its allgather is used only in tutti_init
  std::unique_ptr<tutti::Job> job;
};

struct tutti_team {
  tutti::Job* job;
  tutti::Team* team;
  int rank;
  int size;
};

/// A collective or a message: one of the two pointers is set.
struct tutti_request {
  tutti::Job* job;
  tutti::Operation* operation = nullptr;
  tutti::api::Owned owned{};
  tutti::p2p::Transfer* transfer = nullptr;
};

namespace tutti::api {

inline tutti_status code(Status status) { return static_cast<tutti_status>(status.code); }

}  // namespace tutti::api
