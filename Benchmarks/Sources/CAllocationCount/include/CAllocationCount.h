#ifndef C_ALLOCATION_COUNT_H
#define C_ALLOCATION_COUNT_H

#include <stdint.h>

/* How often the calling thread has asked the heap for memory since it began, reallocations included. */
uint64_t allocation_count(void);

#endif
