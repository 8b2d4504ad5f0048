package import Bytes

/// An HTTP request to a push provider, complete except for the credential.
package struct ProviderRequest: Hashable, Sendable {
    package struct Header: Hashable, Sendable {
        package let name: String
        package let value: String

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// How the body must be encrypted before the request is sent.
    package enum Protection: Hashable, Sendable {
        case none
        /// Encrypt the push for a web push subscription (RFC 8291), with the subscription's key and secret in
        /// base64url.
        case webPush(publicKey: ByteString, authSecret: ByteString)
    }

    package let method: String
    /// The absolute URL of the request, percent-encoded.
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
