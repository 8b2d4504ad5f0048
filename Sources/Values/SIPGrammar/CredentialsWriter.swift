package import Bytes

extension ByteSink {
    /// Appends digest credentials as the value of an Authorization or Proxy-Authorization field (RFC 7616 section 3.4).
    ///
    /// The values of `algorithm`, `qop` and `nc` have no quotes, because old servers refuse them.
    package mutating func append(_ credentials: DigestCredentials, opaque: ByteString?) {
        append("Digest username=")
        append(quoted: credentials.username)
        append(", realm=")
        append(quoted: credentials.realm)
        append(", nonce=")
        append(quoted: credentials.nonce)
        append(", uri=")
        append(quoted: credentials.uri)
        append(", response=")
        append(quoted: credentials.response)
        if let algorithm = credentials.algorithm {
            append(", algorithm=")
            append(algorithm)
        }
        if let opaque {
            append(", opaque=")
            append(quoted: opaque)
        }
        guard let qop = credentials.qop, let count = credentials.nonceCount, let cnonce = credentials.cnonce else {
            return
        }
        append(", qop=")
        append(qop)
        append(", nc=")
        append(count)
        append(", cnonce=")
        append(quoted: cnonce)
    }

    /// Appends a text as a quoted string (RFC 3261 section 25.1). Control characters become spaces, because a line end
    /// would end the header field.
    package mutating func append(quoted text: ByteString) {
        append("\"")
        for index in 0..<text.count {
            let byte = text[index]
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { append("\\") }
            append(byte < UInt8(ascii: " ") || byte == 0x7f ? UInt8(ascii: " ") : byte)
        }
        append("\"")
    }

    /// Appends a user name as the user part of a URI, with percent escapes (RFC 3261 section 25.1).
    package mutating func append(user: ByteString) {
        for index in 0..<user.count {
            let byte = user[index]
            guard !byte.isPlainUserByte else {
                append(byte)
                continue
            }
            append("%")
            append((byte >> 4).upperHexDigit)
            append((byte & 15).upperHexDigit)
        }
    }
}

extension UInt8 {
    fileprivate var upperHexDigit: UInt8 { self < 10 ? UInt8(ascii: "0") + self : UInt8(ascii: "A") + self - 10 }
}
