#include "COsip2.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The maximum number of bytes that one message may allocate on the heap when its arena is full. */
#define OVERFLOW_LIMIT ((size_t)1 << 20)

struct chunk {
    struct chunk *next;
    size_t unused; /* aligns the memory after this header to 16 bytes */
};

/* The arena of the current thread, in the fastest model of thread-local storage, because it is used hundreds of times
   for each message. The model requires that programs link this library statically. */
__attribute__((tls_model("initial-exec"))) static _Thread_local struct {
    char *base;
    size_t size;
    size_t top;
    char *last; /* the newest allocation, which is the only one that can be freed */
    struct chunk *chunks;
    size_t overflow;
} arena;

void *cosip_arena_take(size_t size) {
    if (size > OVERFLOW_LIMIT) return NULL;
    size = (size + 7) & ~(size_t)7;
    if (size <= arena.size - arena.top) {
        arena.last = arena.base + arena.top;
        arena.top += size;
        return arena.last;
    }
    if (arena.overflow + size > OVERFLOW_LIMIT) return NULL;
    struct chunk *chunk = malloc(sizeof *chunk + size);
    if (chunk == NULL) return NULL;
    arena.overflow += size;
    chunk->next = arena.chunks;
    arena.chunks = chunk;
    return chunk + 1;
}

static void give_back(void *place) {
    if (place == NULL || place != arena.last) return;
    arena.top = (size_t)(arena.last - arena.base);
    arena.last = NULL;
}

/* Serves realloc, which libosip2 requires, but which its parsers of single values never call. */
static void *take_again(void *place, size_t size) {
    char *larger = cosip_arena_take(size);
    if (larger == NULL || place == NULL) return larger;
    /* The unknown size of the old allocation is at most the distance to the new one, so that much is copied. */
    char *old = place;
    if (old < arena.base || old >= larger || larger > arena.base + arena.size) return NULL;
    size_t known = (size_t)(larger - old);
    memcpy(larger, old, known < size ? known : size);
    return larger;
}

void cosip_arena_begin(void *base, size_t size) {
    arena.base = base;
    arena.size = size;
    arena.top = 0;
    arena.last = NULL;
    arena.overflow = 0;
}

size_t cosip_arena_end(void) {
    while (arena.chunks != NULL) {
        struct chunk *next = arena.chunks->next;
        free(arena.chunks);
        arena.chunks = next;
    }
    size_t overflow = arena.overflow;
    cosip_arena_begin(NULL, 0);
    return overflow;
}

static void ignore_trace(const char *file, int line, osip_trace_level_t level, const char *format, va_list values) {
    (void)file;
    (void)line;
    (void)level;
    (void)format;
    (void)values;
}

void cosip_start(void) {
    /* A level alone does not silence the trace, because the parser resets it at its first message. */
    osip_trace_initialize_func(TRACE_LEVEL0, ignore_trace);
    parser_init();
    osip_set_allocators(cosip_arena_take, take_again, give_back);
}
