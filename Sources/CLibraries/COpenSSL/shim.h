#include <openssl/ssl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ec.h>
#include <openssl/hmac.h>
#include <openssl/modes.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <openssl/core_names.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <stdlib.h>

/* Sets the key of an HMAC-SHA256 context, in C because OSSL_PARAM needs pointers to local variables. */
static inline int hmac_set_key_sha256(EVP_MAC_CTX *context, const void *key, size_t count) {
    char name[] = "SHA256";
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
        OSSL_PARAM_construct_end(),
    };
    /* For a null key, OpenSSL would use the previous key, so an empty key is passed as "". */
    return EVP_MAC_init(context, key ? key : "", count, parameters);
}

/* Makes a P-256 key from its public point (65 bytes, uncompressed) and, unless null, its private number (32 bytes). */
static inline EVP_PKEY *p256_key(const unsigned char *point, const unsigned char *number) {
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    BIGNUM *secret = number ? BN_bin2bn(number, 32, BN_secure_new()) : NULL;
    OSSL_PARAM *parameters = NULL;
    if (context && builder && (secret || !number)
        && OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0)
        && OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, 65)
        && (!secret || OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_PRIV_KEY, secret))
        && (parameters = OSSL_PARAM_BLD_to_param(builder)) && EVP_PKEY_fromdata_init(context) == 1
        && EVP_PKEY_fromdata(context, &key, number ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, parameters) != 1) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    OSSL_PARAM_free(parameters);
    BN_clear_free(secret);
    OSSL_PARAM_BLD_free(builder);
    EVP_PKEY_CTX_free(context);
    return key;
}

/* Computes the public point of a private number. Returns 1 if the number is in the curve's range. */
static inline int p256_multiply(const unsigned char *number, unsigned char *point) {
    EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
    EC_POINT *product = group ? EC_POINT_new(group) : NULL;
    BIGNUM *secret = BN_bin2bn(number, 32, BN_secure_new());
    if (secret) BN_set_flags(secret, BN_FLG_CONSTTIME);
    int made = product && secret && !BN_is_zero(secret) && BN_cmp(secret, EC_GROUP_get0_order(group)) < 0
        && EC_POINT_mul(group, product, secret, NULL, NULL, NULL) == 1
        && EC_POINT_point2oct(group, product, POINT_CONVERSION_UNCOMPRESSED, point, 65, NULL) == 65;
    BN_clear_free(secret);
    EC_POINT_free(product);
    EC_GROUP_free(group);
    return made;
}

/* Writes a key's public point in the uncompressed form of 65 bytes, whatever the form in which the key was read. */
static inline int p256_public_point(const EVP_PKEY *key, unsigned char *point) {
    BIGNUM *x = NULL, *y = NULL;
    int made = EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_EC_PUB_X, &x) == 1
        && EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_EC_PUB_Y, &y) == 1
        && BN_bn2binpad(x, point + 1, 32) == 32 && BN_bn2binpad(y, point + 33, 32) == 32;
    point[0] = POINT_CONVERSION_UNCOMPRESSED;
    BN_free(x);
    BN_free(y);
    return made;
}

/* GMAC with a key that is set up once, made from OpenSSL's GHASH and EVP's AES. EVP's GCM makes the same tags, but
   looks up parameters by name four times for each message, which costs twice as much as the tag. */
static inline void gmac_block(const unsigned char in[16], unsigned char out[16], const void *aes) {
    int written = 0;
    /* Encrypting a block cannot fail in a context whose key is set. */
    if (EVP_EncryptUpdate((EVP_CIPHER_CTX *)aes, out, &written, in, 16) != 1) abort();
}
/* Makes a GMAC context. `aes` must encrypt single blocks (ECB), and must outlive the result. */
static inline GCM128_CONTEXT *gmac_new(EVP_CIPHER_CTX *aes) { return CRYPTO_gcm128_new(aes, gmac_block); }
static inline int gmac_tag(
    GCM128_CONTEXT *gcm, const unsigned char *nonce, const unsigned char *bytes, size_t count, unsigned char *tag) {
    CRYPTO_gcm128_setiv(gcm, nonce, 12);
    if (CRYPTO_gcm128_aad(gcm, bytes, count) != 0) return 0;
    CRYPTO_gcm128_tag(gcm, tag, 16);
    return 1;
}
static inline int gmac_is_tag(
    GCM128_CONTEXT *gcm, const unsigned char *nonce, const unsigned char *bytes, size_t count, const unsigned char *tag) {
    unsigned char right[16];
    return gmac_tag(gcm, nonce, bytes, count, right) && CRYPTO_memcmp(right, tag, 16) == 0;
}

/* Encrypts one message and writes it to `out`, followed by its tag of 16 bytes. Returns 1 for success. */
static inline int aes128gcm_seal(
    const unsigned char *key, const unsigned char *nonce, const unsigned char *plain, int count, unsigned char *out) {
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int written = 0, last = 0;
    int made = context && EVP_EncryptInit_ex2(context, EVP_aes_128_gcm(), key, nonce, NULL) == 1
        && EVP_EncryptUpdate(context, out, &written, plain, count) == 1 && written == count
        && EVP_EncryptFinal_ex(context, out + written, &last) == 1 && last == 0
        && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, out + count) == 1;
    EVP_CIPHER_CTX_free(context);
    return made;
}

/* Decrypts one message; `count` is its length without the tag. Returns 1 if the authentication tag is valid. */
static inline int aes128gcm_open(
    const unsigned char *key, const unsigned char *nonce, const unsigned char *sealed, int count, unsigned char *out) {
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int written = 0, last = 0;
    unsigned char rest[16];
    int made = context && EVP_DecryptInit_ex2(context, EVP_aes_128_gcm(), key, nonce, NULL) == 1
        && EVP_DecryptUpdate(context, out, &written, sealed, count) == 1 && written == count
        && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, (void *)(sealed + count)) == 1
        && EVP_DecryptFinal_ex(context, rest, &last) == 1 && last == 0;
    EVP_CIPHER_CTX_free(context);
    return made;
}

/* Makes a public RSA key from its modulus and exponent, most significant byte first. */
static inline EVP_PKEY *rsa_public_key(
    const unsigned char *modulus, int modulus_count, const unsigned char *exponent, int exponent_count) {
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    BIGNUM *n = BN_bin2bn(modulus, modulus_count, NULL), *e = BN_bin2bn(exponent, exponent_count, NULL);
    OSSL_PARAM *parameters = NULL;
    if (context && builder && n && e && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n)
        && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e)
        && (parameters = OSSL_PARAM_BLD_to_param(builder)) && EVP_PKEY_fromdata_init(context) == 1
        && EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) != 1) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    OSSL_PARAM_free(parameters);
    BN_free(n);
    BN_free(e);
    OSSL_PARAM_BLD_free(builder);
    EVP_PKEY_CTX_free(context);
    return key;
}

/* Writes a public key in the form SubjectPublicKeyInfo, at most `room` bytes. Returns the length; 0 for a failure. */
static inline int public_key_bytes(EVP_PKEY *key, unsigned char *out, int room) {
    int count = i2d_PUBKEY(key, NULL);
    if (count <= 0 || count > room) return 0;
    unsigned char *end = out;
    return i2d_PUBKEY(key, &end) == count ? count : 0;
}
