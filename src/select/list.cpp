#include "coll/algorithms.hpp"
#include "select/select.hpp"

namespace tutti {
namespace {

constexpr const Algorithm* kAll[] = {
#define TUTTI_ALGORITHM(name) &algorithm::name,
#include "coll/algorithms.inc"
};

}  // namespace

std::span<const Algorithm* const> algorithms() { return kAll; }

const Algorithm* find_algorithm(Coll coll, std::string_view wanted) {
  for (const Algorithm* algorithm : kAll) {
    if (algorithm->coll != coll) continue;
    if (wanted == algorithm->name) return algorithm;
    if (algorithm->former_name != nullptr && wanted == algorithm->former_name) return algorithm;
  }
  const Algorithm& host = host_algorithm(coll);
  return wanted == host.name ? &host : nullptr;
}

}  // namespace tutti
