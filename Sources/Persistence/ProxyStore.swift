package import Addressing
package import Bytes
package import Collections
package import ProxyCore
package import PushDelivery
package import Registration
package import Telemetry
package import Timekeeping

/// The store of everything that outlives the process. The shell and the services know no more of it than this; what a
/// row is, only the store behind it knows.
///
/// Reads are questions, each with a name and with values for an answer; they hold up neither calls nor commits. Writes
/// have one verb for each promise:
///
/// - `commit`: on the disk before the answer, or the answer says that nothing was written.
/// - `journal`: written by the next `flushJournal`, after which the end of the process does not take it away; a power failure
///   may.
/// - `record`: on the disk soon; nothing but the end of the process takes it away.
/// - `refresh`: written within seconds; a crash may take it away.
/// - `trace`: written soon, unless too much else waits.
///
/// Changes take effect in the order in which they were handed over, except for refreshed rows. Writes are called on the
/// store's loop, questions from anywhere.
package protocol ProxyStore: AnyObject, Sendable {
    // MARK: Writes of the engine

    /// Called on the loop with what became of the engine's commits, in the order in which they were asked for.
    var finished: ([CommitResult]) -> Void { get set }
    func commit(_ changes: [EngineChange], _ ticket: CommitTicket)
    func journal(_ change: CallChange)
    /// Does nothing when nothing was noted. What cannot be written stops nobody: it is tried again.
    func flushJournal()
    func record(_ changes: [EngineChange])
    /// Writes bindings anew that are already in the store.
    func refresh(_ rows: [StoredBinding])
    func trace(_ changes: [TimelineChange])

    // MARK: Writes of the services

    /// `finished` is called once, on the loop, never from within this call.
    func commit(_ changes: [ServiceChange], finished: @escaping (WriteResult) -> Void)
    func record(_ changes: [ServiceChange])

    // MARK: Questions

    /// The users that follow the given one, by realm and name, each as `name@realm`.
    func userNames(after name: ByteString, in realm: ByteString, limit: Int) async throws(StoreError) -> [String]
    /// The last records of the first of the subjects that has any, the oldest first.
    func timeline(of subjects: [TimelineSubject], limit: Int) async throws(StoreError) -> [TimelineRecord]
    /// What the phones of these devices said last that they are, but for the last seconds.
    func userAgents(of devices: [DeviceID]) async throws(StoreError) -> [DeviceID: ByteString]
    func statistics(_ question: StatisticsQuestion) async throws(StoreError) -> Page<StatisticsRow>
    /// The tokens recorded at that time or later, in the order in which they were recorded.
    func deadTokens(since date: UnixTime, after cursor: PageCursor, limit: Int) async throws(StoreError) -> Page<
        DeadToken
    >
    /// The tokens that an app has registered for a user: all of them, or the given one if it is there.
    func mobileDevices(of user: String, app: String, token: String?) async throws(StoreError) -> [String]
    /// The apps that have registered a token, each with the user.
    func mobileOwners(of token: String) async throws(StoreError) -> [MobileOwner]
    /// The outcome of each request. It is pending unless the request is known to have ended.
    func deviceOutcomes(of requests: [RequestID], app: String) async throws(StoreError) -> [DeviceOutcome]

    // MARK: The start, before anything is written

    func engineState() async throws(StoreError) -> StoredState
    /// The bindings that follow, in the order of their numbers; empty when there are no more.
    func bindings(after device: DeviceID?, limit: Int) async throws(StoreError) -> [StoredBinding]
    /// The calls of the last run that follow, in the order of their numbers; empty when there are no more.
    func calls(after id: UInt64, limit: Int) async throws(StoreError) -> [StoredCall]
    /// Accepted pushes that were not read, those of each device in the order in which they were asked for; empty when
    /// there are no more.
    func unreadPushes(since date: UnixTime, after push: UnreadPush?, limit: Int) async throws(StoreError)
        -> [UnreadPush]
    /// The renewals of dialogs that have not ended by then.
    func dialogRenewals(after date: UnixTime) async throws(StoreError) -> [DialogRenewal]
    /// Ends the calls that were under way when the last run ended without being stopped, and makes their records if
    /// these are kept.
    ///
    /// - Returns: how many records, of which a call has one for each device.
    func cutOffOpenCalls(at date: UnixTime, isKept: Bool) async throws(StoreError) -> Int
    func keys() async throws(StoreError) -> [StoredKey]
    func mobileApps() async throws(StoreError) -> [StoredMobileApp]
    /// Registrations and clean-ups of devices that are not done, in their order.
    func openDeviceRequests() async throws(StoreError) -> [DeviceRequest]
    /// The secrets of that name, the newest first: it is the one to use, and the others open what was sealed before it.
    func secrets(named name: String) async throws(StoreError) -> [StoredSecret]
    /// What was written by ``ServiceChange/note(key:value:)``.
    func note(_ key: String) async throws(StoreError) -> String?
    /// Writes, and returns when the disk has it, so that nothing is sealed with a key that a crash takes away.
    func keep(_ changes: [ServiceChange]) async throws(StoreError)

    // MARK: Care

    /// From now on the store looks after itself, on the loop: it deletes old records, and makes sure that nobody else
    /// gets at it.
    func start() throws(StoreError)
    /// Writes what waits and ends; blocks until the disk has it.
    func close()
    /// Copies the whole store into a file while it is in use.
    ///
    /// - Returns: the bytes of the copy.
    func backUp(to file: String) async throws(BackupFailure) -> Int
    var figures: CounterSet { get }
    /// Why changes are not taken, or pile up; `nil` when all is well.
    var obstacle: String? { get }
}
