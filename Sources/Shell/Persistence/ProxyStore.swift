package import Addressing
package import Bytes
package import Calling
package import Collections
package import ProxyCore
package import PushDelivery
package import PushPlanning
package import Registration
package import Telemetry
package import Timekeeping

/// The store of all data that outlives the process. The rest of the program uses only this protocol, and only the
/// implementation knows the tables.
///
/// Each read is a function that returns its values, and delays neither calls nor commits. Each kind of write has its
/// own function, with its own promise:
///
/// - `commit`: all changes are persisted before the answer, or the answer reports that nothing was written.
/// - `journal`: the next `flushJournal` writes the change. A journaled change then survives the end of the process, but
///   not always a power failure.
/// - `record`: the change is persisted soon. Only the end of the process can lose a recorded change.
/// - `refresh`: the row is written within seconds. If the daemon crashes, a row that was only refreshed may be lost.
/// - `trace`: the change is written soon, but is dropped if too many other changes wait.
///
/// Changes take effect in the order in which these functions were called, except for refreshed rows. Functions that
/// write must be called on the store's loop. Functions that read can be called on any thread.
package protocol ProxyStore: AnyObject, Sendable {
    // MARK: Writes of the engine

    /// Receives the results of the engine's commits on the loop, in the order of the commits.
    var finished: ([CommitResult]) -> Void { get set }
    func commit(_ changes: [EngineChange], _ ticket: CommitTicket)
    func journal(_ change: CallChange)
    /// Writes the waiting entries of the journal. A failed write of the journal ends no call, and is retried.
    func flushJournal()
    func record(_ changes: [EngineChange])
    /// Writes new values of bindings that are in the store.
    func refresh(_ rows: [StoredBinding])
    func trace(_ changes: [TimelineChange])

    // MARK: Writes of the services

    /// Commits changes of a service, and calls `finished` once, on the loop, after this function has returned.
    func commit(_ changes: [ServiceChange], finished: @escaping (WriteResult) -> Void)
    func record(_ changes: [ServiceChange])

    // MARK: Questions

    /// Returns the users after the given user, sorted by realm and name, with their digest hashes (HA1).
    func users(after name: ByteString, in realm: ByteString, limit: Int) async throws(StoreError) -> [DigestUser]
    /// Returns the names of the users after the given user as `name@realm`, sorted by realm and name. If `realms` is set,
    /// only users of these realms are returned.
    func userNames(
        after name: ByteString, in realm: ByteString, limit: Int, of realms: [ByteString]?
    ) async throws(StoreError) -> [String]
    /// Returns the last records about the first of these subjects that has records, oldest record first. If `domains` is
    /// set, only records of users in these domains exist for the question.
    func timeline(
        of subjects: [TimelineSubject], limit: Int, in domains: [ByteString]?
    ) async throws(StoreError) -> [TimelineRecord]
    /// Returns the last User-Agent of each device. A User-Agent that changed in the last seconds may be missing.
    func userAgents(of devices: [DeviceID]) async throws(StoreError) -> [DeviceID: ByteString]
    func statistics(_ question: StatisticsQuestion) async throws(StoreError) -> Page<StatisticsRow>
    /// Returns the dead tokens that were recorded at this time or later, in the order of their records. If `domains` is
    /// set, only tokens of users in these domains are returned.
    func deadTokens(
        since date: UnixTime, after cursor: PageCursor, limit: Int, in domains: [ByteString]?
    ) async throws(StoreError) -> Page<DeadToken>
    /// Returns the tokens that an app registered for a user, or only `token` if it is not `nil`.
    func mobileDevices(of user: String, app: String, token: String?) async throws(StoreError) -> [String]
    /// Returns the apps that registered a token, each with the user for whom the app registered it.
    func mobileOwners(of token: String) async throws(StoreError) -> [MobileOwner]
    /// Returns the outcome of each device request. A request that is unknown or unfinished counts as pending.
    func deviceOutcomes(of requests: [RequestID], app: String) async throws(StoreError) -> [DeviceOutcome]

    // MARK: The start, before anything is written

    func engineState() async throws(StoreError) -> StoredState
    /// Returns the next bindings, sorted by device number; empty after the last binding.
    func bindings(after device: DeviceID?, limit: Int) async throws(StoreError) -> [StoredBinding]
    /// Returns the next calls of the last run, sorted by number; empty after the last call.
    func calls(after id: UInt64, limit: Int) async throws(StoreError) -> [StoredCall]
    /// Returns pushes that the provider accepted and the device has not read, sorted by device and then by request
    /// time; empty after the last push.
    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) async throws(StoreError)
        -> [UnreadPush]
    /// Returns the renewals of dialogs whose lifetime has not ended at this time.
    func dialogRenewals(after date: UnixTime) async throws(StoreError) -> [DialogRenewal]
    func keys() async throws(StoreError) -> [StoredKey]
    func mobileApps() async throws(StoreError) -> [StoredMobileApp]
    /// Returns the registrations and clean-ups of devices that are not finished, in the order of their arrival.
    func openDeviceRequests() async throws(StoreError) -> [DeviceRequest]
    /// Returns the secrets with this name, newest first. The newest secret seals new texts; the other secrets open
    /// texts that they sealed earlier.
    func secrets(named name: String) async throws(StoreError) -> [StoredSecret]
    /// Returns the value that ``ServiceChange/note(key:value:)`` has written for this key; `nil` if there is none.
    func note(_ key: String) async throws(StoreError) -> String?
    /// Writes the changes and returns when they are persisted. The daemon stores its keys with this function, because
    /// it must never seal a text with a key that a crash could lose.
    func keep(_ changes: [ServiceChange]) async throws(StoreError)

    // MARK: Start, end, backup

    /// Starts the store's regular tasks on the loop: the store deletes old records and keeps other processes out.
    func start() throws(StoreError)
    /// Writes all waiting changes and closes the store. Blocks until all changes are persisted.
    func close()
    /// Copies the whole store into a file while the daemon uses the store.
    ///
    /// - Returns: the size of the copy in bytes.
    func backUp(to file: String) async throws(BackupFailure) -> Int
    var figures: CounterSet { get }
    /// The reason why the store refuses changes or has too many waiting changes; `nil` if the store works.
    var obstacle: String? { get }
}
