#ifndef CPAGE_H
#define CPAGE_H

#include <stddef.h>

/* A file of the operators' web page, which is part of the program. */
typedef struct {
    const char *path;
    const char *type;
    const unsigned char *bytes;
    size_t count;
} cpage_file;

/* The number of files. */
size_t cpage_count(void);

/* The file with the given number, from 0, which must be lower than the number of files. */
cpage_file cpage_file_at(size_t number);

#endif
