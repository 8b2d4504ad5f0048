import Bytes

/// Decides whether a push token is for one of the Huawei apps in the settings.
struct HMSAcceptance: TokenAcceptance {
    private let apps: Set<ByteString>

    init(_ settings: HMSSettings) {
        let apps = [settings] + settings.apps.values.filter(\.enabled)
        self.apps = Set(apps.compactMap { $0.appID.map { ByteString($0) } })
    }

    func problem(with token: PushToken) -> TokenProblem? {
        guard token.prid.isHMSToken else { return .hmsToken }
        guard !token.param.isEmpty else { return apps.count > 1 ? .hmsParamMissing : nil }
        return apps.contains(token.param) ? nil : .hmsApp
    }
}

extension ByteString {
    /// The maximum length of a push token in bytes. Huawei documents no limit, and its push tokens are shorter than 300
    /// bytes.
    private static let longestHMSToken = 1024

    /// Whether the text can be a push token of Huawei. Huawei documents no form of its push tokens, so the check only
    /// excludes very long texts, spaces, control characters and bytes outside ASCII.
    var isHMSToken: Bool {
        !isEmpty && count <= Self.longestHMSToken && allSatisfy { (0x21...0x7e).contains($0) }
    }

    /// Whether the text can be the id of an app in the path of a URL, without percent-encoding.
    var isHMSApp: Bool {
        !isEmpty && count <= 64 && allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == UInt8(ascii: "-") }
    }
}
