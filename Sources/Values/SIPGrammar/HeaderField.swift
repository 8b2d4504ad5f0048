package import Bytes

/// The names of header fields that this program knows; a compact form (RFC 3261 section 7.3.3) has the case of its long
/// form.
@usableFromInline
package enum HeaderName: UInt8, Hashable, Sendable, BitwiseCopyable, CaseIterable {
    case other
    case accept, alertInfo, allow
    /// Answer-Mode, Priv-Answer-Mode and other fields that ask a phone to answer automatically.
    case answerMode
    case authorization, callID, callInfo, contact, contentLength, contentType, cseq, date, diversion, event
    case expires, featureCaps, from, historyInfo, maxBreadth, maxForwards, minExpires, pAccessNetworkInfo
    case pAssertedIdentity
    /// Any other name that begins with `P-Charging-`.
    case pCharging
    /// Any other name that begins with `P-`.
    case pOther
    case pPreferredIdentity, path, privacy, proxyAuthenticate, proxyAuthorization, proxyRequire, reason, recordRoute
    case remotePartyID, replaces, require, retryAfter, route, supported, timestamp, to, unsupported, userAgent, via
    case wwwAuthenticate

    /// Written by hand, because the compiler's own `==` is slower in other modules.
    @inlinable
    package static func == (left: HeaderName, right: HeaderName) -> Bool { left.rawValue == right.rawValue }

    /// The bit of a header name in a set of names, which has 64 bits.
    var bit: UInt64 { 1 &<< UInt64(rawValue) }
}

/// The position of one header field value in its message.
///
/// Each value of a Via, Route, Record-Route, Path or Contact field has its own entry. A field with any other name has
/// one entry.
@usableFromInline
package struct HeaderField: Hashable, Sendable, BitwiseCopyable {
    @usableFromInline package let name: HeaderName
    // The positions of the header line and of its value in the message. An index has four bytes, because the proxy
    // stores dozens of fields for each held call.
    @usableFromInline let rowStart, rowEnd, valueStart, valueEnd: UInt32

    @inlinable package init(name: HeaderName, row: Range<Int>, value: Range<Int>) {
        self.name = name
        rowStart = UInt32(row.lowerBound)
        rowEnd = UInt32(row.upperBound)
        valueStart = UInt32(value.lowerBound)
        valueEnd = UInt32(value.upperBound)
    }

    /// The complete header line, with its folds and its line end; empty for the second and further values of a line.
    @inlinable package var row: Range<Int> { Int(rowStart)..<Int(rowEnd) }
    /// The range of the value without white space around it, but with folds inside.
    @inlinable package var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
}

/// The digest credentials of one Authorization or Proxy-Authorization field, with unquoted values (RFC 7616).
package struct DigestCredentials: Sendable {
    package let username, realm, nonce, uri, response: ByteString
    /// The digest algorithm; `nil` if the client named none, which means MD5.
    package let algorithm: ByteString?
    package let qop, nonceCount, cnonce: ByteString?

    package init(
        username: ByteString, realm: ByteString, nonce: ByteString, uri: ByteString, response: ByteString,
        algorithm: ByteString?, qop: ByteString?, nonceCount: ByteString?, cnonce: ByteString?
    ) {
        self.username = username
        self.realm = realm
        self.nonce = nonce
        self.uri = uri
        self.response = response
        self.algorithm = algorithm
        self.qop = qop
        self.nonceCount = nonceCount
        self.cnonce = cnonce
    }
}
