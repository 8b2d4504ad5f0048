#ifndef COSIP2_H
#define COSIP2_H

#include <osipparser2/osip_parser.h>
#include <stddef.h>
#include <string.h>

/*
 * libosip2 asks two global functions for memory and gives them no context. While a thread reads a message, these
 * functions serve it from the arena which that thread has set; nothing is freed one by one.
 *
 * What does not fit is served from the heap until the arena ends, so that the parser never meets a failed allocation
 * half-way. The caller then sees how much was missing and reads again with a larger arena.
 */

/* Starts the parser, silences its trace output and installs the allocators. Once in a process, before any reading. */
void cosip_start(void);

/* Serves this thread's allocations from `size` bytes at `base`, which must be aligned to 8. */
void cosip_arena_begin(void *base, size_t size);

/* Memory like the parser's own, for texts prepared for it; NULL when the arena has taken far too much. */
void *cosip_arena_take(size_t size);

/* The length of a string that the parser made. */
static inline size_t cosip_length(const char *text) { return strlen(text); }

/* Ends the arena of this thread. Returns the number of bytes that did not fit; they are freed now. */
size_t cosip_arena_end(void);

#endif
