package import Addressing
package import Bytes
package import Calling
package import Collections
import Storage
package import ProxyCore
package import PushDelivery
package import PushPlanning
import Reactor
package import Registration
package import Telemetry
package import Timekeeping

/// The store in a database: one thread writes changes, and a second thread reads. The journal of calls is in local
/// files.
///
/// - The class is `@unchecked Sendable`, because only its loop uses its mutable properties after the loop has started.
package final class DatabaseStore: ProxyStore, @unchecked Sendable {
    package var finished: ([CommitResult]) -> Void {
        get { outcomes.finished }
        set { outcomes.finished = newValue }
    }

    private let loop: EventLoop
    private let log: Log
    private let lock: StoreLock
    private let outcomes: StoreOutcomes
    let writer: StoreWriter
    private let reader: StoreReader
    private let backups: StoreBackups?
    private let timeline: TimelineWriting
    private let journal: CallJournal
    /// Retries failed writes of the journal.
    private var journalTimer: LoopTimer?
    /// The lock of a calls folder outside the store's folder, because two stores' settings could name the same calls
    /// folder.
    private let callsLock: FileLock?
    private var lastServiceTicket: UInt64 = 0
    /// Asks the database whether it can lose acknowledged changes.
    var findShortcoming: @Sendable () -> String? = { nil }
    /// Reads users for a node of a cluster; `nil` if one daemon uses the store.
    var nodes: PostgreSQLNodes?
    /// The calls whose changes the other nodes need.
    private var sharedCalls = SharedCallStates()

    /// The parts of a store that depend on the database.
    struct Parts {
        let lock: StoreLock
        let writer: StoreWriter
        let reader: StoreReader
        /// `nil` if the database has its own backups.
        let backups: StoreBackups?
        /// The number of timeline records that the report of wakes has not counted.
        let uncounted: Int
        let journalKey: (key: JournalKey, isFirst: Bool)
    }

    /// Creates a store from its parts.
    ///
    /// - Parameters:
    ///   - parts: lock, writer and reader of the database.
    ///   - outcomes: receives the writer's results.
    ///   - folder: the folder of the call journal.
    ///   - isShared: whether two stores' settings could name the same folder.
    ///   - settings: the settings of the timeline.
    ///   - loop: the loop on which the store is used.
    ///   - log: receives messages about later failures of the store.
    /// - Throws: an error if the folder cannot be used.
    init(
        _ parts: Parts, outcomes: StoreOutcomes, calls folder: String, isShared: Bool,
        timeline settings: TimelineSettings, loop: EventLoop, log: Log
    ) throws(StoreError) {
        (self.loop, self.log, self.outcomes) = (loop, log, outcomes)
        (lock, writer, reader, backups) = (parts.lock, parts.writer, parts.reader, parts.backups)
        timeline = TimelineWriting(settings, writer: writer, uncounted: parts.uncounted, loop: loop)
        do throws(AppendedFile.Failure) {
            try AppendedFile.checkFolder(folder)
        } catch {
            throw StoreError("cannot use the folder of the call journal, \(folder): \(error)")
        }
        callsLock = isShared ? try Self.lockFolder(folder) : nil
        let (key, isFirst) = parts.journalKey
        journal = CallJournal(folder: folder, key: key, isFirstSealed: isFirst, log: log)
        journal.askStore = { [weak self] in self?.mark($0) }
    }

    private static func lockFolder(_ folder: String) throws(StoreError) -> FileLock {
        do throws(AppendedFile.Failure) {
            try AppendedFile.makeFolder(folder)
        } catch {
            throw StoreError("cannot use the folder of the call journal, \(folder): \(error)")
        }
        do throws(FileLock.Failure) {
            return try FileLock(path: "\(folder)/lock", activity: "serves")
        } catch {
            throw StoreError("cannot use the folder of the call journal, \(folder): \(error)")
        }
    }

    // MARK: Writes

    package func commit(_ changes: [EngineChange], _ ticket: CommitTicket) {
        commit(changes.map(RowChange.engine), for: .engine(ticket))
    }

    package func commit(_ changes: [ServiceChange], finished: @escaping (WriteResult) -> Void) {
        lastServiceTicket += 1
        outcomes.waiting[lastServiceTicket] = finished
        commit(changes.map(RowChange.service), for: .service(lastServiceTicket))
    }

    private func commit(_ changes: [RowChange], for ticket: StoreTicket) {
        guard !writer.commit(changes, for: ticket) else { return }
        // The refusal is posted to the loop, because the result must come after `commit` has returned.
        loop.post { [outcomes] in outcomes.arrived([StoreResult(ticket: ticket, isStored: false)]) }
    }

    package func journal(_ change: CallChange) {
        journal.note(change)
        guard let nodes else { return }
        if let invite = HeldInvite(ofPhone: change) { nodes.keep(invite) }
        if let (call, change) = sharedCalls.noted(change) { nodes.note(change, of: call) }
    }

    package func flushJournal() {
        journal.flush(now: loop.now)
        guard let retry = journal.retryAt else { return }
        // A timer retries failed writes of the journal, because no other event may come while a call waits.
        if journalTimer == nil { journalTimer = try? LoopTimer(on: loop) { [weak self] in self?.flushJournal() } }
        if journalTimer?.deadline == nil { journalTimer?.arm(at: retry) }
    }

    /// Writes the journal's serial number into the store. After the serial number, all earlier missed calls are
    /// persisted too, and the journal need not keep them.
    private func mark(_ serial: UInt64) {
        commit([.note(key: Self.journalMark, value: "\(serial)")]) { [journal] in
            if $0.isStored { journal.stored(serial) }
        }
    }

    private static let journalMark = "journal-stored"

    package func record(_ changes: [EngineChange]) { record(changes.map(RowChange.engine)) }
    package func record(_ changes: [ServiceChange]) { record(changes.map(RowChange.service)) }

    private func record(_ changes: [RowChange]) {
        if !writer.record(changes) {
            log.error(
                "the store refuses changes, because its queue is full or the store has stopped",
                [.count: .number(changes.count)])
        }
    }

    package func refresh(_ rows: [StoredBinding]) { _ = writer.refresh(rows) }

    package func trace(_ changes: [TimelineChange]) { timeline.write(changes) }

    // MARK: Questions

    // The writer first writes all waiting changes, because an operator may ask for the record of a call that has just
    // ended.

    package func users(
        after name: ByteString, in realm: ByteString, limit: Int
    ) async throws(StoreError) -> [DigestUser] {
        try await reader.read { try $0.users(after: name, in: realm, limit: limit) }
    }

    package func userNames(
        after name: ByteString, in realm: ByteString, limit: Int, of realms: [ByteString]?
    ) async throws(StoreError) -> [String] {
        try await reader.read { try $0.userNames(after: name, in: realm, limit: limit, of: realms) }
    }

    package func timeline(
        of subjects: [TimelineSubject], limit: Int, in domains: [ByteString]?
    ) async throws(StoreError) -> [TimelineRecord] {
        await writer.writeWaiting()
        return try await reader.read { connection in
            for subject in subjects {
                let records = try connection.timeline(of: subject, limit: limit, in: domains)
                if !records.isEmpty { return records }
            }
            return []
        }
    }

    package func statistics(_ question: StatisticsQuestion) async throws(StoreError) -> Page<StatisticsRow> {
        await writer.writeWaiting()
        return try await reader.read { try $0.statistics(question) }
    }

    package func wakes(_ question: WakeQuestion) async throws(StoreError) -> [WakeRow] {
        // After an upgrade, many records wait to be counted. Each step counts some records in its own commit, so that
        // no commit is slow.
        var left = Int64.max
        while true {
            _ = writer.record([.countWakes(limit: Self.wakesInTurn)])
            await writer.writeWaiting()
            let waiting = try await reader.read { try $0.uncountedRecords() }
            guard waiting >= Self.wakesInTurn, waiting < left else { break }
            left = waiting
        }
        return try await reader.read { try $0.wakes(question) }
    }

    private static let wakesInTurn = 4096

    package func deadTokens(
        since date: UnixTime, after cursor: PageCursor, limit: Int, in domains: [ByteString]?
    ) async throws(StoreError) -> Page<DeadToken> {
        await writer.writeWaiting()
        return try await reader.read { try $0.deadTokens(since: date, after: cursor, limit: limit, in: domains) }
    }

    package func mobileDevices(
        of user: String, app: String, token: String?
    ) async throws(StoreError) -> [String] {
        try await reader.read { try $0.mobileDevices(of: user, app: app, token: token) }
    }

    package func userAgents(of devices: [DeviceID]) async throws(StoreError) -> [DeviceID: ByteString] {
        try await reader.read { try $0.userAgents(of: devices) }
    }

    package func mobileOwners(of token: String) async throws(StoreError) -> [MobileOwner] {
        try await reader.read { try $0.mobileOwners(of: token) }
    }

    package func deviceOutcomes(
        of requests: [RequestID], app: String
    ) async throws(StoreError) -> [DeviceOutcome] {
        try await reader.read { connection in
            var outcomes: [DeviceOutcome] = []
            for id in requests { outcomes.append(try connection.deviceOutcome(of: id, app: app)) }
            return outcomes
        }
    }

    // MARK: The start

    package func engineState() async throws(StoreError) -> StoredState {
        let mark = try await note(Self.journalMark).flatMap { UInt64($0) } ?? 0
        let missed = journal.missedCalls(after: mark)
        if !missed.isEmpty { try await reader.write { try $0.write(missed) } }
        let isShared = nodes != nil
        return try await reader.read { connection in
            var state = StoredState(
                disabledProviders: Set(try connection.providers(.off)),
                pausedProviders: Set(try connection.providers(.paused)))
            // A node of a cluster reads a user when a request needs the user.
            guard !isShared else { return state }
            for user in try connection.users() { state.users.add(user) }
            state.bucketEntries = try connection.bucketEntries()
            state.messages = try connection.messages()
            state.userRules = try connection.userRules()
            return state
        }
    }

    package func bindings(after device: DeviceID?, limit: Int) async throws(StoreError) -> [StoredBinding] {
        try await reader.read { try $0.bindings(after: device, limit: limit) }
    }

    package func calls(after id: UInt64, limit: Int) async throws(StoreError) -> [StoredCall] {
        journal.calls(after: id, limit: limit)
    }

    package func unreadPushes(
        since date: UnixTime, after push: UnreadPush?, limit: Int
    ) async throws(StoreError) -> [UnreadPush] {
        try await reader.read { try $0.unreadPushes(since: date, after: push, limit: limit) }
    }

    package func dialogRenewals(after date: UnixTime) async throws(StoreError) -> [DialogRenewal] {
        try await reader.read { try $0.dialogRenewals(after: date) }
    }

    package func keys() async throws(StoreError) -> [StoredKey] {
        try await reader.read { try $0.keys() }
    }

    package func switchedProviders() async throws(StoreError) -> [PushProvider: ProviderState] {
        try await reader.read { tables in
            var states: [PushProvider: ProviderState] = [:]
            for state in [ProviderState.off, .paused] {
                for provider in try tables.providers(state) { states[provider] = state }
            }
            return states
        }
    }

    package func mobileApps() async throws(StoreError) -> [StoredMobileApp] {
        try await reader.read { try $0.mobileApps() }
    }

    package func provisionLinks() async throws(StoreError) -> [StoredProvisionLink] {
        try await reader.read { try $0.provisionLinks() }
    }

    package func openDeviceRequests() async throws(StoreError) -> [DeviceRequest] {
        try await reader.read { try $0.openDeviceRequests() }
    }

    package func secrets(named name: String) async throws(StoreError) -> [StoredSecret] {
        try await reader.read { try $0.secrets(named: name) }
    }

    package func note(_ key: String) async throws(StoreError) -> String? {
        try await reader.read { try $0.note(key) }
    }

    package func keep(_ changes: [ServiceChange]) async throws(StoreError) {
        try await reader.write { try $0.keep(changes) }
    }

    // MARK: Start, end, backup

    package func start() throws(StoreError) {
        do throws(SystemError) {
            try lock.watch(on: loop, log: log)
            try timeline.start()
        } catch {
            throw StoreError("cannot create a timer: \(error)")
        }
    }

    package func close() {
        nodes?.stop()
        reader.stop()
        backups?.stop()
        writer.stop()
        journalTimer?.disarm()
        journal.close(isStored: writer.failure == nil, now: loop.now)
        callsLock?.release()
        lock.release()
    }

    package func backUp(to file: String) async throws(BackupFailure) -> Int {
        guard let backups else {
            throw .refused(BackupFailure.ownBackups)
        }
        return try await backups.write(to: file)
    }

    package var figures: CounterSet {
        var figures = writer.figures
        figures.count(.timelineDropped, by: timeline.dropped)
        figures.count(.journalFailure, by: journal.failures)
        return figures
    }

    package var shortcoming: String? { findShortcoming() }

    package var obstacle: String? {
        if let failure = writer.failure { return "the store cannot be written: \(failure)" }
        return writer.queueLength < StoreWriterSettings().queueLimit / 2
            ? nil : "the store is too slow: half of its queue is in use"
    }
}
