/* This header must be the first: a feature macro of a later header could give C structures another layout than they
   have in Swift's Glibc module. */
#include <features.h>
#include <curl/curl.h>

/* Each function calls one of libcurl's variadic functions, which Swift cannot call, with one type of argument. */
static inline CURLcode easy_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode easy_set_string(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode easy_set_bytes(CURL *easy, CURLoption option, const void *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode easy_set_blob(CURL *easy, CURLoption option, const void *bytes, size_t count) {
    struct curl_blob blob = {(void *)bytes, count, CURL_BLOB_COPY};
    return curl_easy_setopt(easy, option, &blob);
}
static inline CURLcode easy_set_pointer(CURL *easy, CURLoption option, void *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode easy_set_url(CURL *easy, CURLU *value) {
    return curl_easy_setopt(easy, CURLOPT_CURLU, value);
}
static inline CURLcode easy_set_list(CURL *easy, CURLoption option, struct curl_slist *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode easy_set_sink(CURL *easy, CURLoption option, curl_write_callback value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode easy_set_gate(CURL *easy, curl_prereq_callback value) {
    return curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, value);
}
/* The macro CURLAUTH_BASIC, which Swift does not import. */
static inline unsigned long auth_basic(void) { return CURLAUTH_BASIC; }
static inline CURLcode easy_long(CURL *easy, CURLINFO info, long *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode easy_microseconds(CURL *easy, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode easy_private(CURL *easy, void **value) {
    return curl_easy_getinfo(easy, CURLINFO_PRIVATE, value);
}
static inline CURLMcode multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
static inline CURLMcode multi_set_socket_callback(CURLM *multi, curl_socket_callback callback, void *context) {
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context);
    return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, callback);
}
static inline CURLMcode multi_set_timer_callback(CURLM *multi, curl_multi_timer_callback callback, void *context) {
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context);
    return curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, callback);
}
static inline CURLcode multi_message_result(const CURLMsg *message) { return message->data.result; }
