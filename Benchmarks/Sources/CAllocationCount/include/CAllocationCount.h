#ifndef C_ALLOCATION_COUNT_H
#define C_ALLOCATION_COUNT_H

#include <stdint.h>

/* The number of heap allocations of the calling thread since it began, including reallocations. */
uint64_t allocation_count(void);

#endif
