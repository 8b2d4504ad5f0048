#include <sqlite3.h>

/* sqlite3_config is variadic. Without its statistics SQLite takes no lock for each piece of memory. */
static inline int sqlite_count_no_memory(void) { return sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }
