import Bytes
import COsip2
import SIPGrammar

/// Reads single values of header fields. The functions return `nil` for a malformed value.
///
/// The module `SIPGrammar` finds the parts of a value. A plain value is accepted immediately, and libosip2 checks any
/// other value. ``ValueReader`` checks parameters itself (``areWellFormed(_:_:_:)``): libosip2 is slow for long lists,
/// and stops without an error at a wrong parameter.
struct ValueReader {
    let memory: ParserMemory

    // MARK: URIs

    /// Reads a URI without angle brackets and without header parameters.
    func uri(_ range: Range<Int>) -> SIPURI? {
        guard let uri = SIPURI(memory.slice(range)), uri.isPlain || isAcceptable(uri, range) else { return nil }
        return uri
    }

    /// Whether both libosip2 and ``ValueReader`` accept a URI that is not plain.
    func isAcceptable(_ uri: SIPURI, _ range: Range<Int>) -> Bool {
        let isClean = memory.withBytes { bytes in
            for index in range where !bytes[index].mayStandInURI { return false }
            return true
        }
        guard isClean else { return false }
        let parameters = range.lowerBound + uri.address.count..<range.lowerBound + uri.withoutHeaders.count
        switch uri.scheme {
        case .other: return true
        case .tel: return memory.withBytes { Self.areWellFormed($0, parameters, .ofURI) }
        case .sip, .sips:
            return memory.withBytes { Self.areWellFormed($0, parameters, .ofURI) }
                && isAddressAcceptable(uri, range.lowerBound..<parameters.lowerBound)
        }
    }

    private func isAddressAcceptable(_ uri: SIPURI, _ range: Range<Int>) -> Bool {
        let hasEscapes = memory.withBytes { $0.firstIndex(of: UInt8(ascii: "%"), in: range) != nil }
        let preparation = ParserMemory.Preparation(hidesEscapes: hasEscapes)
        return unsafe memory.withText(range, preparation) { pointer in
            var parsed: UnsafeMutablePointer<osip_uri_t>?
            guard unsafe osip_uri_init(&parsed) == 0, let parsed = unsafe parsed,
                unsafe osip_uri_parse(parsed, pointer) == 0,
                unsafe isHost(parsed.pointee.host, uri.host), unsafe isPort(parsed.pointee.port, uri.port),
                // libosip2 ignores wrong characters next to the brackets of an IPv6 address. The comparison of lengths
                // finds such characters.
                unsafe uri.hostPort.count == uri.host.count + (memory.slice(parsed.pointee.port)?.count ?? -1) + 1
            else { return false }
            let user = unsafe memory.slice(parsed.pointee.username, hidesEscapes: hasEscapes) ?? .empty
            let password = unsafe memory.slice(parsed.pointee.password, hidesEscapes: hasEscapes) ?? .empty
            return user == uri.user ?? .empty && password == uri.password ?? .empty
        } ?? false
    }

    // MARK: Name and address

    /// Reads a value of From, To, Contact, Route, Record-Route or Path (RFC 3261 section 20.10).
    ///
    /// - Parameters:
    ///   - range: the range of the value in the message.
    ///   - isTagged: whether the value is a From or To, to which the proxy may append parameters.
    /// - Returns: the value; `nil` if the value is malformed.
    func nameAddress(_ range: Range<Int>, isTagged: Bool = false) -> NameAddress? {
        guard let address = NameAddress(memory.slice(range), isTagged: isTagged) else { return nil }
        let uri = range.lowerBound + address.uriStart
        guard address.uri.isPlain || isAcceptable(address.uri, uri..<uri + address.uri.text.count) else { return nil }
        let parameters = range.lowerBound + address.parametersStart..<range.upperBound
        return memory.withBytes { Self.areWellFormed($0, parameters, isTagged ? .growing : .ofField) } ? address : nil
    }

    // MARK: Via

    /// Reads one value of Via (RFC 3261 section 20.42).
    func via(_ range: Range<Int>) -> Via? {
        guard let via = Via(memory.slice(range)), via.isPlain || isAcceptable(via, range) else { return nil }
        let parameters = range.lowerBound + via.parametersStart..<range.upperBound
        return memory.withBytes { Self.areWellFormed($0, parameters, .growing) } ? via : nil
    }

    func isAcceptable(_ via: Via, _ range: Range<Int>) -> Bool {
        let text = range.lowerBound..<range.lowerBound + via.parametersStart
        let preparation = ParserMemory.Preparation(spacesBlanks: memory.withBytes { $0.hasOddBlanks(text) })
        return unsafe memory.withText(text, preparation) { pointer in
            var parsed: UnsafeMutablePointer<osip_via_t>?
            guard unsafe osip_via_init(&parsed) == 0, let parsed = unsafe parsed,
                unsafe osip_via_parse(parsed, pointer) == 0,
                let transport = unsafe memory.slice(parsed.pointee.`protocol`)
            else { return false }
            return unsafe transport == via.transport && isHost(parsed.pointee.host, via.host)
                && isPort(parsed.pointee.port, via.port)
        } ?? false
    }

    // MARK: Results of libosip2

    /// Whether libosip2 found the same port as `SIPGrammar`, and the port is a valid number.
    private func isPort(_ text: UnsafeMutablePointer<CChar>?, _ port: UInt16?) -> Bool {
        guard let digits = unsafe memory.slice(text) else { return port == nil }
        return port != nil && digits.decimal() == port
    }

    /// Whether libosip2 found the same host as `SIPGrammar`; libosip2 removes the brackets of IPv6 addresses.
    private func isHost(_ text: UnsafeMutablePointer<CChar>?, _ host: ByteString) -> Bool {
        guard let found = unsafe memory.slice(text), !found.isEmpty else { return false }
        let isAddress = found.contains(UInt8(ascii: ":"))
        guard found.allSatisfy({ $0.isHostByte || $0 == UInt8(ascii: ":") }) else { return false }
        guard isAddress else { return found == host }
        return host.count == found.count + 2 && host[0] == UInt8(ascii: "[") && host[1..<host.count - 1] == found
            && host[host.count - 1] == UInt8(ascii: "]")
    }
}
