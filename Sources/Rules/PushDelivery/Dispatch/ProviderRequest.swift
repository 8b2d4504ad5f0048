package import Bytes

/// An HTTP request to a provider, complete except for the credential.
package struct ProviderRequest: Hashable, Sendable {
    package struct Header: Hashable, Sendable {
        package let name: String
        package let value: String

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The encryption of the body, which the shell applies before the request is sent.
    package enum Protection: Hashable, Sendable {
        case none
        /// The body is encrypted for a web push subscription (RFC 8291), whose key and secret are in base64url.
        case webPush(publicKey: ByteString, authSecret: ByteString)
    }

    package let method: String
    /// The absolute URL, percent-encoded.
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
