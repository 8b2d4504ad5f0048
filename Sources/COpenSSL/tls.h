/* OpenSSL's function macros and variadic functions as functions, which Swift can call. */
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

static inline int tls_require_1_2(SSL_CTX *context) { return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION); }
static inline int tls_set_groups(SSL_CTX *context, const char *list) { return SSL_CTX_set1_groups_list(context, list); }
static inline void tls_use_automatic_dh(SSL_CTX *context) { SSL_CTX_set_dh_auto(context, 1); }
static inline void tls_release_idle_buffers(SSL_CTX *context) { SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); }
static inline void tls_keep_no_sessions(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}
static inline int tls_add_chain_certificate(SSL_CTX *context, X509 *certificate) {
    return SSL_CTX_add1_chain_cert(context, certificate);
}
static inline int tls_set_server_name(SSL *session, const char *name) {
    return SSL_set_tlsext_host_name(session, name);
}
static inline EVP_PKEY *tls_make_rsa_key(void)
{
    return EVP_RSA_gen(2048);
}

static inline EVP_PKEY *tls_make_p256_key(void) { return EVP_EC_gen("P-256"); }
static inline void tls_set_extension_issuer(X509V3_CTX *context, X509 *certificate) {
    X509V3_set_ctx(context, certificate, certificate, NULL, NULL, 0);
}
static inline long tls_memory(BIO *bio, char **bytes) { return BIO_get_mem_data(bio, bytes); }
static inline void tls_set_strict_options(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
}
