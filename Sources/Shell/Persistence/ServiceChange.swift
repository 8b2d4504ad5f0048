package import Addressing
package import Bytes
package import ProxyCore
package import PushDelivery
package import Registration
package import Timekeeping

/// What a service or an operator changes.
package enum ServiceChange: Hashable, Sendable {
    case addUser(DigestUser)
    case removeUser(name: ByteString, realm: ByteString)
    case switchProvider(PushProvider, isOn: Bool)
    case addKey(StoredKey)
    case removeKey(name: String)
    indirect case addApp(StoredMobileApp)
    case removeApp(name: String)
    case forgetMissedCalls([CallRef])
    /// Messages that wait, by their numbers.
    case forgetMessages([UInt64])
    /// Forgets dead tokens recorded before that, and the oldest beyond that many.
    case pruneDeadTokens(before: UnixTime, keeping: Int)
    /// What the app on that device says of a push; ``WriteResult/isFound`` tells whether there is such a push.
    case pushMark(PushCode, device: DeviceID, PushMark, at: UnixTime)
    case allPushesRead(device: DeviceID, at: UnixTime)
    /// A registration or clean-up that is accepted with this.
    case deviceRequest(DeviceRequest)
    case deviceRequestFinished(DeviceRequest, DeviceOutcome, at: UnixTime)
    /// Forgets requests that ended before that, and of the others that have ended the oldest beyond that many.
    case pruneDeviceRequests(before: UnixTime, keeping: Int)
    /// The device that a request has registered.
    case mobileDevice(DeviceRequest)
    /// The devices that a clean-up names.
    case forgetMobileDevices(DeviceRequest)
    /// A value that a service keeps under a key of its own; an earlier one is replaced.
    case note(key: String, value: String)
    case addSecret(StoredSecret)
    case removeSecret(name: String, createdAt: UnixTime)
    /// Forgets the dialogs that ended before that.
    case pruneDialogRenewals(before: UnixTime)
}

/// What became of changes that a service handed over together.
package struct WriteResult: Hashable, Sendable {
    /// Whether all of them are on the disk, where a loss of power does not take them back; otherwise none counts.
    package let isStored: Bool
    /// Whether the rows that the changes are about were there.
    package let isFound: Bool
}

/// What became of a commit the engine waits for.
package struct CommitResult: Sendable {
    package let ticket: CommitTicket
    package let succeeded: Bool
}
