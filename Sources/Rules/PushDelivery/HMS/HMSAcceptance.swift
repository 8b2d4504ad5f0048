import Bytes

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
        !isEmpty && count <= 64 && allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "-") }
    }
}
