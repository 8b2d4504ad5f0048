package import Addressing
package import Bytes

/// The number of one question to the store about the users whom a request concerns.
package struct ReadTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// A subject of a question to the store.
package enum UserSubject: Hashable, Sendable {
    case user(AddressOfRecord)
    /// The user to whom a device belongs; only the store knows the user's name.
    case device(DeviceID)
    /// The account with which a user logs in.
    case account(name: ByteString, realm: ByteString)
}
