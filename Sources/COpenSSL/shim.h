#include <openssl/ssl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <openssl/core_names.h>
#include <openssl/params.h>

/* OSSL_PARAM tables are initialised by pointers into themselves; easier to get right in C. */
static inline int hmac_set_key_sha256(EVP_MAC_CTX *context, const void *key, size_t count) {
    char name[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
        OSSL_PARAM_construct_end(),
    };
    /* A null key would mean "the key set before". */
    return EVP_MAC_init(context, key ? key : "", count, parameters);
}
