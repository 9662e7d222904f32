// Level Zero's memory (oneAPI). Names, numbers and structures are those of ze_api.h (1.8).
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "mpi/plugin/space.hpp"

namespace tutti::mpi {
namespace {

using Result = int;  // ze_result_t; 0 is ZE_RESULT_SUCCESS
using Handle = void*;

constexpr int kContextDescription = 0xd, kQueueDescription = 0xe, kProperties = 0x17;
constexpr int kSynchronous = 1;          // ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS
constexpr int kDevice = 2, kShared = 3;  // ZE_MEMORY_TYPE_DEVICE, ..._SHARED

struct ContextDescription {
  int type;
  const void* next;
  std::uint32_t flags;
};
struct QueueDescription {
  int type;
  const void* next;
  std::uint32_t ordinal, index, flags;
  int mode, priority;
};
struct Properties {
  int type;
  void* next;
  int memory_type;
  std::uint64_t id, page_size;
};
struct Region {
  std::uint32_t x, y, z, width, height, depth;
};

// Written once, before anybody asks.
struct Functions {
  Result (*get_drivers)(std::uint32_t* count, Handle* drivers);
  Result (*create_context)(Handle driver, const ContextDescription* description, Handle* context);
  Result (*get_properties)(Handle context, const void* address, Properties* properties,
                           Handle* device);
  Result (*create_list)(Handle context, Handle device, const QueueDescription* description,
                        Handle* list);
  Result (*append_copy)(Handle list, void* to, const void* from, std::size_t bytes, Handle signal,
                        std::uint32_t waits, Handle* events);
  Result (*append_region)(Handle list, void* to, const Region* to_region, std::uint32_t to_pitch,
                          std::uint32_t to_slice, const void* from, const Region* from_region,
                          std::uint32_t from_pitch, std::uint32_t from_slice, Handle signal,
                          std::uint32_t waits, Handle* events);
} ze;

// One context of tutti's for each driver, made when the program has initialised them; drivers know
// the memory of all contexts of a process. Written under `mutex` before `context_count` says so.
constexpr std::uint32_t kMostDrivers = 4, kMostLists = 16;
std::array<Handle, kMostDrivers> contexts;
std::atomic<std::uint32_t> context_count{0};
std::mutex mutex;

// A list for each device that was copied from or to, which is used under `mutex`.
struct List {
  Handle context = nullptr, device = nullptr, list = nullptr;
};
std::array<List, kMostLists> lists;

bool load(void* library) noexcept {
  return find_function(library, "zeDriverGet", &ze.get_drivers) &&
         find_function(library, "zeContextCreate", &ze.create_context) &&
         find_function(library, "zeMemGetAllocProperties", &ze.get_properties) &&
         find_function(library, "zeCommandListCreateImmediate", &ze.create_list) &&
         find_function(library, "zeCommandListAppendMemoryCopy", &ze.append_copy) &&
         find_function(library, "zeCommandListAppendMemoryCopyRegion", &ze.append_region);
}

// How many contexts there are. None before the program has initialised its drivers: it then has no
// memory of theirs either.
std::uint32_t count_contexts() noexcept {
  if (const std::uint32_t count = context_count.load(std::memory_order_acquire)) return count;
  const std::lock_guard lock(mutex);
  if (const std::uint32_t count = context_count.load(std::memory_order_relaxed)) return count;
  Handle drivers[kMostDrivers] = {};
  std::uint32_t count = kMostDrivers, made = 0;
  if (ze.get_drivers(&count, drivers) != 0) return 0;
  for (std::uint32_t i = 0; i < count && i < kMostDrivers; ++i) {
    const ContextDescription description{kContextDescription, nullptr, 0};
    if (ze.create_context(drivers[i], &description, &contexts[made]) == 0) ++made;
  }
  context_count.store(made, std::memory_order_release);
  return made;
}

struct Owner {
  Handle context = nullptr, device = nullptr;
  int type = 0;
};

Owner owner_of(const void* address) noexcept {
  const std::uint32_t count = count_contexts();
  for (std::uint32_t i = 0; i < count; ++i) {
    Properties properties{};
    properties.type = kProperties;
    Owner owner{contexts[i], nullptr, 0};
    if (ze.get_properties(contexts[i], address, &properties, &owner.device) != 0) continue;
    owner.type = properties.memory_type;
    if (owner.type == kDevice || owner.type == kShared) return owner;
  }
  return {};
}

// Under `mutex`. Each command on it is over when the call returns.
Handle list_of(const Owner& owner) noexcept {
  for (List& entry : lists) {
    if (entry.context == owner.context && entry.device == owner.device) return entry.list;
    if (entry.list != nullptr) continue;
    const QueueDescription description{kQueueDescription, nullptr, 0, 0, 0, kSynchronous, 0};
    Handle list = nullptr;
    if (ze.create_list(owner.context, owner.device, &description, &list) != 0) return nullptr;
    entry = {owner.context, owner.device, list};
    return list;
  }
  return nullptr;
}

bool fits(std::ptrdiff_t stride, const Space::Block& b) noexcept {
  constexpr std::size_t kMost = UINT32_MAX;
  return stride >= static_cast<std::ptrdiff_t>(b.bytes) &&
         static_cast<std::size_t>(stride) <= kMost && b.rows <= kMost;
}

Result copy_block(Handle list, const Space::Block& b) noexcept {
  if (b.consecutive())
    return ze.append_copy(list, b.to, b.from, b.bytes * b.rows, nullptr, 0, nullptr);
  if (fits(b.to_stride, b) && fits(b.from_stride, b)) {
    // A depth of 0 says that there are two dimensions.
    const Region region{
        0, 0, 0, static_cast<std::uint32_t>(b.bytes), static_cast<std::uint32_t>(b.rows), 0};
    return ze.append_region(list, b.to, &region, static_cast<std::uint32_t>(b.to_stride), 0, b.from,
                            &region, static_cast<std::uint32_t>(b.from_stride), 0, nullptr, 0,
                            nullptr);
  }
  Result result = 0;
  for (std::size_t i = 0; i < b.rows && result == 0; ++i) result = copy_block(list, b.row(i));
  return result;
}

class DeviceMemory final : public Space {
 public:
  Status copy(const Block& block) const noexcept override {
    Owner owner = owner_of(block.from);
    if (owner.device == nullptr) owner = owner_of(block.to);
    const std::lock_guard lock(mutex);
    Handle const list = owner.device != nullptr ? list_of(owner) : nullptr;
    if (list != nullptr && copy_block(list, block) == 0) return Status::success();
    return Status::error(Code::unsupported, "Level Zero could not copy the buffer");
  }
};

const DeviceMemory device_memory;
const ManagedSpace shared_memory(device_memory);

const Space* find_memory(const void* address) noexcept {
  const Owner owner = owner_of(address);
  if (owner.type == kShared) return &shared_memory;
  return owner.type == kDevice ? &device_memory : nullptr;
}

}  // namespace

const Driver level_zero_driver{"libze_loader.so", &load, &find_memory};

}  // namespace tutti::mpi
