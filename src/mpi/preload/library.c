/* Finds the MPI of this process. A linked program has it in the global scope; mpi4py opens it with
 * RTLD_LOCAL, where neither RTLD_DEFAULT nor RTLD_NEXT sees it, so the module of the caller is
 * asked first, then the global scope, then every loaded library. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/generated/preload_abis.h"
#include "mpi/preload/preload.h"

/* Written once by the first thread that finds the MPI (the values are the same for all), then
 * constant; `library` is stored last. */
static void* library;
static const struct tutti_abi* abi;
static char path[4096];

static const char* basename_of(const char* name) {
  const char* slash = strrchr(name, '/');
  return slash != NULL ? slash + 1 : name;
}

static int is_own(const void* address) {
  Dl_info found, own;
  return dladdr(address, &found) == 0 || dladdr((void*)&is_own, &own) == 0 ||
         found.dli_fbase == own.dli_fbase;
}

static const struct tutti_abi* abi_named(const char* abi_name) {
  for (size_t i = 0; i < sizeof abis / sizeof abis[0]; i++) {
    if (strcmp(abis[i].name, abi_name) == 0) return &abis[i];
  }
  return NULL;
}

static int starts_with(const char* name, const char* start) {
  return strncmp(name, start, strlen(start)) == 0;
}

/* What a library is, it says by what it exports: vendors rename MPICH (libmpi_gnu_91.so.12,
 * libmpi_intel.so.12), and old releases of Open MPI share a name with it (libmpi.so.12). Names only
 * tell releases apart whose handles differ. */
static const struct tutti_abi* abi_of(void* opened, const char* name) {
  if (dlsym(opened, "ompi_mpi_comm_world") != NULL) {
    int other = starts_with(name, "libmpi.so.") && !starts_with(name, "libmpi.so.40");
    return other ? NULL : abi_named("openmpi");
  }
  if (dlsym(opened, "MPIR_Dup_fn") != NULL) { /* since MPICH 3.1, or since 3.2 by any name */
    int known = strstr(name, ".so.12") != NULL || dlsym(opened, "PMPI_Aint_add") != NULL;
    return known ? abi_named("mpich") : NULL;
  }
  if (dlsym(opened, "PMPI_Abi_get_version") != NULL || starts_with(name, "libmpi_abi.so."))
    return abi_named("abi");
  return NULL;
}

/* The name under which the library was linked, which survives symbolic links and repackaging. */
static const char* soname(struct link_map* map) {
  const char* strings = NULL;
  ElfW(Xword) offset = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry != NULL && entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_STRTAB) strings = (const char*)entry->d_un.d_ptr;
    if (entry->d_tag == DT_SONAME) offset = entry->d_un.d_val;
  }
  return strings != NULL && offset != 0 ? strings + offset : basename_of(map->l_name);
}

/* Accepts `symbol` when it is PMPI_Init of a real MPI, not another library of tutti's. */
static int accept(void* symbol) {
  Dl_info info;
  if (symbol == NULL || is_own(symbol) || dladdr(symbol, &info) == 0) return 0;
  void* opened = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  struct link_map* map = NULL;
  if (opened == NULL || dlinfo(opened, RTLD_DI_LINKMAP, &map) != 0) return 0;
  if (strncmp(soname(map), "libtutti-", 9) == 0) return 0;
  abi = abi_of(opened, soname(map));
  snprintf(path, sizeof path, "%s", info.dli_fname);
  __atomic_store_n(&library, opened, __ATOMIC_RELEASE);
  return 1;
}

static int accept_from_module_of(void* caller) {
  Dl_info info;
  if (caller == NULL || dladdr(caller, &info) == 0) return 0;
  void* module = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (module == NULL) return 0; /* the main program, or gone */
  int found = accept(dlsym(module, "PMPI_Init"));
  dlclose(module);
  return found;
}

struct names {
  char* name[1024];
  size_t count;
};

static int collect(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  struct names* names = data;
  if (info->dlpi_name != NULL && info->dlpi_name[0] == '/' &&
      names->count < sizeof names->name / sizeof names->name[0]) {
    char* copy = strdup(info->dlpi_name);
    if (copy != NULL) names->name[names->count++] = copy;
  }
  return 0;
}

/* dlopen must not be called from within dl_iterate_phdr, so names are collected first. */
static int accept_any_loaded(void) {
  struct names* names = calloc(1, sizeof *names);
  if (names == NULL) return 0;
  dl_iterate_phdr(collect, names);
  int found = 0;
  for (size_t i = 0; i < names->count; i++) {
    if (!found && strstr(basename_of(names->name[i]), "mpi") != NULL) {
      void* module = dlopen(names->name[i], RTLD_LAZY | RTLD_NOLOAD);
      if (module != NULL) {
        found = accept(dlsym(module, "PMPI_Init"));
        dlclose(module);
      }
    }
    free(names->name[i]);
  }
  free(names);
  return found;
}

int tutti_find_library(void* caller) {
  if (__atomic_load_n(&library, __ATOMIC_ACQUIRE) != NULL) return 1;
  return accept_from_module_of(caller) || accept(dlsym(RTLD_NEXT, "PMPI_Init")) ||
         accept_any_loaded();
}

const struct tutti_abi* tutti_library_abi(void) { return abi; }

const char* tutti_library_path(void) { return path; }

void* tutti_library_symbol(const char* name) {
  void* opened = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
  if (opened == NULL) return NULL;
  /* Data first from the global scope: an executable that was linked without -fPIC holds its own
     copy of Open MPI's predefined objects, and then that copy is what everybody uses. */
  int function = strncmp(name, "PMPI_", 5) == 0 || strncmp(name, "MPII_", 5) == 0;
  void* symbol = function ? NULL : dlsym(RTLD_DEFAULT, name);
  return symbol != NULL ? symbol : dlsym(opened, name);
}

handle tutti_constant_value(const struct tutti_constant* constant) {
  return constant->symbol != NULL ? tutti_library_symbol(constant->symbol)
                                  : (handle)constant->value;
}
