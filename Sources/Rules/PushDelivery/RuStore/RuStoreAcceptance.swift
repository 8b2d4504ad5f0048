import Bytes

/// Decides whether a push token is for one of the RuStore projects in the settings.
struct RuStoreAcceptance: TokenAcceptance {
    private let projects: Set<ByteString>

    init(_ settings: RuStoreSettings) {
        let apps = [settings] + settings.apps.values.filter(\.enabled)
        projects = Set(apps.compactMap { $0.projectID.map { ByteString($0) } })
    }

    func problem(with token: PushToken) -> TokenProblem? {
        guard token.prid.isRuStoreToken else { return .ruStoreToken }
        guard !token.param.isEmpty else { return projects.count > 1 ? .ruStoreParamMissing : nil }
        return projects.contains(token.param) ? nil : .ruStoreProject
    }
}

extension ByteString {
    /// The maximum length of a push token in bytes. RuStore documents no limit.
    private static let longestRuStoreToken = 1024

    /// Whether the text can be a push token of RuStore. RuStore documents no form of its push tokens, so the check only
    /// excludes very long texts, spaces, control characters and bytes outside ASCII.
    var isRuStoreToken: Bool {
        !isEmpty && count <= Self.longestRuStoreToken && allSatisfy { (0x21...0x7e).contains($0) }
    }

    /// Whether the text can be a project id in the path of a URL, without percent-encoding.
    var isRuStoreProject: Bool {
        !isEmpty
            && allSatisfy {
                $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
            }
    }
}
