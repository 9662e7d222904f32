/* Messages. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "mpi/preload/preload.h"

void tutti_say(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = snprintf(line, sizeof line, "tutti: ");
  length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
  va_end(arguments);
  if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
  line[length++] = '\n';
  ssize_t written = write(STDERR_FILENO, line, (size_t)length);
  (void)written; /* nothing can be done about it */
}
