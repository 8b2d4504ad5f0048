package import Bytes
import Collections
package import SIPGrammar

/// Parses bytes into SIP messages. The reader keeps no state between messages, so any thread may use it.
///
/// ``HeadIndex`` finds the start line and the header fields. The reader parses plain values itself, and libosip2 checks
/// every other value, one at a time (``ValueReader``), but never the body. All values of a message share one block of
/// memory, also the values from libosip2.
package struct MessageReader: Sendable {
    let limits: ReaderLimits

    package init(limits: ReaderLimits = ReaderLimits()) { self.limits = limits }

    /// Reads one datagram, or one message that ``StreamFramer`` cut from a stream.
    ///
    /// In a datagram without Content-Length, the body extends to the end of the datagram. Bytes after the body of a SIP
    /// message are ignored (RFC 3261 section 18.3). Empty lines before the start line are skipped.
    ///
    /// - Parameters:
    ///   - bytes: the bytes of the message, which are copied.
    ///   - isStream: whether Content-Length is mandatory.
    /// - Returns: the message, or why the message is invalid and how to answer it.
    package func read(_ bytes: Span<UInt8>, isStream: Bool) -> ReadMessage {
        let message = bytes.extracting(place(of: bytes))
        var fields = FieldList()
        let index = HeadIndex(message, limits, &fields)
        return read(message, index, fields, isStream: isStream)
    }

    /// Reads one message; `head` is the result of ``StreamFramer`` if it has parsed the head.
    package func read(_ bytes: Span<UInt8>, isStream: Bool, head: MessageHead?) -> ReadMessage {
        guard let head else { return read(bytes, isStream: isStream) }
        return read(bytes.extracting(place(of: bytes)), head.index, head.fields, isStream: isStream)
    }

    /// The range of the bytes that must be read: the message without line ends before it, and only the head if the body
    /// is too long.
    private func place(of bytes: Span<UInt8>) -> Range<Int> {
        var start = 0
        while start < bytes.count, bytes[start] == UInt8(ascii: "\r") || bytes[start] == UInt8(ascii: "\n") {
            start += 1
        }
        // A message above a limit is always refused. If the body is too long, only the head is read, because the answer
        // needs the head.
        let end = min(bytes.count, start + limits.head + limits.body + 1)
        return start..<end
    }

    private func read(
        _ message: Span<UInt8>, _ index: HeadIndex, _ fields: FieldList, isStream: Bool
    ) -> ReadMessage {
        // Memory for libosip2 is reserved for credentials, because other values hardly need any.
        var spare = index.hasCredentials ? 1024 + min(message.count, 2048) / 2 : 0
        while true {
            let (result, missing) = ParserMemory.read(message, fields, spare: spare) { memory in
                var attempt = ReadAttempt(memory, index, limits, isStream: isStream)
                return attempt.message()
            }
            guard missing > 0 else { return result }
            // After a failed attempt to read, the needed memory is unknown, because libosip2 stopped when its memory
            // was full. The next attempt gets at least 32 bytes for each byte of the message, because parameters with
            // names of one letter need much memory.
            spare = max(32 * min(message.count, limits.head), 4 * spare)
        }
    }

    /// Parses a message that the daemon has stored, for example a held INVITE.
    package func read(_ bytes: ByteString, isStream: Bool) -> ReadMessage {
        bytes.withSpan { read($0, isStream: isStream) }
    }
}

/// One attempt to read a message, with a certain amount of memory for libosip2. If the memory for libosip2 is too
/// small, the attempt fails without side effects.
private struct ReadAttempt {
    private let memory: ParserMemory
    private let values: ValueReader
    private let limits: ReaderLimits
    private var index: HeadIndex
    /// The index at which the body ends.
    private var end: Int

    init(_ memory: ParserMemory, _ index: HeadIndex, _ limits: ReaderLimits, isStream: Bool) {
        self.memory = memory
        self.limits = limits
        values = ValueReader(memory: memory)
        self.index = index
        end = memory.count
        end = bodyEnd(isStream: isStream)
        if index.fault == nil { checkMandatoryFields() }
    }

    mutating func message() -> ReadMessage {
        guard index.fault == nil else { return unusable() }
        switch index.startLine {
        case .request(let method, let uri): return request(method: method, uri: uri)
        case .response(let status): return response(status)
        case .none: return unusable()
        }
    }

    private var frame: MessageFrame {
        MessageFrame(
            bytes: memory.slice(0..<end), fields: memory.fields, headersStart: index.headersStart,
            bodyStart: min(index.bodyStart, end))
    }

    private func unusable() -> ReadMessage {
        guard let fault = index.fault else { return .unusable(UnusableMessage(reason: .notSIP, answer: nil)) }
        let isAnswerable = memory.withBytes { index.isAnswerable($0, memory.fields) }
        return .unusable(
            UnusableMessage(reason: fault.reason, answer: isAnswerable ? (fault.status, frame) : nil))
    }

    private mutating func refuse(_ reason: UnusableMessage.Reason) -> ReadMessage {
        index.fail(reason)
        return unusable()
    }

    /// The index of the first byte after the body. A Content-Length that is no number, or does not fit the received
    /// bytes, is recorded as a fault.
    private mutating func bodyEnd(isStream: Bool) -> Int {
        let available = memory.count - index.bodyStart
        guard let value = first(.contentLength) else {
            if isStream { index.fail(.contentLength) }
            if available > limits.body { index.fail(.bodyTooLarge, 413) }
            return memory.count
        }
        guard let length = memory.withBytes({ ContentLength.read($0, value) }) else {
            index.fail(.contentLength)
            return memory.count
        }
        guard length <= limits.body else {
            index.fail(.bodyTooLarge, 413)
            return memory.count
        }
        guard length <= available else {
            index.fail(.contentLength)
            return memory.count
        }
        return index.bodyStart + length
    }

    /// Checks that the mandatory header fields of RFC 3261 section 8.1.1 are present. Max-Forwards may be missing,
    /// because proxies add it.
    private mutating func checkMandatoryFields() {
        for name in [.via, .from, .to, .callID, .cseq] as [HeaderName] where !index.contains(name) {
            index.fail(.missing(name))
        }
        guard let callID = first(.callID) else { return }
        let hasSpace = memory.withBytes { bytes in
            for place in callID where bytes[place].isLinearSpace { return true }
            return false
        }
        if callID.isEmpty || hasSpace { index.fail(.headerSyntax(.callID)) }
    }

    // MARK: Requests

    private mutating func request(method: Range<Int>, uri: Range<Int>) -> ReadMessage {
        let method = Method(memory.slice(method))
        guard let uri = values.uri(uri) else { return refuse(.startLine) }
        guard let via = first(.via).flatMap({ values.via($0) }) else { return refuse(.headerSyntax(.via)) }
        guard let from = address(.from) else { return refuse(.headerSyntax(.from)) }
        guard let to = address(.to) else { return refuse(.headerSyntax(.to)) }
        guard let callID = first(.callID), let cseq = first(.cseq).flatMap({ values.cseq($0) }) else {
            return refuse(.headerSyntax(.cseq))
        }
        guard cseq.method == method else { return refuse(.methodMismatch) }
        var maxForwards: UInt8?
        if let range = first(.maxForwards) {
            maxForwards = memory.slice(range).decimal()
            guard maxForwards != nil else { return refuse(.headerSyntax(.maxForwards)) }
        }
        let isRegister = method == .register
        let isStar = contactIsStar
        var (routes, path): ([NameAddress], [NameAddress]) = ([], [])
        var contacts = ShortList<NameAddress>()
        guard readAll(.route, { routes.append($0) }) else { return refuse(.headerSyntax(.route)) }
        if isRegister {
            guard readAll(.path, { path.append($0) }) else { return refuse(.headerSyntax(.path)) }
            guard isStar || readAll(.contact, { contacts.append($0) }) else { return refuse(.headerSyntax(.contact)) }
        }
        guard contacts.count <= limits.contacts else { return refuse(.tooManyHeaders) }
        return .request(
            SIPRequest(
                frame: frame, method: method, uri: uri, via: via, from: from, to: to, callID: memory.slice(callID),
                cseq: cseq, maxForwards: maxForwards, routes: routes, contacts: contacts, contactIsStar: isStar,
                path: path, expires: first(.expires).map { memory.slice($0).decimal(as: UInt32.self) ?? 3600 },
                authorization: isRegister ? credentials(.authorization) : [],
                proxyAuthorization: isRegister ? [] : credentials(.proxyAuthorization)))
    }

    private func first(_ name: HeaderName) -> Range<Int>? { index.place(of: name).map { memory.fields[$0].value } }

    /// Reads From or To. A tag without a value is refused, because the proxy would add a second tag.
    private func address(_ name: HeaderName) -> NameAddress? {
        guard let address = first(name).flatMap({ values.nameAddress($0, isTagged: true) }), !address.hasEmptyTag
        else { return nil }
        return address
    }

    /// Reads all values of the fields with the given name, up to the maximum number of contacts.
    ///
    /// - Returns: whether all values are well-formed.
    private func readAll(_ name: HeaderName, _ keep: (NameAddress) -> Void) -> Bool {
        guard index.contains(name) else { return true }
        var count = 0
        for field in memory.fields where field.name == name {
            guard let address = values.nameAddress(field.value) else { return false }
            keep(address)
            count += 1
            if name == .contact, count > limits.contacts { break }
        }
        return true
    }

    /// Whether Contact is a single `*` (RFC 3261 section 10.2.2). A `*` among other contacts is a malformed address.
    private var contactIsStar: Bool {
        guard let value = first(.contact), value.count == 1, memory.slice(value) == "*" else { return false }
        return memory.fields.count { $0.name == .contact } == 1
    }

    private func credentials(_ name: HeaderName) -> [DigestCredentials] {
        guard index.contains(name) else { return [] }
        return memory.fields.compactMap { $0.name == name ? values.credentials($0.value) : nil }
    }

    // MARK: Responses

    private mutating func response(_ status: UInt16) -> ReadMessage {
        guard let via = first(.via).flatMap({ values.via($0) }) else { return refuse(.headerSyntax(.via)) }
        guard let to = address(.to) else { return refuse(.headerSyntax(.to)) }
        guard let callID = first(.callID), let cseq = first(.cseq).flatMap({ values.cseq($0) }) else {
            return refuse(.headerSyntax(.cseq))
        }
        return .response(
            SIPResponse(
                frame: frame, status: Status(code: status), via: via,
                viaCount: memory.fields.count { $0.name == .via }, to: to, callID: memory.slice(callID), cseq: cseq))
    }
}

/// Reads the value of Content-Length, which has only digits (RFC 3261 section 20.14).
enum ContentLength {
    static func read(_ bytes: Span<UInt8>, _ value: Range<Int>) -> Int? {
        guard !value.isEmpty, value.count <= 10 else { return nil }
        var length = 0
        for index in value {
            let digit = bytes[index] &- UInt8(ascii: "0")
            guard digit <= 9 else { return nil }
            length = length * 10 + Int(digit)
        }
        return length
    }
}

extension ValueReader {
    /// Reads a CSeq: a number below 2^31 and a method (RFC 3261 section 8.1.1.5).
    func cseq(_ range: Range<Int>) -> CSeq? {
        memory.withBytes { bytes in
            var digitsEnd = range.lowerBound
            while digitsEnd < range.upperBound, !bytes[digitsEnd].isLinearSpace { digitsEnd += 1 }
            let method = bytes.trimmed(digitsEnd..<range.upperBound)
            guard !method.isEmpty, let number = memory.slice(range.lowerBound..<digitsEnd).decimal(as: UInt32.self),
                number < 1 << 31
            else { return nil }
            for index in method where !bytes[index].isToken { return nil }
            return CSeq(number: number, method: Method(memory.slice(method)))
        }
    }
}
