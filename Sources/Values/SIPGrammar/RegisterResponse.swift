package import Bytes

/// The parts of a response to the daemon's own REGISTER that decide about its next REGISTER (RFC 3261 section 10.2.4).
package struct RegisterResponse: Sendable {
    /// A contact of the user that the registrar lists, perhaps from another device.
    package struct ListedContact: Hashable, Sendable {
        package let user: ByteString
        /// The seconds until the contact expires; `nil` if the registrar does not say.
        package let expires: UInt32?

        package init(user: ByteString, expires: UInt32?) {
            self.user = user
            self.expires = expires
        }
    }

    package let status: Status
    package var contacts: [ListedContact] = []
    package var expires, minExpires, retryAfter: UInt32?
    /// The digest challenges of all WWW-Authenticate or Proxy-Authenticate fields, in their order.
    package var challenges: [DigestChallenge] = []

    package init(status: Status) { self.status = status }

    /// The maximum numbers of contacts and challenges that are read from a registrar's response.
    private static let mostContacts = 256
    private static let mostChallenges = 8

    package init(_ response: SIPResponse) {
        status = response.status
        let frame = response.frame
        expires = frame.firstValue(of: .expires).flatMap(Self.seconds)
        minExpires = frame.firstValue(of: .minExpires).flatMap(Self.seconds)
        retryAfter = frame.firstValue(of: .retryAfter).flatMap(Self.seconds)
        frame.forEachValue(of: .contact) { value in
            guard contacts.count < Self.mostContacts, let address = NameAddress(value), let user = address.uri.user
            else { return }
            contacts.append(
                ListedContact(
                    user: user.compacted(), expires: address.parameters.value(of: "expires").flatMap(Self.seconds)))
        }
        let name: HeaderName = status.code == 407 ? .proxyAuthenticate : .wwwAuthenticate
        frame.forEachValue(of: name) { row in
            challenges += DigestChallenge.all(in: row).prefix(Self.mostChallenges - challenges.count)
        }
    }

    /// Reads a number of seconds, and ignores text after the digits, such as a comment in Retry-After. A number of more
    /// than 32 bits becomes the largest 32-bit number.
    private static func seconds(_ text: ByteString) -> UInt32? {
        let text = text.unquoted()
        var end = 0
        while end < text.count, text[end].isASCIIDigit { end += 1 }
        guard end > 0 else { return nil }
        return text[0..<end].decimal() ?? .max
    }
}
