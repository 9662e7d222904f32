#include "mpi/plugin/staging.hpp"

#include <limits>

namespace tutti::mpi {
namespace {

Status run(const std::vector<Transfer>& transfers, bool packing) noexcept {
  for (const Transfer& t : transfers) {
    if (t.type == nullptr) {
      TUTTI_TRY(
          copy_bytes(*t.space, packing ? t.packed : t.user, packing ? t.user : t.packed, t.count));
    } else if (t.space != nullptr) {
      TUTTI_TRY(packing ? pack_from(*t.space, *t.type, t.user, t.count, t.packed)
                        : unpack_to(*t.space, *t.type, t.packed, t.count, t.user));
    } else if (packing) {
      pack(*t.type, t.user, t.count, t.packed);
    } else {
      unpack(*t.type, t.packed, t.count, t.user);
    }
  }
  return Status::success();
}

}  // namespace

Staging::~Staging() {
  user.reset();  // it refers to a type
  for (const TypeInfo* type : held_) release(type);
}

void Staging::hold(const TypeInfo* type) {
  if (type->predefined) return;
  retain(type);
  held_.push_back(type);
}

bool Staging::reserve(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return false;
  scratch = Scratch(bytes + 3 * 64);
  return scratch.data() != nullptr;
}

char* Staging::take(std::size_t bytes) {
  char* const place = scratch.data() + used;
  used += (bytes + 63) / 64 * 64;
  return place;
}

void Staging::pack_before(const Data& data, char* packed) {
  hold(data.type);
  before.push_back({data.type, data.user, data.count, packed, data.space});
}

void Staging::unpack_after(const Data& data, char* packed) {
  hold(data.type);
  after.push_back({data.type, data.user, data.count, packed, data.space});
}

void Staging::copy_before(const Data& data, std::size_t bytes, char* copy) {
  before.push_back({nullptr, data.user, bytes, copy, data.space});
}

void Staging::copy_after(const Data& data, std::size_t bytes, char* copy) {
  after.push_back({nullptr, data.user, bytes, copy, data.space});
}

Status Staging::pack() const noexcept { return run(before, true); }

Status Staging::unpack() const noexcept {
  if (user) TUTTI_TRY(fold_gathered(*user));
  return run(after, false);
}

}  // namespace tutti::mpi
