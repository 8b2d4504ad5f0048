package import Addressing
package import PushDelivery
package import Timekeeping

/// Plans and counts refresh pushes (RFC 8599 section 5.5). The plan decides when a phone gets a further push, and
/// limits the refresh pushes of an app.
///
/// A phone gets the second push when half of the remaining time of its registration is over, and the third push after a
/// further quarter. There are no timers for single phones: once a second, the engine asks which contacts are due. The
/// engine compares the expiry of the contact to find out whether the phone has registered, so a REGISTER needs no work
/// here.
package struct RefreshPushes: Sendable {
    /// A contact that is about to expire.
    package struct Contact: Hashable, Sendable {
        package let binding: DeviceID
        /// The end of the granted time, which changes when the phone registers.
        package let expiry: Instant
        /// The app of the last push; `nil` if no push was sent yet.
        package fileprivate(set) var app: PushApp.ID?
        /// The number of pushes that were sent.
        package fileprivate(set) var tries = 0
        /// Whether a limit has already held a push to the contact back.
        fileprivate var wasHeldBack = false

        package init(_ binding: DeviceID, until expiry: Instant) {
            self.binding = binding
            self.expiry = expiry
        }
    }

    /// The figures of one app since the daemon's start.
    package struct Figures: Hashable, Sendable {
        /// The numbers of first, second and third pushes that were sent.
        package fileprivate(set) var sent = [Int](repeating: 0, count: longest)
        /// The numbers of phones that registered after the first, second and third push, and before the next.
        package fileprivate(set) var came = [Int](repeating: 0, count: longest)
        /// The number of phones that got pushes and did not register before their expiry.
        package fileprivate(set) var never = 0
        /// The number of contacts whose push a limit has held back.
        package fileprivate(set) var heldBack = 0
    }

    /// The maximum number of pushes before one expiry of a contact.
    package static let longest = 3
    /// The maximum number of contacts that are followed until their expiry. Further phones get one push each.
    private static let capacity = 262_144
    /// If less than this time is left until the expiry, a contact gets no push, because the phone could not register in
    /// time.
    private static let leastRest: Duration = .seconds(15)

    package private(set) var figures: [PushApp.ID: Figures] = [:]
    private var pending = DeadlineQueue<Contact>()
    private let tries: Int
    /// `all` limits the refresh pushes of an app. `repetitions` limits second and third pushes to half of this number,
    /// so that each phone gets its first push.
    private var all: RateLimit<Int>
    private var repetitions: RateLimit<Int>
    /// The limit on log lines about refresh pushes that are held back.
    private var lines = RateLimit<Int>(perMinute: 1)
    /// The start of the daemon; `nil` before the start.
    private var startedAt: Instant?

    /// Creates the plan of refresh pushes.
    ///
    /// - Parameters:
    ///   - tries: the maximum number of pushes before one expiry.
    ///   - perSecond: the maximum number of refresh pushes of one app in a second.
    package init(tries: Int, perSecond: Int) {
        self.tries = min(max(tries, 1), Self.longest)
        all = RateLimit(perSecond, in: .seconds(1))
        repetitions = RateLimit(max(1, perSecond / 2), in: .seconds(1))
    }

    /// Notes the start of the daemon.
    package mutating func started(now: Instant) { startedAt = now }

    /// The number of contacts that are followed until their expiry.
    package var count: Int { pending.count }

    // MARK: What happened

    /// Handles a contact that expires within `lead`.
    ///
    /// If the contact was already due at the daemon's start, the earlier run may have sent the first push. The contact
    /// then waits until half of the remaining time is over, so that repeated restarts do not cause repeated pushes.
    ///
    /// The same holds if another node of a cluster may have sent the first push before `since`.
    ///
    /// - Returns: whether the first push is due now.
    package mutating func found(
        _ contact: Contact, lead: Duration, since: Instant = .distantPast, now: Instant
    ) -> Bool {
        guard let startedAt, contact.expiry - max(startedAt, since) <= lead else { return true }
        wait(contact, half: contact.expiry - now, now: now)
        return false
    }

    /// Returns a contact whose next push or whose expiry has come; `nil` if no further contact is due.
    package mutating func nextDue(now: Instant) -> Contact? { pending.popExpired(now: now) }

    /// Decides whether the limits of the app allow a push to the contact, and counts an allowed push.
    package mutating func admits(_ contact: Contact, of app: PushApp.ID, now: Instant) -> Bool {
        guard contact.tries > 0 else { return all.admit(app.index, now: now) }
        guard repetitions.wait(for: app.index, now: now) == nil, all.admit(app.index, now: now) else { return false }
        return repetitions.admit(app.index, now: now)
    }

    /// Whether the log gets a line about pushes of the app that are held back.
    package mutating func tellsOfHeldBack(_ app: PushApp.ID, now: Instant) -> Bool {
        lines.admit(app.index, now: now)
    }

    /// Notes that a push to the contact was sent, and plans the next step.
    ///
    /// - Parameters:
    ///   - contact: the contact.
    ///   - app: the app of the push.
    ///   - allowed: the maximum number of pushes that the app's provider tolerates before the contact expires.
    ///   - now: the present time.
    /// - Returns: the time from which the push is useless: the time of the next push or, after the last push, the expiry
    ///   of the contact.
    package mutating func sent(_ contact: Contact, of app: PushApp.ID, allowed: Int, now: Instant) -> Instant {
        var contact = contact
        contact.app = app
        contact.tries += 1
        figures[app, default: Figures()].sent[min(contact.tries, Self.longest) - 1] += 1
        guard contact.tries < min(allowed, tries), contact.expiry - now > Self.leastRest * 2 else {
            schedule(contact, at: contact.expiry + .seconds(1))
            return contact.expiry
        }
        return wait(contact, half: contact.expiry - now, now: now)
    }

    /// Notes that a limit, or a pause of the provider, has held back a push to the contact. The contact is due again a
    /// little later.
    ///
    /// - Returns: whether the push was held back for the first time.
    package mutating func heldBack(_ contact: Contact, of app: PushApp.ID, now: Instant) -> Bool {
        let isFirst = !contact.wasHeldBack
        var contact = contact
        contact.wasHeldBack = true
        if isFirst { figures[app, default: Figures()].heldBack += 1 }
        postpone(contact, now: now)
        return isFirst
    }

    /// Makes the contact due again a little later, unless it has expired.
    package mutating func postpone(_ contact: Contact, now: Instant) {
        let rest = contact.expiry - now
        if rest > Self.leastRest {
            wait(contact, half: rest / 4, now: now)
        } else if rest > .zero {
            schedule(contact, at: contact.expiry + .seconds(1))
        }
    }

    /// Notes that the phone has registered.
    ///
    /// - Returns: the number of pushes that the phone had got.
    package mutating func came(_ contact: Contact) -> Int {
        guard let app = contact.app, contact.tries > 0 else { return 0 }
        figures[app, default: Figures()].came[min(contact.tries, Self.longest) - 1] += 1
        return contact.tries
    }

    /// Notes that the contact has expired.
    ///
    /// - Returns: whether the phone had got a push.
    package mutating func expired(_ contact: Contact) -> Bool {
        guard let app = contact.app, contact.tries > 0 else { return false }
        figures[app, default: Figures()].never += 1
        return true
    }

    // MARK: Steps

    /// Lets the contact wait for half of the time `rest`, plus up to an eighth of this half. The additional time
    /// differs between phones, so that phones that registered together are not woken together.
    @discardableResult
    private mutating func wait(_ contact: Contact, half rest: Duration, now: Instant) -> Instant {
        let pause = rest / 2
        let instant = now + pause + pause * Self.spread(contact) / 8192
        schedule(contact, at: instant)
        return instant
    }

    private mutating func schedule(_ contact: Contact, at instant: Instant) {
        guard pending.count < Self.capacity else { return }
        _ = pending.schedule(contact, at: instant)
    }

    /// A number from 0 to 1023 that differs between contacts and tries. The number need not be random, because it gives
    /// an attacker no advantage.
    private static func spread(_ contact: Contact) -> Int {
        var mixed = contact.binding.rawValue &+ UInt64(contact.tries) &* 0x9e37_79b9_7f4a_7c15
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return Int((mixed >> 32) % 1024)
    }
}

extension PushApp {
    /// The maximum number of refresh pushes before one expiry of a contact whose registration lasts for `granted`
    /// seconds, so that the phone does not get more pushes an hour than the provider tolerates.
    package func refreshPushes(within granted: UInt32) -> Int {
        max(1, min(RefreshPushes.longest, rules.refreshPushesPerHour * Int(granted) / 3600))
    }
}
