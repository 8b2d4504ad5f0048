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

/// The store of all data that outlives the process. The shell and the services use only this protocol, and only its
/// implementation knows the tables.
///
/// Each read is a function that returns values. Reads delay neither calls nor commits. Each kind of write has one
/// function, with its own promise:
///
/// - `commit`: persisted before the answer, or the answer reports that nothing was written.
/// - `journal`: written by the next `flushJournal`. After that it survives the end of the process, but not always a
///   power failure.
/// - `record`: persisted soon. Only the end of the process can lose it.
/// - `refresh`: written within seconds. A crash can lose it.
/// - `trace`: written soon, unless too many other changes wait.
///
/// Changes take effect in the order of the calls, except for refreshed rows. Call writes on the store's loop. Reads may
/// be called from any thread.
package protocol ProxyStore: AnyObject, Sendable {
    // MARK: Writes of the engine

    /// Called on the loop with the results of the engine's commits, in the order of the commits.
    var finished: ([CommitResult]) -> Void { get set }
    func commit(_ changes: [EngineChange], _ ticket: CommitTicket)
    func journal(_ change: CallChange)
    /// Writes the waiting entries of the journal. Does nothing if no entry waits. A failed write stops nothing and is
    /// retried.
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

    /// The users after the given one, by realm and name, with their hashes.
    func users(after name: ByteString, in realm: ByteString, limit: Int) async throws(StoreError) -> [DigestUser]
    /// The names of the users after the given one, sorted by realm and name. Each has the form `name@realm`.
    func userNames(after name: ByteString, in realm: ByteString, limit: Int) async throws(StoreError) -> [String]
    /// The last records about the first subject in the list that has records, oldest first.
    func timeline(of subjects: [TimelineSubject], limit: Int) async throws(StoreError) -> [TimelineRecord]
    /// The last User-Agents of these devices. Changes of the last seconds may be missing.
    func userAgents(of devices: [DeviceID]) async throws(StoreError) -> [DeviceID: ByteString]
    func statistics(_ question: StatisticsQuestion) async throws(StoreError) -> Page<StatisticsRow>
    /// The tokens that were recorded at this time or later, in the order of their records.
    func deadTokens(since date: UnixTime, after cursor: PageCursor, limit: Int) async throws(StoreError) -> Page<
        DeadToken
    >
    /// The tokens that an app registered for a user. With `token`, only that token is looked up.
    func mobileDevices(of user: String, app: String, token: String?) async throws(StoreError) -> [String]
    /// The apps that registered a token, each with the user for whom it did.
    func mobileOwners(of token: String) async throws(StoreError) -> [MobileOwner]
    /// The outcome of each request. Unknown and unfinished requests are pending.
    func deviceOutcomes(of requests: [RequestID], app: String) async throws(StoreError) -> [DeviceOutcome]

    // MARK: The start, before anything is written

    func engineState() async throws(StoreError) -> StoredState
    /// The next bindings, sorted by device number; empty at the end.
    func bindings(after device: DeviceID?, limit: Int) async throws(StoreError) -> [StoredBinding]
    /// The next calls of the last run, sorted by number; empty at the end.
    func calls(after id: UInt64, limit: Int) async throws(StoreError) -> [StoredCall]
    /// Accepted pushes that the devices have not read. The pushes of each device are in the order of their requests.
    /// Empty at the end.
    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) async throws(StoreError)
        -> [UnreadPush]
    /// The renewals of dialogs whose lifetime has not ended at this time.
    func dialogRenewals(after date: UnixTime) async throws(StoreError) -> [DialogRenewal]
    func keys() async throws(StoreError) -> [StoredKey]
    func mobileApps() async throws(StoreError) -> [StoredMobileApp]
    /// The registrations and clean-ups of devices that are not finished, in the order of their arrival.
    func openDeviceRequests() async throws(StoreError) -> [DeviceRequest]
    /// The secrets with this name, newest first. The newest one seals new texts; the others open texts that were sealed
    /// earlier.
    func secrets(named name: String) async throws(StoreError) -> [StoredSecret]
    /// The value that was written by ``ServiceChange/note(key:value:)``; `nil` if none was.
    func note(_ key: String) async throws(StoreError) -> String?
    /// Writes the changes and returns when they are persisted. Thus the daemon never seals with a key that a crash
    /// could lose.
    func keep(_ changes: [ServiceChange]) async throws(StoreError)

    // MARK: Start, end, backup

    /// Starts the maintenance of the store on the loop: old records are deleted, and other processes are kept out.
    func start() throws(StoreError)
    /// Writes all waiting changes and closes the store. Blocks until they are persisted.
    func close()
    /// Copies the whole store into a file while it is in use.
    ///
    /// - Returns: the size of the copy in bytes.
    func backUp(to file: String) async throws(BackupFailure) -> Int
    var figures: CounterSet { get }
    /// Why changes are refused or accumulate; `nil` if the store works.
    var obstacle: String? { get }
}
