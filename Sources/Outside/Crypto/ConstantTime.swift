import COpenSSL

/// Compares two spans for equal bytes, in a time that depends only on their lengths.
package func equalInConstantTime(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
    guard left.count == right.count else { return false }
    return unsafe left.withUnsafeBytes { a in
        unsafe right.withUnsafeBytes { b in unsafe CRYPTO_memcmp(a.baseAddress, b.baseAddress, a.count) == 0 }
    }
}

package func equalInConstantTime(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    equalInConstantTime(left.span, right.span)
}
