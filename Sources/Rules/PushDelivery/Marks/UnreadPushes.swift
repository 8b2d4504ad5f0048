package import Addressing
import Collections
package import Timekeeping

/// Counts the unread pushes of each device. The number of a device's unread pushes is the badge of its next push (A18).
///
/// A push is counted from its request until an app reports that it was read, or until the provider is known not to have
/// accepted it. A device without unread pushes uses no memory.
package struct UnreadPushes: Sendable {
    /// The subject of a push. Some subjects can become read without a report of the app.
    package enum Matter: Hashable, Sendable {
        case call(CallRef)
        /// A list of missed calls.
        case list
        /// A subject that only the app and its server know.
        case other
    }

    fileprivate struct Entry {
        let code: PushCode
        let matter: Matter
        let date: UnixTime
    }

    /// The unread pushes of each device, oldest first. Devices without unread pushes are not in the table.
    private var devices = PlacedTable<DeviceID, ShortList<Entry>>(empty: ShortList())
    /// The number of unread pushes of all devices.
    package private(set) var count = 0
    private let limit: Int
    private let maximumAge: Duration

    /// The maximum number of unread pushes of one device. Above this number, the oldest pushes are dropped, because no
    /// phone shows a larger number in full.
    package static let deviceLimit = 99

    /// Creates a table for at most `limit` pushes of all devices. Each push counts for at most `maximumAge`.
    package init(limit: Int, maximumAge: Duration) {
        self.limit = limit
        self.maximumAge = maximumAge
    }

    /// The number of unread pushes of the device.
    package func count(of device: DeviceID) -> Int { devices[device]?.count ?? 0 }

    // MARK: What happened

    /// Counts a push that is requested.
    ///
    /// - Parameters:
    ///   - code: the code of the push.
    ///   - matter: the subject of the push.
    ///   - device: the device that gets it.
    ///   - date: the time now.
    /// - Returns: the badge of the push: the number of the device's unread pushes, including this one.
    package mutating func asked(_ code: PushCode, _ matter: Matter, by device: DeviceID, at date: UnixTime) -> Int {
        if let entries = devices[device] {
            let surplus = max(0, entries.count + 1 - Self.deviceLimit)
            let old = entries.prefix { date - $0.date > maximumAge }.count
            drop(first: max(surplus, old), of: device)
        }
        guard count < limit else { return count(of: device) + 1 }
        let place = devices.madePlace(of: device)
        devices[place].append(Entry(code: code, matter: matter, date: date))
        count += 1
        return devices[place].count
    }

    /// Counts a list of missed calls that is requested. Older pushes about the same calls no longer count, because the
    /// phone gets the list together with the badge.
    package mutating func listAsked(
        _ code: PushCode, of calls: [CallRef], by device: DeviceID, at date: UnixTime
    ) -> Int {
        let badge = asked(code, .list, by: device, at: date)
        return badge - (devices[device]?.count { $0.isToldAgain(by: code, of: calls) } ?? 0)
    }

    /// Removes a push that was read, or that its provider never accepted. Returns false if the push was not counted.
    @discardableResult
    package mutating func ended(_ code: PushCode, of device: DeviceID) -> Bool {
        removeFirst(of: device) { $0.code == code } != nil
    }

    /// Removes the push about a call that is no longer unread, because a phone answered it or an operator deleted it.
    ///
    /// - Returns: the device's push about the call.
    package mutating func callIsNoNews(_ call: CallRef, of device: DeviceID) -> PushCode? {
        removeFirst(of: device) { $0.matter == .call(call) }
    }

    /// Handles a list of missed calls that the provider has accepted. Older lists, and the pushes about the calls of
    /// this list, no longer count.
    ///
    /// - Returns: the pushes that no longer count.
    package mutating func listAccepted(_ code: PushCode, of calls: [CallRef], by device: DeviceID) -> [PushCode] {
        // The entries are in the order of the pushes, so the entries after this list are newer.
        var isOlder = true
        return removeAll(of: device) { entry in
            if entry.code == code { isOlder = false }
            return (isOlder || entry.matter != .list) && entry.isToldAgain(by: code, of: calls)
        }
    }

    /// Removes all pushes of a device, because its user has read them.
    ///
    /// - Returns: the pushes that were unread.
    package mutating func allRead(by device: DeviceID) -> [PushCode] { removeAll(of: device) { _ in true } }

    package mutating func deviceRemoved(_ device: DeviceID) { _ = removeAll(of: device) { _ in true } }

    // MARK: Entries

    private mutating func drop(first number: Int, of device: DeviceID) {
        guard number > 0 else { return }
        var left = number
        _ = removeAll(of: device) { _ in
            left -= 1
            return left >= 0
        }
    }

    private mutating func removeFirst(of device: DeviceID, where isMeant: (Entry) -> Bool) -> PushCode? {
        guard let place = devices.place(of: device), let index = devices[place].firstIndex(where: isMeant) else {
            return nil
        }
        let code = devices[place].remove(at: index).code
        count -= 1
        if devices[place].isEmpty { devices.remove(at: place) }
        return code
    }

    private mutating func removeAll(of device: DeviceID, where isMeant: (Entry) -> Bool) -> [PushCode] {
        guard let place = devices.place(of: device) else { return [] }
        var removed: [PushCode] = []
        devices[place].removeAll { entry in
            guard isMeant(entry) else { return false }
            removed.append(entry.code)
            return true
        }
        count -= removed.count
        if devices[place].isEmpty { devices.remove(at: place) }
        return removed
    }
}

extension UnreadPushes.Entry {
    /// Whether a newer list of missed calls repeats this subject.
    fileprivate func isToldAgain(by list: PushCode, of calls: [CallRef]) -> Bool {
        switch matter {
        case .call(let call): calls.contains(call)
        case .list: code != list
        case .other: false
        }
    }
}
