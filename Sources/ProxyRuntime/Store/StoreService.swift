import Addressing
package import ProxyCore
package import PushDelivery
package import Reactor
package import Registration
package import Telemetry
import Storage
package import Timekeeping

/// What became of a commit the engine waits for.
package struct CommitResult: Sendable {
    package let ticket: CommitTicket
    package let succeeded: Bool
}

/// The shard's way to the store: commits that are waited for, changes that are not, and what was there at start.
///
/// The writing happens on the writer's own thread.
///
/// - `@unchecked Sendable` because it lives on its shard's loop and is used there alone.
package final class StoreService: @unchecked Sendable {
    /// The fates of commits, in the order in which they were asked for.
    package var finished: ([CommitResult]) -> Void {
        get { relay.finished }
        set { relay.finished = newValue }
    }

    private let path: String
    let loop: EventLoop
    private let log: Log
    private let relay: Relay
    private let writer: StoreWriter
    private let timeline: TimelineWriting

    /// Brings results from the writer's thread to the loop.
    ///
    /// - `@unchecked Sendable` because `finished` is used on the loop alone.
    private final class Relay: @unchecked Sendable {
        var finished: ([CommitResult]) -> Void = { _ in }
        /// Those who wait for changes of their own.
        var waiting: [UInt64: (StoreResult) -> Void] = [:]
        private let log: Log

        init(log: Log) { self.log = log }

        func arrived(_ results: [StoreResult]) {
            var commits: [CommitResult] = []
            for result in results {
                switch result.ticket {
                case .engine(let ticket): commits.append(CommitResult(ticket: ticket, succeeded: result.isStored))
                case .service(let number): waiting.removeValue(forKey: number)?(result)
                case nil where !result.isStored: log.error("changes that nobody waits for were not stored")
                case nil: break
                }
            }
            if !commits.isEmpty { finished(commits) }
        }
    }

    /// Of the services.
    private var lastTicket: UInt64 = 0

    package init(
        path: String, timeline settings: TimelineSettings = TimelineSettings(), loop: EventLoop, log: Log
    ) throws(StartError) {
        self.path = path
        self.loop = loop
        self.log = log
        let relay = Relay(log: log)
        self.relay = relay
        do {
            writer = try StoreWriter(path: path, log: log) { results in
                loop.post { relay.arrived(results) }
            }
        } catch {
            throw StartError("store \(path): \(error)")
        }
        timeline = TimelineWriting(settings, writer: writer, loop: loop)
    }

    /// Old records of the timeline are deleted from now on.
    func start() throws(StartError) {
        do {
            try timeline.start()
        } catch {
            throw StartError("no timer: \(error)")
        }
    }

    /// Writes what waits and ends; blocks until the disk has it.
    package func close() { writer.stop() }

    // MARK: Start

    package func load() throws(StartError) -> StoredState {
        var users = UserDirectory()
        var entries: [StoredBucketEntry] = []
        do {
            var reader = try StoreReader(path: path, mayMigrate: false)
            try reader.forEachUser { users.add($0) }
            try reader.forEachBucketEntry { entries.append(StoredBucketEntry(aor: $0, entry: $1)) }
            let switches = try reader.providerSwitches()
            return StoredState(
                users: users, bucketEntries: entries,
                disabledProviders: Set(switches.filter { !$0.value }.map(\.key)))
        } catch {
            throw StartError("store \(path): \(error)")
        }
    }

    /// Hands every stored binding over; those that are refused are deleted.
    package func loadBindings(_ restore: (StoredBinding) -> Bool) throws(StartError) {
        var gone: [StoreChange] = []
        do {
            var reader = try StoreReader(path: path, mayMigrate: false)
            try reader.forEachBinding { row in
                if !restore(row) { gone.append(.binding(.delete(row.id))) }
            }
        } catch {
            throw StartError("store \(path): \(error)")
        }
        if !gone.isEmpty { _ = writer.record(gone) }
    }

    /// Hands over the pushes that were not read, those of each device in the order in which they were asked for.
    func loadUnread(
        since date: UnixTime, _ restore: (PushCode, UnreadPushes.Matter, DeviceID, UnixTime) -> Void
    ) throws(StartError) {
        do {
            var reader = try StoreReader(path: path, mayMigrate: false)
            try reader.forEachUnreadPush(since: date, restore)
        } catch {
            throw StartError("store \(path): \(error)")
        }
    }

    /// Calls that were under way when the last run ended without being stopped get their records.
    ///
    /// - Returns: how many, each device of a call for one.
    func cutOffOpenCalls(at date: UnixTime, isKept: Bool) throws(StartError) -> Int {
        do {
            return try StoreSession.open(path, mayCreate: false).cutOffOpenCalls(at: date, isKept: isKept)
        } catch {
            throw StartError("store \(path): \(error)")
        }
    }

    func loadNotes() throws(StartError) -> [String: String] {
        do {
            var reader = try StoreReader(path: path, mayMigrate: false)
            return try reader.notes()
        } catch {
            throw StartError("store \(path): \(error)")
        }
    }

    /// The secrets of that name, the newest first: it is the one to use, and the others open what was sealed before it.
    package func loadSecrets(named name: String) throws(StartError) -> [StoredSecret] {
        do {
            var reader = try StoreReader(path: path, mayMigrate: false)
            return try reader.secrets(named: name)
        } catch {
            throw StartError("store \(path): \(error)")
        }
    }

    /// Writes a secret and waits for the disk, so that nothing is sealed with a key that a crash takes away. At start only:
    /// it holds up the loop. While the daemon runs, ``write(_:finished:)`` with `addSecret` does the same.
    package func keep(_ secret: StoredSecret) throws(StartError) {
        do {
            let connection = try StoreSession.open(path, mayCreate: false)
            try connection.transaction { () throws(SQLError) in try connection.write(secret) }
        } catch {
            throw StartError("store \(path): \(error)")
        }
    }

    /// Hands over the dialogs that were renewed and have not ended. Rows are written by ``record(_:)`` with
    /// `dialogRenewal`, and go with `pruneDialogRenewals`.
    package func loadDialogRenewals(
        after date: UnixTime, _ restore: (StoredDialogRenewal) -> Void
    ) throws(StartError) {
        do {
            var reader = try StoreReader(path: path, mayMigrate: false)
            try reader.forEachDialogRenewal(after: date, restore)
        } catch {
            throw StartError("store \(path): \(error)")
        }
    }

    package func loadKeys() throws(StartError) -> [APIKey] {
        var keys: [APIKey] = []
        do {
            var reader = try StoreReader(path: path, mayMigrate: false)
            try reader.forEachKey { keys.append($0) }
        } catch {
            throw StartError("store \(path): \(error)")
        }
        return keys
    }

    func loadApps() throws(StartError) -> [StoredMobileApp] {
        var apps: [StoredMobileApp] = []
        do {
            var reader = try StoreReader(path: path, mayMigrate: false)
            try reader.forEachApp { apps.append($0) }
        } catch {
            throw StartError("store \(path): \(error)")
        }
        return apps
    }

    func loadDeviceRequests() throws(StartError) -> [DeviceRequest] {
        var requests: [DeviceRequest] = []
        do {
            var reader = try StoreReader(path: path, mayMigrate: false)
            try reader.forEachOpenDeviceRequest { requests.append($0) }
        } catch {
            throw StartError("store \(path): \(error)")
        }
        return requests
    }

    // MARK: Changes

    /// Changes of the engine, on the disk before ``finished`` says so.
    func commit(_ changes: [EngineChange], _ ticket: CommitTicket) {
        commit(changes.map(Self.change), for: .engine(ticket))
    }

    /// Changes of a service, whose `finished` is called on the loop, never from within.
    func commit(_ changes: [StoreChange], finished: @escaping (StoreResult) -> Void) {
        lastTicket += 1
        relay.waiting[lastTicket] = finished
        commit(changes, for: .service(lastTicket))
    }

    private func commit(_ changes: [StoreChange], for ticket: StoreTicket) {
        guard !writer.commit(changes, for: ticket) else { return }
        // Told later: whoever asks is in the middle of other work now.
        loop.post { [relay] in relay.arrived([StoreResult(ticket: ticket, isStored: false)]) }
    }

    /// Changes that are on the disk soon; nobody hears of it.
    func record(_ changes: [EngineChange]) { record(changes.map(Self.change)) }

    func record(_ changes: [StoreChange]) {
        if !writer.record(changes) {
            log.error("the store takes no more changes", [.count: .number(changes.count)])
        }
    }

    /// Rows whose loss harms nobody.
    func refresh(_ rows: [StoredBinding]) { _ = writer.refresh(rows) }

    /// What may be lost when there is too much of it.
    func trace(_ changes: [TimelineChange]) { timeline.write(changes.map(Self.change)) }

    var figures: CounterSet {
        var figures = writer.figures
        figures.count(.timelineDropped, by: timeline.dropped)
        return figures
    }

    /// Why changes are not taken, or pile up; `nil` when all is well.
    var obstacle: String? {
        if let failure = writer.failure { return "the store cannot be written: \(failure)" }
        return writer.queueLength < StoreWriterSettings().queueLimit / 2 ? nil : "the store has fallen behind"
    }

    static func change(_ change: EngineChange) -> StoreChange {
        switch change {
        case .binding(let change): .binding(change)
        case .bucket(let change): .bucket(change.aor, change.change)
        case .deadToken(let dead): .deadToken(dead)
        case .dialogRenewed(let digest, let until):
            .dialogRenewal(StoredDialogRenewal(digest: digest, until: until))
        }
    }
    private static func change(_ change: TimelineChange) -> StoreChange {
        switch change {
        case .record(let record): .timeline(record)
        case .callOpened(let record): .callOpened(record)
        case .pushesRead(let codes, let device, let date): .pushesRead(codes, device: device, at: date)
        }
    }
}
