import Bytes

extension ByteString {
    /// The maximum length of a push token in bytes. RuStore documents no limit.
    private static let longestRuStoreToken = 1024

    /// Whether the text can be a push token of RuStore. RuStore documents no form of its push tokens, so the check only
    /// excludes very long texts, spaces, control characters and bytes outside ASCII.
    var isRuStoreToken: Bool {
        !isEmpty && count <= Self.longestRuStoreToken && allSatisfy { (0x21...0x7e).contains($0) }
    }

    /// Whether the text can be a project id in the path of a URL, without percent-encoding.
    var isRuStoreProject: Bool { !isEmpty && allSatisfy(\.isNameByte) }
}
