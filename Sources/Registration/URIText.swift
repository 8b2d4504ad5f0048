import Bytes
import SIPGrammar

/// Reads a URI again that the message reader accepted once: a stored contact, the `uri` of digest credentials.
///
/// Not for judging what a peer may send; odd text gives odd parts, never a trap.
enum URIText {
    /// - Returns: `nil` when there is no scheme, or no host in a `sip:` or `sips:` URI.
    static func read(_ text: ByteString) -> SIPURI? {
        guard let colon = text.firstIndex(of: UInt8(ascii: ":")), colon > 0 else { return nil }
        let name = text[0..<colon].lowercased()
        let rest = text[colon + 1..<text.count]
        let scheme: SIPURI.Scheme
        if name == "sip" {
            scheme = .sip
        } else if name == "sips" {
            scheme = .sips
        } else {
            return SIPURI(
                scheme: name == "tel" ? .tel : .other(name), user: name == "tel" ? rest : nil, password: nil,
                host: .empty, port: nil, parameters: [], headers: nil, text: text)
        }

        let end = addressEnd(of: text)
        var user: ByteString?
        var password: ByteString?
        var address = text[colon + 1..<end]
        if let at = address.firstIndex(of: UInt8(ascii: "@")) {
            let userInfo = address[0..<at]
            address = address[at + 1..<address.count]
            if let separator = userInfo.firstIndex(of: UInt8(ascii: ":")) {
                user = userInfo[0..<separator]
                password = userInfo[separator + 1..<userInfo.count]
            } else {
                user = userInfo
            }
        }
        let (host, port) = hostAndPort(address)
        guard !host.isEmpty else { return nil }
        var tail = text[end..<text.count]
        var headers: ByteString?
        if let mark = tail.firstIndex(of: UInt8(ascii: "?")) {
            headers = tail[mark + 1..<tail.count]
            tail = tail[0..<mark]
        }
        return SIPURI(
            scheme: scheme, user: user, password: password, host: host, port: port, parameters: parameters(in: tail),
            headers: headers, text: text)
    }

    /// Where the host and port of a `sip:` URI end: at the first `;` or `?` that does not belong to the user part.
    static func addressEnd(of text: ByteString) -> Int {
        text.withSpan { span in
            var end: Int?
            for index in 0..<span.count {
                switch span[index] {
                case UInt8(ascii: "@"):
                    // What looked like parameters before it was the user part.
                    for index in index..<span.count where span[index].endsAddress { return index }
                    return span.count
                case UInt8(ascii: ";"), UInt8(ascii: "?"): if end == nil { end = index }
                default: break
                }
            }
            return end ?? span.count
        }
    }

    /// `name[=value]` between semicolons; empty ones are left out, quoted values are kept whole.
    static func parameters(in text: ByteString) -> [Parameter] {
        guard !text.isEmpty else { return [] }
        var parameters: [Parameter] = []
        parameters.reserveCapacity(8)
        text.withSpan { span in
            var start = 0
            var equals: Int?
            var index = 0
            while index <= span.count {
                switch index < span.count ? span[index] : UInt8(ascii: ";") {
                case UInt8(ascii: ";"):
                    let name = span.trimmed(start..<(equals ?? index))
                    let value = equals.map { text[span.trimmed($0 + 1..<index)] }
                    if !name.isEmpty { parameters.append(Parameter(name: text[name], value: value)) }
                    start = index + 1
                    equals = nil
                case UInt8(ascii: "=") where equals == nil: equals = index
                case UInt8(ascii: "\""): index = quoteEnd(in: span, from: index + 1)
                default: break
                }
                index += 1
            }
        }
        return parameters
    }

    /// The place of the closing quote, or the last byte when there is none.
    private static func quoteEnd(in span: Span<UInt8>, from start: Int) -> Int {
        var index = start
        while index < span.count, span[index] != UInt8(ascii: "\"") {
            index += span[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(index, span.count - 1)
    }

    private static func hostAndPort(_ text: ByteString) -> (ByteString, UInt16?) {
        var end = text.count
        if !text.isEmpty, text[0] == UInt8(ascii: "[") {
            end = text.firstIndex(of: UInt8(ascii: "]")).map { $0 + 1 } ?? text.count
        } else if let colon = text.firstIndex(of: UInt8(ascii: ":")) {
            end = colon
        }
        guard end < text.count, text[end] == UInt8(ascii: ":") else { return (text[0..<end], nil) }
        return (text[0..<end], text[end + 1..<text.count].decimal())
    }
}

extension UInt8 {
    fileprivate var endsAddress: Bool { self == UInt8(ascii: ";") || self == UInt8(ascii: "?") }
}
