#include "COsip2.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    char *base;
    size_t used, capacity;
} arena;

void *sip_arena_take(size_t size)
{
    size_t room = (size + 15) & ~(size_t)15;
    if (room < size || room > arena.capacity - arena.used) return NULL;
    void *taken = arena.base + arena.used;
    arena.used += room;
    return taken;
}

static void *take(size_t size)
{
    return arena.base ? sip_arena_take(size) : malloc(size);
}

/* The old size is not known; what follows the old block inside the arena may be copied along, unread by anybody. */
static void *retake(void *old, size_t size)
{
    if (!arena.base) return realloc(old, size);
    char *taken = sip_arena_take(size);
    if (taken && old) {
        size_t rest = (size_t)(arena.base + arena.capacity - (char *)old);
        memmove(taken, old, size < rest ? size : rest);
    }
    return taken;
}

static void give_back(void *block)
{
    if (!arena.base) free(block);
}

static void ignore_trace(const char *file, int line, osip_trace_level_t level, const char *format, va_list arguments)
{
}

void sip_arena_install(void)
{
    osip_trace_initialize_func(TRACE_LEVEL0, ignore_trace);
    parser_init();
    osip_set_allocators(take, retake, give_back);
}

void sip_arena_enter(char *base, size_t used, size_t capacity)
{
    arena.base = base;
    arena.used = (used + 15) & ~(size_t)15;
    arena.capacity = capacity;
    if (arena.used > capacity) arena.used = capacity;
}

size_t sip_arena_leave(void)
{
    arena.base = NULL;
    return arena.used;
}
