package import Timekeeping

/// A key that outlives the process, such as the one that seals dialog tokens.
///
/// Several of one name may be kept, told apart by when they were made: the newest is used, the older ones still open what
/// they sealed. Text made from it never shows the value.
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

/// Until when a dialog lives whose traffic has put off its end.
package struct DialogRenewal: Hashable, Sendable {
    /// The number by which the engine knows the dialog.
    package let digest: UInt64
    package let until: UnixTime
}
