/* Linked into every library of tutti's that is loaded into somebody else's program: what would be
 * destroyed at exit stays as it is. exit() may run while other threads are inside MPI, and in a
 * forked child, which shares the job's sockets but not its memory; the kernel takes everything back
 * anyway. This definition is the one that the library's own objects bind to, so that it also covers
 * what is added later. */
int __attribute__((visibility("hidden")))
__cxa_atexit(void (*function)(void*), void* argument, void* library);

int __cxa_atexit(void (*function)(void*), void* argument, void* library) {
  (void)function, (void)argument, (void)library;
  return 0;
}
