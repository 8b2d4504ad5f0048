import Addressing
import Bytes
import Calling
import Collections
import Messaging
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import Timekeeping

/// The tables of the store: the questions that each database answers with its own SQL. The functions have the promises
/// of ``ProxyStore``.
protocol StoreTables: CopyEnd {
    func users() throws -> [DigestUser]
    func users(after name: ByteString, in realm: ByteString, limit: Int) throws -> [DigestUser]
    func userNames(
        after name: ByteString, in realm: ByteString, limit: Int, of realms: [ByteString]?
    ) throws -> [String]
    func userRules() throws -> [StoredUserRules]
    func userRules(of aor: AddressOfRecord) throws -> StoredUserRules?
    func providers(_ state: ProviderState) throws -> [PushProvider]

    func bindings(after device: DeviceID?, limit: Int) throws -> [StoredBinding]
    func userAgents(of devices: [DeviceID]) throws -> [DeviceID: ByteString]
    func bucketEntries() throws -> [StoredBucketEntry]
    func messages() throws -> [StoredMessage]
    func dialogRenewals(after date: UnixTime) throws -> [DialogRenewal]

    func timeline(of subject: TimelineSubject, limit: Int, in domains: [ByteString]?) throws -> [TimelineRecord]
    /// Returns the last refused requests of the subject, oldest first.
    func refusals(of subject: TimelineSubject, limit: Int, in domains: [ByteString]?) throws -> [TimelineRecord]
    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) throws -> [UnreadPush]
    func statistics(_ question: StatisticsQuestion) throws -> Page<StatisticsRow>
    func wakes(_ question: WakeQuestion) throws -> [WakeRow]
    /// The number of timeline records that are not counted yet; a complete report of wakes needs 0.
    func uncountedRecords() throws -> Int64
    func deadTokens(
        since date: UnixTime, after cursor: PageCursor, limit: Int, in domains: [ByteString]?
    ) throws -> Page<DeadToken>

    func keys() throws -> [StoredKey]
    func mobileApps() throws -> [StoredMobileApp]
    func mobileDevices(of user: String, app: String, token: String?) throws -> [String]
    func mobileOwners(of token: String) throws -> [MobileOwner]
    func deviceOutcome(of id: RequestID, app: String) throws -> DeviceOutcome
    func openDeviceRequests() throws -> [DeviceRequest]
    func provisionLinks() throws -> [StoredProvisionLink]
    func secrets(named name: String) throws -> [StoredSecret]
    func note(_ key: String) throws -> String?

    // MARK: Writes of a command, and of the daemon's start

    /// Writes all changes or, if a change fails, none. Returns when the changes are persisted.
    func keep(_ changes: [ServiceChange]) throws
    /// Writes missed calls that were journaled but not stored before the restart.
    func write(_ changes: [StoredBucketChange]) throws
}

extension StoreTables {
    func timeline(of subject: TimelineSubject, limit: Int) throws -> [TimelineRecord] {
        try timeline(of: subject, limit: limit, in: nil)
    }
}
