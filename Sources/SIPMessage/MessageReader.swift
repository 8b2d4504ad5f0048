package import SIPGrammar

/// Bytes to messages. One reader serves one thread.
///
/// The start line and the rows are found by ``HeaderScan``; the values a proxy needs are decoded by libosip2, element by
/// element (``ElementDecoder``); the body is never looked at. What libosip2 lets pass and should not (CSeq of another
/// method, wild numbers, versions, lengths) is checked here.
package struct MessageReader: Sendable {
    private let limits: ReaderLimits

    package init(limits: ReaderLimits = ReaderLimits()) { self.limits = limits }

    /// - Parameter isStream: the framer has cut the message by its Content-Length, which is mandatory then.
    package func read(_ bytes: Span<UInt8>, isStream: Bool) -> ReadMessage {
        let scan = HeaderScan(bytes, limits: limits)
        // Room for the raw bytes and for what libosip2 makes of the values; a second try has plenty.
        for room in [bytes.count * 3 + 2048, bytes.count * 24 + 65_536] {
            let attempt = Attempt(bytes, scan, limits: limits, isStream: isStream, room: room)
            do throws(Attempt.Failure) {
                return try attempt.message()
            } catch {
                switch error {
                case .unusable(let unusable): return .unusable(unusable)
                case .outOfMemory: continue
                }
            }
        }
        return .unusable(UnusableMessage(reason: .headTooLarge, answer: nil))
    }
}

/// One try to read a message into storage of a given size.
private struct Attempt {
    enum Failure: Error {
        case unusable(UnusableMessage)
        case outOfMemory
    }

    private let storage: ByteStorage
    private let raw: ByteString
    private let scan: HeaderScan
    private let limits: ReaderLimits
    private let isStream: Bool
    private let room: Int

    init(_ bytes: Span<UInt8>, _ scan: HeaderScan, limits: ReaderLimits, isStream: Bool, room: Int) {
        storage = ByteStorage.make(capacity: room)
        storage.fill(from: bytes)
        raw = ByteString(storage: storage, start: 0, count: bytes.count)
        self.scan = scan
        self.limits = limits
        self.isStream = isStream
        self.room = room
    }

    func message() throws(Failure) -> ReadMessage {
        let line = raw[scan.startLine]
        if line.count >= 8, line[0..<8].equalsIgnoringCase("sip/2.0 ") { return .response(try response(line)) }
        return .request(try request(line))
    }

    // MARK: Requests

    private func request(_ line: ByteString) throws(Failure) -> SIPRequest {
        guard let first = line.firstIndex(of: 32), let last = line.lastIndex(of: 32), first > 0, first < last else {
            throw unusable(.notSIP)
        }
        let method = Method(line[0..<first])
        let uriText = line[first + 1..<last]
        let version = line[last + 1..<line.count]
        guard version.count >= 4, version[0..<4].equalsIgnoringCase("sip/") else { throw unusable(.notSIP) }
        if let failure = scan.failure {
            throw unusable(failure, failure == .headTooLarge || failure == .tooManyHeaders ? 513 : 400, method)
        }
        guard version.equalsIgnoringCase("sip/2.0") else { throw unusable(.version, 505, method) }
        guard uriText.count <= limits.uri else { throw unusable(.uriTooLong, 414, method) }
        guard !uriText.isEmpty, !uriText.contains(32), !uriText.contains(9), uriText[0] != UInt8(ascii: "<") else {
            throw unusable(.startLine, 400, method)
        }
        let frame = try frame(method)
        let callID = try single(.callID, method)
        let cseq = try cseq(try single(.cseq, method), method)
        guard cseq.method == method else { throw unusable(.methodMismatch, 400, method) }
        let fromValue = try single(.from, method)
        let toValue = try single(.to, method)
        let maxForwards = try maxForwards(method)

        let decoder = ElementDecoder(storage: storage, used: raw.count, hidesPercent: scan.hasPercent)
        defer { decoder.finish() }
        let uri = try decode(.other, method) { () throws(ElementDecoder.Failure) in try decoder.uri(uriText) }
        let via = try topVia(decoder, method)
        let from = try decode(.from, method) { () throws(ElementDecoder.Failure) in try decoder.nameAddress(fromValue) }
        let to = try decode(.to, method) { () throws(ElementDecoder.Failure) in try decoder.nameAddress(toValue) }
        let isRegister = method == .register
        let contacts = frame.values(of: .contact)
        let isStar = contacts.contains { $0 == "*" }
        guard contacts.count <= limits.contacts, !isStar || contacts.count == 1 else {
            throw unusable(.headerSyntax(.contact), 400, method)
        }
        return SIPRequest(
            frame: frame, method: method, uri: uri, via: via, from: from, to: to, callID: callID, cseq: cseq,
            maxForwards: maxForwards, routes: try addresses(.route, decoder, frame, method),
            contacts: isStar || !isRegister ? [] : try addresses(.contact, decoder, frame, method),
            contactIsStar: isStar, path: isRegister ? try addresses(.path, decoder, frame, method) : [],
            expires: expires(frame),
            authorization: isRegister ? try credentials(.authorization, decoder, frame) : [],
            proxyAuthorization: isRegister ? [] : try credentials(.proxyAuthorization, decoder, frame))
    }

    // MARK: Responses

    private func response(_ line: ByteString) throws(Failure) -> SIPResponse {
        if let failure = scan.failure { throw unusable(failure) }
        guard line.count >= 11, let code = line[8..<11].decimal(as: UInt16.self), (100...699).contains(code),
            line.count == 11 || line[11] == 32
        else { throw unusable(.startLine) }
        let frame = try frame(nil)
        let cseq = try cseq(try single(.cseq, nil), nil)
        let toValue = try single(.to, nil)
        _ = try single(.from, nil)
        let callID = try single(.callID, nil)
        let decoder = ElementDecoder(storage: storage, used: raw.count, hidesPercent: scan.hasPercent)
        defer { decoder.finish() }
        return SIPResponse(
            frame: frame, status: Status(code: code), via: try topVia(decoder, nil),
            viaCount: scan.fields.count { $0.name == .via },
            to: try decode(.to, nil) { () throws(ElementDecoder.Failure) in try decoder.nameAddress(toValue) },
            callID: callID, cseq: cseq)
    }

    // MARK: Parts

    /// The message's bytes without what a datagram has beyond its Content-Length.
    private func frame(_ method: Method?) throws(Failure) -> MessageFrame {
        let available = raw.count - scan.bodyStart
        var length = available
        var declared: Int?
        for field in scan.fields where field.name == .contentLength {
            guard let value = raw[field.value].decimal(as: Int.self), declared == nil || declared == value else {
                throw unusable(.contentLength, 400, method)
            }
            declared = value
        }
        if let declared {
            guard declared <= available else { throw unusable(.contentLength, 400, method) }
            length = declared
        } else if isStream {
            throw unusable(.contentLength, 400, method)
        }
        guard length <= limits.body else { throw unusable(.bodyTooLarge, 413, method) }
        return MessageFrame(
            bytes: raw[0..<scan.bodyStart + length], fields: scan.fields, headersStart: scan.startLine.upperBound + 2,
            bodyStart: scan.bodyStart)
    }

    /// The value of a field that stands once.
    private func single(_ name: HeaderName, _ method: Method?) throws(Failure) -> ByteString {
        var found: ByteString?
        for field in scan.fields where field.name == name {
            guard found == nil else { throw unusable(.repeated(name), 400, method) }
            found = raw[field.value]
        }
        guard let found, !found.isEmpty else { throw unusable(.missing(name), 400, method) }
        return found
    }

    private func cseq(_ value: ByteString, _ method: Method?) throws(Failure) -> CSeq {
        var end = 0
        while end < value.count, value[end] &- UInt8(ascii: "0") <= 9 { end += 1 }
        var name = end
        while name < value.count, value[name] <= 32 { name += 1 }
        guard name > end, name < value.count, let number = value[0..<end].decimal(as: UInt32.self), number < 1 << 31 else {
            throw unusable(.headerSyntax(.cseq), 400, method)
        }
        return CSeq(number: number, method: Method(value[name..<value.count]))
    }

    private func maxForwards(_ method: Method) throws(Failure) -> UInt8? {
        guard scan.fields.contains(where: { $0.name == .maxForwards }) else { return nil }
        guard let value = try single(.maxForwards, method).decimal(as: UInt8.self) else {
            throw unusable(.headerSyntax(.maxForwards), 400, method)
        }
        return value
    }

    private func expires(_ frame: MessageFrame) -> UInt32? {
        guard let value = frame.firstValue(of: .expires) else { return nil }
        return value.decimal(as: UInt32.self) ?? 3600
    }

    private func topVia(_ decoder: ElementDecoder, _ method: Method?) throws(Failure) -> Via {
        guard let field = scan.fields.first(where: { $0.name == .via }) else {
            throw unusable(.missing(.via), nil, method)
        }
        do throws(ElementDecoder.Failure) {
            return try decoder.via(raw[field.value])
        } catch {
            throw failure(error, .via, method)
        }
    }

    private func addresses(
        _ name: HeaderName, _ decoder: ElementDecoder, _ frame: MessageFrame, _ method: Method
    ) throws(Failure) -> [NameAddress] {
        var found: [NameAddress] = []
        for field in frame.fields where field.name == name {
            do throws(ElementDecoder.Failure) {
                found.append(try decoder.nameAddress(frame.bytes[field.value]))
            } catch {
                throw failure(error, name, method)
            }
        }
        return found
    }

    private func credentials(
        _ name: HeaderName, _ decoder: ElementDecoder, _ frame: MessageFrame
    ) throws(Failure) -> [DigestCredentials] {
        var found: [DigestCredentials] = []
        for field in frame.fields where field.name == name {
            do throws(ElementDecoder.Failure) {
                if let credentials = try decoder.credentials(frame.bytes[field.value]) { found.append(credentials) }
            } catch {
                // Credentials that cannot be read are no credentials: a challenge follows.
                if error == .outOfMemory { throw .outOfMemory }
            }
        }
        return found
    }

    private func decode<Value>(
        _ name: HeaderName, _ method: Method?, _ body: () throws(ElementDecoder.Failure) -> Value
    ) throws(Failure) -> Value {
        do throws(ElementDecoder.Failure) { return try body() } catch { throw failure(error, name, method) }
    }

    private func failure(_ error: ElementDecoder.Failure, _ name: HeaderName, _ method: Method?) -> Failure {
        switch error {
        case .outOfMemory: .outOfMemory
        case .syntax: unusable(name == .other ? .startLine : .headerSyntax(name), 400, method)
        }
    }

    // MARK: Refusals

    private func unusable(_ reason: UnusableMessage.Reason) -> Failure { unusable(reason, nil, nil) }

    /// A request can be answered when the rows an answer copies are there; an ACK never is.
    private func unusable(_ reason: UnusableMessage.Reason, _ status: Status?, _ method: Method?) -> Failure {
        guard let status, let method, method != .ack else {
            return .unusable(UnusableMessage(reason: reason, answer: nil))
        }
        let needed: [HeaderName] = [.via, .from, .to, .callID, .cseq]
        guard needed.allSatisfy({ name in scan.fields.contains { $0.name == name } }) else {
            return .unusable(UnusableMessage(reason: reason, answer: nil))
        }
        let end = scan.bodyStart > 0 ? scan.bodyStart : raw.count
        let frame = MessageFrame(
            bytes: raw[0..<end], fields: scan.fields, headersStart: scan.startLine.upperBound + 2, bodyStart: end)
        return .unusable(UnusableMessage(reason: reason, answer: (status, frame)))
    }
}
