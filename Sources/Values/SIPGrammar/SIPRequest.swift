package import Bytes
package import Collections

/// The common part of requests and responses: the received bytes and the positions of the header fields.
///
/// The proxy copies parts that it does not understand unchanged (RFC 3261 section 16.6 item 1).
package struct MessageFrame: Sendable {
    /// The whole message, without bytes that follow the message in its datagram.
    package let bytes: ByteString
    /// All header fields, in the order of the message.
    package let fields: HeaderFields
    /// The index after the CRLF of the start line.
    package let headersStart: Int
    /// The index of the body; `bytes.count` if the body is empty.
    package let bodyStart: Int
    /// One bit for each header name, set if the message has such a field. Most searches look for a field that is
    /// missing, and need only these bits.
    private let names: UInt64

    package init(bytes: ByteString, fields: HeaderFields, headersStart: Int, bodyStart: Int) {
        self.bytes = bytes
        self.fields = fields
        self.headersStart = headersStart
        self.bodyStart = bodyStart
        var names: UInt64 = 0
        for field in fields { names |= field.name.bit }
        self.names = names
    }

    package var body: ByteString { bytes[bodyStart..<bytes.count] }

    /// The values of all fields with the given name, as received and in their order.
    package func values(of name: HeaderName) -> [ByteString] {
        contains(name) ? fields.compactMap { $0.name == name ? bytes[$0.value] : nil } : []
    }

    /// Calls `body` with the value of each field with the given name.
    @inlinable
    package func forEachValue(of name: HeaderName, _ body: (ByteString) -> Void) {
        guard contains(name) else { return }
        for field in fields where field.name == name { body(bytes[field.value]) }
    }

    package func firstValue(of name: HeaderName) -> ByteString? {
        guard contains(name) else { return nil }
        for field in fields where field.name == name { return bytes[field.value] }
        return nil
    }

    package func contains(_ name: HeaderName) -> Bool { names & name.bit != 0 }

    package func count(of name: HeaderName) -> Int {
        var count = 0
        for field in fields where field.name == name { count += 1 }
        return count
    }
}

/// A request that the reader accepted. All mandatory fields are present and well-formed, and CSeq has the method of the
/// request.
///
/// A request is immutable and shared by reference; a slice of its bytes keeps the whole request in memory.
package final class SIPRequest: Sendable {
    package let frame: MessageFrame
    package let method: Method
    package let uri: SIPURI
    /// The topmost Via value.
    package let via: Via
    package let from: NameAddress
    package let to: NameAddress
    package let callID: ByteString
    package let cseq: CSeq
    /// The value of Max-Forwards. If the field is missing, the value is `nil`, and the proxy adds the field (RFC 3261
    /// section 16.6 item 3).
    package let maxForwards: UInt8?
    package let routes: [NameAddress]
    /// The Contact values of a REGISTER; empty for `*`, for no Contact, and for other methods.
    package let contacts: ShortList<NameAddress>
    /// Whether the Contact field is a single `*`, which removes all bindings.
    package let contactIsStar: Bool
    /// The Path values of a REGISTER (RFC 3327).
    package let path: [NameAddress]
    /// The value of Expires; `nil` if missing, and 3600 if malformed or too large (RFC 3261 section 10.2.1.1).
    package let expires: UInt32?
    /// The digest credentials in the Authorization fields of a REGISTER; empty for other methods.
    package let authorization: [DigestCredentials]
    package let proxyAuthorization: [DigestCredentials]

    package init(
        frame: MessageFrame, method: Method, uri: SIPURI, via: Via, from: NameAddress, to: NameAddress,
        callID: ByteString, cseq: CSeq, maxForwards: UInt8?, routes: [NameAddress], contacts: ShortList<NameAddress>,
        contactIsStar: Bool, path: [NameAddress], expires: UInt32?,
        authorization: [DigestCredentials], proxyAuthorization: [DigestCredentials]
    ) {
        self.frame = frame
        self.method = method
        self.uri = uri
        self.via = via
        self.from = from
        self.to = to
        self.callID = callID
        self.cseq = cseq
        self.maxForwards = maxForwards
        self.routes = routes
        self.contacts = contacts
        self.contactIsStar = contactIsStar
        self.path = path
        self.expires = expires
        self.authorization = authorization
        self.proxyAuthorization = proxyAuthorization
    }
}

/// A response that the reader accepted.
package final class SIPResponse: Sendable {
    package let frame: MessageFrame
    package let status: Status
    package let via: Via
    /// The number of Via values; a response with one Via is addressed to this daemon.
    package let viaCount: Int
    package let to: NameAddress
    package let callID: ByteString
    package let cseq: CSeq

    package init(
        frame: MessageFrame, status: Status, via: Via, viaCount: Int, to: NameAddress, callID: ByteString, cseq: CSeq
    ) {
        self.frame = frame
        self.status = status
        self.via = via
        self.viaCount = viaCount
        self.to = to
        self.callID = callID
        self.cseq = cseq
    }
}

/// A message that the reader refused.
///
/// If a request can be answered (RFC 3261 section 8.2), `answer` has a frame with Via, From, To, Call-ID and CSeq.
package struct UnusableMessage: Sendable {
    package let reason: Reason
    package let answer: (status: Status, frame: MessageFrame)?

    package init(reason: Reason, answer: (status: Status, frame: MessageFrame)?) {
        self.reason = reason
        self.answer = answer
    }

    /// Why a message is refused, for logs and counters.
    package enum Reason: Hashable, Sendable {
        case notSIP, startLine, version, headerSyntax(HeaderName), missing(HeaderName), repeated(HeaderName)
        case methodMismatch, contentLength, tooManyHeaders, headTooLarge, uriTooLong, bodyTooLarge, forbiddenByte
    }
}

/// The result of reading one message.
package enum ReadMessage: Sendable {
    case request(SIPRequest)
    case response(SIPResponse)
    indirect case unusable(UnusableMessage)
}
