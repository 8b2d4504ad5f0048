package import Bytes

/// The names of header fields that this program knows. The compact form of a name (RFC 3261 section 7.3.3) has the same
/// case as the long form.
@usableFromInline
package enum HeaderName: UInt8, Hashable, Sendable, BitwiseCopyable, CaseIterable {
    case other
    case accept, alertInfo, allow
    /// Answer-Mode, Priv-Answer-Mode and other fields that ask a phone to answer automatically.
    case answerMode
    case authorization, callID, callInfo, contact, contentLength, contentType, cseq, date, diversion, event
    case expires, featureCaps, from, historyInfo, maxBreadth, maxForwards, minExpires, pAccessNetworkInfo
    case pAssertedIdentity
    /// Any header field whose name begins with `P-Charging-`.
    case pCharging
    /// Any header field whose name begins with `P-`, except the `P-` fields that this enum lists.
    case pOther
    case pPreferredIdentity, path, privacy, proxyAuthenticate, proxyAuthorization, proxyRequire, reason, recordRoute
    case remotePartyID, replaces, require, retryAfter, route, supported, timestamp, to, unsupported, userAgent, via
    case wwwAuthenticate

    /// Compares two names. This function is written by hand, because the compiler's version is slower in other modules.
    @inlinable
    package static func == (left: HeaderName, right: HeaderName) -> Bool { left.rawValue == right.rawValue }

    /// The bit of this name in a set of names. There are fewer than 64 names, so each name has its own bit.
    var bit: UInt64 { 1 &<< UInt64(rawValue) }
}

/// The position of one header field value in the bytes of its message.
///
/// A Via, Route, Record-Route, Path or Contact field can have several values, separated by commas. Each of these values
/// has an entry of its own. For all other fields, one entry covers the whole field.
@usableFromInline
package struct HeaderField: Hashable, Sendable, BitwiseCopyable {
    @usableFromInline package let name: HeaderName
    // Each index has only four bytes, because a message has dozens of header fields, and the proxy stores the message
    // while it holds the call.
    @usableFromInline let rowStart, rowEnd, valueStart, valueEnd: UInt32

    @inlinable package init(name: HeaderName, row: Range<Int>, value: Range<Int>) {
        self.name = name
        rowStart = UInt32(row.lowerBound)
        rowEnd = UInt32(row.upperBound)
        valueStart = UInt32(value.lowerBound)
        valueEnd = UInt32(value.upperBound)
    }

    /// The whole header line of the field, with its folds and its line end. If a line has several values, this range is
    /// empty for all values except the first.
    @inlinable package var row: Range<Int> { Int(rowStart)..<Int(rowEnd) }
    /// The value of the field without surrounding white space. Folds inside the value are kept.
    @inlinable package var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
}

/// The digest credentials of one Authorization or Proxy-Authorization field (RFC 7616). The values are stored without
/// quotes.
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
