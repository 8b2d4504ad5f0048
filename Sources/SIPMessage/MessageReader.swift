package import SIPGrammar

/// Bytes to messages. One for each thread; what it returns may go anywhere.
///
/// Start line and rows are found here; libosip2 is the grammar of the values, one by one, and never sees a body.
/// All slices of one message share one allocation, in which libosip2's own memory lies too.
package struct MessageReader {
    private var index = HeadIndex()

    package init() {}

    /// Reads one datagram, or one message that ``StreamFramer`` has cut out of a stream.
    ///
    /// In a datagram a missing Content-Length means "to the end", and bytes beyond it are ignored (RFC 3261 section
    /// 18.3). Empty lines before the start line are skipped.
    ///
    /// - Parameters:
    ///   - bytes: Copied; they need not live on.
    ///   - isStream: Whether Content-Length is mandatory.
    /// - Returns: The message, or why it is none and what to answer.
    package mutating func read(_ bytes: Span<UInt8>, isStream: Bool) -> ReadMessage {
        var start = 0
        while start < bytes.count, bytes[start] == UInt8(ascii: "\r") || bytes[start] == UInt8(ascii: "\n") {
            start += 1
        }
        // Longer ones are refused in any case: what is needed is their head, for the answer.
        let end = min(bytes.count, start + MessageLimits.head + MessageLimits.body + 1)
        let message = bytes.extracting(start..<end)
        var spare = 2048 + 2 * min(message.count, MessageLimits.head / 8)
        while true {
            let (result, missing) = ParserMemory.read(message, spare: spare) { read($0, isStream: isStream) }
            guard missing > 0 else { return result }
            spare += missing + 64
        }
    }

    /// The same for bytes that the caller owns already.
    package mutating func read(_ bytes: [UInt8], isStream: Bool) -> ReadMessage { read(bytes.span, isStream: isStream) }

    /// Reads kept bytes again, for example of a held INVITE.
    package mutating func read(_ bytes: ByteString, isStream: Bool) -> ReadMessage {
        bytes.withSpan { read($0, isStream: isStream) }
    }

    // MARK: One message

    private mutating func read(_ memory: borrowing ParserMemory, isStream: Bool) -> ReadMessage {
        memory.withBytes { index.scan($0) }
        let end = bodyEnd(memory, isStream: isStream)
        if index.fault == nil { checkHead(memory) }
        guard index.fault == nil else { return unusable(memory) }
        let frame = frame(memory, end: end)
        let values = ValueReader(memory: copy memory)
        switch index.startLine {
        case .request(let method, let uri): return request(frame, values, method: method, uri: uri)
        case .response(let status): return response(frame, values, status: status)
        case .none: return unusable(memory)
        }
    }

    private func frame(_ memory: borrowing ParserMemory, end: Int) -> MessageFrame {
        MessageFrame(
            bytes: memory.slice(0..<end), fields: Array(index.fields), headersStart: index.headersStart,
            bodyStart: min(index.bodyStart, end))
    }

    private func unusable(_ memory: borrowing ParserMemory) -> ReadMessage {
        guard let fault = index.fault else { return .unusable(UnusableMessage(reason: .notSIP, answer: nil)) }
        guard memory.withBytes({ index.isAnswerable($0) }) else {
            return .unusable(UnusableMessage(reason: fault.reason, answer: nil))
        }
        let frame = frame(memory, end: memory.count)
        return .unusable(UnusableMessage(reason: fault.reason, answer: (fault.status, frame)))
    }

    /// Where the body ends; notes a Content-Length that is no number or does not fit the bytes.
    private mutating func bodyEnd(_ memory: borrowing ParserMemory, isStream: Bool) -> Int {
        let available = memory.count - index.bodyStart
        guard let field = index.first(.contentLength) else {
            if isStream { index.fail(.contentLength) }
            if available > MessageLimits.body { index.fail(.bodyTooLarge, 413) }
            return memory.count
        }
        guard let length = ContentLength.read(memory.slice(field.value)) else {
            index.fail(.contentLength)
            return memory.count
        }
        guard length <= MessageLimits.body else {
            index.fail(.bodyTooLarge, 413)
            return memory.count
        }
        guard length <= available else {
            index.fail(.contentLength)
            return memory.count
        }
        return index.bodyStart + length
    }

    /// Mandatory fields (RFC 3261 section 8.1.1; Max-Forwards is added by proxies).
    private mutating func checkHead(_ memory: borrowing ParserMemory) {
        for name in [.via, .from, .to, .callID, .cseq] as [HeaderName] where !index.contains(name) {
            index.fail(.missing(name))
        }
        guard let callID = index.first(.callID)?.value else { return }
        let hasSpace = memory.withBytes { bytes in
            for place in callID where bytes[place].isLinearSpace { return true }
            return false
        }
        if callID.isEmpty || hasSpace { index.fail(.headerSyntax(.callID)) }
    }

    private mutating func refuse(
        _ values: ValueReader, _ reason: UnusableMessage.Reason, _ status: Status = .badRequest
    ) -> ReadMessage {
        index.fail(reason, status)
        return unusable(values.memory)
    }

    // MARK: Requests

    private mutating func request(
        _ frame: MessageFrame, _ values: ValueReader, method: Range<Int>, uri: Range<Int>
    ) -> ReadMessage {
        let method = Method(values.memory.slice(method))
        guard let uri = values.uri(uri) else { return refuse(values, .startLine) }
        guard let via = first(.via).flatMap({ values.via($0) }) else { return refuse(values, .headerSyntax(.via)) }
        guard let from = first(.from).flatMap({ values.nameAddress($0) }) else {
            return refuse(values, .headerSyntax(.from))
        }
        guard let to = first(.to).flatMap({ values.nameAddress($0) }) else { return refuse(values, .headerSyntax(.to)) }
        guard let callID = first(.callID), let cseq = first(.cseq).flatMap({ values.cseq($0) }) else {
            return refuse(values, .headerSyntax(.cseq))
        }
        guard cseq.method == method else { return refuse(values, .methodMismatch) }
        var maxForwards: UInt8?
        if let range = first(.maxForwards) {
            maxForwards = values.memory.slice(range).decimal()
            guard maxForwards != nil else { return refuse(values, .headerSyntax(.maxForwards)) }
        }
        guard let routes = addresses(.route, values) else { return refuse(values, .headerSyntax(.route)) }
        guard let recordRoutes = addresses(.recordRoute, values) else {
            return refuse(values, .headerSyntax(.recordRoute))
        }
        let isRegister = method == .register
        guard let path = isRegister ? addresses(.path, values) : [] else { return refuse(values, .headerSyntax(.path)) }
        let isStar = frame.contactIsStar
        guard let contacts = isStar ? [] : addresses(.contact, values) else {
            return refuse(values, .headerSyntax(.contact))
        }
        guard contacts.count <= MessageLimits.contacts else { return refuse(values, .tooManyHeaders) }
        let expires = first(.expires).map { values.memory.slice($0).decimal(as: UInt32.self) ?? 3600 }
        return .request(
            SIPRequest(
                frame: frame, method: method, uri: uri, via: via, from: from, to: to,
                callID: values.memory.slice(callID), cseq: cseq, maxForwards: maxForwards, routes: routes,
                recordRoutes: recordRoutes, contacts: contacts, contactIsStar: isStar, path: path, expires: expires,
                authorization: isRegister ? credentials(.authorization, values) : [],
                proxyAuthorization: isRegister ? [] : credentials(.proxyAuthorization, values)))
    }

    private func first(_ name: HeaderName) -> Range<Int>? { index.first(name)?.value }

    private func addresses(_ name: HeaderName, _ values: ValueReader) -> [NameAddress]? {
        guard index.contains(name) else { return [] }
        var addresses: [NameAddress] = []
        for field in index.fields where field.name == name {
            guard addresses.count <= MessageLimits.contacts || name != .contact else { break }
            guard let address = values.nameAddress(field.value) else { return nil }
            addresses.append(address)
        }
        return addresses
    }

    private func credentials(_ name: HeaderName, _ values: ValueReader) -> [DigestCredentials] {
        guard index.contains(name) else { return [] }
        return index.fields.compactMap { $0.name == name ? values.credentials($0.value) : nil }
    }

    // MARK: Responses

    private mutating func response(_ frame: MessageFrame, _ values: ValueReader, status: UInt16) -> ReadMessage {
        guard let via = first(.via).flatMap({ values.via($0) }) else { return refuse(values, .headerSyntax(.via)) }
        guard let to = first(.to).flatMap({ values.nameAddress($0) }) else { return refuse(values, .headerSyntax(.to)) }
        guard let callID = first(.callID), let cseq = first(.cseq).flatMap({ values.cseq($0) }) else {
            return refuse(values, .headerSyntax(.cseq))
        }
        var viaCount = 0
        for field in frame.fields where field.name == .via { viaCount += 1 }
        return .response(
            SIPResponse(
                frame: frame, status: Status(code: status), via: via, viaCount: viaCount, to: to,
                callID: values.memory.slice(callID), cseq: cseq))
    }
}

/// The number in Content-Length: digits and nothing else (RFC 3261 section 20.14).
enum ContentLength {
    static func read(_ value: ByteString) -> Int? { value.count <= 10 ? value.decimal() : nil }
}

extension ValueReader {
    /// `number method`: a number below 2^31 (RFC 3261 section 8.1.1.5).
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

extension MessageFrame {
    /// A single `*` (RFC 3261 section 10.2.2); beside other contacts it is malformed, as the address it is not.
    fileprivate var contactIsStar: Bool {
        var count = 0
        var hasStar = false
        for field in fields where field.name == .contact {
            count += 1
            hasStar = hasStar || field.value.count == 1 && bytes[field.value.lowerBound] == UInt8(ascii: "*")
        }
        return count == 1 && hasStar
    }
}
