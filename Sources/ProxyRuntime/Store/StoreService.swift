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
        var waiting: [StoreTicket: (StoreResult) -> Void] = [:]
        private let log: Log

        init(log: Log) { self.log = log }

        func arrived(_ results: [StoreResult]) {
            var commits: [CommitResult] = []
            for result in results {
                if result.ticket == StoreService.unawaited {
                    if !result.isStored { log.error("changes that nobody waits for were not stored") }
                } else if result.ticket.rawValue & StoreService.ownMark != 0 {
                    waiting.removeValue(forKey: result.ticket)?(result)
                } else {
                    commits.append(
                        CommitResult(ticket: CommitTicket(result.ticket.rawValue), succeeded: result.isStored))
                }
            }
            if !commits.isEmpty { finished(commits) }
        }
    }

    static let unawaited = StoreTicket(rawValue: 0)
    /// Set in the tickets of ``write(_:finished:)``; the engine's count from 1.
    private static let ownMark: UInt64 = 1 << 63
    private var lastOwnTicket = ownMark

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
        if !gone.isEmpty { _ = writer.submit(gone, for: Self.unawaited) }
    }

    /// Hands over the pushes that were not read, those of each device in the order in which they were asked for.
    func loadUnread(
        since date: UnixTime, _ restore: (PushCode, UnreadPushes.Matter, BindingID, UnixTime) -> Void
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

    func commit(_ changes: [StoredChange], _ ticket: CommitTicket) {
        guard !writer.submit(changes.map(Self.change), for: StoreTicket(rawValue: ticket.number)) else { return }
        // Told later: the engine is in the middle of its own work now.
        loop.post { [relay] in
            relay.arrived([StoreResult(ticket: StoreTicket(rawValue: ticket.number), isStored: false)])
        }
    }

    func record(_ changes: [StoredChange]) {
        switch changes.first {
        case .timeline, .callOpened, .pushesRead: timeline.write(changes.map(Self.change))
        case .binding, .bucket, .deadToken, .dialogRenewed, nil: record(changes.map(Self.change))
        }
    }

    /// The same for changes that are not the engine's.
    func record(_ changes: [StoreChange]) {
        if !writer.submit(changes, for: Self.unawaited, isAwaited: false) {
            log.error("the store takes no more changes", [.count: .number(changes.count)])
        }
    }

    func recordLate(_ changes: [StoredChange]) {
        let rows = changes.compactMap { change -> StoredBinding? in
            guard case .binding(.upsert(let row)) = change else { return nil }
            return row
        }
        _ = writer.submitLazily(rows)
    }

    /// Writes changes of a service. `finished` is called on the loop, never from within: whether they are on the disk.
    func write(_ changes: [StoreChange], finished: @escaping (Bool) -> Void) {
        submit(changes) { finished($0.isStored) }
    }

    /// The same for changes of rows that may not be there.
    func submit(_ changes: [StoreChange], finished: @escaping (StoreResult) -> Void) {
        lastOwnTicket += 1
        let ticket = StoreTicket(rawValue: lastOwnTicket)
        relay.waiting[ticket] = finished
        guard !writer.submit(changes, for: ticket) else { return }
        loop.post { [relay] in relay.arrived([StoreResult(ticket: ticket, isStored: false)]) }
    }

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

    static func change(_ change: StoredChange) -> StoreChange {
        switch change {
        case .binding(let change): .binding(change)
        case .bucket(let change): .bucket(change.aor, change.change)
        case .timeline(let record): .timeline(record)
        case .callOpened(let record): .callOpened(record)
        case .deadToken(let dead): .deadToken(dead)
        case .pushesRead(let codes, let device, let date): .pushesRead(codes, device: device, at: date)
        case .dialogRenewed(let digest, let until):
            .dialogRenewal(StoredDialogRenewal(digest: digest, until: until))
        }
    }
}
