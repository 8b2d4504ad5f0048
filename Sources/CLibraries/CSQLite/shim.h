#include <sqlite3.h>

/* Turns off SQLite's memory statistics, which take a lock for each allocation. Swift cannot call the variadic
   sqlite3_config. */
static inline int sqlite_count_no_memory(void) { return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }
