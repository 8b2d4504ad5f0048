#pragma once
#include <stddef.h>
#include <osipparser2/osip_parser.h>

/* Prepares libosip2 once for the process: its tables, its silence, and our allocators. */
void sip_arena_install(void);

/* From here to sip_arena_leave(), on this thread, libosip2 allocates inside [base + used, base + capacity). */
void sip_arena_enter(char *base, size_t used, size_t capacity);

/* Ends that, and tells how much of the block is used. */
size_t sip_arena_leave(void);

/* Takes zero-filled room in the arena; NULL when it is full. */
void *sip_arena_take(size_t size);
