package import Bytes

/// The names of header fields that this program knows. Compact forms have the same names (RFC 3261 section 7.3.3).
@usableFromInline
package enum HeaderName: UInt8, Hashable, Sendable, BitwiseCopyable, CaseIterable {
    case other
    case accept, alertInfo, allow
    /// Answer-Mode, Priv-Answer-Mode and other fields that ask a phone to answer by itself.
    case answerMode
    case authorization, callID, callInfo, contact, contentLength, contentType, cseq, date, diversion, event
    case expires, featureCaps, from, historyInfo, maxBreadth, maxForwards, minExpires, pAccessNetworkInfo
    case pAssertedIdentity
    /// Any field whose name begins with `P-Charging-`.
    case pCharging
    /// Any other field whose name begins with `P-`.
    case pOther
    case pPreferredIdentity, path, privacy, proxyAuthenticate, proxyAuthorization, proxyRequire, reason, recordRoute
    case remotePartyID, replaces, require, retryAfter, route, supported, timestamp, to, unsupported, userAgent, via
    case wwwAuthenticate

    /// Written by hand, because the synthesized version uses a witness table in other modules.
    @inlinable
    package static func == (left: HeaderName, right: HeaderName) -> Bool { left.rawValue == right.rawValue }

    /// The bit of this name in a set of names. There are fewer than 64 names.
    var bit: UInt64 { 1 &<< UInt64(rawValue) }
}

/// Where one header field value is in the bytes of its message.
///
/// A row of Via, Route, Record-Route, Path or Contact can have several values, separated by commas. Each of them has an
/// entry of its own. For all other fields, one entry covers the whole row.
@usableFromInline
package struct HeaderField: Hashable, Sendable, BitwiseCopyable {
    @usableFromInline package let name: HeaderName
    // Each place has only four bytes, because a message has dozens of them, and is kept while its call is held.
    @usableFromInline let rowStart, rowEnd, valueStart, valueEnd: UInt32

    @inlinable package init(name: HeaderName, row: Range<Int>, value: Range<Int>) {
        self.name = name
        rowStart = UInt32(row.lowerBound)
        rowEnd = UInt32(row.upperBound)
        valueStart = UInt32(value.lowerBound)
        valueEnd = UInt32(value.upperBound)
    }

    /// The whole row, with its folds and its line end. For values after the first one of a row, it is empty.
    @inlinable package var row: Range<Int> { Int(rowStart)..<Int(rowEnd) }
    /// The value without surrounding white space. Folds inside the value are kept.
    @inlinable package var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
}

/// The digest credentials of one Authorization or Proxy-Authorization row (RFC 7616). Values have no quotes.
package struct DigestCredentials: Sendable {
    package let username, realm, nonce, uri, response: ByteString
    /// The algorithm; `nil` if the client named none, which means MD5.
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
