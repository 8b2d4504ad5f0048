import COsip2
import Bytes
import SIPGrammar

/// Reads single header field values. Everything it returns is a slice of the message's storage, or `nil` for a
/// malformed value.
///
/// libosip2 is the grammar of URIs, of Via's sent-protocol and sent-by, and of credentials. It copies what it reads,
/// stops without a word at a parameter that it does not like, and keeps lists whose cost grows with the square of their
/// length: so parameters are told apart here (``parameters(_:_:_:)``), and checks stand around what it lets pass.
struct ValueReader {
    let memory: ParserMemory

    // MARK: URIs

    /// Where the parts of a URI stand that are not libosip2's business.
    private struct URIText {
        let range: Range<Int>
        let scheme: Range<Int>
        let isSIP: Bool
        var hasEscapes = false
        /// Host and port with the colon between them, as they were written.
        var hostPort: Range<Int>
        /// Where the `?` stands that begins the headers.
        var headers: Int?

        var parameters: Range<Int> { hostPort.upperBound..<(headers ?? range.upperBound) }
    }

    /// A URI without anything around it.
    func uri(_ range: Range<Int>) -> SIPURI? {
        guard let text = memory.withBytes({ Self.uriText($0, range) }) else { return nil }
        guard text.isSIP else { return otherURI(text) }
        guard let parameters = memory.withBytes({ parameters($0, text.parameters, .ofURI) }) else { return nil }
        let preparation = ParserMemory.Preparation(hidesEscapes: text.hasEscapes)
        return unsafe memory.withText(range.lowerBound..<text.hostPort.upperBound, preparation) { pointer in
            var parsed: UnsafeMutablePointer<osip_uri_t>?
            guard unsafe osip_uri_init(&parsed) == 0, let parsed = unsafe parsed,
                unsafe osip_uri_parse(parsed, pointer) == 0,
                let host = unsafe host(parsed.pointee.host), let port = unsafe port(parsed.pointee.port),
                // It does not mind what stands beside the brackets of an IPv6 address.
                text.hostPort.count == host.count + port.length
            else { return nil }
            return unsafe SIPURI(
                scheme: text.scheme.count == 4 ? .sips : .sip,
                user: memory.slice(parsed.pointee.username, hidesEscapes: text.hasEscapes),
                password: memory.slice(parsed.pointee.password, hidesEscapes: text.hasEscapes), host: host,
                port: port.number, parameters: parameters,
                headers: text.headers.map { memory.slice($0 + 1..<range.upperBound) }, text: memory.slice(range))
        }
    }

    /// What means something in a URI, and what must not be there: white space and control bytes among them.
    private static let uriBytes =
        bit(UInt8(ascii: "<")) | bit(UInt8(ascii: ">")) | bit(UInt8(ascii: "\"")) | bit(UInt8(ascii: "%"))
        | bit(UInt8(ascii: "?")) | bit(UInt8(ascii: ";")) | 0x1_ffff_ffff

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
        var isHostOver = false
        var index = colon
        while true {
            index = bytes.next(uriBytes, from: index + 1, to: range.upperBound)
            guard index < range.upperBound else { return text }
            switch bytes[index] {
            case 0...UInt8(ascii: " "), 0x7f, UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""): return nil
            case UInt8(ascii: "%"): text.hasEscapes = true
            case UInt8(ascii: "@") where !isUserOver:
                // What looked like parameters or headers was the user part (RFC 4475 section 3.1.1.9).
                isUserOver = true
                isHostOver = false
                text.hostPort = index + 1..<range.upperBound
                text.headers = nil
            case UInt8(ascii: ";") where !isHostOver, UInt8(ascii: "?") where !isHostOver:
                isHostOver = true
                text.hostPort = text.hostPort.lowerBound..<index
                if bytes[index] == UInt8(ascii: "?") { text.headers = index }
            case UInt8(ascii: "?") where text.headers == nil: text.headers = index
            default: break
            }
        }
    }

    /// A URI that is not SIP's; of `tel:` number and parameters are told apart.
    private func otherURI(_ text: URIText) -> SIPURI? {
        let scheme = memory.slice(text.scheme)
        guard scheme.equalsIgnoringCase("tel") else {
            return SIPURI(
                scheme: .other(scheme.lowercased()), user: nil, password: nil, host: .empty, port: nil, parameters: [],
                headers: nil, text: memory.slice(text.range))
        }
        return memory.withBytes { bytes in
            let start = text.scheme.upperBound + 1
            let end =
                bytes.firstIndex(of: UInt8(ascii: ";"), in: start..<text.range.upperBound) ?? text.range.upperBound
            guard let parameters = parameters(bytes, end..<text.range.upperBound, .ofURI) else { return nil }
            return SIPURI(
                scheme: .tel, user: memory.slice(start..<end), password: nil, host: .empty, port: nil,
                parameters: parameters, headers: nil, text: memory.slice(text.range))
        }
    }

    // MARK: Name and address

    /// A value of From, To, Contact, Route, Record-Route or Path (RFC 3261 section 20.10).
    ///
    /// - Parameters:
    ///   - range: Where the value stands.
    ///   - growing: Whether parameters of ours will be written behind it.
    /// - Returns: `nil` when it is malformed.
    func nameAddress(_ range: Range<Int>, growing: Bool = false) -> NameAddress? {
        guard let pieces = memory.withBytes({ Self.addressPieces($0, range) }), let uri = uri(pieces.uri),
            let parameters = memory.withBytes({ parameters($0, pieces.parameters, growing ? .growing : .ofField) })
        else { return nil }
        return NameAddress(
            displayName: pieces.display.isEmpty ? nil : memory.slice(pieces.display), uri: uri, parameters: parameters)
    }

    private struct AddressPieces {
        let display, uri: Range<Int>
        /// From the first `;` of the header parameters to the end; empty when there are none.
        let parameters: Range<Int>
    }

    private static func addressPieces(_ bytes: Span<UInt8>, _ range: Range<Int>) -> AddressPieces? {
        guard let start = uriStart(bytes, range) else { return nil }
        guard start.hasBrackets else {
            let end = bytes.firstIndex(of: UInt8(ascii: ";"), in: range) ?? range.upperBound
            let uri = bytes.trimmed(range.lowerBound..<end)
            // Without brackets it is not clear whether these belong to the URI or to the field.
            for place in uri where bytes[place] == UInt8(ascii: "?") || bytes[place] == UInt8(ascii: ",") { return nil }
            return AddressPieces(display: uri.lowerBound..<uri.lowerBound, uri: uri, parameters: end..<range.upperBound)
        }
        guard let end = bytes.firstIndex(of: UInt8(ascii: ">"), in: start.place..<range.upperBound) else { return nil }
        let rest = bytes.trimmed(end + 1..<range.upperBound)
        return AddressPieces(
            display: bytes.trimmed(range.lowerBound..<start.place - 1), uri: start.place..<end, parameters: rest)
    }

    /// Where the URI begins: behind `<`, which a display name may precede, or with the value.
    private static func uriStart(_ bytes: Span<UInt8>, _ range: Range<Int>) -> (place: Int, hasBrackets: Bool)? {
        var index = range.lowerBound
        if index < range.upperBound, bytes[index] == UInt8(ascii: "\"") {
            guard let quoteEnd = bytes.quoteEnd(from: index + 1, to: range.upperBound) else { return nil }
            index = bytes.skipSpace(from: quoteEnd, to: range.upperBound)
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

    // MARK: What libosip2 found

    /// The port, if there is one, and its length with the colon; `nil` when it is no port number.
    func port(_ text: UnsafeMutablePointer<CChar>?) -> (number: UInt16?, length: Int)? {
        guard let digits = unsafe memory.slice(text) else { return (nil, 0) }
        guard let number = digits.decimal(as: UInt16.self) else { return nil }
        return (number, digits.count + 1)
    }

    /// A host name or address; an IPv6 address gets back the brackets that libosip2 took.
    func host(_ text: UnsafeMutablePointer<CChar>?) -> ByteString? {
        guard let host = unsafe memory.slice(text), !host.isEmpty else { return nil }
        var hasColon = false
        let isHost = host.withSpan { bytes in
            for index in 0..<bytes.count {
                if bytes[index] == UInt8(ascii: ":") {
                    hasColon = true
                } else if !bytes[index].isHostByte {
                    return false
                }
            }
            return true
        }
        guard isHost else { return nil }
        guard hasColon else { return host }
        return ByteString([UInt8(ascii: "[")] + host.array + [UInt8(ascii: "]")])
    }
}

extension UInt8 {
    fileprivate var isSchemeByte: Bool {
        isASCIILetter || isASCIIDigit || self == UInt8(ascii: "+") || self == UInt8(ascii: "-")
            || self == UInt8(ascii: ".")
    }

    /// Names with `_` break RFC 3261's grammar and are in use.
    var isHostByte: Bool {
        isASCIILetter || isASCIIDigit || self == UInt8(ascii: ".") || self == UInt8(ascii: "-")
            || self == UInt8(ascii: "_")
    }
}
