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

/// The store of all data that outlives the process. The rest of the program uses only the protocol ``ProxyStore``; only
/// the implementation knows the tables.
///
/// Reading functions of the store return values, and delay neither calls nor commits. Each kind of write to the store
/// has its own function and promise:
///
/// - `commit`: the answer comes after all changes are persisted, or reports that nothing was written.
/// - `journal`: the next `flushJournal` writes the change. A journaled change survives the end of the process, but not
///   always a power failure.
/// - `record`: the change is persisted soon, and nobody waits for the result. Only the end of the process can lose a
///   recorded change.
/// - `refresh`: the row is written within seconds. A crash may lose a row that was only refreshed.
/// - `trace`: the change is written soon, but is dropped if too many other changes wait.
///
/// Changes take effect in the order in which the store's functions were called; refreshed rows are an exception. The
/// store's writing functions must be called on its loop. The store's reading functions can be called on any thread.
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

    /// Commits changes of a service, and later calls `finished` once, on the event loop.
    func commit(_ changes: [ServiceChange], finished: @escaping (WriteResult) -> Void)
    func record(_ changes: [ServiceChange])

    // MARK: Questions

    /// Returns the users after the given user, sorted by realm and name, with their digest hashes (HA1).
    func users(after name: ByteString, in realm: ByteString, limit: Int) async throws(StoreError) -> [DigestUser]
    /// Returns the names of the users after the given user as `name@realm`, sorted by realm and name. If `realms` is
    /// set, only users of the given realms are returned.
    func userNames(
        after name: ByteString, in realm: ByteString, limit: Int, of realms: [ByteString]?
    ) async throws(StoreError) -> [String]
    /// Returns the last records about one subject, oldest record first: the first of the given subjects that has
    /// records. With `domains`, only records of users in the given domains are found.
    func timeline(
        of subjects: [TimelineSubject], limit: Int, in domains: [ByteString]?
    ) async throws(StoreError) -> [TimelineRecord]
    /// Returns the last User-Agent of each device. A User-Agent that changed in the last seconds may be missing.
    func userAgents(of devices: [DeviceID]) async throws(StoreError) -> [DeviceID: ByteString]
    func statistics(_ question: StatisticsQuestion) async throws(StoreError) -> Page<StatisticsRow>
    /// Returns the counted wakes of all calls that have ended, one row for each provider, app or system.
    func wakes(_ question: WakeQuestion) async throws(StoreError) -> [WakeRow]
    /// Returns the dead tokens that were recorded at the given time or later, in the order of their records. With
    /// `domains`, only tokens of users in the given domains are returned.
    func deadTokens(
        since date: UnixTime, after cursor: PageCursor, limit: Int, in domains: [ByteString]?
    ) async throws(StoreError) -> Page<DeadToken>
    /// Returns the tokens that an app registered for a user; if `token` is not `nil`, returns only this token.
    func mobileDevices(of user: String, app: String, token: String?) async throws(StoreError) -> [String]
    /// Returns the apps that registered a token, each with the user for whom the app registered it.
    func mobileOwners(of token: String) async throws(StoreError) -> [MobileOwner]
    /// Returns the outcome of each device request. A device request that is unknown or unfinished is treated as
    /// pending.
    func deviceOutcomes(of requests: [RequestID], app: String) async throws(StoreError) -> [DeviceOutcome]

    // MARK: The start, before anything is written

    func engineState() async throws(StoreError) -> StoredState
    /// Returns the next bindings, sorted by device number; the result is empty after the last binding.
    func bindings(after device: DeviceID?, limit: Int) async throws(StoreError) -> [StoredBinding]
    /// Returns the next calls from before the restart, sorted by number; the result is empty after the last call.
    func calls(after id: UInt64, limit: Int) async throws(StoreError) -> [StoredCall]
    /// Returns pushes that the provider accepted and the device has not read, sorted by device and then by request
    /// time; the result is empty after the last push.
    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) async throws(StoreError)
        -> [UnreadPush]
    /// Returns the renewals of dialogs whose lifetime has not ended at the given time.
    func dialogRenewals(after date: UnixTime) async throws(StoreError) -> [DialogRenewal]
    func keys() async throws(StoreError) -> [StoredKey]
    /// Returns the push providers that operators have switched off or paused.
    func switchedProviders() async throws(StoreError) -> [PushProvider: ProviderState]
    func mobileApps() async throws(StoreError) -> [StoredMobileApp]
    /// Returns the links with which phones set up accounts, used and unused.
    func provisionLinks() async throws(StoreError) -> [StoredProvisionLink]
    /// Returns the registrations and clean-ups of devices that are not finished, in the order of their arrival.
    func openDeviceRequests() async throws(StoreError) -> [DeviceRequest]
    /// Returns the secrets with the given name, newest first. The newest secret encrypts; each older secret decrypts
    /// only its own texts.
    func secrets(named name: String) async throws(StoreError) -> [StoredSecret]
    /// Returns the value that ``ServiceChange/note(key:value:)`` has written for the given key; `nil` if no value was
    /// written.
    func note(_ key: String) async throws(StoreError) -> String?
    /// Writes the given changes, and returns when they are persisted. The daemon's keys are stored with ``keep(_:)``,
    /// because no text may be encrypted with a key that a crash could lose.
    func keep(_ changes: [ServiceChange]) async throws(StoreError)

    // MARK: Start, end, backup

    /// Starts the store's regular work on the loop: deleting old records and keeping other processes out.
    func start() throws(StoreError)
    /// Writes all waiting changes and closes the store. ``close()`` blocks until all changes are persisted.
    func close()
    /// Copies the whole store into a file while the daemon uses the store.
    ///
    /// - Returns: the size of the copy in bytes.
    func backUp(to file: String) async throws(BackupFailure) -> Int
    var figures: CounterSet { get }
    /// Why the store refuses changes or is too slow; `nil` if the store works.
    var obstacle: String? { get }
    /// Why the store works, but can lose acknowledged changes; `nil` if it cannot.
    var shortcoming: String? { get }
}
