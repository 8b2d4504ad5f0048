package import Bytes

/// The names of header fields that this program knows. A name in compact form (RFC 3261 section 7.3.3) has the same
/// enum case as its long form.
@usableFromInline
package enum HeaderName: UInt8, Hashable, Sendable, BitwiseCopyable, CaseIterable {
    case other
    case accept, alertInfo, allow
    /// Answer-Mode, Priv-Answer-Mode and other fields that ask a phone to answer automatically.
    case answerMode
    case authorization, callID, callInfo, contact, contentLength, contentType, cseq, date, diversion, event
    case expires, featureCaps, from, historyInfo, maxBreadth, maxForwards, minExpires, pAccessNetworkInfo
    case pAssertedIdentity
    /// Any header field name that begins with `P-Charging-`.
    case pCharging
    /// Any header field name that begins with `P-`, unless ``HeaderName`` has a case for the name.
    case pOther
    case pPreferredIdentity, path, privacy, proxyAuthenticate, proxyAuthorization, proxyRequire, reason, recordRoute
    case remotePartyID, replaces, require, retryAfter, route, supported, timestamp, to, unsupported, userAgent, via
    case wwwAuthenticate

    /// Compares two header names without the compiler's own `==`, because this `==` is slower when other modules use
    /// it.
    @inlinable
    package static func == (left: HeaderName, right: HeaderName) -> Bool { left.rawValue == right.rawValue }

    /// The bit of a header name in a set of names. Each header name has its own bit in 64 bits, because there are fewer
    /// than 64 names.
    var bit: UInt64 { 1 &<< UInt64(rawValue) }
}

/// The position of one header field value in the bytes of its message.
///
/// A Via, Route, Record-Route, Path or Contact field can have several values, separated by commas. Each value of a list
/// field has an entry of its own. For a field of any other name, one entry covers the whole field.
@usableFromInline
package struct HeaderField: Hashable, Sendable, BitwiseCopyable {
    @usableFromInline package let name: HeaderName
    // The positions of the header line and of its value in the message. Each index has only four bytes, because the
    // proxy stores dozens of fields for each held call.
    @usableFromInline let rowStart, rowEnd, valueStart, valueEnd: UInt32

    @inlinable package init(name: HeaderName, row: Range<Int>, value: Range<Int>) {
        self.name = name
        rowStart = UInt32(row.lowerBound)
        rowEnd = UInt32(row.upperBound)
        valueStart = UInt32(value.lowerBound)
        valueEnd = UInt32(value.upperBound)
    }

    /// The complete header line, with its folds and its line end. If a header line has several values, the range `row`
    /// is empty for all values except the first.
    @inlinable package var row: Range<Int> { Int(rowStart)..<Int(rowEnd) }
    /// The range of the field's value without white space around it. Folds (line breaks) inside a header field's value
    /// stay in the value.
    @inlinable package var value: Range<Int> { Int(valueStart)..<Int(valueEnd) }
}

/// The digest credentials of one Authorization or Proxy-Authorization field (RFC 7616). The values of the credentials
/// are stored without quotes.
package struct DigestCredentials: Sendable {
    package let username, realm, nonce, uri, response: ByteString
    /// The digest algorithm; `nil` if the client named no algorithm, which means MD5.
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
