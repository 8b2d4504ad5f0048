package import Addressing
package import Bytes
import Collections
package import Timekeeping

/// An active or missed call that must still be reported to some devices, as a row of the store.
package struct BucketEntry: Hashable, Sendable {
    package let callRef: CallRef
    /// The caller, in the form of ``MissedCall/remoteURI``.
    package let caller: ByteString
    package let date: UnixTime
    /// The caller whose part of the limits on missed calls includes the call.
    package let broughtBy: Caller
    /// The devices that got a push for the call and must still get the call in their list of missed calls. Each call in
    /// the bucket must still be reported to at least one device.
    package var devices: [DeviceID]
    /// The devices that already know of the call and need no report.
    package var told: [DeviceID]
    /// Whether the call ended unanswered. A call that still rings or waits is not reported as missed (A20).
    package var isOver: Bool
    /// Whether the missed call has a row in the store. An active call is in the call journal, and usually has no row in
    /// the store's table of missed calls.
    package var isStored: Bool

    package init(
        callRef: CallRef, caller: ByteString, date: UnixTime, broughtBy: Caller, devices: [DeviceID],
        told: [DeviceID] = [], isOver: Bool, isStored: Bool = true
    ) {
        self.broughtBy = broughtBy
        self.isStored = isStored
        self.told = told
        self.callRef = callRef
        self.caller = caller
        self.date = date
        self.devices = devices
        self.isOver = isOver
    }
}

extension BucketEntry {
    /// Whether the call must be reported to the device, or is already known to the device.
    func concerns(_ device: DeviceID) -> Bool { devices.contains(device) || told.contains(device) }
}

/// A change of a user's missed calls for the store.
package enum BucketChange: Hashable, Sendable {
    /// The call's row must be inserted into the store or replaced.
    case upsert(BucketEntry)
    case delete(CallRef)
}

/// The limits on missed calls that wait to be reported (A25).
package struct BucketSettings: Hashable, Sendable {
    /// The maximum number of missed calls for one device. Above the maximum, the oldest missed call of the most
    /// frequent caller is dropped.
    package var maximumEntries = 100
    package var maximumAge: Duration = .seconds(604_800)
    /// The maximum percentage of a device's missed calls that come from untrusted peers.
    package var untrustedShare = 100

    package init() {}

    var share: FairShare {
        FairShare(
            of: maximumEntries, ofOne: maximumEntries,
            ofUntrusted: maximumEntries - maximumEntries * (100 - untrustedShare) / 100)
    }
}

/// The missed calls of one user (R19 to R27, A20 to A25). Each call is kept until every device that got a push for the
/// call knows of the call.
///
/// A ``MissedCallBucket`` does no input or output: its methods take events of calls, and return the rows to write to
/// the store.
package struct MissedCallBucket: Sendable {
    /// The active and missed calls, oldest first.
    private var rows = ShortList<BucketEntry>()
    /// The missed calls in lists that are being pushed, so that a second REGISTER does not send the same list again.
    private var reporting: Set<Report> = []
    /// The calls for which the timeline already says that the device's token cannot carry lists of missed calls.
    private var notCarried: Set<Report> = []

    private struct Report: Hashable { let callRef: CallRef, device: DeviceID }

    package init() {}

    /// Restores a user's missed calls from the store. Calls that rang or waited when the daemon stopped are treated as
    /// ended.
    package init(restoring entries: [BucketEntry]) {
        rows = ShortList(entries.sorted { ($0.date, $0.callRef.rawValue) < ($1.date, $1.callRef.rawValue) })
        for index in rows.indices { rows[index].isOver = true }
    }

    /// The time after which a call that some node has stored as active counts as ended, because no call rings so long.
    private static let longestCall: Duration = .seconds(600)

    /// Takes over the rows of a store that other nodes change as well. A call that still rings or waits at this node
    /// stays as it is, and so does a call in a list that is being pushed.
    ///
    /// - Parameters:
    ///   - entries: the rows that the store has just returned.
    ///   - now: the present time. A call that still rings or waits at another node is left out.
    package mutating func adopt(_ entries: [BucketEntry], now: UnixTime) {
        let own = rows.filter { row in !row.isOver || reporting.contains { $0.callRef == row.callRef } }
        let present = Set(own.map(\.callRef))
        var others = entries.filter { entry in
            !present.contains(entry.callRef) && (entry.isOver || now - entry.date > Self.longestCall)
        }
        for index in others.indices { others[index].isOver = true }
        let all = others + own
        rows = ShortList(all.sorted { ($0.date, $0.callRef.rawValue) < ($1.date, $1.callRef.rawValue) })
    }

    package var entries: [BucketEntry] { Array(rows) }
    package var count: Int { rows.count }
    package var isEmpty: Bool { rows.isEmpty }

    // MARK: What happened

    /// Adds a call for which the given devices get a push (R20). If the bucket already has the call, the devices are
    /// added to the call.
    ///
    /// The parameter `caller` has the form of ``MissedCall/remoteURI``.
    package mutating func callOffered(
        _ callRef: CallRef, caller: ByteString, by broughtBy: Caller, at date: UnixTime, devices: [DeviceID],
        settings: BucketSettings
    ) -> [BucketChange] {
        guard !devices.isEmpty else { return [] }
        var changes = dropOld(settings, now: date)
        if let index = index(of: callRef) {
            let added = devices.filter { !rows[index].concerns($0) }
            guard !added.isEmpty else { return changes }
            rows[index].devices += added
            changes.append(row(index))
        } else {
            let entry = BucketEntry(
                callRef: callRef, caller: caller, date: date, broughtBy: broughtBy, devices: devices, isOver: false,
                isStored: false)
            let place = rows.lastIndex { $0.date <= date }.map { $0 + 1 } ?? 0
            rows.insert(entry, at: place)
        }
        for device in devices { changes += dropSurplus(of: device, settings) }
        return changes
    }

    /// Notes that a device knows of the call, because the device rang or refused the call (A21).
    package mutating func deviceReached(_ callRef: CallRef, _ device: DeviceID) -> [BucketChange] {
        strikeOff(callRef, device).map { [$0] } ?? []
    }

    /// Handles a call that still rings or waits after a restart. A resumed call without a row in the store is added
    /// with the devices from the journal.
    package mutating func callResumed(
        _ callRef: CallRef, caller: ByteString, by broughtBy: Caller, at date: UnixTime, devices: [DeviceID],
        settings: BucketSettings
    ) -> [BucketChange] {
        guard let index = index(of: callRef) else {
            return callOffered(
                callRef, caller: caller, by: broughtBy, at: date, devices: devices, settings: settings)
        }
        rows[index].isOver = false
        return []
    }

    /// Removes an answered call (R21).
    package mutating func callAnswered(_ callRef: CallRef) -> [BucketChange] {
        guard let index = index(of: callRef), let change = remove(at: index) else { return [] }
        return [change]
    }

    /// Notes that a call ended unanswered, so that the call can be reported as missed.
    package mutating func callEnded(_ callRef: CallRef) -> [BucketChange] {
        guard let index = rows.firstIndex(where: { $0.callRef == callRef }), !rows[index].isOver else {
            return []
        }
        rows[index].isOver = true
        return [row(index)]
    }

    /// Handles a device that has registered again. Returns the missed calls to report to the device now, oldest first
    /// (R22); calls whose list is already being sent are omitted.
    package mutating func deviceReturned(
        _ device: DeviceID, settings: BucketSettings, now: UnixTime
    ) -> (calls: [MissedCall], refs: [CallRef], changes: [BucketChange]) {
        let changes = dropOld(settings, now: now)
        let missed = rows.filter { entry in
            entry.isOver && entry.devices.contains(device)
                && !reporting.contains(Report(callRef: entry.callRef, device: device))
        }
        for entry in missed { reporting.insert(Report(callRef: entry.callRef, device: device)) }
        let calls = missed.map { MissedCall(remoteURI: $0.caller, date: $0.date, callRef: $0.callRef) }
        return (calls, missed.map(\.callRef), changes)
    }

    /// Handles the REGISTER of a device whose token cannot carry lists of missed calls.
    ///
    /// - Returns: the calls whose timeline does not have the problem yet, and the rows to write.
    package mutating func listNotCarried(
        by device: DeviceID, settings: BucketSettings, now: UnixTime
    ) -> (refs: [CallRef], changes: [BucketChange]) {
        let changes = dropOld(settings, now: now)
        let refs = rows.filter { $0.isOver && $0.devices.contains(device) }.map(\.callRef)
            .filter { notCarried.insert(Report(callRef: $0, device: device)).inserted }
        return (refs, changes)
    }

    /// Whether missed calls wait to be reported to the device. Missed calls that are too old also count, although they
    /// are dropped before the list is sent.
    package func hasMissedCalls(_ device: DeviceID) -> Bool {
        rows.contains { $0.isOver && $0.devices.contains(device) }
    }

    /// Notes that the push provider has accepted a list, so that the listed calls are treated as reported to the device
    /// (A21).
    package mutating func reportAccepted(_ refs: [CallRef], by device: DeviceID) -> [BucketChange] {
        strikeOff(refs, device)
    }

    /// Notes that the push provider did not accept a list, so that the listed calls belong into the next list (A24).
    package mutating func reportFailed(_ refs: [CallRef], by device: DeviceID) {
        for ref in refs { noLongerReported(ref, to: device) }
    }

    package mutating func deviceRemoved(_ device: DeviceID) -> [BucketChange] {
        strikeOff(rows.filter { $0.devices.contains(device) }.map(\.callRef), device, hasLearnt: false)
    }

    /// Moves the missed calls of a device with a dead token to the user's other devices (`successors`), unless they know of
    /// the calls.
    package mutating func deviceDied(_ device: DeviceID, successors: [DeviceID]) -> [BucketChange] {
        var changes: [BucketChange] = []
        for ref in rows.filter({ $0.devices.contains(device) }).map(\.callRef) {
            guard let index = index(of: ref) else { continue }
            let added = successors.filter { $0 != device && !rows[index].concerns($0) }
            rows[index].devices += added
            if let change = strikeOff(ref, device, hasLearnt: false) { changes.append(change) }
        }
        return changes
    }

    /// Removes missed calls that an operator has deleted.
    ///
    /// - Parameter forgotten: the calls in the bucket when the operator gave the command. The store has already deleted
    ///   their rows.
    /// - Returns: the rows that were written again after the command, because their calls changed. The store must delete
    ///   these rows too.
    package mutating func callsForgotten(_ forgotten: [BucketEntry]) -> [BucketChange] {
        var changes: [BucketChange] = []
        for entry in forgotten {
            guard let index = index(of: entry.callRef) else { continue }
            let isAsItWas = rows[index] == entry
            if let change = remove(at: index), !isAsItWas { changes.append(change) }
        }
        return changes
    }

    /// The number of calls that are not yet reported to the device, including active calls (A18).
    package func unread(of device: DeviceID) -> Int { rows.count { $0.devices.contains(device) } }

    // MARK: Rows

    /// Notes that no list with the call is being sent to the device any more. An empty set needs no look-up, which
    /// saves computing a hash in most cases.
    private mutating func noLongerReported(_ callRef: CallRef, to device: DeviceID) {
        if !reporting.isEmpty { reporting.remove(Report(callRef: callRef, device: device)) }
        if !notCarried.isEmpty { notCarried.remove(Report(callRef: callRef, device: device)) }
    }

    private func index(of callRef: CallRef) -> Int? { rows.firstIndex { $0.callRef == callRef } }

    /// Marks a call as stored, and returns the change that writes the call's row.
    private mutating func row(_ index: Int) -> BucketChange {
        rows[index].isStored = true
        return .upsert(rows[index])
    }

    /// Removes a call, and returns the change that deletes the call's row; `nil` if the call has no row.
    private mutating func remove(at index: Int) -> BucketChange? {
        let entry = rows.remove(at: index)
        for device in entry.devices { noLongerReported(entry.callRef, to: device) }
        return entry.isStored ? .delete(entry.callRef) : nil
    }

    /// Removes a device from the given calls, and removes each call that has no device left.
    private mutating func strikeOff(
        _ refs: [CallRef], _ device: DeviceID, hasLearnt: Bool = true
    ) -> [BucketChange] {
        refs.compactMap { strikeOff($0, device, hasLearnt: hasLearnt) }
    }

    private mutating func strikeOff(_ ref: CallRef, _ device: DeviceID, hasLearnt: Bool = true) -> BucketChange? {
        noLongerReported(ref, to: device)
        guard let index = index(of: ref), let place = rows[index].devices.firstIndex(of: device) else { return nil }
        if rows[index].devices.count == 1 { return remove(at: index) }
        rows[index].devices.remove(at: place)
        if hasLearnt { rows[index].told.append(device) }
        // If the device knows of a call without a row, the call gets no row, because the journal has noted what the
        // device knows. If the device was removed, the call needs a row in the store.
        return hasLearnt && !rows[index].isStored ? nil : row(index)
    }

    /// Drops a device's missed calls above the limit: each time the oldest call from the most frequent caller, so that
    /// one caller cannot displace the others (T32.4). Active calls are never dropped from the list of missed calls.
    private mutating func dropSurplus(of device: DeviceID, _ settings: BucketSettings) -> [BucketChange] {
        var surplus = unread(of: device) - settings.maximumEntries
        guard surplus > 0 else { return [] }
        var changes: [BucketChange] = []
        if surplus > Self.weighed {
            // If an operator has lowered the limit and many calls must go, the oldest calls are dropped without
            // counting the callers.
            let oldest = rows.lazy.filter { $0.isOver && $0.devices.contains(device) }
            changes = strikeOff(Array(oldest.prefix(surplus - Self.weighed).map(\.callRef)), device)
            surplus = Self.weighed
        }
        for _ in 0..<surplus {
            let owed = rows.filter { $0.devices.contains(device) }
            let place = settings.share.givesWay(
                among: owed.map(\.broughtBy), isTrusted: \.isTrusted, mayGo: { owed[$0].isOver })
            guard let place else { break }
            changes += strikeOff([owed[place].callRef], device)
        }
        return changes
    }

    /// The maximum number of surplus calls that are dropped by counting callers, because counting is slow.
    private static let weighed = 4

    /// Whether ``dropOld(_:now:)`` would drop a call.
    package func hasOld(_ settings: BucketSettings, now: UnixTime) -> Bool {
        rows.contains { $0.isOver && now - $0.date > settings.maximumAge }
    }

    /// Drops the missed calls that are older than the limit.
    package mutating func dropOld(_ settings: BucketSettings, now: UnixTime) -> [BucketChange] {
        var changes: [BucketChange] = []
        while let index = rows.firstIndex(where: { $0.isOver && now - $0.date > settings.maximumAge }) {
            if let change = remove(at: index) { changes.append(change) }
        }
        return changes
    }
}
