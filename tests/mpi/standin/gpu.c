/* Stands in for a GPU's library where there is no GPU: libcuda.so.1, with -DSTANDIN_HIP
 * libamdhip64.so.6, with -DSTANDIN_LEVEL_ZERO libze_loader.so.1. Exports what tutti calls, with the
 * prototypes of cuda.h, hip_runtime_api.h and ze_api.h.
 *
 * Device memory is mapped twice: where the program and the MPI see it, no access is allowed; the
 * library, and the tests, go through a second mapping (the view). A copy to the device comes into
 * effect when a stream is synchronised, or with the next copy from it: as real ones may when the
 * processor's memory is not pinned. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum kind { kHost, kDevice, kManaged, kPinned };
enum { kSuccess = 0, kInvalidValue = 1, kNotInitialized = 3, kInvalidContext = 201 };

struct allocation {
  enum kind kind;
  char* address;
  char* view;
  size_t bytes;
  struct allocation* next;
};
struct pending {
  char* to;
  size_t bytes;
  struct pending* next;
  char data[];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all of this */
static struct allocation* allocations;
static struct pending *pending, **last = &pending;
static long copies, questions;
static int initialized, failing;

static const struct allocation* find(const void* address) {
  const char* at = address;
  for (const struct allocation* a = allocations; a != NULL; a = a->next) {
    if (at >= a->address && at < a->address + a->bytes) return a;
  }
  return NULL;
}

static char* view_of(const void* address, int* is_device) {
  const struct allocation* a = find(address);
  if (a == NULL) return (char*)(uintptr_t)address;
  if (a->kind == kDevice) *is_device = 1;
  return a->view + ((const char*)address - a->address);
}

static void flush(void) {
  while (pending != NULL) {
    struct pending* first = pending;
    memcpy(first->to, first->data, first->bytes);
    pending = first->next;
    free(first);
  }
  last = &pending;
}

static int copy_locked(void* to, const void* from, size_t bytes) {
  int to_device = 0, from_device = 0;
  char* target = view_of(to, &to_device);
  const char* source = view_of(from, &from_device);
  if (from_device || !to_device) flush();
  if (!to_device) {
    memmove(target, source, bytes);
    return kSuccess;
  }
  struct pending* later = malloc(sizeof *later + bytes);
  later->to = target;
  later->bytes = bytes;
  later->next = NULL;
  memcpy(later->data, source, bytes);
  *last = later;
  last = &later->next;
  return kSuccess;
}

static int copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                     size_t height) {
  if (failing) return kInvalidValue;
  pthread_mutex_lock(&mutex);
  copies++;
  for (size_t i = 0; i < height; i++)
    copy_locked((char*)to + i * to_pitch, (const char*)from + i * from_pitch, width);
  pthread_mutex_unlock(&mutex);
  return kSuccess;
}

/* ---- for the tests */

/* From now on copies fail, or do no more. */
void standin_fail(int fail) { failing = fail; }

void standin_init(void) { initialized = 1; }

void* standin_allocate(int kind, size_t bytes, void** view) {
  struct allocation* a = malloc(sizeof *a);
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const int file = memfd_create("device", MFD_CLOEXEC);
  a->kind = (enum kind)kind;
  a->bytes = (bytes / page + 1) * page;
  if (file < 0 || ftruncate(file, (off_t)a->bytes) != 0) abort();
  a->address = mmap(NULL, a->bytes, kind == kDevice ? PROT_NONE : PROT_READ | PROT_WRITE,
                    MAP_SHARED, file, 0);
  a->view = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (a->address == MAP_FAILED || a->view == MAP_FAILED) abort();
  close(file);
  pthread_mutex_lock(&mutex);
  a->next = allocations;
  allocations = a;
  pthread_mutex_unlock(&mutex);
  *view = a->view;
  return a->address;
}

void standin_free(void* address) {
  pthread_mutex_lock(&mutex);
  for (struct allocation** place = &allocations; *place != NULL; place = &(*place)->next) {
    struct allocation* a = *place;
    if (a->address != address) continue;
    *place = a->next;
    munmap(a->address, a->bytes);
    munmap(a->view, a->bytes);
    free(a);
    break;
  }
  pthread_mutex_unlock(&mutex);
}

long standin_copies(void) { return copies; }
long standin_questions(void) { return questions; }

#if !defined STANDIN_HIP && !defined STANDIN_LEVEL_ZERO
/* ---- CUDA: memory belongs to one context, which is current in no thread until it is pushed;
 * memory of a pool (every third allocation) names none */

enum attribute { kContext = 1, kMemoryType = 2, kIsManaged = 8, kOrdinal = 9 };
static __thread void* contexts[8];
static __thread int depth;
static char the_context;

struct rectangle { /* CUDA_MEMCPY2D */
  size_t src_x, src_y;
  unsigned src_type;
  const void* src_host;
  unsigned long long src;
  void* src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  unsigned dst_type;
  void* dst_host;
  unsigned long long dst;
  void* dst_array;
  size_t dst_pitch;
  size_t width, height;
};

int cuInit(unsigned flags) {
  (void)flags;
  initialized = 1;
  return kSuccess;
}

int cuPointerGetAttributes(unsigned count, int* attributes, void** data, unsigned long long at) {
  if (!initialized) return kNotInitialized;
  pthread_mutex_lock(&mutex);
  questions++;
  const struct allocation* a = find((void*)(uintptr_t)at);
  const int pool = a != NULL && (uintptr_t)a->view / 4096 % 3 == 0;
  pthread_mutex_unlock(&mutex);
  for (unsigned i = 0; i < count; i++) {
    switch (attributes[i]) {
      case kContext:
        *(void**)data[i] = a == NULL || pool ? NULL : &the_context;
        break;
      case kMemoryType:
        *(unsigned*)data[i] = a == NULL ? 0 : a->kind == kPinned ? 1 : 2;
        break;
      case kIsManaged:
        *(unsigned char*)data[i] = a != NULL && a->kind == kManaged;
        break;
      case kOrdinal:
        *(int*)data[i] = a == NULL ? -2 : 0;
        break;
      default:
        return kInvalidValue;
    }
  }
  return kSuccess;
}

int cuMemcpy(unsigned long long to, unsigned long long from, size_t bytes) {
  if (depth == 0) return kInvalidContext;
  return copy_rows((void*)(uintptr_t)to, 0, (void*)(uintptr_t)from, 0, bytes, 1);
}

int cuMemcpy2DUnaligned_v2(const struct rectangle* r) {
  if (depth == 0) return kInvalidContext;
  if (r->src_type != 4 || r->dst_type != 4 || r->src_x || r->src_y || r->dst_x || r->dst_y ||
      r->src_pitch < r->width || r->dst_pitch < r->width)
    return kInvalidValue;
  return copy_rows((void*)(uintptr_t)r->dst, r->dst_pitch, (void*)(uintptr_t)r->src, r->src_pitch,
                   r->width, r->height);
}

int cuStreamSynchronize(void* stream) {
  (void)stream;
  if (depth == 0) return kInvalidContext;
  pthread_mutex_lock(&mutex);
  flush();
  pthread_mutex_unlock(&mutex);
  return kSuccess;
}

int cuCtxGetCurrent(void** context) {
  *context = depth == 0 ? NULL : contexts[depth - 1];
  return kSuccess;
}

int cuCtxPushCurrent_v2(void* context) {
  if (context != &the_context || depth == 8) return kInvalidContext;
  contexts[depth++] = context;
  return kSuccess;
}

int cuCtxPopCurrent_v2(void** context) {
  if (depth == 0) return kInvalidContext;
  *context = contexts[--depth];
  return kSuccess;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device != 0) return kInvalidValue;
  *context = &the_context;
  return kSuccess;
}

/* Nothing that tutti pushed may be left behind. */
int standin_contexts(void) { return depth; }

#elif defined STANDIN_HIP

struct attributes { /* hipPointerAttribute_t */
  int type, device;
  void *device_pointer, *host_pointer;
  int managed;
  unsigned flags;
};

int hipPointerGetAttributes(struct attributes* out, const void* address) {
  pthread_mutex_lock(&mutex);
  questions++;
  const struct allocation* a = find(address);
  pthread_mutex_unlock(&mutex);
  memset(out, 0, sizeof *out);
  if (a == NULL) return kSuccess;
  out->type = a->kind == kPinned ? 1 : a->kind == kDevice ? 2 : 3;
  out->managed = a->kind == kManaged;
  return kSuccess;
}

int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  return kind == 4 ? copy_rows(to, 0, from, 0, bytes, 1) : kInvalidValue;
}

int hipMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                size_t height, int kind) {
  if (kind != 4 || to_pitch < width || from_pitch < width) return kInvalidValue;
  return copy_rows(to, to_pitch, from, from_pitch, width, height);
}

int hipStreamSynchronize(void* stream) {
  (void)stream;
  pthread_mutex_lock(&mutex);
  flush();
  pthread_mutex_unlock(&mutex);
  return kSuccess;
}

int hipRuntimeGetVersion(int* version) {
  *version = 60300000;
  return kSuccess;
}

int hipGetLastError(void) { return kSuccess; }
int standin_contexts(void) { return 0; }

#else

/* ---- Level Zero: commands of an immediate, synchronous list are over when they return */

struct properties { /* ze_memory_allocation_properties_t */
  int stype;
  void* next;
  int type;
  uint64_t id, page_size;
};
struct queue { /* ze_command_queue_desc_t */
  int stype;
  const void* next;
  uint32_t ordinal, index, flags;
  int mode, priority;
};
struct region { /* ze_copy_region_t */
  uint32_t x, y, z, width, height, depth;
};
static char the_driver, the_context, the_device, the_list;

int zeDriverGet(uint32_t* count, void** drivers) {
  if (!initialized) return 0x78000001; /* ZE_RESULT_ERROR_UNINITIALIZED */
  *count = 1;
  drivers[0] = &the_driver;
  return kSuccess;
}

int zeContextCreate(void* driver, const int* description, void** context) {
  if (driver != &the_driver || *description != 0xd) return kInvalidValue;
  *context = &the_context;
  return kSuccess;
}

int zeMemGetAllocProperties(void* context, const void* address, struct properties* out,
                            void** device) {
  if (context != &the_context || out->stype != 0x17) return kInvalidValue;
  pthread_mutex_lock(&mutex);
  questions++;
  const struct allocation* a = find(address);
  pthread_mutex_unlock(&mutex);
  out->type = a == NULL ? 0 : a->kind == kPinned ? 1 : a->kind == kDevice ? 2 : 3;
  *device = a == NULL || a->kind == kPinned ? NULL : &the_device;
  return kSuccess;
}

int zeCommandListCreateImmediate(void* context, void* device, const struct queue* description,
                                 void** list) {
  if (context != &the_context || device != &the_device || description->stype != 0xe ||
      description->mode != 1)
    return kInvalidValue;
  *list = &the_list;
  return kSuccess;
}

static int finish(int result) {
  pthread_mutex_lock(&mutex);
  flush();
  pthread_mutex_unlock(&mutex);
  return result;
}

int zeCommandListAppendMemoryCopy(void* list, void* to, const void* from, size_t bytes,
                                  void* signal, uint32_t waits, void** events) {
  if (list != &the_list || signal != NULL || waits != 0 || events != NULL) return kInvalidValue;
  return finish(copy_rows(to, 0, from, 0, bytes, 1));
}

int zeCommandListAppendMemoryCopyRegion(void* list, void* to, const struct region* to_region,
                                        uint32_t to_pitch, uint32_t to_slice, const void* from,
                                        const struct region* from_region, uint32_t from_pitch,
                                        uint32_t from_slice, void* signal, uint32_t waits,
                                        void** events) {
  if (list != &the_list || signal != NULL || waits != 0 || events != NULL || to_slice != 0 ||
      from_slice != 0 || memcmp(to_region, from_region, sizeof *to_region) != 0 ||
      to_region->depth != 0 || to_pitch < to_region->width || from_pitch < to_region->width)
    return kInvalidValue;
  return finish(copy_rows(to, to_pitch, from, from_pitch, to_region->width, to_region->height));
}

int standin_contexts(void) { return 0; }

#endif
