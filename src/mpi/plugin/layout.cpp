#include "mpi/plugin/layout.hpp"

#include <cstdint>
#include <cstring>

namespace tutti::mpi {
namespace {

template <bool kPack>
void copy(char* element, char* packed, std::size_t bytes) noexcept {
  if constexpr (kPack) {
    std::memcpy(packed, element, bytes);
  } else {
    std::memcpy(element, packed, bytes);
  }
}

// Blocks of a size that the compiler knows: one load and one store each.
template <bool kPack, std::size_t kBytes>
void copy_blocks(char* element, char* packed, std::size_t count, std::ptrdiff_t stride) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    copy<kPack>(element + static_cast<std::ptrdiff_t>(i) * stride, packed + i * kBytes, kBytes);
  }
}

}  // namespace

Layout::Pointer Layout::bytes(std::size_t count) {
  auto layout = std::make_shared<Layout>();
  layout->size_ = count;
  return layout;
}

Layout::Pointer Layout::repeat(std::size_t count, std::ptrdiff_t stride, Pointer child) {
  if (count == 0 || child->size_ == 0) return bytes(0);
  if (count == 1) return child;
  auto layout = std::make_shared<Layout>();
  layout->size_ = count * child->size_;
  if (child->is_block()) {
    layout->shift_ = child->shift_;
    if (stride == static_cast<std::ptrdiff_t>(child->size_)) return layout;
  }
  layout->kind_ = Kind::repeat;
  layout->count_ = count;
  layout->stride_ = stride;
  layout->child_ = child->is_block() ? bytes(child->size_) : std::move(child);
  return layout;
}

Layout::Pointer Layout::sequence(std::vector<Part> parts) {
  std::vector<Part> merged;
  for (Part& part : parts) {
    if (part.layout->size_ == 0) continue;
    if (part.layout->is_block()) {
      const std::ptrdiff_t begin = part.offset + part.layout->shift_;
      if (!merged.empty() && merged.back().layout->is_block() &&
          merged.back().offset + static_cast<std::ptrdiff_t>(merged.back().layout->size_) ==
              begin) {
        merged.back().layout = bytes(merged.back().layout->size_ + part.layout->size_);
      } else {
        merged.push_back({begin, bytes(part.layout->size_)});
      }
    } else {
      merged.push_back(std::move(part));
    }
  }
  if (merged.empty()) return bytes(0);
  if (merged.size() == 1) {
    auto layout = std::make_shared<Layout>(*merged.front().layout);
    layout->shift_ += merged.front().offset;
    return layout;
  }
  auto layout = std::make_shared<Layout>();
  layout->kind_ = Kind::sequence;
  for (const Part& part : merged) layout->size_ += part.layout->size_;
  layout->parts_ = std::move(merged);
  return layout;
}

template <bool kPack>
char* Layout::move_blocks(char* element, char* packed) const noexcept {
  const std::size_t block = child_->size_;
  switch (block) {
    case 1:
      copy_blocks<kPack, 1>(element, packed, count_, stride_);
      break;
    case 2:
      copy_blocks<kPack, 2>(element, packed, count_, stride_);
      break;
    case 4:
      copy_blocks<kPack, 4>(element, packed, count_, stride_);
      break;
    case 8:
      copy_blocks<kPack, 8>(element, packed, count_, stride_);
      break;
    case 16:
      copy_blocks<kPack, 16>(element, packed, count_, stride_);
      break;
    default:
      for (std::size_t i = 0; i < count_; ++i) {
        copy<kPack>(element + static_cast<std::ptrdiff_t>(i) * stride_, packed + i * block, block);
      }
  }
  return packed + size_;
}

template <bool kPack>
char* Layout::move(char* element, char* packed) const noexcept {
  element += shift_;
  switch (kind_) {
    case Kind::bytes:
      copy<kPack>(element, packed, size_);
      return packed + size_;
    case Kind::repeat:
      if (child_->is_block()) return move_blocks<kPack>(element, packed);
      for (std::size_t i = 0; i < count_; ++i) {
        packed = child_->move<kPack>(element + static_cast<std::ptrdiff_t>(i) * stride_, packed);
      }
      return packed;
    case Kind::sequence:
      for (const Part& part : parts_)
        packed = part.layout->move<kPack>(element + part.offset, packed);
      return packed;
  }
  return packed;
}

void Layout::pack(const void* element, void* packed) const noexcept {
  move<true>(const_cast<char*>(static_cast<const char*>(element)), static_cast<char*>(packed));
}

void Layout::unpack(const void* packed, void* element) const noexcept {
  move<false>(static_cast<char*>(element), const_cast<char*>(static_cast<const char*>(packed)));
}

}  // namespace tutti::mpi
