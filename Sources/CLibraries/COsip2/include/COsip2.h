#ifndef COSIP2_H
#define COSIP2_H

#include <osipparser2/osip_parser.h>
#include <stddef.h>
#include <string.h>

/*
 * libosip2's global allocator functions have no context, so they allocate from the arena that the current thread has
 * set. Single allocations are not freed.
 *
 * Allocations that do not fit into the arena come from the heap, so that the parser never sees a failed allocation. At
 * the end of the arena, the caller learns how many bytes did not fit, and reads again with a larger arena.
 */

/* Starts libosip2, silences its trace output and installs the allocators; called once, before the first message. */
void cosip_start(void);

/* Begins an arena for this thread: libosip2 allocates from the `size` bytes at `base`, which must be aligned to 8. */
void cosip_arena_begin(void *base, size_t size);

/* Allocates from the arena, for texts that are prepared for libosip2; NULL if the heap limit is also exceeded. */
void *cosip_arena_take(size_t size);

/* The length of a string that libosip2 made. */
static inline size_t cosip_length(const char *text) { return strlen(text); }

/* Ends the arena of this thread, and frees its heap memory. Returns the number of bytes that did not fit. */
size_t cosip_arena_end(void);

#endif
