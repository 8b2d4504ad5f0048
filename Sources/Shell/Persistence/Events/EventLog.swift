import Bytes
import Storage
package import Telemetry
package import Timekeeping

/// The events that wait for the operator's receiver, in files of a folder.
///
/// The loop's thread appends each event to the last file before the daemon sends anything that follows from the event.
/// The kernel then has the event, so no event is lost if the process ends. Once a second at most, another thread writes
/// the file to the disk; a power failure can lose the events of the last seconds.
///
/// When the receiver has accepted all events of a file, the log removes the file. If the log is full, it drops the
/// oldest file. The file `delivered` contains the number of the last event that the receiver accepted. If the process
/// ends before this number is written, the receiver gets the same events again.
package final class EventLog {
    /// Events that are sent together, oldest first.
    package struct Batch {
        package let events: [[UInt8]]
        package let ids: ClosedRange<UInt64>
        let file: Int
        let end: Int
    }

    private struct File {
        let number: Int
        var size = 0
        /// The number of bytes of each owner's events in the file.
        var sizes: [EventOwner: Int] = [:]
        var last: UInt64 = 0
        /// The events that the receiver has not accepted.
        var waiting = 0
        var first: UInt64?
        /// The losses that the file's events report to the receiver.
        var told: [(id: UInt64, loss: EventLoss)] = []
        /// The position in the file up to which the receiver has accepted the events.
        var readTo = 0
    }

    private let folder: String
    private let log: Log
    private var limits: EventLogLimits
    private var files: [File] = []
    private var current: AppendedFile?
    /// The file before ``current``, whose last events may not be on the disk yet.
    private var previous: AppendedFile?
    private var shares: EventShares
    /// Lines that are not yet written, with their owners and numbers.
    private var pending: [UInt8] = []
    private var pendingLines: [(id: UInt64, owner: EventOwner, size: Int, loss: EventLoss?)] = []
    private var lastID: UInt64
    /// The number of the last event that the receiver accepted.
    private var deliveredID: UInt64
    /// The batch that the receiver is getting now.
    private var inFlight: Batch?
    /// The time at which failed writes are tried again.
    package private(set) var retryAt: Instant?
    private var failingSince: Instant?
    private var isPositionFailing = false
    private var syncedAt = Instant.distantPast
    private var losses = EventLosses()
    package private(set) var figures = CounterSet()
    /// Writes the event that tells the receiver of lost events.
    package var describe: (EventLoss, UInt64, UnixTime) -> [UInt8] = { _, _, _ in [] }

    /// Opens the log, and reads the files of earlier runs.
    ///
    /// - Parameters:
    ///   - folder: the folder of the files, which is created if necessary.
    ///   - limits: the size of the log.
    ///   - log: receives messages about failures and lost events.
    /// - Throws: an error if the folder cannot be created, or if other users can write to it.
    package init(folder: String, limits: EventLogLimits, log: Log) throws(EventLogError) {
        self.folder = folder
        self.log = log
        self.limits = limits
        shares = EventShares(capacity: limits.capacity, hasDomains: limits.hasDomains)
        do throws(AppendedFile.Failure) {
            try AppendedFile.makeFolder(folder)
            try AppendedFile.checkFolder(folder)
        } catch {
            throw EventLogError(description: "\(folder): \(error)")
        }
        deliveredID = Self.position(in: folder)
        lastID = deliveredID
        for (number, path) in Self.files(in: folder) { read(number, at: path) }
    }

    package func change(to limits: EventLogLimits) {
        self.limits = limits
        shares.capacity = limits.capacity
        shares.hasDomains = limits.hasDomains
    }

    // MARK: State

    /// The number of events that the receiver has not accepted.
    package var waiting: Int { files.reduce(0) { $0 + $1.waiting } + pendingLines.count }

    /// The age of the oldest event that waits. The number of an event is its time in microseconds.
    package func age(now: UnixTime) -> Duration? {
        let first = files.lazy.compactMap(\.first).first ?? pendingLines.first?.id
        return first.map { max(.zero, now - UnixTime(milliseconds: Int64(clamping: $0 / 1000))) }
    }

    package var size: Int { shares.total + pending.count }

    // MARK: The start

    private static let suffix = ".events"

    private static func files(in folder: String) -> [(number: Int, path: String)] {
        AppendedFile.names(in: folder).compactMap { name in
            guard name.hasSuffix(suffix), let number = Int(name.dropLast(suffix.count)) else { return nil }
            return (number, "\(folder)/\(name)")
        }.sorted { $0.number < $1.number }
    }

    private func path(of number: Int) -> String { "\(folder)/\(number)\(Self.suffix)" }

    private static func position(in folder: String) -> UInt64 {
        let text = (try? AppendedFile.contents(of: "\(folder)/delivered", limit: 64)) ?? []
        return UInt64(String(decoding: text.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)) ?? 0
    }

    private func read(_ number: Int, at path: String) {
        var file = File(number: number)
        do throws(AppendedFile.Failure) {
            let bytes = try AppendedFile.contents(of: path)
            file.size = bytes.count
            var place = 0
            while place < bytes.count {
                guard let line = EventLine(in: bytes, at: place) else {
                    place = noteDamage(in: bytes, from: place, path)
                    continue
                }
                let size = line.end - place
                file.sizes[line.owner, default: 0] += size
                shares.add(size, of: line.owner)
                if line.id > deliveredID {
                    file.waiting += 1
                    if file.first == nil { file.first = line.id }
                }
                file.last = line.id
                lastID = max(lastID, line.id)
                place = line.end
            }
        } catch {
            log.error("a file of the event log cannot be read", [.path: .text(path), .error: .described(error)])
            return
        }
        if file.waiting == 0 {
            shares.remove(file.sizes)
            AppendedFile.remove(path)
        } else {
            files.append(file)
        }
    }

    /// The place after the next line end.
    private static func nextLine(in bytes: [UInt8], after place: Int) -> Int {
        bytes[place...].firstIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? bytes.count
    }

    /// Reports bytes that are no intact event, and returns the place after the next line end.
    private func noteDamage(in bytes: [UInt8], from place: Int, _ path: String) -> Int {
        let end = Self.nextLine(in: bytes, after: place)
        // A power failure during a write leaves zeros at the end of a file.
        if bytes[place..<end].contains(where: { $0 != 0 }) {
            lost(EventLoss(.damage, count: 1))
            log.error(
                "an event is lost, because a file of the event log was cut off or changed",
                [.path: .text(path), .bytes: .number(end - place)])
        }
        return end
    }

    // MARK: New events

    /// Appends an event; ``flush(now:)`` writes it. The function `make` returns the event as JSON in one line.
    package func append(_ owner: EventOwner, now: Moment, _ make: (UInt64) -> [UInt8]) {
        tellLosses(now: now)
        let id = nextID(now: now.date)
        let json = make(id)
        let size = EventLine.headLength + json.count + 1
        guard size <= EventLine.longest, !shares.refuses(size + pending.count, of: owner) else {
            return lost(EventLoss(.share, count: 1), now: now.instant)
        }
        guard pending.count + size <= limits.pending else {
            return lost(EventLoss(.disk, count: 1), now: now.instant)
        }
        add(id, owner, json, size)
    }

    private func add(_ id: UInt64, _ owner: EventOwner, _ json: [UInt8], _ size: Int, _ loss: EventLoss? = nil) {
        lastID = id
        EventLine.write(id, owner, json, to: &pending)
        pendingLines.append((id, owner, size, loss))
        figures.count(.eventWritten)
    }

    /// The number of a new event: the time in microseconds, or the number after the last one. Numbers therefore also
    /// rise if somebody has removed the files.
    private func nextID(now: UnixTime) -> UInt64 {
        let (micros, _) = UInt64(clamping: now.milliseconds).multipliedReportingOverflow(by: 1000)
        return max(micros, lastID &+ 1)
    }

    /// Writes the events that were appended. The daemon calls ``flush(now:)`` before it sends anything that follows from
    /// the events.
    package func flush(now: Instant) {
        guard !pending.isEmpty else { return sync(now: now) }
        if let retryAt, now < retryAt { return }
        do throws(AppendedFile.Failure) {
            try write()
            if let since = failingSince {
                log.notice("events can be written again", [.path: .text(folder), .duration: .duration(now - since)])
            }
            (failingSince, retryAt) = (nil, nil)
        } catch {
            figures.count(.eventWriteFailure)
            if failingSince == nil {
                failingSince = now
                log.error(
                    "events cannot be written, so events wait in memory and calls continue: free space on the disk",
                    [.path: .text(folder), .error: .described(error)])
            }
            retryAt = now + .seconds(1)
        }
        dropOldest(now: now)
        sync(now: now)
    }

    private func write() throws(AppendedFile.Failure) {
        if current == nil || (files.last?.size ?? 0) >= limits.fileSize {
            try AppendedFile.makeFolder(folder)
            previous = current
            let number = (Self.files(in: folder).last?.number ?? files.last?.number ?? 0) &+ 1
            current = try AppendedFile(creating: path(of: number))
            files.append(File(number: number))
            removeDelivered()
        }
        guard let current, let place = files.indices.last else { return }
        try current.append(pending)
        files[place].size = current.size
        for line in pendingLines {
            files[place].sizes[line.owner, default: 0] += line.size
            files[place].waiting += 1
            files[place].last = line.id
            if files[place].first == nil { files[place].first = line.id }
            if let loss = line.loss { files[place].told.append((line.id, loss)) }
            shares.add(line.size, of: line.owner)
        }
        pending.removeAll(keepingCapacity: true)
        pendingLines.removeAll(keepingCapacity: true)
    }

    private func sync(now: Instant) {
        if let previous {
            if previous.syncLater() { self.previous = nil }
            return
        }
        guard let current, let file = files.last, file.last != syncedTo, now >= syncedAt + .seconds(1) else { return }
        if current.syncLater() { (syncedAt, syncedTo) = (now, file.last) }
    }

    /// The number of the last written event when the log last began to write the file to the disk.
    package private(set) var syncedTo: UInt64 = 0

    // MARK: Lost events

    private func dropOldest(now: Instant) {
        while shares.total > limits.capacity, files.count > 1, let oldest = files.first {
            files.removeFirst()
            shares.remove(oldest.sizes)
            AppendedFile.remove(path(of: oldest.number))
            // The events in flight are still delivered.
            let flying = inFlight?.file == oldest.number ? inFlight?.events.count ?? 0 : 0
            let taken = max(deliveredID, flying > 0 ? inFlight?.ids.upperBound ?? 0 : 0)
            let untold = oldest.told.filter { $0.id > taken }
            for (_, loss) in untold { losses.takeBack(loss) }
            let count = oldest.waiting - flying - untold.count
            guard count > 0, let first = oldest.first else { continue }
            let start = flying > 0 ? (inFlight?.ids.upperBound ?? first) &+ 1 : first
            lost(EventLoss(.full, count: count, range: start...max(start, oldest.last)), now: now)
        }
    }

    private func lost(_ loss: EventLoss, now: Instant? = nil) {
        figures.count(loss.reason.counter, by: UInt64(loss.count))
        losses.note(loss, in: folder, log, now: now)
    }

    /// Appends the events that tell the receiver of lost events. While writes fail, the log only counts the losses, so
    /// that these events do not fill the memory.
    package func tellLosses(now: Moment) {
        guard failingSince == nil else { return }
        for loss in losses.takeUntold(now: now.instant) {
            let id = nextID(now: now.date)
            let json = describe(loss, id, now.date)
            add(id, .daemon, json, EventLine.headLength + json.count + 1, loss)
        }
    }

    // MARK: Delivery

    /// Returns the oldest events for the receiver; `nil` if none waits. At most one batch is in flight.
    package func nextBatch(count limit: Int, bytes room: Int) -> Batch? {
        while let file = files.first {
            let path = path(of: file.number)
            guard
                let bytes = try? AppendedFile.part(
                    of: path, from: file.readTo, limit: min(room + EventLine.longest, file.size - file.readTo))
            else {
                unreadable(file, path)
                continue
            }
            let (events, ids, place) = collect(bytes, limit, room)
            if let ids {
                let batch = Batch(events: events, ids: ids, file: file.number, end: file.readTo + place)
                inFlight = batch
                return batch
            }
            if place > 0 {
                files[0].readTo += place
            } else if !bytes.isEmpty {
                // The start has reported this damage, or the end of the file will report it.
                files[0].readTo += Self.nextLine(in: bytes, after: 0)
            } else {
                noteMissing(file, path)
                files[0].waiting = 0
                files[0].first = nil
                guard files.count > 1 else { return nil }
                removeFirst()
            }
        }
        return nil
    }

    private func collect(
        _ bytes: [UInt8], _ limit: Int, _ room: Int
    ) -> (events: [[UInt8]], ids: ClosedRange<UInt64>?, place: Int) {
        var events: [[UInt8]] = []
        var ids: ClosedRange<UInt64>?
        var (place, size) = (0, 0)
        while events.count < limit, let line = EventLine(in: bytes, at: place) {
            if line.id > deliveredID {
                size += line.json.count + 1
                guard size <= room || events.isEmpty else { break }
                events.append(Array(bytes[line.json]))
                ids = (ids?.lowerBound ?? line.id)...max(line.id, ids?.lowerBound ?? line.id)
            }
            place = line.end
        }
        return (events, ids, place)
    }

    /// Reports the events of a file that were intact when the log counted them, and that the log did not find.
    private func noteMissing(_ file: File, _ path: String) {
        guard file.waiting > 0 else { return }
        lost(EventLoss(.damage, count: file.waiting))
        log.error(
            "events are lost, because a file of the event log was cut off or changed",
            [.path: .text(path), .count: .number(file.waiting)])
    }

    /// Drops a file that cannot be read any more.
    private func unreadable(_ file: File, _ path: String) {
        lost(EventLoss(.damage, count: file.waiting))
        log.error("a file of the event log cannot be read, so its events are lost", [.path: .text(path)])
        if files.count == 1 { current = nil }
        removeFirst()
    }

    private func removeFirst() {
        let file = files.removeFirst()
        shares.remove(file.sizes)
        AppendedFile.remove(path(of: file.number))
    }

    private func removeDelivered() {
        while files.count > 1, let first = files.first, first.waiting == 0 { removeFirst() }
    }

    /// Notes that the receiver has accepted a batch.
    package func delivered(_ batch: Batch) {
        inFlight = nil
        deliveredID = max(deliveredID, batch.ids.upperBound)
        figures.count(.eventDelivered, by: UInt64(batch.events.count))
        if let first = files.first, first.number == batch.file {
            files[0].readTo = batch.end
            files[0].waiting = max(0, first.waiting - batch.events.count)
            files[0].first = files[0].waiting == 0 ? nil : batch.ids.upperBound
            removeDelivered()
        }
        writePosition()
    }

    private func writePosition() {
        do throws(AppendedFile.Failure) {
            try AppendedFile.replace("\(folder)/delivered", with: Array("\(deliveredID)\n".utf8))
            isPositionFailing = false
        } catch {
            guard !isPositionFailing else { return }
            isPositionFailing = true
            log.warning(
                "the daemon cannot store which events it has delivered, so it sends some events again after a restart: free space on the disk",
                [.path: .text(folder), .error: .described(error)])
        }
    }
}

/// The sizes of the event log.
package struct EventLogLimits: Hashable, Sendable {
    /// The maximum number of bytes in the files.
    package var capacity: Int
    /// The size in bytes at which the log begins the next file.
    package var fileSize: Int
    /// The maximum number of bytes that wait in memory while writes fail.
    package var pending = 1 << 20
    /// Whether the daemon serves several domains, which share the log.
    package var hasDomains: Bool

    package init(capacity: Int, hasDomains: Bool) {
        self.capacity = capacity
        self.hasDomains = hasDomains
        fileSize = min(1 << 20, max(capacity / 8, 1 << 12))
    }
}

/// The reason why the event log cannot be opened.
package struct EventLogError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
}
