package import Addressing
import Collections
package import Timekeeping

/// The unread pushes of devices. Their number is the badge of the next push (A18).
///
/// A push is counted from its request until it is reported as read, or until the provider is known not to have accepted
/// it. A device without unread pushes uses no memory.
package struct UnreadPushes: Sendable {
    /// The subject of a push, for pushes that can become read without a report of the app.
    package enum Matter: Hashable, Sendable {
        case call(CallRef)
        /// A list of missed calls.
        case list
        /// A subject that only the app knows.
        case other
    }

    fileprivate struct Entry {
        let code: PushCode
        let matter: Matter
        let date: UnixTime
    }

    /// The unread pushes of each device, oldest first. Devices without any are not in the table.
    private var devices = PlacedTable<DeviceID, ShortList<Entry>>(empty: ShortList())
    /// The number of unread pushes of all devices.
    package private(set) var count = 0
    private let limit: Int
    private let maximumAge: Duration

    /// The limit for one device. Beyond it the oldest are dropped, because no phone shows a larger number in full.
    package static let deviceLimit = 99

    /// Creates a table for `limit` pushes in all. Each push counts for at most `maximumAge`.
    package init(limit: Int, maximumAge: Duration) {
        self.limit = limit
        self.maximumAge = maximumAge
    }

    /// The number of unread pushes of the device.
    package func count(of device: DeviceID) -> Int { devices[device]?.count ?? 0 }

    // MARK: What happened

    /// A push is requested.
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

    /// A list of missed calls is requested. Older pushes about the same calls no longer count, because the phone has
    /// the list when it shows its badge.
    package mutating func listAsked(
        _ code: PushCode, of calls: [CallRef], by device: DeviceID, at date: UnixTime
    ) -> Int {
        let badge = asked(code, .list, by: device, at: date)
        return badge - (devices[device]?.count { $0.isToldAgain(by: code, of: calls) } ?? 0)
    }

    /// A push was read, or its provider never accepted it. Returns false for a push that does not count.
    @discardableResult
    package mutating func ended(_ code: PushCode, of device: DeviceID) -> Bool {
        removeFirst(of: device) { $0.code == code } != nil
    }

    /// A call is no longer unread, because a phone answered it or an operator deleted it.
    ///
    /// - Returns: the device's push about the call.
    package mutating func callIsNoNews(_ call: CallRef, of device: DeviceID) -> PushCode? {
        removeFirst(of: device) { $0.matter == .call(call) }
    }

    /// The provider accepted a list of missed calls. Older lists, and the pushes about those calls, no longer count.
    ///
    /// - Returns: the pushes that no longer count.
    package mutating func listAccepted(_ code: PushCode, of calls: [CallRef], by device: DeviceID) -> [PushCode] {
        // The pushes are in order, so those after this list are newer.
        var isOlder = true
        return removeAll(of: device) { entry in
            if entry.code == code { isOlder = false }
            return (isOlder || entry.matter != .list) && entry.isToldAgain(by: code, of: calls)
        }
    }

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
    /// Whether a list of these calls repeats the same subject.
    fileprivate func isToldAgain(by list: PushCode, of calls: [CallRef]) -> Bool {
        switch matter {
        case .call(let call): calls.contains(call)
        case .list: code != list
        case .other: false
        }
    }
}
