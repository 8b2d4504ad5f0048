package import ProxyCore
package import PushDelivery
package import Reactor
package import Registration
package import SIPGrammar
package import Telemetry

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
    private let loop: EventLoop
    private let log: Log
    private let relay: Relay
    private let writer: StoreWriter
    private let timeline: TimelineWriting

    /// Brings results from the writer's thread to the loop.
    ///
    /// - `@unchecked Sendable` because `finished` is used on the loop alone.
    private final class Relay: @unchecked Sendable {
        var finished: ([CommitResult]) -> Void = { _ in }
        private let log: Log

        init(log: Log) { self.log = log }

        func arrived(_ results: [StoreResult]) {
            let awaited = results.filter { $0.ticket != StoreService.unawaited }
            if awaited.count < results.count,
                results.contains(where: { !$0.isStored && $0.ticket == StoreService.unawaited })
            {
                log.error("changes that nobody waits for were not stored")
            }
            guard !awaited.isEmpty else { return }
            finished(
                awaited.map { CommitResult(ticket: CommitTicket($0.ticket.rawValue), succeeded: $0.isStored) })
        }
    }

    static let unawaited = StoreTicket(rawValue: 0)

    package init(
        path: String, timeline settings: TimelineSettings, loop: EventLoop, log: Log
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

    // MARK: Changes

    func commit(_ changes: [StoredChange], _ ticket: CommitTicket) {
        guard !writer.submit(changes.map(Self.change), for: StoreTicket(rawValue: ticket.number)) else { return }
        // Told later: the engine is in the middle of its own work now.
        loop.post { [relay] in
            relay.arrived([StoreResult(ticket: StoreTicket(rawValue: ticket.number), isStored: false)])
        }
    }

    func record(_ changes: [StoredChange]) {
        if case .timeline? = changes.first {
            timeline.write(changes.map(Self.change))
            return
        }
        if !writer.submit(changes.map(Self.change), for: Self.unawaited, isAwaited: false) {
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

    func add(_ user: DigestUser) -> Bool { writer.submit([.addUser(user)], for: Self.unawaited) }

    package func removeUser(name: ByteString, realm: ByteString) -> Bool {
        writer.submit([.removeUser(name: name, realm: realm)], for: Self.unawaited)
    }

    private static func change(_ change: StoredChange) -> StoreChange {
        switch change {
        case .binding(let change): .binding(change)
        case .bucket(let change): .bucket(change.aor, change.change)
        case .providerSwitch(let provider, let isEnabled): .switchProvider(provider, isOn: isEnabled)
        case .timeline(let record): .timeline(record)
        }
    }
}
