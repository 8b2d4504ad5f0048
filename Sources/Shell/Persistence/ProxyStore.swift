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

/// The store of all data that outlives the process. The shell and the services use only this protocol; the tables are
/// known only to its implementation.
///
/// Each read is a function that returns its values. Reads delay neither calls nor commits. Each kind of write has one
/// function, with its own promise:
///
/// - `commit`: persisted before the answer, or the answer reports that nothing was written.
/// - `journal`: the change is written by the next `flushJournal`. After the call, the change survives the end of the
///   process, but not always a power failure.
/// - `record`: persisted soon. Only the end of the process can lose a recorded change.
/// - `refresh`: written within seconds. A crash can lose a refreshed row.
/// - `trace`: the change is written soon, unless too many other changes wait.
///
/// Changes take effect in the order of the calls, except for refreshed rows. Call the functions that write on the
/// store's loop. The functions that read may be called from any thread.
package protocol ProxyStore: AnyObject, Sendable {
    // MARK: Writes of the engine

    /// Receives the results of the engine's commits, on the loop, in the order of the commits.
    var finished: ([CommitResult]) -> Void { get set }
    func commit(_ changes: [EngineChange], _ ticket: CommitTicket)
    func journal(_ change: CallChange)
    /// Writes the waiting entries of the journal. If no entry waits, the function does nothing. A failed write of the
    /// journal ends no call, and is retried.
    func flushJournal()
    func record(_ changes: [EngineChange])
    /// Writes new values of bindings that are already in the store.
    func refresh(_ rows: [StoredBinding])
    func trace(_ changes: [TimelineChange])

    // MARK: Writes of the services

    /// Commits changes of a service. `finished` is called once, on the loop, after this function has returned.
    func commit(_ changes: [ServiceChange], finished: @escaping (WriteResult) -> Void)
    func record(_ changes: [ServiceChange])

    // MARK: Questions

    /// The next users after the given user, sorted by realm and name, with their hashes.
    func users(after name: ByteString, in realm: ByteString, limit: Int) async throws(StoreError) -> [DigestUser]
    /// The names of the next users after the given user, sorted by realm and name. Each name has the form `name@realm`.
    func userNames(after name: ByteString, in realm: ByteString, limit: Int) async throws(StoreError) -> [String]
    /// The last records about the first subject in the list that has records, oldest first.
    func timeline(of subjects: [TimelineSubject], limit: Int) async throws(StoreError) -> [TimelineRecord]
    /// The last User-Agents of these devices. The result may lack User-Agents that changed in the last seconds.
    func userAgents(of devices: [DeviceID]) async throws(StoreError) -> [DeviceID: ByteString]
    func statistics(_ question: StatisticsQuestion) async throws(StoreError) -> Page<StatisticsRow>
    /// The dead tokens that were recorded at this time or later, in the order of their records.
    func deadTokens(since date: UnixTime, after cursor: PageCursor, limit: Int) async throws(StoreError) -> Page<
        DeadToken
    >
    /// The tokens that an app registered for a user. If `token` is set, only this token is looked up.
    func mobileDevices(of user: String, app: String, token: String?) async throws(StoreError) -> [String]
    /// The apps that registered a token, each with the user for whom the app registered it.
    func mobileOwners(of token: String) async throws(StoreError) -> [MobileOwner]
    /// The outcome of each request. A request that is unknown or unfinished counts as pending.
    func deviceOutcomes(of requests: [RequestID], app: String) async throws(StoreError) -> [DeviceOutcome]

    // MARK: The start, before anything is written

    func engineState() async throws(StoreError) -> StoredState
    /// The next bindings, sorted by device number; empty at the end.
    func bindings(after device: DeviceID?, limit: Int) async throws(StoreError) -> [StoredBinding]
    /// The next calls of the last run, sorted by number; empty at the end.
    func calls(after id: UInt64, limit: Int) async throws(StoreError) -> [StoredCall]
    /// Accepted pushes that the devices have not read. The pushes of each device are in the order of their requests.
    /// The page is empty at the end.
    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) async throws(StoreError)
        -> [UnreadPush]
    /// The renewals of dialogs whose lifetime has not ended at this time.
    func dialogRenewals(after date: UnixTime) async throws(StoreError) -> [DialogRenewal]
    func keys() async throws(StoreError) -> [StoredKey]
    func mobileApps() async throws(StoreError) -> [StoredMobileApp]
    /// The registrations and clean-ups of devices that are not finished, in the order of their arrival.
    func openDeviceRequests() async throws(StoreError) -> [DeviceRequest]
    /// The secrets with this name, newest first. The newest secret seals new texts; the other secrets open texts that
    /// were sealed earlier.
    func secrets(named name: String) async throws(StoreError) -> [StoredSecret]
    /// The value that ``ServiceChange/note(key:value:)`` has written; `nil` if there is none.
    func note(_ key: String) async throws(StoreError) -> String?
    /// Writes the changes and returns when they are persisted. The daemon stores its keys with this function, so that
    /// it never seals with a key that a crash could lose.
    func keep(_ changes: [ServiceChange]) async throws(StoreError)

    // MARK: Start, end, backup

    /// Starts the maintenance of the store on the loop, which deletes old records and keeps other processes out.
    func start() throws(StoreError)
    /// Writes all waiting changes and closes the store. Blocks until all changes are persisted.
    func close()
    /// Copies the whole store into a file while it is in use.
    ///
    /// - Returns: the size of the copy in bytes.
    func backUp(to file: String) async throws(BackupFailure) -> Int
    var figures: CounterSet { get }
    /// The reason why changes are refused or accumulate; `nil` if the store works.
    var obstacle: String? { get }
}
