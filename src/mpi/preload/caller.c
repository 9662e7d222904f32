/* Caller filter. ROMIO and other modules of an MPI call MPI functions through the PLT and so arrive
 * in the preload; such calls must stay native. The Fortran and C++ layers (libmpi_mpifh,
 * libmpifort, ...) speak for the program and are not filtered. */
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "mpi/preload/preload.h"

uintptr_t tutti_program_begin, tutti_program_bytes;

/* Known modules, appended under `lock`, read without it: `known` is stored after the entry. A
 * module that is unloaded keeps its entry; the worst that can follow, when another takes its place,
 * is that a caller's calls stay native or are handled, and both give right results. */
struct module {
  uintptr_t begin, end;
  int is_mpi;
};
static struct module modules[256];
static atomic_size_t known;
static atomic_flag lock = ATOMIC_FLAG_INIT;

static int starts_with(const char* text, const char* start) {
  return strncmp(text, start, strlen(start)) == 0;
}

static int is_part_of_mpi(const char* file) {
  const char* slash = strrchr(file, '/');
  const char* name = slash != NULL ? slash + 1 : file;
  return strcmp(file, tutti_library_path()) == 0 || starts_with(name, "mca_") ||
         strstr(name, "romio") != NULL || starts_with(name, "libopen-pal") ||
         starts_with(name, "libopen-rte") || starts_with(name, "libmca_") ||
         starts_with(name, "libpmix") || starts_with(name, "libadio");
}

struct search {
  uintptr_t address;
  struct module found;
};

static int match(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  struct search* search = data;
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    uintptr_t stop = start + info->dlpi_phdr[i].p_memsz;
    if (start < begin) begin = start;
    if (stop > end) end = stop;
  }
  if (search->address < begin || search->address >= end) return 0;
  search->found = (struct module){begin, end, is_part_of_mpi(info->dlpi_name)};
  return 1;
}

static void remember(const struct module* module) {
  while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) {
  }
  size_t count = atomic_load_explicit(&known, memory_order_relaxed);
  int present = 0;
  for (size_t i = 0; i < count; i++) present |= modules[i].begin == module->begin;
  if (!present && count < sizeof modules / sizeof modules[0]) {
    modules[count] = *module;
    if (!module->is_mpi && tutti_program_bytes == 0) {
      tutti_program_begin = module->begin;
      __atomic_store_n(&tutti_program_bytes, module->end - module->begin, __ATOMIC_RELEASE);
    }
    atomic_store_explicit(&known, count + 1, memory_order_release);
  }
  atomic_flag_clear_explicit(&lock, memory_order_release);
}

int tutti_caller_is_mpi(void* address) {
  uintptr_t wanted = (uintptr_t)address;
  size_t count = atomic_load_explicit(&known, memory_order_acquire);
  for (size_t i = 0; i < count; i++) {
    if (wanted >= modules[i].begin && wanted < modules[i].end) return modules[i].is_mpi;
  }
  struct search search = {wanted, {0, 0, 0}};
  if (dl_iterate_phdr(match, &search) == 0) return 0; /* generated code: not the MPI's */
  remember(&search.found);
  return search.found.is_mpi;
}
