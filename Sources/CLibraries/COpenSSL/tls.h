/* Functions for OpenSSL's macros and variadic functions, which Swift cannot call. */
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static inline int tls_require_1_2(SSL_CTX *context) { return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION); }
static inline int tls_set_groups(SSL_CTX *context, const char *list) { return SSL_CTX_set1_groups_list(context, list); }
static inline void tls_use_automatic_dh(SSL_CTX *context) { SSL_CTX_set_dh_auto(context, 1); }
static inline void tls_release_idle_buffers(SSL_CTX *context) { SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); }
static inline void tls_keep_no_sessions(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}
static inline void tls_send_one_ticket(SSL_CTX *context) { SSL_CTX_set_num_tickets(context, 1); }
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
static inline void tls_set_extension_issuer(X509V3_CTX *context, X509 *issuer, X509 *certificate) {
    X509V3_set_ctx(context, issuer, certificate, NULL, NULL, 0);
}
static inline long tls_memory(BIO *bio, char **bytes) { return BIO_get_mem_data(bio, bytes); }
static inline void tls_set_strict_options(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
}

/* Gets each name of a certificate that counts for SIP (RFC 5922 section 7.1): the URIs and DNS names among its
   alternative names, or the common name if it has no alternative names. */
typedef void (*tls_name_function)(void *context, int is_uri, const unsigned char *text, size_t count);
static inline void tls_each_name(X509 *certificate, tls_name_function found, void *context) {
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int index = 0; names && index < sk_GENERAL_NAME_num(names); index++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, index);
        if (name->type != GEN_URI && name->type != GEN_DNS) continue;
        const ASN1_STRING *text = name->type == GEN_URI ? name->d.uniformResourceIdentifier : name->d.dNSName;
        found(context, name->type == GEN_URI, ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text));
    }
    if (!names) {
        X509_NAME *subject = X509_get_subject_name(certificate);
        int place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
        const ASN1_STRING *text = place < 0 ? NULL : X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place));
        if (text) found(context, 0, ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text));
    }
    GENERAL_NAMES_free(names);
}
static inline void tls_each_peer_name(const SSL *session, tls_name_function found, void *context) {
    X509 *certificate = SSL_get0_peer_certificate(session);
    if (certificate) tls_each_name(certificate, found, context);
}

/* Why a client would refuse a certificate chain: an X509_V_ code, or X509_V_OK. The chain begins with the server's own
   certificate. `authorities` is a file, or null for the system's authorities. */
static inline int tls_chain_fault(X509 **chain, int count, const char *authorities) {
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    STACK_OF(X509) *others = sk_X509_new_null();
    int fault = X509_V_ERR_OUT_OF_MEM;
    for (int index = 1; others && index < count; index++) sk_X509_push(others, chain[index]);
    if (store && check && others
        && (authorities ? X509_STORE_load_file(store, authorities) : X509_STORE_set_default_paths(store)) == 1
        && X509_STORE_CTX_init(check, store, chain[0], others) == 1
        && X509_STORE_CTX_set_purpose(check, X509_PURPOSE_SSL_SERVER) == 1)
        fault = X509_verify_cert(check) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(check);
    sk_X509_free(others);
    X509_STORE_CTX_free(check);
    X509_STORE_free(store);
    ERR_clear_error();
    return fault;
}

static inline void tls_choose_by_name(SSL_CTX *context, int (*choose)(SSL *, int *, void *), void *argument) {
    SSL_CTX_set_tlsext_servername_callback(context, choose);
    SSL_CTX_set_tlsext_servername_arg(context, argument);
}

static inline const char *tls_asked_name(const SSL *session) { return SSL_get_servername(session, TLSEXT_NAMETYPE_host_name); }

typedef int (*tls_ticket_function)(SSL *, unsigned char *, unsigned char *, EVP_CIPHER_CTX *, EVP_MAC_CTX *, int);
static inline void tls_set_ticket_function(SSL_CTX *context, tls_ticket_function function, void *keys) {
    SSL_CTX_set_app_data(context, keys);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(context, function);
}
static inline void *tls_ticket_keys(SSL *session) { return SSL_CTX_get_app_data(SSL_get_SSL_CTX(session)); }

/* Decides whether a client may resume the session of its ticket. After 0, the client makes a full handshake and gets a
   new ticket. */
typedef int (*tls_session_function)(SSL_SESSION *);
static inline SSL_TICKET_RETURN tls_ticket_opened(
    SSL *session, SSL_SESSION *found, const unsigned char *name, size_t count, SSL_TICKET_STATUS status, void *may) {
    (void)session, (void)name, (void)count;
    switch (status) {
    case SSL_TICKET_SUCCESS:
    case SSL_TICKET_SUCCESS_RENEW:
        if (!((tls_session_function)may)(found)) return SSL_TICKET_RETURN_IGNORE_RENEW;
        return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
    case SSL_TICKET_EMPTY:
    case SSL_TICKET_NO_DECRYPT: return SSL_TICKET_RETURN_IGNORE_RENEW;
    default: return SSL_TICKET_RETURN_ABORT;
    }
}
static inline void tls_open_tickets(SSL_CTX *context, tls_session_function may) {
    SSL_CTX_set_session_ticket_cb(context, NULL, tls_ticket_opened, (void *)may);
}

/* Sets up both contexts to seal or open a ticket with a secret of 64 bytes, whose first half is for the cipher. Returns
   1 for success. */
static inline int tls_use_ticket_secret(
    EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, const unsigned char *secret, const unsigned char *iv, int seals) {
    return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, secret, iv, seals) == 1
        && hmac_set_key_sha256(mac, secret + 32, 32) == 1;
}

/* The records of TLS sessions in memory: lent input that OpenSSL has not read yet, and the output of OpenSSL. */
struct tls_records {
    const unsigned char *input;
    size_t input_count;
    unsigned char *output;
    size_t output_count, output_room;
};

static inline int tls_records_read(BIO *bio, char *bytes, int count) {
    struct tls_records *records = (struct tls_records *)BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (count <= 0) return 0;
    if (!records || records->input_count == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t taken = (size_t)count < records->input_count ? (size_t)count : records->input_count;
    memcpy(bytes, records->input, taken);
    records->input += taken;
    records->input_count -= taken;
    return (int)taken;
}

static inline int tls_records_write(BIO *bio, const char *bytes, int count) {
    struct tls_records *records = (struct tls_records *)BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (!records || count < 0) return -1;
    size_t needed = records->output_count + (size_t)count;
    if (needed > records->output_room) {
        size_t room = needed > 2 * records->output_room ? needed : 2 * records->output_room;
        unsigned char *grown = (unsigned char *)realloc(records->output, room);
        if (!grown) return -1;
        records->output = grown;
        records->output_room = room;
    }
    memcpy(records->output + records->output_count, bytes, (size_t)count);
    records->output_count = needed;
    return count;
}

static inline long tls_records_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static inline int tls_records_create(BIO *bio) {
    BIO_set_init(bio, 1);
    return 1;
}

/* Makes the method of BIOs that read and write the records in memory; null if memory is lacking. */
static inline BIO_METHOD *tls_records_method(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "TLS records");
    if (!method) return NULL;
    BIO_meth_set_read(method, tls_records_read);
    BIO_meth_set_write(method, tls_records_write);
    BIO_meth_set_ctrl(method, tls_records_control);
    BIO_meth_set_create(method, tls_records_create);
    return method;
}

/* From now on, the session reads and writes records in memory. Returns 1 for success. */
static inline int tls_use_records(SSL *session, const BIO_METHOD *method) {
    BIO *bio = method ? BIO_new(method) : NULL;
    if (bio) SSL_set_bio(session, bio, bio);
    return bio != NULL;
}

/* Lends the records to a session of tls_use_records for the next calls; null ends the loan. */
static inline void tls_lend_records(SSL *session, struct tls_records *records) {
    BIO_set_data(SSL_get_rbio(session), records);
}
