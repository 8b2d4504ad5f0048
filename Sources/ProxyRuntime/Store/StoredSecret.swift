package import Bytes
package import Timekeeping

/// A key that outlives the process, such as the one that seals dialog tokens: a row of the table `secret`.
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

/// How long a dialog lives, when its traffic has renewed that: a row of the table `dialog_renewal`.
package struct StoredDialogRenewal: Hashable, Sendable {
    /// Names the dialog; made by whoever renews it.
    package let digest: ByteString
    package let until: UnixTime

    package init(digest: ByteString, until: UnixTime) {
        self.digest = digest
        self.until = until
    }

    /// With the number that the rules tell dialogs by.
    init(digest number: UInt64, until: UnixTime) {
        self.init(
            digest: ByteString((0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * $0)) }), until: until)
    }

    /// That number; `nil` for a row that nobody of ours has written.
    var number: UInt64? {
        digest.count == 8 ? digest.array.reduce(0 as UInt64) { $0 << 8 | UInt64($1) } : nil
    }
}
