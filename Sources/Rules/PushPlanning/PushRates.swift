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

    package init(_ settings: ProxySettings) {
        device = SharedRate(settings.share(of: settings.call.pushesPerDevice))
        notification = SharedRate(settings.share(of: settings.notificationsPerDevice))
        caller = RateLimit(perMinute: settings.call.pushesPerCaller, capacity: 65_536)
        testedToken = RateLimit(perMinute: settings.notificationsPerDevice, capacity: 1024)
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
        self.device.admit(
            device, by: caller.number(at: device.rawValue), isTrusted: caller.isTrusted, now: now)
    }

    /// Whether the rate limit allows the caller one more push to any device; an allowed push is counted.
    package mutating func admits(_ caller: Caller, now: Instant) -> Bool { self.caller.admit(caller, now: now) }

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
        _ = notification.admit(
            device, by: caller?.number(at: device.rawValue), isTrusted: caller?.isTrusted ?? true, now: now)
    }
}
