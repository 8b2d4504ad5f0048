#include "CPage.h"

/* C23 has #embed; clang warns about it in older dialects of C. */
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char index_html[] = {
#embed "files/index.html"
};
static const unsigned char page_css[] = {
#embed "files/page.css"
};
static const unsigned char page_js[] = {
#embed "files/page.js"
};
static const unsigned char page_views_js[] = {
#embed "files/page-views.js"
};
static const unsigned char page_plots_js[] = {
#embed "files/page-plots.js"
};
static const unsigned char icon_svg[] = {
#embed "files/icon.svg"
};
/* The library Chart.js from Debian's package libjs-chart.js. */
static const unsigned char chart_js[] = {
#embed "/usr/share/javascript/chart.js/chart.min.js"
};

static const char html[] = "text/html; charset=utf-8";
static const char css[] = "text/css; charset=utf-8";
static const char script[] = "text/javascript; charset=utf-8";

static const cpage_file files[] = {
    {"/", html, index_html, sizeof index_html},
    {"/page.css", css, page_css, sizeof page_css},
    {"/page.js", script, page_js, sizeof page_js},
    {"/page-views.js", script, page_views_js, sizeof page_views_js},
    {"/page-plots.js", script, page_plots_js, sizeof page_plots_js},
    {"/chart.js", script, chart_js, sizeof chart_js},
    {"/icon.svg", "image/svg+xml", icon_svg, sizeof icon_svg},
};

size_t cpage_count(void) { return sizeof files / sizeof files[0]; }

cpage_file cpage_file_at(size_t number) { return files[number]; }
