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
        var index = (text.firstIndex(of: UInt8(ascii: "@")) ?? text.firstIndex(of: UInt8(ascii: ":")) ?? -1) + 1
        while index < text.count, text[index] != UInt8(ascii: ";"), text[index] != UInt8(ascii: "?") { index += 1 }
        return index
    }

    /// `name[=value]` between semicolons; empty ones are left out, quoted values are kept whole.
    static func parameters(in text: ByteString) -> [Parameter] {
        text.split(at: [UInt8(ascii: ";")]).compactMap { part in
            guard let equals = part.firstIndex(of: UInt8(ascii: "=")) else {
                let name = part.trimmed()
                return name.isEmpty ? nil : Parameter(name: name, value: nil)
            }
            let name = part[0..<equals].trimmed()
            return name.isEmpty ? nil : Parameter(name: name, value: part[equals + 1..<part.count].trimmed())
        }
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
