import Bytes

extension PushOutcome {
    /// The outcome without the push token, which is secret and may be part of the provider's text (T18).
    package func redacted(of token: PushToken) -> PushOutcome {
        switch self {
        case .credentialsRefused(let reason): .credentialsRefused(token.struck(from: reason))
        case .foreignToken(let reason): .foreignToken(token.struck(from: reason))
        case .noConnection(let reason): .noConnection(token.struck(from: reason))
        case .payloadRefused(let reason): .payloadRefused(token.struck(from: reason))
        case .accepted, .acceptedWithNewToken, .tokenDead, .retry, .renewCredential, .noSuitableToken: self
        }
    }
}

extension PushToken {
    /// The minimum length, in bytes, of the parts of a token that `…` replaces. A part of a token below eight bytes can
    /// occur in a text by accident.
    private static let shortestPart = 8

    /// The text with `…` in place of the token and its parts. If the beginning of a token's part is long enough, the
    /// beginning is also replaced.
    package func struck(from text: String) -> String {
        let separators: [UInt8] = [UInt8(ascii: "&"), UInt8(ascii: ":"), UInt8(ascii: "/"), UInt8(ascii: "?")]
        let whole = prid.array
        let parts = ([whole] + whole.split { separators.contains($0) }.map { Array($0) })
            .filter { $0.count >= Self.shortestPart }
        return parts.reduce(Array(text.utf8)) { Self.strike($1, from: $0) }.text
    }

    private static func strike(_ part: [UInt8], from text: [UInt8]) -> [UInt8] {
        var out: [UInt8] = []
        var rest = text[...]
        while let byte = rest.first {
            let common = zip(rest, part).prefix { $0 == $1 }.count
            guard common >= shortestPart else {
                out.append(byte)
                rest = rest.dropFirst()
                continue
            }
            out += "…".utf8
            rest = rest.dropFirst(common)
        }
        return out
    }
}

extension [UInt8] {
    fileprivate var text: String { String(decoding: self, as: UTF8.self) }
}
