package import Bytes

/// One HTTP request to a provider, all but our credential.
package struct ProviderRequest: Hashable, Sendable {
    package struct Header: Hashable, Sendable {
        package let name: String
        package let value: String

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// What must be done to the body before it leaves, for which this layer has no means.
    package enum Protection: Hashable, Sendable {
        case none
        /// To be encrypted for a subscription (RFC 8291); key and secret in base64url.
        case webPush(publicKey: ByteString, authSecret: ByteString)
    }

    package let method: String
    /// Absolute, percent-encoded.
    package let url: String
    package let headers: [Header]
    package let body: [UInt8]
    package let protection: Protection

    init(
        method: String = "POST", url: String, headers: [Header], body: [UInt8], protection: Protection = .none
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.protection = protection
    }
}
