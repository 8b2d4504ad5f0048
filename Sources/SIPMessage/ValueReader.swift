internal import COsip2
import SIPGrammar

/// Reads single header field values with libosip2's grammar, and checks what that grammar leaves open.
///
/// Everything it returns is a slice of the message's storage. `nil` means malformed.
struct ValueReader {
    let memory: ParserMemory

    // MARK: URIs

    /// A URI in the message: its parts as our own look at it has found them, before libosip2 sees it.
    private struct URIText {
        let range: Range<Int>
        let scheme: Range<Int>
        let isSIP: Bool
        var hasEscapes = false
        /// Where the `?` stands that begins the headers.
        var headers: Int?
        var parameterCount = 0
        var endsWithSemicolon = false
        /// Host and port with the colon between them, as they were written.
        var hostPort: Range<Int>

        /// Without its headers, which nobody may ever act on and libosip2 would list one by one.
        var preparation: ParserMemory.Preparation {
            ParserMemory.Preparation(hidesEscapes: hasEscapes, cut: headers.map { $0..<range.upperBound })
        }
    }

    /// A URI that stands alone, as in a request line.
    func uri(_ range: Range<Int>) -> SIPURI? {
        guard let text = memory.withBytes({ Self.uriText($0, range) }) else { return nil }
        guard text.isSIP else { return otherURI(text) }
        return unsafe memory.withText(range, text.preparation) { pointer in
            var parsed: UnsafeMutablePointer<osip_uri_t>?
            guard unsafe osip_uri_init(&parsed) == 0, let parsed = unsafe parsed,
                unsafe osip_uri_parse(parsed, pointer) == 0
            else { return nil }
            return unsafe uri(parsed, text)
        }
    }

    private static func uriText(_ bytes: Span<UInt8>, _ range: Range<Int>) -> URIText? {
        var colon = range.lowerBound
        while colon < range.upperBound, bytes[colon].isSchemeByte { colon += 1 }
        guard colon > range.lowerBound, bytes[range.lowerBound].isASCIILetter, colon + 1 < range.upperBound,
            bytes[colon] == UInt8(ascii: ":")
        else { return nil }
        let scheme = range.lowerBound..<colon
        let isSIP = bytes.equalsIgnoringCase(scheme, "sip") || bytes.equalsIgnoringCase(scheme, "sips")
        var text = URIText(range: range, scheme: scheme, isSIP: isSIP, hostPort: colon + 1..<range.upperBound)
        var isUserOver = false
        for index in colon + 1..<range.upperBound {
            switch bytes[index] {
            case 0...UInt8(ascii: " "), 0x7f, UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""): return nil
            case UInt8(ascii: "%"): text.hasEscapes = true
            case UInt8(ascii: "@") where !isUserOver:
                // What looked like parameters or headers was the user part (RFC 4475 section 3.1.1.9).
                isUserOver = true
                text.parameterCount = 0
                text.headers = nil
                text.hostPort = index + 1..<range.upperBound
            case UInt8(ascii: "?") where text.headers == nil:
                text.headers = index
                if text.parameterCount == 0 { text.hostPort = text.hostPort.lowerBound..<index }
            case UInt8(ascii: ";") where text.headers == nil:
                if text.parameterCount == 0 { text.hostPort = text.hostPort.lowerBound..<index }
                text.parameterCount += 1
            default: break
            }
        }
        text.endsWithSemicolon = bytes[(text.headers ?? range.upperBound) - 1] == UInt8(ascii: ";")
        return text.parameterCount <= ReaderLimits.parameters ? text : nil
    }

    private func uri(_ parsed: UnsafeMutablePointer<osip_uri_t>, _ text: URIText) -> SIPURI? {
        let hides = text.hasEscapes
        let raw = unsafe parsed.pointee
        guard var host = unsafe memory.slice(raw.host) else { return nil }
        let parameters = unsafe self.parameters(raw.url_params, hidesEscapes: hides)
        // libosip2 stops without a word at a parameter that it does not like.
        guard parameters.count == text.parameterCount - (text.endsWithSemicolon && text.parameterCount > 0 ? 1 : 0)
        else { return nil }
        guard Self.isHost(&host, memory), let port = unsafe port(raw.port) else { return nil }
        // Nor does it mind what stands beside the brackets of an IPv6 address.
        guard text.hostPort.count == host.count + port.length else { return nil }
        return SIPURI(
            scheme: text.scheme.count == 4 ? .sips : .sip, user: unsafe memory.slice(raw.username, hidesEscapes: hides),
            password: unsafe memory.slice(raw.password, hidesEscapes: hides), host: host, port: port.number,
            parameters: parameters, headers: text.headers.map { memory.slice($0 + 1..<text.range.upperBound) },
            text: memory.slice(text.range))
    }

    /// A URI that is not SIP's; of `tel:` number and parameters are told apart.
    private func otherURI(_ text: URIText) -> SIPURI {
        let whole = memory.slice(text.range)
        let scheme = memory.slice(text.scheme)
        var user: ByteString?
        var parameters: [Parameter] = []
        let isTel = scheme.equalsIgnoringCase("tel")
        if isTel {
            var rest = whole[scheme.count + 1..<whole.count]
            while true {
                let end = rest.firstIndex(of: UInt8(ascii: ";")) ?? rest.count
                let part = rest[0..<end]
                if user == nil {
                    user = part
                } else if !part.isEmpty {
                    let equal = part.firstIndex(of: UInt8(ascii: "="))
                    parameters.append(
                        Parameter(name: part[0..<(equal ?? part.count)], value: equal.map { part[$0 + 1..<part.count] })
                    )
                }
                guard end < rest.count else { break }
                rest = rest[end + 1..<rest.count]
            }
        }
        return SIPURI(
            scheme: isTel ? .tel : .other(scheme.lowercased()), user: user, password: nil, host: .empty, port: nil,
            parameters: parameters, headers: nil, text: whole)
    }

    // MARK: Name and address

    /// Where the pieces of a name-addr or addr-spec stand (RFC 3261 section 20.10).
    private struct AddressText {
        let display: Range<Int>
        let uri: Range<Int>
        /// From the first `;` of the header parameters to the end; empty when there are none.
        let parameters: Range<Int>
        let hasBrackets: Bool
        let hasBlanks: Bool
    }

    /// A value of From, To, Contact, Route, Record-Route or Path.
    func nameAddress(_ range: Range<Int>) -> NameAddress? {
        guard let pieces = memory.withBytes({ Self.addressText($0, range) }),
            let text = memory.withBytes({ Self.uriText($0, pieces.uri) })
        else { return nil }
        let display = pieces.display.isEmpty ? nil : memory.slice(pieces.display)
        if !text.isSIP, pieces.parameters.isEmpty {
            return NameAddress(displayName: display, uri: otherURI(text), parameters: [])
        }
        // Nothing is lost when libosip2 sees the rest only: the display name stays as it was, and of a URI that is not
        // SIP's it could read nothing.
        let start = pieces.hasBrackets ? pieces.uri.lowerBound - 1 : pieces.uri.lowerBound
        var preparation = text.preparation
        preparation.spacesBlanks = pieces.hasBlanks
        if !text.isSIP {
            preparation.cut = pieces.uri
            preparation.replacement = "sip:other"
        }
        let hides = preparation.hidesEscapes
        return unsafe memory.withText(start..<range.upperBound, preparation) { pointer in
            var parsed: UnsafeMutablePointer<osip_from_t>?
            guard unsafe osip_from_init(&parsed) == 0, let parsed = unsafe parsed,
                unsafe osip_from_parse(parsed, pointer) == 0, let parsedURI = unsafe parsed.pointee.url,
                let uri = text.isSIP ? unsafe uri(parsedURI, text) : otherURI(text)
            else { return nil }
            let parameters = unsafe self.parameters(parsed.pointee.gen_params, hidesEscapes: hides)
            return NameAddress(displayName: display, uri: uri, parameters: parameters)
        }
    }

    private static func addressText(_ bytes: Span<UInt8>, _ range: Range<Int>) -> AddressText? {
        guard let uriStart = uriStart(bytes, range) else { return nil }
        var uri: Range<Int>
        var index: Int
        let hasBrackets = uriStart.hasBrackets
        if hasBrackets {
            guard let end = bytes.firstIndex(of: UInt8(ascii: ">"), in: uriStart.place..<range.upperBound) else {
                return nil
            }
            uri = uriStart.place..<end
            index = end + 1
            while index < range.upperBound, bytes[index].isLinearSpace { index += 1 }
            guard index == range.upperBound || bytes[index] == UInt8(ascii: ";") else { return nil }
        } else {
            index = bytes.firstIndex(of: UInt8(ascii: ";"), in: range) ?? range.upperBound
            uri = bytes.trimmed(range.lowerBound..<index)
            // Without brackets nobody can tell whose these would be.
            for place in uri where bytes[place] == UInt8(ascii: "?") || bytes[place] == UInt8(ascii: ",") { return nil }
        }
        let parameters = index..<range.upperBound
        guard let hasBlanks = checkParameters(bytes, parameters) else { return nil }
        return AddressText(
            display: hasBrackets
                ? bytes.trimmed(range.lowerBound..<uriStart.place - 1) : range.lowerBound..<range.lowerBound,
            uri: uri, parameters: parameters, hasBrackets: hasBrackets, hasBlanks: hasBlanks)
    }

    /// Where the URI begins: behind `<`, which a display name may precede, or with the value.
    private static func uriStart(_ bytes: Span<UInt8>, _ range: Range<Int>) -> (place: Int, hasBrackets: Bool)? {
        var index = range.lowerBound
        if index < range.upperBound, bytes[index] == UInt8(ascii: "\"") {
            guard let quoteEnd = bytes.quoteEnd(from: index + 1, to: range.upperBound) else { return nil }
            index = quoteEnd
            while index < range.upperBound, bytes[index].isLinearSpace { index += 1 }
            guard index < range.upperBound, bytes[index] == UInt8(ascii: "<") else { return nil }
            return (index + 1, true)
        }
        while index < range.upperBound {
            switch bytes[index] {
            case UInt8(ascii: "<"): return (index + 1, true)
            case UInt8(ascii: ";"), UInt8(ascii: ":"): return (range.lowerBound, false)
            // Not in a display name without quotes (RFC 4475 section 3.1.2.15), nor in a scheme.
            case UInt8(ascii: ","), UInt8(ascii: "\""), UInt8(ascii: ">"), UInt8(ascii: "\\"): return nil
            default: index += 1
            }
        }
        return nil
    }

    /// Whether the header parameters hold white space that libosip2 does not know; `nil` when they are malformed.
    ///
    /// libosip2 takes an empty last parameter and an empty last value, which would be malformed as soon as something
    /// of ours stands behind them.
    private static func checkParameters(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool? {
        var count = 0
        var hasBlanks = false
        var index = range.lowerBound
        while index < range.upperBound {
            switch bytes[index] {
            case UInt8(ascii: "\""):
                guard let quoteEnd = bytes.quoteEnd(from: index + 1, to: range.upperBound) else { return nil }
                index = quoteEnd
                continue
            case UInt8(ascii: ";"):
                count += 1
                let name = bytes.trimmed(index + 1..<range.upperBound)
                guard !name.isEmpty, bytes[name.lowerBound].isToken else { return nil }
            case UInt8(ascii: "="):
                let value = bytes.trimmed(index + 1..<range.upperBound)
                guard !value.isEmpty, bytes[value.lowerBound] != UInt8(ascii: ";") else { return nil }
            case UInt8(ascii: ","), UInt8(ascii: "<"), UInt8(ascii: ">"): return nil
            case UInt8(ascii: "\t"), UInt8(ascii: "\r"): hasBlanks = true
            default: break
            }
            index += 1
        }
        return count <= ReaderLimits.parameters ? hasBlanks : nil
    }

    // MARK: Via

    /// One Via value.
    func via(_ range: Range<Int>) -> Via? {
        var preparation = ParserMemory.Preparation()
        let isPlausible = memory.withBytes { bytes in
            let start = bytes.firstIndex(of: UInt8(ascii: ";"), in: range) ?? range.upperBound
            // Comments left the grammar with RFC 3261; to libosip2 one would hide the parameters.
            guard bytes.firstIndex(of: UInt8(ascii: "("), in: range) == nil,
                let sentBy = Self.sentBy(bytes, range.lowerBound..<start), Self.isSentBy(bytes, sentBy),
                Self.checkParameters(bytes, start..<range.upperBound) != nil
            else { return false }
            for index in range where bytes[index] == UInt8(ascii: "\t") || bytes[index] == UInt8(ascii: "\r") {
                preparation.spacesBlanks = true
            }
            return true
        }
        guard isPlausible else { return nil }
        return unsafe memory.withText(range, preparation) { pointer in
            var parsed: UnsafeMutablePointer<osip_via_t>?
            guard unsafe osip_via_init(&parsed) == 0, let parsed = unsafe parsed,
                unsafe osip_via_parse(parsed, pointer) == 0
            else { return nil }
            let raw = unsafe parsed.pointee
            guard let transport = unsafe memory.slice(raw.`protocol`), var host = unsafe memory.slice(raw.host),
                !transport.isEmpty, transport.isToken, Self.isHost(&host, memory), let port = unsafe port(raw.port)
            else { return nil }
            return Via(
                transport: transport, host: host, port: port.number,
                parameters: unsafe parameters(raw.via_params, hidesEscapes: false))
        }
    }

    /// What stands behind `SIP / 2.0 / transport`, white space allowed around the slashes.
    private static func sentBy(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Range<Int>? {
        var index = range.lowerBound
        func skipSpace() {
            while index < range.upperBound, bytes[index].isLinearSpace { index += 1 }
        }
        func skip(_ text: StaticString) -> Bool {
            let end = index + text.utf8CodeUnitCount
            guard end <= range.upperBound, bytes.equalsIgnoringCase(index..<end, text) else { return false }
            index = end
            skipSpace()
            return true
        }
        guard skip("sip"), skip("/"), skip("2.0"), skip("/") else { return nil }
        while index < range.upperBound, bytes[index].isToken { index += 1 }
        guard index < range.upperBound, bytes[index].isLinearSpace else { return nil }
        return bytes.trimmed(index..<range.upperBound)
    }

    /// A host, or an IPv6 address in brackets, and a port behind a colon: libosip2 skips what stands between them.
    private static func isSentBy(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        var index = range.lowerBound
        if index < range.upperBound, bytes[index] == UInt8(ascii: "[") {
            guard let close = bytes.firstIndex(of: UInt8(ascii: "]"), in: range),
                bytes.firstIndex(of: UInt8(ascii: ":"), in: index..<close) != nil
            else { return false }
            index = close + 1
        } else {
            while index < range.upperBound, bytes[index].isHostByte { index += 1 }
        }
        let rest = bytes.trimmed(index..<range.upperBound)
        guard !rest.isEmpty else { return true }
        guard bytes[rest.lowerBound] == UInt8(ascii: ":") else { return false }
        for place in bytes.trimmed(rest.lowerBound + 1..<rest.upperBound) where !bytes[place].isDigit { return false }
        return true
    }

    // MARK: Credentials

    /// The digest credentials of a row; `nil` for another scheme or when a mandatory part is missing.
    func credentials(_ range: Range<Int>) -> DigestCredentials? {
        var preparation = ParserMemory.Preparation()
        let isDigest = memory.withBytes { bytes in
            let schemeEnd = range.lowerBound + 6
            guard range.count > 7, bytes.equalsIgnoringCase(range.lowerBound..<schemeEnd, "digest"),
                bytes[schemeEnd].isLinearSpace
            else { return false }
            var commas = 0
            for index in range {
                switch bytes[index] {
                case UInt8(ascii: ","): commas += 1
                case UInt8(ascii: "\t"), UInt8(ascii: "\r"): preparation.spacesBlanks = true
                default: break
                }
            }
            return commas <= ReaderLimits.credentialParts
        }
        guard isDigest else { return nil }
        return unsafe memory.withText(range, preparation) { pointer in
            var parsed: UnsafeMutablePointer<osip_authorization_t>?
            guard unsafe osip_authorization_init(&parsed) == 0, let parsed = unsafe parsed,
                unsafe osip_authorization_parse(parsed, pointer) == 0
            else { return nil }
            let raw = unsafe parsed.pointee
            guard let username = unsafe unquoted(raw.username), let realm = unsafe unquoted(raw.realm),
                let nonce = unsafe unquoted(raw.nonce), let uri = unsafe unquoted(raw.uri),
                let response = unsafe unquoted(raw.response)
            else { return nil }
            return unsafe DigestCredentials(
                username: username, realm: realm, nonce: nonce, uri: uri, response: response,
                algorithm: unquoted(raw.algorithm), qop: unquoted(raw.message_qop),
                nonceCount: unquoted(raw.nonce_count), cnonce: unquoted(raw.cnonce), opaque: unquoted(raw.opaque))
        }
    }

    private func unquoted(_ text: UnsafeMutablePointer<CChar>?) -> ByteString? {
        unsafe memory.slice(text)?.unquoted()
    }

    // MARK: Parts

    private func parameters(_ list: osip_list_t, hidesEscapes: Bool) -> [Parameter] {
        guard unsafe list.nb_elt > 0 else { return [] }
        var parameters: [Parameter] = []
        unsafe parameters.reserveCapacity(Int(list.nb_elt))
        var node = unsafe list.node
        while let current = unsafe node {
            // URI and header parameters have the same layout: two strings.
            if let element = unsafe current.pointee.element?.assumingMemoryBound(to: osip_uri_param_t.self),
                let name = unsafe memory.slice(element.pointee.gname, hidesEscapes: hidesEscapes)
            {
                let value = unsafe memory.slice(element.pointee.gvalue, hidesEscapes: hidesEscapes)
                parameters.append(Parameter(name: name, value: value))
            }
            unsafe node = current.pointee.next
        }
        return parameters
    }

    /// The port, if there is one, and its length with the colon; `nil` when it is no port number.
    private func port(_ text: UnsafeMutablePointer<CChar>?) -> (number: UInt16?, length: Int)? {
        guard let digits = unsafe memory.slice(text) else { return (nil, 0) }
        guard let number = digits.decimal(as: UInt16.self) else { return nil }
        return (number, digits.count + 1)
    }

    /// Whether libosip2 found a host name or address; an IPv6 address gets back the brackets that libosip2 took.
    private static func isHost(_ host: inout ByteString, _ memory: ParserMemory) -> Bool {
        guard !host.isEmpty else { return false }
        if host.contains(UInt8(ascii: ":")) {
            host = memory.joined("[", host, "]")
            return host.withSpan { bytes in
                for index in 1..<bytes.count - 1 {
                    let byte = bytes[index]
                    guard byte.hexValue != nil || byte == UInt8(ascii: ":") || byte == UInt8(ascii: ".") else {
                        return false
                    }
                }
                return true
            }
        }
        return host.withSpan { bytes in
            for index in 0..<bytes.count where !bytes[index].isHostByte { return false }
            return true
        }
    }
}

extension UInt8 {
    fileprivate var isASCIILetter: Bool { asciiLowercased &- UInt8(ascii: "a") < 26 }
    fileprivate var isDigit: Bool { self &- UInt8(ascii: "0") < 10 }

    fileprivate var isSchemeByte: Bool {
        isASCIILetter || isDigit || self == UInt8(ascii: "+") || self == UInt8(ascii: "-") || self == UInt8(ascii: ".")
    }

    /// Names with `_` break RFC 3261's grammar and are in use.
    fileprivate var isHostByte: Bool {
        isASCIILetter || isDigit || self == UInt8(ascii: ".") || self == UInt8(ascii: "-") || self == UInt8(ascii: "_")
    }
}

extension ByteString {
    fileprivate var isToken: Bool {
        withSpan { bytes in
            for index in 0..<bytes.count where !bytes[index].isToken { return false }
            return true
        }
    }
}
