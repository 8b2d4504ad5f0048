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

extension PushOutcome {
    /// The outcome without the credential of the request, which the provider's text may repeat.
    func redacted(ofCredential credential: String?) -> PushOutcome {
        guard let credential else { return self }
        func struck(_ text: String) -> String { ProviderText.struck(credential, from: text) }
        return switch self {
        case .credentialsRefused(let reason): .credentialsRefused(struck(reason))
        case .foreignToken(let reason): .foreignToken(struck(reason))
        case .noConnection(let reason): .noConnection(struck(reason))
        case .payloadRefused(let reason): .payloadRefused(struck(reason))
        case .accepted, .acceptedWithNewToken, .tokenDead, .retry, .renewCredential, .noSuitableToken: self
        }
    }
}

extension TrialVerdict {
    /// The verdict without the credential of the trial, which the provider's text may repeat.
    package func redacted(ofCredential credential: String?) -> TrialVerdict {
        guard let credential else { return self }
        func struck(_ text: String) -> String { ProviderText.struck(credential, from: text) }
        return switch self {
        case .works: self
        case .reached(let words): .reached(struck(words))
        case .refused(let reason, let cure): .refused(struck(reason), cure: cure)
        case .failed(let reason, let cure): .failed(struck(reason), cure: cure)
        }
    }
}

/// A text from a provider, which may repeat secrets of the request.
enum ProviderText {
    /// The text with `…` in place of the credential: the value of `authorization`, without its first word.
    static func struck(_ credential: String, from text: String) -> String {
        let value = credential.split(separator: " ", maxSplits: 1).last ?? ""
        guard value.utf8.count >= PushToken.shortestPart else { return text }
        return String(decoding: PushToken.strike(Array(value.utf8), from: Array(text.utf8)), as: UTF8.self)
    }
}

extension PushToken {
    /// The minimum length, in bytes, of a part of the token that is replaced by `…`. A part of a token with fewer than
    /// eight bytes can occur in a text by accident.
    fileprivate static let shortestPart = 8

    /// The text with `…` in place of the token and its parts. If the beginning of a token's part is long enough, the
    /// beginning is also replaced.
    package func struck(from text: String) -> String {
        let separators: [UInt8] = [UInt8(ascii: "&"), UInt8(ascii: ":"), UInt8(ascii: "/"), UInt8(ascii: "?")]
        let whole = prid.array
        let parts = ([whole] + whole.split { separators.contains($0) }.map { Array($0) })
            .filter { $0.count >= Self.shortestPart }
        return parts.reduce(Array(text.utf8)) { Self.strike($1, from: $0) }.text
    }

    fileprivate static func strike(_ part: [UInt8], from text: [UInt8]) -> [UInt8] {
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
