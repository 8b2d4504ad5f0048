package import Bytes
package import Collections

/// What a request and a response have in common: the bytes as received, and where each header field stands in them.
///
/// The bytes are the message: forwarding copies rows out of them, so that nothing this program does not understand is
/// ever changed (RFC 3261 section 16.6 item 1).
package struct MessageFrame: Sendable {
    /// The whole message, start line to the end of the body, without any surplus the datagram had.
    package let bytes: ByteString
    /// All header fields, in the order of the message.
    package let fields: HeaderFields
    /// Where the start line's CRLF ends.
    package let headersStart: Int
    /// Where the body begins; equal to `bytes.count` when there is none.
    package let bodyStart: Int
    /// Which names there are, a bit for each: most questions are for fields that are missing.
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

    /// The raw values of all fields of that name, in order.
    package func values(of name: HeaderName) -> [ByteString] {
        contains(name) ? fields.compactMap { $0.name == name ? bytes[$0.value] : nil } : []
    }

    /// Shows each of them.
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

/// A request that passed the reader: mandatory fields present and well-formed, CSeq method equal to the method.
///
/// Immutable and shared by reference; slices in it keep its storage alive.
package final class SIPRequest: Sendable {
    package let frame: MessageFrame
    package let method: Method
    package let uri: SIPURI
    /// The topmost Via.
    package let via: Via
    package let from: NameAddress
    package let to: NameAddress
    package let callID: ByteString
    package let cseq: CSeq
    /// `nil` when the field is missing (RFC 3261 section 16.3: then 70 is added).
    package let maxForwards: UInt8?
    package let routes: [NameAddress]
    /// Contact values of a REGISTER; empty when the field is missing or is `*`, and for other methods, whose Contact a
    /// proxy passes on unread.
    package let contacts: ShortList<NameAddress>
    /// `Contact: *`.
    package let contactIsStar: Bool
    /// Path values of a REGISTER (RFC 3327).
    package let path: [NameAddress]
    /// The Expires field; `nil` when it is missing. A malformed or too large value reads as 3600 (RFC 3261 section
    /// 10.2.1.1).
    package let expires: UInt32?
    /// The digest credentials of Authorization rows; other schemes are left out.
    ///
    /// They are decoded for REGISTER only, which a registrar challenges. Other methods have ``proxyAuthorization``
    /// decoded.
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

/// A response that passed the reader.
package final class SIPResponse: Sendable {
    package let frame: MessageFrame
    package let status: Status
    package let via: Via
    /// How many Via values the message has. With one, it is addressed to us.
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

/// Why a message was not served.
///
/// `answer` is there when a request could be read far enough to be answered (RFC 3261 section 8.2): Via, From, To,
/// Call-ID and CSeq stand in the frame.
package struct UnusableMessage: Sendable {
    package let reason: Reason
    package let answer: (status: Status, frame: MessageFrame)?

    package init(reason: Reason, answer: (status: Status, frame: MessageFrame)?) {
        self.reason = reason
        self.answer = answer
    }

    /// Which rule the message broke, for logs and counters.
    package enum Reason: Hashable, Sendable {
        case notSIP, startLine, version, headerSyntax(HeaderName), missing(HeaderName), repeated(HeaderName)
        case methodMismatch, contentLength, tooManyHeaders, headTooLarge, uriTooLong, bodyTooLarge, forbiddenByte
    }
}

/// What the reader made of one frame.
package enum ReadMessage: Sendable {
    case request(SIPRequest)
    case response(SIPResponse)
    indirect case unusable(UnusableMessage)
}
