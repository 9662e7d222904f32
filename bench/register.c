/* register verbs|PROVIDER: what it costs to register memory for one operation, beside copying it.
 *
 * cc -O2 bench/register.c -o register -libverbs -lfabric. `verbs`: by libibverbs with its first
 * device; else by that provider of libfabric. Prints for each size the median of many registrations
 * and deregistrations, and of copies, in microseconds. The pages are there before. */
#include <infiniband/verbs.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kRounds = 51 };

static struct ibv_pd* protection;
static struct fid_domain* domain;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static int open_verbs(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_context* context = list && list[0] ? ibv_open_device(list[0]) : NULL;
  protection = context ? ibv_alloc_pd(context) : NULL;
  return protection == NULL;
}

static int open_provider(const char* name) {
  struct fi_info *hints = fi_allocinfo(), *info = NULL;
  struct fid_fabric* fabric = NULL;
  hints->caps = FI_RMA;
  hints->ep_attr->type = FI_EP_RDM;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup(name);
  return fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) ||
         fi_fabric(info->fabric_attr, &fabric, NULL) || fi_domain(fabric, info, &domain, NULL);
}

static int register_once(void* memory, size_t bytes) {
  if (protection != NULL) {
    struct ibv_mr* region = ibv_reg_mr(protection, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
    return region == NULL || ibv_dereg_mr(region);
  }
  struct fid_mr* region = NULL;
  return fi_mr_reg(domain, memory, bytes, FI_READ | FI_WRITE, 0, 1, 0, &region, NULL) ||
         fi_close(&region->fid);
}

int main(int argc, char** argv) {
  if (argc != 2 || (strcmp(argv[1], "verbs") ? open_provider(argv[1]) : open_verbs())) {
    fprintf(stderr, "register verbs|PROVIDER: no such device or provider\n");
    return 2;
  }
  for (size_t bytes = 65536; bytes <= (4u << 20); bytes *= 4) {
    double registering[kRounds], copying[kRounds];
    char *memory = malloc(bytes), *copy = malloc(bytes);
    memset(memory, 1, bytes);
    memset(copy, 2, bytes);
    for (int i = 0; i < kRounds; ++i) {
      const double begin = now_us();
      if (register_once(memory, bytes)) return 1;
      const double middle = now_us();
      memory[i] = (char)i;
      memcpy(copy, memory, bytes);
      registering[i] = middle - begin;
      copying[i] = now_us() - middle;
    }
    qsort(registering, kRounds, sizeof *registering, by_value);
    qsort(copying, kRounds, sizeof *copying, by_value);
    printf("%8zu bytes: registering %9.2f us, copying %9.2f us\n", bytes, registering[kRounds / 2],
           copying[kRounds / 2]);
    free(memory);
    free(copy);
  }
  return 0;
}
