package import Addressing
package import Bytes
package import Calling
import ProxyCore
package import PushDelivery
package import Registration
package import Timekeeping

/// A change of the store that a service or an operator orders.
package enum ServiceChange: Hashable, Sendable {
    case addUser(DigestUser)
    case removeUser(name: ByteString, realm: ByteString)
    /// Stores the rules of a user for calls, in place of the user's earlier rules.
    indirect case setRules(StoredUserRules)
    case removeRules(AddressOfRecord)
    case switchProvider(PushProvider, ProviderState)
    /// Adds a key. If another node has just added a key with the same name, ``WriteResult/isFound`` is false, and nothing
    /// changes.
    case addKey(StoredKey)
    case removeKey(name: String)
    /// Adds an app. If another node has just added an app with the same name or id, ``WriteResult/isFound`` is false, and
    /// nothing changes.
    indirect case addApp(StoredMobileApp)
    case removeApp(name: String)
    /// Adds a link with which a phone can set up an account. The user's unused link becomes invalid.
    indirect case addProvisionLink(StoredProvisionLink)
    /// Notes that a phone uses a link, and stores the user's new password. If the link does not exist, is used or has
    /// expired, ``WriteResult/isFound`` is false, and nothing changes.
    indirect case useProvisionLink(ProvisionLinkUse)
    /// Removes the user's unused link.
    case removeProvisionLinks(name: ByteString, realm: ByteString)
    /// Removes links that expired unused before the given time, links that were used before `usedBefore`, and the oldest
    /// used links if more than `keeping` remain.
    case pruneProvisionLinks(at: UnixTime, usedBefore: UnixTime, keeping: Int)
    case forgetMissedCalls([CallRef])
    /// Deletes waiting messages by their numbers.
    case forgetMessages([UInt64])
    /// Deletes the dead tokens that were recorded before the given time. The oldest dead tokens above the number
    /// `keeping` are deleted too.
    case pruneDeadTokens(before: UnixTime, keeping: Int)
    /// Records an app's report about a push; for an unknown push, ``WriteResult/isFound`` is false.
    case pushMark(PushCode, device: DeviceID, PushMark, at: UnixTime)
    case allPushesRead(device: DeviceID, at: UnixTime)
    /// Adds an accepted registration or clean-up of devices.
    case deviceRequest(DeviceRequest)
    case deviceRequestFinished(DeviceRequest, DeviceOutcome, at: UnixTime)
    /// Deletes the device requests that ended before the given time. The oldest ended requests above the number
    /// `keeping` are deleted too.
    case pruneDeviceRequests(before: UnixTime, keeping: Int)
    /// Records the device that a request registered.
    case mobileDevice(DeviceRequest)
    /// Deletes the records of the devices that a clean-up names.
    case forgetMobileDevices(DeviceRequest)
    /// Stores a value under a key of a service, and replaces the key's old value.
    case note(key: String, value: String)
    case addSecret(StoredSecret)
    case removeSecret(name: String, createdAt: UnixTime)
    /// Deletes the renewals of dialogs whose lifetime ended before the given time.
    case pruneDialogRenewals(before: UnixTime)
}

/// The result of changes that a service submitted together.
package struct WriteResult: Hashable, Sendable {
    /// Whether all changes are persisted and survive a power failure; if false, no change was written.
    package let isStored: Bool
    /// Whether the rows that had to be changed existed.
    package let isFound: Bool
}

/// The result of a commit that the engine waits for.
package struct CommitResult: Sendable {
    package let ticket: CommitTicket
    package let succeeded: Bool
}
