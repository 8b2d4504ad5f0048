import Bytes

/// Decides whether a push token is for one of the operator's own push servers in the settings.
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
    /// Whether the text is UTF-8 without control characters. The operator's server defines the form of its tokens, so
    /// the daemon checks only the characters.
    fileprivate var isPlainText: Bool {
        guard let text = String(validating: array, as: UTF8.self) else { return false }
        return text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }
}
