package import Addressing
package import ProxyPolicy
package import PushDelivery
package import Timekeeping

/// The rate limits of pushes per minute (T11.2).
package struct PushRates {
    /// The rate limit of pushes for calls to one device.
    package private(set) var device: SharedRate<DeviceID>
    /// The rate limit of pushes to one device for other purposes than calls.
    private var notification: SharedRate<DeviceID>
    /// The rate limit of pushes that one caller causes at all devices together.
    private var caller: RateLimit<Caller>
    /// The rate limit of test pushes to one push token.
    private var testedToken: RateLimit<PushToken>
    /// The pushes that the other nodes of the cluster do not know yet; `nil` without a cluster.
    private var untold: UntoldCounts?

    package init(_ settings: ProxySettings) {
        device = SharedRate(settings.share(of: settings.call.pushesPerDevice))
        notification = SharedRate(settings.share(of: settings.notificationsPerDevice))
        caller = RateLimit(perMinute: settings.call.pushesPerCaller, capacity: 65_536)
        testedToken = RateLimit(perMinute: settings.notificationsPerDevice, capacity: 1024)
        untold = settings.node == nil ? nil : UntoldCounts()
    }

    package mutating func changed(_ settings: ProxySettings) {
        device.changed(settings.share(of: settings.call.pushesPerDevice))
        notification.changed(settings.share(of: settings.notificationsPerDevice))
        caller.limit = settings.call.pushesPerCaller
        testedToken.limit = settings.notificationsPerDevice
    }

    /// Whether the rate limits allow a push to the device for one more call of the caller; an allowed push is counted
    /// (T11.1, T32.1).
    package mutating func admits(_ device: DeviceID, for caller: Caller, now: Instant) -> Bool {
        let isAdmitted = self.device.admit(
            device, by: caller.number(at: device.rawValue), isTrusted: caller.isTrusted, now: now)
        if untold != nil, isAdmitted { noteCall(to: device, by: caller, now: now) }
        return isAdmitted
    }

    /// Whether the rate limit allows the caller one more push to any device; an allowed push is counted.
    package mutating func admits(_ caller: Caller, now: Instant) -> Bool {
        guard self.caller.admit(caller, now: now) else { return false }
        if untold != nil {
            untold?.counted(.pushesOfCaller, caller.rawValue, load: self.caller.load(of: caller, now: now), now: now)
        }
        return true
    }

    /// Whether the rate limit allows one more test push to the push token; an allowed test push is counted.
    package mutating func admitsTest(of token: PushToken, now: Instant) -> Bool { testedToken.admit(token, now: now) }

    /// Whether the rate limits allow a push to the device, if the push is not about a call.
    ///
    /// Notifications have their own rate limit, and are also refused while calls have used up the rate limit of calls.
    /// Notifications do not count toward the rate limit of calls.
    package func mayNotify(_ device: DeviceID, for caller: Caller?, now: Instant) -> Bool {
        notification.hasRoom(
            for: device, by: caller?.number(at: device.rawValue), isTrusted: caller?.isTrusted ?? true, now: now)
            && !self.device.isUsedUp(device, now: now)
    }

    package mutating func notified(_ device: DeviceID, for caller: Caller?, now: Instant) {
        let isAdmitted = notification.admit(
            device, by: caller?.number(at: device.rawValue), isTrusted: caller?.isTrusted ?? true, now: now)
        if untold != nil, isAdmitted { noteNotification(to: device, by: caller, now: now) }
    }

    // MARK: Other nodes

    private mutating func noteCall(to device: DeviceID, by caller: Caller, now: Instant) {
        let (key, pair) = (device.rawValue, caller.number(at: device.rawValue))
        let loads = self.device.loads(of: device, now: now)
        untold?.counted(.pushesToDevice, key, load: loads.whole, now: now)
        if !caller.isTrusted { untold?.counted(.pushesOfStrangersToDevice, key, load: loads.untrusted, now: now) }
        untold?.counted(.pushesOfCallerToDevice, pair, load: self.device.load(of: pair, now: now), now: now)
    }

    private mutating func noteNotification(to device: DeviceID, by caller: Caller?, now: Instant) {
        let loads = notification.loads(of: device, now: now)
        untold?.counted(.notificationsToDevice, device.rawValue, load: loads.whole, now: now)
        guard let caller else { return }
        let pair = caller.number(at: device.rawValue)
        if !caller.isTrusted {
            untold?.counted(.notificationsOfStrangersToDevice, device.rawValue, load: loads.untrusted, now: now)
        }
        untold?.counted(.notificationsOfCallerToDevice, pair, load: notification.load(of: pair, now: now), now: now)
    }

    /// Takes the counts for the other nodes: see ``UntoldCounts/take(now:)``.
    package mutating func takeCounts(now: Instant) -> (counts: [SharedCount], dropped: Int) {
        untold?.take(now: now) ?? ([], 0)
    }

    /// Counts pushes that another node has sent.
    package mutating func add(_ told: SharedCount, now: Instant) {
        let (count, age, target) = (told.count, told.age, DeviceID(rawValue: told.key))
        switch told.limit {
        case .pushesToDevice: device.add(count, to: .whole, of: target, age: age, now: now)
        case .pushesOfStrangersToDevice: device.add(count, to: .untrusted, of: target, age: age, now: now)
        case .pushesOfCallerToDevice: device.add(count, ofPair: told.key, age: age, now: now)
        case .notificationsToDevice: notification.add(count, to: .whole, of: target, age: age, now: now)
        case .notificationsOfStrangersToDevice: notification.add(count, to: .untrusted, of: target, age: age, now: now)
        case .notificationsOfCallerToDevice: notification.add(count, ofPair: told.key, age: age, now: now)
        case .pushesOfCaller: caller.add(count, of: Caller(rawValue: told.key), age: age, now: now)
        case .wrongLoginsOfSource, .wrongLoginsOfUser, .wrongLoginsOfPair, .heldCalls, .heldBytes: break
        }
    }
}
