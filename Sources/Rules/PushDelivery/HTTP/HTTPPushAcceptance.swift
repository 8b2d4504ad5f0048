import Bytes

/// Decides which tokens belong to the operator's own servers.
struct HTTPPushAcceptance: TokenAcceptance {
    private let apps: Set<ByteString>

    init(_ settings: HTTPPushSettings) { apps = Set(settings.apps.keys.map { ByteString($0) }) }

    func problem(with token: PushToken) -> TokenProblem? {
        guard !token.param.isEmpty else { return .httpParamMissing }
        guard apps.contains(token.param) else { return .httpApp }
        return token.prid.isPlainText ? nil : .httpToken
    }
}

extension ByteString {
    /// Whether the text is UTF-8 without control characters. Nothing else is known about tokens, because the operator's
    /// server defines them.
    fileprivate var isPlainText: Bool {
        guard let text = String(validating: array, as: UTF8.self) else { return false }
        return text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }
}
