// Faults of datagrams: a part of Fault (fault.hpp), which says which rule applies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/wrap/fault.hpp"

namespace tutti::wrap {

class FaultDatagrams final : public Datagrams {
 public:
  /// `next`: counts an operation and gives the rule that applies to it, or nullptr. `inner`
  /// outlives this.
  FaultDatagrams(Datagrams& inner, std::function<const FaultRule*(FaultOp)> next)
      : inner_(inner), next_(std::move(next)) {}

  Status join(const std::uint64_t id[2], int depth, int* out) noexcept override {
    return inner_.join(id, depth, out);
  }
  void leave(int group) noexcept override;
  Status cast(int group, const void* data, std::size_t bytes) noexcept override;
  std::size_t receive(int group, void* out, std::size_t capacity) noexcept override;
  const std::byte* view(int group, std::size_t* bytes) noexcept override;
  void deepen(int group, int depth) noexcept override { inner_.deepen(group, depth); }
  std::size_t room(int group) const noexcept override { return inner_.room(group); }
  const Word& arrivals(int group) const noexcept override { return inner_.arrivals(group); }
  Counts counts(int group) const noexcept override;

 private:
  Datagrams& inner_;
  std::function<const FaultRule*(FaultOp)> next_;
  std::unordered_map<int, std::uint64_t> dropped_;  // on arrival, by group
  std::vector<std::byte> wrong_;                    // with a bit inverted
};

}  // namespace tutti::wrap
