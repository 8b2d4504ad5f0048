#include <osipparser2/osip_parser.h>
