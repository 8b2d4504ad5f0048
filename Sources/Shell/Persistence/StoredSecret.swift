package import Timekeeping

/// A secret key that outlives the process, such as the key that encrypts dialog tokens.
///
/// Several secrets may have the same name and different creation times. The newest secret encrypts; each older secret
/// decrypts only its own texts. The description of a secret never shows its value.
package struct StoredSecret: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    package let name: String
    package let createdAt: UnixTime
    package let value: [UInt8]

    package init(name: String, createdAt: UnixTime, value: [UInt8]) {
        self.name = name
        self.createdAt = createdAt
        self.value = value
    }

    package var description: String { "secret \(name) of \(createdAt.milliseconds)" }
    package var customMirror: Mirror { Mirror(self, children: ["name": name, "createdAt": createdAt]) }
}

/// The new expiry time of a dialog that traffic in the dialog has renewed.
package struct DialogRenewal: Hashable, Sendable {
    /// The 64-bit hash by which the engine identifies the dialog.
    package let digest: UInt64
    package let until: UnixTime
}
