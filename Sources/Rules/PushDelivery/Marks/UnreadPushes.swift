package import Addressing
import Collections
package import Timekeeping

/// The pushes that devices have not read. Their number is the badge of the next push (A18).
///
/// A push is among them from when it is asked for until somebody says that it was read, or until it is clear that the
/// provider never accepted it. Nothing is kept for a device that has read everything.
package struct UnreadPushes: Sendable {
    /// What a push tells of, which matters where not only the app can show that it was read.
    package enum Matter: Hashable, Sendable {
        case call(CallRef)
        /// A list of missed calls.
        case list
        /// Something that only the app knows of.
        case other
    }

    fileprivate struct Entry {
        let code: PushCode
        let matter: Matter
        let date: UnixTime
    }

    /// The unread pushes of each device, oldest first. A device without any is not in it.
    private var devices = PlacedTable<DeviceID, ShortList<Entry>>(empty: ShortList())
    /// How many pushes of all devices are unread.
    package private(set) var count = 0
    private let limit: Int
    private let maximumAge: Duration

    /// How many pushes of one device are kept. Beyond that the oldest leave, since no phone shows a larger number in
    /// full.
    package static let deviceLimit = 99

    /// Makes one with room for `limit` pushes in all, none of which counts longer than `maximumAge`.
    package init(limit: Int, maximumAge: Duration) {
        self.limit = limit
        self.maximumAge = maximumAge
    }

    /// How many the device has not read.
    package func count(of device: DeviceID) -> Int { devices[device]?.count ?? 0 }

    // MARK: What happened

    /// A push is asked for.
    ///
    /// - Parameters:
    ///   - code: the code of the push.
    ///   - matter: what the push tells of.
    ///   - device: the device that gets it.
    ///   - date: the time now.
    /// - Returns: its badge: the unread pushes of the device, this one included.
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

    /// A list of missed calls is asked for. Older pushes that told of the same calls do not count beside it, because
    /// when the phone shows its badge, it has the list.
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

    /// A call is no news any more, because some phone has answered it or an operator had it forgotten.
    ///
    /// - Returns: the device's push that told of it.
    package mutating func callIsNoNews(_ call: CallRef, of device: DeviceID) -> PushCode? {
        removeFirst(of: device) { $0.matter == .call(call) }
    }

    /// The provider accepted a list of missed calls. Older lists, and the pushes that told of those calls, do not count
    /// any more.
    ///
    /// - Returns: those pushes.
    package mutating func listAccepted(_ code: PushCode, of calls: [CallRef], by device: DeviceID) -> [PushCode] {
        // They are in their order, so what stands behind this list is newer.
        var isOlder = true
        return removeAll(of: device) { entry in
            if entry.code == code { isOlder = false }
            return (isOlder || entry.matter != .list) && entry.isToldAgain(by: code, of: calls)
        }
    }

    /// - Returns: what the device had not read.
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
    /// Whether a list of these calls tells of the same matter again.
    fileprivate func isToldAgain(by list: PushCode, of calls: [CallRef]) -> Bool {
        switch matter {
        case .call(let call): calls.contains(call)
        case .list: code != list
        case .other: false
        }
    }
}
