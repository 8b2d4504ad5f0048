package import Bytes
package import ProxyCore
package import PushDelivery
package import Registration
package import Timekeeping

/// One thing to write. Whoever submits it keeps its byte strings ``ByteString/compacted()``.
package enum StoreChange: Hashable, Sendable {
    case binding(BindingChange)
    case bucket(AddressOfRecord, BucketChange)
    case addUser(DigestUser)
    case removeUser(name: ByteString, realm: ByteString)
    case switchProvider(PushProvider, isOn: Bool)
    case addKey(APIKey)
    case removeKey(name: String)
    indirect case addApp(StoredMobileApp)
    case removeApp(name: String)
    case deadToken(DeadToken)
    /// Forgets dead tokens recorded before that, and the oldest beyond that many.
    case pruneDeadTokens(before: UnixTime, keeping: Int)
    indirect case timeline(TimelineRecord)
    /// A call under way; its row goes with its record.
    indirect case callOpened(TimelineRecord)
    /// Calls that are over, and whose records are not kept.
    case callsClosed([PushID])
    /// Forgets records of the timeline that were begun before that, and the oldest beyond that many; looks at no more than
    /// the `limit` oldest.
    case pruneTimeline(before: UnixTime, keeping: Int, limit: Int)
    /// What the app on that device says of a push; ``StoreResult/isFound`` tells whether there is such a push.
    case pushMark(PushCode, device: UInt64, PushMark, at: UnixTime)
    /// Pushes of that device that were read, as far as they have rows.
    case pushesRead([PushCode], device: UInt64, at: UnixTime)
    case allPushesRead(device: UInt64, at: UnixTime)
    case deviceRequest(DeviceRequest)
    case deviceRequestFinished(DeviceRequest, DeviceOutcome, at: UnixTime)
    /// Forgets those that ended before that, and the oldest beyond that many.
    case pruneDeviceRequests(before: UnixTime, keeping: Int)
    /// The device that a request has registered.
    case mobileDevice(DeviceRequest)
    /// The devices that a clean-up names.
    case forgetMobileDevices(DeviceRequest)
    case note(key: String, value: String)
    /// At start ``StoreService/keep(_:)`` does it and waits for the disk.
    case addSecret(StoredSecret)
    case removeSecret(name: String, createdAt: UnixTime)
    /// Inserts the row, or moves its end to a later time.
    case dialogRenewal(StoredDialogRenewal)
    /// Forgets the dialogs that ended before that.
    case pruneDialogRenewals(before: UnixTime)
}

/// Names changes that were submitted together, by whoever waits for them.
package enum StoreTicket: Hashable, Sendable {
    case engine(CommitTicket)
    /// A service's own number.
    case service(UInt64)
}

/// What became of changes that were submitted together.
package struct StoreResult: Hashable, Sendable {
    /// `nil` for changes that nobody waits for.
    package let ticket: StoreTicket?
    /// All of them are on the disk, and a loss of power does not take them back; or none counts.
    package let isStored: Bool
    /// The rows that the changes are about were there.
    package var isFound = true
}
