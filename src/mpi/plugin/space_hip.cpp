// HIP's memory. Names, numbers and structures are those of hip_runtime_api.h (ROCm 5 to 7).
#include <cstdint>

#include "mpi/plugin/space.hpp"

namespace tutti::mpi {
namespace {

using Result = int;          // hipError_t; 0 is hipSuccess
constexpr int kDefault = 4;  // hipMemcpyDefault: the addresses say it

struct Attributes {  // hipPointerAttribute_t, and room for what a later one may add
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
  int managed;
  unsigned flags;
  std::uint64_t spare[8];
};

// Written once, before anybody asks.
struct Functions {
  Result (*get_attributes)(Attributes* attributes, const void* address);
  Result (*copy)(void* to, const void* from, std::size_t bytes, int kind);
  Result (*copy_rectangle)(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                           std::size_t width, std::size_t height, int kind);
  Result (*synchronize)(void* stream);
  Result (*version)(int* version);
  Result (*last_error)();
} hip;
int device_type = 2;  // hipMemoryTypeDevice; 1 before ROCm 6

bool load(void* library) noexcept {
  if (!find_function(library, "hipPointerGetAttributes", &hip.get_attributes) ||
      !find_function(library, "hipMemcpy", &hip.copy) ||
      !find_function(library, "hipMemcpy2D", &hip.copy_rectangle) ||
      !find_function(library, "hipStreamSynchronize", &hip.synchronize) ||
      !find_function(library, "hipRuntimeGetVersion", &hip.version) ||
      !find_function(library, "hipGetLastError", &hip.last_error))
    return false;
  constexpr int kRocm6 = 60000000;
  int version = 0;
  if (hip.version(&version) == 0 && version < kRocm6) device_type = 1;
  return true;
}

bool is_pitch(std::ptrdiff_t stride, std::size_t bytes) {
  return stride >= static_cast<std::ptrdiff_t>(bytes);
}

Result copy_block(const Space::Block& b) {
  if (b.consecutive()) return hip.copy(b.to, b.from, b.bytes * b.rows, kDefault);
  if (is_pitch(b.to_stride, b.bytes) && is_pitch(b.from_stride, b.bytes)) {
    return hip.copy_rectangle(b.to, static_cast<std::size_t>(b.to_stride), b.from,
                              static_cast<std::size_t>(b.from_stride), b.bytes, b.rows, kDefault);
  }
  Result result = 0;
  for (std::size_t i = 0; i < b.rows && result == 0; ++i) result = copy_block(b.row(i));
  return result;
}

class DeviceMemory final : public Space {
 public:
  Status copy(const Block& block) const noexcept override {
    Result result = copy_block(block);
    if (result == 0) result = hip.synchronize(nullptr);
    if (result == 0) return Status::success();
    return Status::error(Code::unsupported, "HIP could not copy the buffer");
  }
};

const DeviceMemory device_memory;
const ManagedSpace managed_memory(device_memory);

const Space* find_memory(const void* address) noexcept {
  Attributes attributes{};
  if (hip.get_attributes(&attributes, address) != 0) {
    hip.last_error();  // before ROCm 6 memory that is not HIP's is an error, which nobody shall see
    return nullptr;
  }
  if (attributes.managed != 0) return &managed_memory;
  return attributes.type == device_type ? &device_memory : nullptr;
}

}  // namespace

const Driver hip_driver{"libamdhip64.so", &load, &find_memory};

}  // namespace tutti::mpi
