package import Addressing
package import Bytes
package import Collections
package import ProxyCore
package import PushDelivery
package import Registration
package import Telemetry
package import Timekeeping

/// The store of everything that outlives the process. The shell and the services know only this protocol. Only the
/// store behind it knows the rows.
///
/// Reads are functions with a name and values for an answer. They delay neither calls nor commits. Each kind of write
/// has one function, with its own promise:
///
/// - `commit`: persisted before the answer, or the answer reports that nothing was written.
/// - `journal`: written by the next `flushJournal`. After that it survives the end of the process, but not always a
///   power failure.
/// - `record`: persisted soon. Only the end of the process can lose it.
/// - `refresh`: written within seconds. A crash can lose it.
/// - `trace`: written soon, unless too many other changes wait.
///
/// Changes take effect in the order of the calls, except for refreshed rows. Call writes on the store's loop; reads may
/// be called from any thread.
package protocol ProxyStore: AnyObject, Sendable {
    // MARK: Writes of the engine

    /// Called on the loop with the results of the engine's commits, in the order of the commits.
    var finished: ([CommitResult]) -> Void { get set }
    func commit(_ changes: [EngineChange], _ ticket: CommitTicket)
    func journal(_ change: CallChange)
    /// Does nothing if the journal has no waiting entries. A failed write stops nothing and is retried.
    func flushJournal()
    func record(_ changes: [EngineChange])
    /// Writes bindings again that are already in the store.
    func refresh(_ rows: [StoredBinding])
    func trace(_ changes: [TimelineChange])

    // MARK: Writes of the services

    /// `finished` is called once, on the loop, never from within this call.
    func commit(_ changes: [ServiceChange], finished: @escaping (WriteResult) -> Void)
    func record(_ changes: [ServiceChange])

    // MARK: Questions

    /// The users after the given one, by realm and name, each as `name@realm`.
    func userNames(after name: ByteString, in realm: ByteString, limit: Int) async throws(StoreError) -> [String]
    /// The last records of the first subject that has any, oldest first.
    func timeline(of subjects: [TimelineSubject], limit: Int) async throws(StoreError) -> [TimelineRecord]
    /// The last User-Agents of these devices, except changes of the last seconds.
    func userAgents(of devices: [DeviceID]) async throws(StoreError) -> [DeviceID: ByteString]
    func statistics(_ question: StatisticsQuestion) async throws(StoreError) -> Page<StatisticsRow>
    /// The tokens recorded at that time or later, in the order of their records.
    func deadTokens(since date: UnixTime, after cursor: PageCursor, limit: Int) async throws(StoreError) -> Page<
        DeadToken
    >
    /// The tokens that an app registered for a user: all of them, or the given one if it exists.
    func mobileDevices(of user: String, app: String, token: String?) async throws(StoreError) -> [String]
    /// The apps that registered a token, each with the user.
    func mobileOwners(of token: String) async throws(StoreError) -> [MobileOwner]
    /// The outcome of each request. It is pending unless the request is known to have ended.
    func deviceOutcomes(of requests: [RequestID], app: String) async throws(StoreError) -> [DeviceOutcome]

    // MARK: The start, before anything is written

    func engineState() async throws(StoreError) -> StoredState
    /// The next bindings, in the order of their numbers; empty at the end.
    func bindings(after device: DeviceID?, limit: Int) async throws(StoreError) -> [StoredBinding]
    /// The next calls of the last run, in the order of their numbers; empty at the end.
    func calls(after id: UInt64, limit: Int) async throws(StoreError) -> [StoredCall]
    /// Accepted pushes that are unread. The pushes of each device are in the order of their requests. Empty at the end.
    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) async throws(StoreError)
        -> [UnreadPush]
    /// The renewals of dialogs that are still alive at that time.
    func dialogRenewals(after date: UnixTime) async throws(StoreError) -> [DialogRenewal]
    func keys() async throws(StoreError) -> [StoredKey]
    func mobileApps() async throws(StoreError) -> [StoredMobileApp]
    /// Unfinished registrations and clean-ups of devices, in their order.
    func openDeviceRequests() async throws(StoreError) -> [DeviceRequest]
    /// The secrets of that name, newest first. The newest one is used for sealing; the others open texts that were
    /// sealed before.
    func secrets(named name: String) async throws(StoreError) -> [StoredSecret]
    /// The value written by ``ServiceChange/note(key:value:)``.
    func note(_ key: String) async throws(StoreError) -> String?
    /// Writes the changes and returns after they are persisted, so that nothing is sealed with a key that a crash could
    /// lose.
    func keep(_ changes: [ServiceChange]) async throws(StoreError)

    // MARK: Care

    /// From now on the store maintains itself on the loop: it deletes old records, and keeps other processes out.
    func start() throws(StoreError)
    /// Writes everything that waits, and closes the store. Blocks until it is persisted.
    func close()
    /// Copies the whole store into a file while it is in use.
    ///
    /// - Returns: the size of the copy in bytes.
    func backUp(to file: String) async throws(BackupFailure) -> Int
    var figures: CounterSet { get }
    /// Why changes are refused or pile up; `nil` if the store works.
    var obstacle: String? { get }
}
