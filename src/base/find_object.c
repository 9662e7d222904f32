/* Linked into everything of tutti's that carries a libgcc of its own. That libgcc finds the tables
 * for unwinding with _dl_find_object, which glibc has since 2.35; this one does the same by what
 * every glibc has, so that a library that was built on a newer system runs on one with 2.34. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#ifdef DLFO_EH_SEGMENT_TYPE
#if DLFO_STRUCT_HAS_EH_COUNT || defined __i386__
#error "unwinding needs more than the place of the table on this machine"
#endif

struct search {
  uintptr_t address;
  struct dl_find_object* found;
};

/* One loaded object: 1 where the address lies in it and it has a table. */
static int look(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  const struct search* search = data;
  uintptr_t begin = UINTPTR_MAX, end = 0, table = 0;
  int inside = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)* header = &info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + header->p_vaddr;
    if (header->p_type == DLFO_EH_SEGMENT_TYPE) table = start;
    if (header->p_type != PT_LOAD) continue;
    if (start < begin) begin = start;
    if (start + header->p_memsz > end) end = start + header->p_memsz;
    inside = inside || search->address - start < header->p_memsz;
  }
  if (!inside || table == 0) return 0;
  memset(search->found, 0, sizeof *search->found);
  search->found->dlfo_map_start = (void*)begin;
  search->found->dlfo_map_end = (void*)end;
  search->found->dlfo_eh_frame = (void*)table;
  return 1;
}

__attribute__((visibility("hidden"))) int _dl_find_object(void* address,
                                                          struct dl_find_object* found) {
  struct search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}
#endif
