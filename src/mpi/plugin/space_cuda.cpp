// CUDA's memory, by the driver's library. Names, numbers and structures are those of cuda.h (12.9).
#include <cstdint>

#include "mpi/plugin/space.hpp"

namespace tutti::mpi {
namespace {

using Result = int;  // CUresult; 0 is CUDA_SUCCESS
using Pointer = unsigned long long;
using Context = void*;

enum Attribute : int { kContext = 1, kMemoryType = 2, kIsManaged = 8, kDeviceOrdinal = 9 };
constexpr unsigned kDevice = 2;   // CU_MEMORYTYPE_DEVICE
constexpr unsigned kUnified = 4;  // CU_MEMORYTYPE_UNIFIED: the address says it
constexpr std::ptrdiff_t kLargestPitch = 0x7fffffff;

struct Rectangle {  // CUDA_MEMCPY2D
  std::size_t from_x, from_y;
  unsigned from_type;
  const void* from_host;
  Pointer from;
  void* from_array;
  std::size_t from_pitch;
  std::size_t to_x, to_y;
  unsigned to_type;
  void* to_host;
  Pointer to;
  void* to_array;
  std::size_t to_pitch;
  std::size_t width, height;
};

// Written once, before anybody asks.
struct Functions {
  Result (*get_attributes)(unsigned count, int* attributes, void** data, Pointer address);
  Result (*copy)(Pointer to, Pointer from, std::size_t bytes);
  Result (*copy_rectangle)(const Rectangle* rectangle);
  Result (*synchronize)(void* stream);
  Result (*get_current)(Context* context);
  Result (*push)(Context context);
  Result (*pop)(Context* context);
  Result (*retain_primary)(Context* context, int device);
} cuda;

bool load(void* library) noexcept {
  return find_function(library, "cuPointerGetAttributes", &cuda.get_attributes) &&
         find_function(library, "cuMemcpy", &cuda.copy) &&
         find_function(library, "cuMemcpy2DUnaligned_v2", &cuda.copy_rectangle) &&
         find_function(library, "cuStreamSynchronize", &cuda.synchronize) &&
         find_function(library, "cuCtxGetCurrent", &cuda.get_current) &&
         find_function(library, "cuCtxPushCurrent_v2", &cuda.push) &&
         find_function(library, "cuCtxPopCurrent_v2", &cuda.pop) &&
         find_function(library, "cuDevicePrimaryCtxRetain", &cuda.retain_primary);
}

Pointer number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

// Of memory that is CUDA's own; `device` is negative for all other.
struct Owner {
  Context context = nullptr;  // memory of a pool has none
  int device = -1;
};

Owner owner_of(const void* address) {
  Owner owner;
  unsigned type = 0;
  int attributes[] = {kContext, kDeviceOrdinal, kMemoryType};
  void* data[] = {static_cast<void*>(&owner.context), &owner.device, &type};
  if (cuda.get_attributes(3, attributes, data, number(address)) != 0 || type != kDevice) return {};
  return owner;
}

// The thread must have a context: the memory's own, else the thread's, else the primary one of the
// device.
class Current {
 public:
  explicit Current(const Space::Block& block) {
    Owner owner = owner_of(block.from);
    if (owner.device < 0) owner = owner_of(block.to);
    Context current = nullptr;
    if (cuda.get_current(&current) != 0) return;
    if (owner.context == nullptr && current == nullptr && owner.device >= 0 &&
        cuda.retain_primary(&owner.context, owner.device) != 0)
      return;  // and is never given back, for others may have come to rely on it
    if (owner.context != nullptr && owner.context != current)
      pushed_ = cuda.push(owner.context) == 0;
  }
  ~Current() {
    Context context = nullptr;
    if (pushed_) cuda.pop(&context);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  bool pushed_ = false;
};

bool is_pitch(std::ptrdiff_t stride, std::size_t bytes) {
  return stride >= static_cast<std::ptrdiff_t>(bytes) && stride <= kLargestPitch;
}

Result copy_block(const Space::Block& b) {
  if (b.consecutive()) return cuda.copy(number(b.to), number(b.from), b.bytes * b.rows);
  if (is_pitch(b.to_stride, b.bytes) && is_pitch(b.from_stride, b.bytes)) {
    Rectangle r{};
    r.from_type = r.to_type = kUnified;
    r.from = number(b.from);
    r.from_pitch = static_cast<std::size_t>(b.from_stride);
    r.to = number(b.to);
    r.to_pitch = static_cast<std::size_t>(b.to_stride);
    r.width = b.bytes;
    r.height = b.rows;
    return cuda.copy_rectangle(&r);
  }
  Result result = 0;
  for (std::size_t i = 0; i < b.rows && result == 0; ++i) result = copy_block(b.row(i));
  return result;
}

class DeviceMemory final : public Space {
 public:
  Status copy(const Block& block) const noexcept override {
    const Current current(block);
    Result result = copy_block(block);
    // A copy out of memory that is not pinned may return before all of it has reached the device.
    if (result == 0) result = cuda.synchronize(nullptr);
    if (result == 0) return Status::success();
    return Status::error(Code::unsupported, "CUDA could not copy the buffer");
  }
};

const DeviceMemory device_memory;
const ManagedSpace managed_memory(device_memory);

// Pinned memory of the processor's is that, wherever it is mapped.
const Space* find_memory(const void* address) noexcept {
  unsigned type = 0;
  int managed = 0;  // the driver may write less of it
  int attributes[] = {kMemoryType, kIsManaged};
  void* data[] = {&type, &managed};
  if (cuda.get_attributes(2, attributes, data, number(address)) != 0) return nullptr;
  if (managed != 0) return &managed_memory;
  return type == kDevice ? &device_memory : nullptr;
}

}  // namespace

const Driver cuda_driver{"libcuda.so", &load, &find_memory};

}  // namespace tutti::mpi
