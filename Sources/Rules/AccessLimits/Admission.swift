package import Timekeeping

/// Decides which share of new work is refused under overload, so that the rest is served in time (F7).
///
/// The measure of overload is how long work waits: from a message's arrival at the machine until it is read, plus the
/// time until its changes are persisted. While this wait exceeds ``limit``, the pressure rises; when the wait is
/// shorter, the pressure falls. The kinds of work are refused in order: the next kind is refused only after the kind
/// before has reached its maximum share (``Kind/mostRefused``). A lot decides which requests are refused. A sender
/// keeps the same lot for some seconds, so a request admitted without a password is also admitted when it comes again
/// with a password.
///
/// This type is pure: each measurement comes with its time.
package struct Admission: Sendable {
    /// The kinds of work that may be refused, in the order of refusal. Requests inside a call are never refused, and
    /// neither is the REGISTER of a phone that a call waits for.
    package enum Kind: Int, CaseIterable, Sendable {
        /// A REGISTER for a user without a contact.
        case newDevice
        /// A request over HTTP.
        case service
        /// Any other REGISTER.
        case refresh
        /// An INVITE outside a dialog.
        case newCall

        /// The maximum share of this kind that is refused. A refusal itself costs a fifth (REGISTER) or a tenth
        /// (INVITE) of the time to serve the request. With these maximum shares, even extreme load leaves half of the
        /// time to serve requests.
        var mostRefused: Double {
            switch self {
            case .newDevice, .service: 1
            case .refresh: 0.8
            case .newCall: 0.9
            }
        }
    }

    /// How long work may wait. Zero: nothing is refused, however long work waits.
    package var limit: Duration
    /// The daemon is shutting down and begins no new calls.
    package private(set) var isDraining = false
    /// When refusals began, and the value of the counter of refusals at that time.
    private var refusing: (since: Instant, before: UInt64)?

    /// The pressure, between 0 and the number of kinds. The part above a kind's index is the share of that kind that is
    /// refused.
    private(set) package var pressure = 0.0
    private var queue = Measurement()
    private var loss = Measurement()
    private var commit = Measurement()
    private var lastChange: Instant?
    /// When the wait began to exceed ``limit``. `nil` while the wait is within the limit.
    private var excessBegan: Instant?

    // MARK: What operators are told

    package mutating func drainBegins() { isDraining = true }

    /// Work was refused. `count` is the number of refusals before it.
    ///
    /// - Returns: whether the overload has begun now.
    package mutating func refused(after count: UInt64, now: Instant) -> Bool {
        guard refusing == nil else { return false }
        refusing = (now, count)
        return true
    }

    /// Checks whether an overload that has begun is over. `count` is the number of refusals so far.
    package mutating func mayBeRelieved(at count: UInt64, now: Instant) -> Relief {
        guard let (since, before) = refusing else { return .notBegun }
        passed(now: now)
        guard !isUnderPressure else { return .notYet }
        refusing = nil
        return .relieved(after: now - since, refused: Int(clamping: count &- before))
    }

    package enum Relief: Equatable, Sendable {
        /// Nothing was refused.
        case notBegun
        /// Work is still refused.
        case notYet
        /// Nothing is refused any more.
        case relieved(after: Duration, refused: Int)
    }

    // MARK: Measurements

    /// The last measured wait. After its end the measurement counts as zero, since no new work came.
    private struct Measurement {
        var wait: Duration = .zero
        var end = Instant.distantPast

        func wait(at now: Instant) -> Duration { now < end ? wait : .zero }
    }

    private static let life: Duration = .milliseconds(100)
    /// How long the wait must exceed the limit before the pressure rises. A single delay, such as a slow disk write,
    /// ends before refusals could help anybody.
    private static let patience: Duration = .milliseconds(100)
    private static let largest = Double(Kind.allCases.count)
    /// The maximum change of the pressure per second. The pressure reaches its maximum in half a second, and falls to
    /// zero in two.
    private static let rise = 8.0
    private static let fall = 2.0
    /// The longest time that counts in one step. After a pause of the whole machine, the work that arrives then is not
    /// refused.
    private static let longestStep: Duration = .milliseconds(50)
    /// How long a sender keeps the same lot.
    package static let lotTime: Duration = .seconds(8)

    package init(limit: Duration) { self.limit = limit }

    /// Whether any work is refused. The other decisions need to be asked only then.
    package var isUnderPressure: Bool { pressure > 0 }

    // MARK: Measurements

    /// A message from the network was read, `wait` after its arrival.
    package mutating func looked(after wait: Duration, now: Instant) {
        advance(to: now)
        queue = Measurement(wait: wait, end: now + Self.life)
        measured(at: now)
    }

    /// A change was persisted, `wait` after its commit was ordered.
    package mutating func stored(after wait: Duration, now: Instant) {
        advance(to: now)
        commit = Measurement(wait: wait, end: now + Self.life)
        measured(at: now)
    }

    /// A message was lost because it was not read in time. A loss counts as twice the permitted wait.
    package mutating func lost(now: Instant) {
        advance(to: now)
        loss = Measurement(wait: limit * 2, end: now + Self.life)
        measured(at: now)
    }

    package mutating func passed(now: Instant) { advance(to: now) }

    // MARK: Decisions

    /// - Parameters:
    ///   - kind: the kind of the work.
    ///   - lot: an evenly distributed random number. Requests that belong together have the same lot.
    ///   - now: the time.
    /// - Returns: whether the work is refused.
    package mutating func refuses(_ kind: Kind, lot: UInt32, now: Instant) -> Bool {
        advance(to: now)
        return Double(lot) < min(kind.mostRefused, pressure - Double(kind.rawValue)) * 4_294_967_296
    }

    private mutating func measured(at now: Instant) {
        guard limit > .zero else { return }
        if wait(at: now) <= limit {
            excessBegan = nil
        } else if excessBegan == nil {
            excessBegan = now
        }
        if lastChange == nil, excessBegan != nil { lastChange = now }
    }

    private func wait(at now: Instant) -> Duration {
        max(queue.wait(at: now), loss.wait(at: now)) + commit.wait(at: now)
    }

    private mutating func advance(to now: Instant) {
        guard let last = lastChange, now > last else { return }
        let excess = limit > .zero ? wait(at: now) / limit - 1 : -1
        if excess <= 0 { excessBegan = nil }
        if let excessBegan {
            if now - excessBegan > Self.patience {
                let step = min(now - last, Self.longestStep) / .seconds(1)
                pressure = min(Self.largest, pressure + step * Self.rise * min(1, excess))
            }
        } else {
            // The whole elapsed time counts, so the pressure has fallen if no request asked for a while.
            pressure = max(0, pressure + (now - last) / .seconds(1) * Self.fall * min(0, excess))
        }
        lastChange = pressure > 0 || excessBegan != nil ? now : nil
    }
}
