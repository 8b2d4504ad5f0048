package import Addressing
import Collections
package import Timekeeping

/// Counts the unread pushes of each device, for the badge. The badge in a push is the number of the device's unread
/// pushes (A18).
///
/// A push is treated as unread from its request on, until the app reports the push as read or the push fails. A device
/// without unread pushes uses no memory.
package struct UnreadPushes: Sendable {
    /// The subject of a push. For some subjects, the push can be treated as read without a report from the app.
    package enum Matter: Hashable, Sendable {
        case call(CallRef)
        /// The push contains a list of missed calls.
        case list
        /// Only the app and its application server know what the push is about.
        case other
    }

    fileprivate struct Entry {
        let code: PushCode
        let matter: Matter
        let date: UnixTime
    }

    /// The unread pushes of each device, oldest first.
    private var devices = PlacedTable<DeviceID, ShortList<Entry>>(empty: ShortList())
    /// The number of unread pushes of all devices together.
    package private(set) var count = 0
    private let limit: Int
    private let maximumAge: Duration

    /// The maximum number of unread pushes of one device; above the maximum, the oldest are dropped, because phones
    /// show no number above 99.
    package static let deviceLimit = 99

    /// Creates the counter for at most `limit` unread pushes of all devices together, each unread for at most
    /// `maximumAge`.
    package init(limit: Int, maximumAge: Duration) {
        self.limit = limit
        self.maximumAge = maximumAge
    }

    /// The number of unread pushes of the device.
    package func count(of device: DeviceID) -> Int { devices[device]?.count ?? 0 }

    // MARK: What happened

    /// Counts a push as unread when the push is requested.
    ///
    /// - Parameters:
    ///   - code: the code of the push.
    ///   - matter: the subject of the push.
    ///   - device: the device that gets the push.
    ///   - date: the present time.
    /// - Returns: the badge of the new push: the number of the device's unread pushes, including the new push.
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

    /// Counts a push with a list of missed calls as unread, when the engine orders the push. The returned badge
    /// excludes older pushes about the listed calls, because the list replaces these pushes on the phone.
    package mutating func listAsked(
        _ code: PushCode, of calls: [CallRef], by device: DeviceID, at date: UnixTime
    ) -> Int {
        let badge = asked(code, .list, by: device, at: date)
        return badge - (devices[device]?.count { $0.isToldAgain(by: code, of: calls) } ?? 0)
    }

    /// Removes a push that was read or that its provider did not accept; returns false if the push was not unread.
    @discardableResult
    package mutating func ended(_ code: PushCode, of device: DeviceID) -> Bool {
        removeFirst(of: device) { $0.code == code } != nil
    }

    /// Removes the push about a call that a phone has answered or an operator has deleted.
    ///
    /// - Returns: the code of the device's push about the call.
    package mutating func callIsNoNews(_ call: CallRef, of device: DeviceID) -> PushCode? {
        removeFirst(of: device) { $0.matter == .call(call) }
    }

    /// Handles a list of missed calls that the provider has accepted. Older lists, and pushes about calls in the new
    /// list, are no longer unread.
    ///
    /// - Returns: the codes of the pushes that are no longer unread.
    package mutating func listAccepted(_ code: PushCode, of calls: [CallRef], by device: DeviceID) -> [PushCode] {
        // Entries are in the order of the pushes, so entries after the new list are newer than the list.
        var isOlder = true
        return removeAll(of: device) { entry in
            if entry.code == code { isOlder = false }
            return (isOlder || entry.matter != .list) && entry.isToldAgain(by: code, of: calls)
        }
    }

    /// Removes all unread pushes of a device, because the user has read them.
    ///
    /// - Returns: the codes of the removed pushes.
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
    /// Whether the new list of missed calls contains the call, or replaces the list, of an earlier push.
    fileprivate func isToldAgain(by list: PushCode, of calls: [CallRef]) -> Bool {
        switch matter {
        case .call(let call): calls.contains(call)
        case .list: code != list
        case .other: false
        }
    }
}
