package import Timekeeping

/// Decides which part of new requests is refused under overload, so that the accepted requests are served in time (F7).
///
/// Overload is measured by how long work waits: from a message's arrival until the daemon reads it, plus the time until
/// its changes are stored. The pressure rises while work waits longer than ``limit``, and falls while work waits less.
/// The kinds of work are refused in order: a kind is refused only after the previous kind has reached its maximum
/// (``Kind/mostRefused``).
///
/// A random number decides whether a request is refused, and all requests of one sender share a number for some
/// seconds. A request that was admitted without a password is therefore also admitted when its sender repeats it with a
/// password.
///
/// The type ``Admission`` reads no clock, because each measurement comes with its time.
package struct Admission: Sendable {
    /// The kinds of work that can be refused, in the order of refusal.
    ///
    /// Requests inside dialogs are never refused, and neither is the REGISTER of a phone that a call waits for.
    package enum Kind: Int, CaseIterable, Sendable {
        /// A REGISTER for a user without a contact.
        case newDevice
        /// The work is a request over HTTP.
        case service
        /// The work is a REGISTER for a user who has a contact.
        case refresh
        /// The work is an INVITE outside a dialog.
        case newCall

        /// The maximum fraction of requests of one ``Kind`` that the daemon refuses.
        ///
        /// A refusal costs a fifth (REGISTER) or a tenth (INVITE) of the time that the daemon needs to serve the
        /// request. The maximums leave half of the time to serve requests, even under extreme load.
        var mostRefused: Double {
            switch self {
            case .newDevice, .service: 1
            case .refresh: 0.8
            case .newCall: 0.9
            }
        }
    }

    /// The longest time that requests may wait before the daemon refuses new requests; zero if the daemon refuses no
    /// requests.
    package var limit: Duration
    /// Whether the daemon is shutting down, and therefore begins no new calls.
    package private(set) var isDraining = false
    /// The time at which refusals began, and the number of refusals before that time.
    private var refusing: (since: Instant, before: UInt64)?

    /// The strength of the overload, between 0 and the number of kinds.
    ///
    /// The fraction of a kind that is refused is the pressure minus the kind's index, limited to the range from 0 to 1.
    private(set) package var pressure = 0.0
    private var queue = Measurement()
    private var loss = Measurement()
    private var commit = Measurement()
    private var lastChange: Instant?
    /// The time at which the waiting time of requests began to exceed ``limit``; `nil` while the waiting time is within
    /// the limit.
    private var excessBegan: Instant?

    // MARK: What operators are told

    package mutating func drainBegins() { isDraining = true }

    /// Notes that work was refused after `count` earlier refusals, and returns whether an overload begins with this
    /// refusal.
    package mutating func refused(after count: UInt64, now: Instant) -> Bool {
        guard refusing == nil else { return false }
        refusing = (now, count)
        return true
    }

    /// Checks whether an overload that has begun is over; `count` is the number of refusals so far.
    package mutating func mayBeRelieved(at count: UInt64, now: Instant) -> Relief {
        guard let (since, before) = refusing else { return .notBegun }
        passed(now: now)
        guard !isUnderPressure else { return .notYet }
        refusing = nil
        return .relieved(after: now - since, refused: Int(clamping: count &- before))
    }

    package enum Relief: Equatable, Sendable {
        /// No overload has begun: the daemon has refused no work.
        case notBegun
        /// The overload continues, because some work is still refused.
        case notYet
        /// The overload has ended after the time `after`, in which `refused` requests were refused.
        case relieved(after: Duration, refused: Int)
    }

    // MARK: Measurements

    /// The last measurement of how long work waited; after the time `end` the wait counts as zero, because no new work
    /// has arrived since.
    private struct Measurement {
        var wait: Duration = .zero
        var end = Instant.distantPast

        func wait(at now: Instant) -> Duration { now < end ? wait : .zero }
    }

    private static let life: Duration = .milliseconds(100)
    /// How long the wait must exceed the limit before the pressure rises, so that a single delay, such as a slow disk
    /// write, is ignored.
    private static let patience: Duration = .milliseconds(100)
    private static let largest = Double(Kind.allCases.count)
    /// The speed per second at which ``pressure`` rises or falls.
    ///
    /// The pressure of an overload reaches its maximum in half a second, and falls to zero in two seconds.
    private static let rise = 8.0
    private static let fall = 2.0
    /// The longest time that one step of the computation takes into account, so that a pause of the whole machine
    /// causes no refusals.
    private static let longestStep: Duration = .milliseconds(50)
    /// How long the requests of a sender keep the same random number.
    package static let lotTime: Duration = .seconds(8)

    package init(limit: Duration) { self.limit = limit }

    /// Whether the daemon now refuses some requests because of overload.
    package var isUnderPressure: Bool { pressure > 0 }

    // MARK: Measurements

    /// Notes how long a message waited in the kernel before the daemon read it.
    package mutating func looked(after wait: Duration, now: Instant) {
        advance(to: now)
        queue = Measurement(wait: wait, end: now + Self.life)
        measured(at: now)
    }

    /// Notes how long the store took to commit changes to the disk.
    package mutating func stored(after wait: Duration, now: Instant) {
        advance(to: now)
        commit = Measurement(wait: wait, end: now + Self.life)
        measured(at: now)
    }

    /// Notes that a message was lost because it was not read in time; a lost message counts as a wait of twice
    /// ``limit``.
    package mutating func lost(now: Instant) {
        advance(to: now)
        loss = Measurement(wait: limit * 2, end: now + Self.life)
        measured(at: now)
    }

    package mutating func passed(now: Instant) { advance(to: now) }

    // MARK: Decisions

    /// Returns whether work of the kind `kind` is refused now; `lot` is an evenly distributed random number, equal for
    /// requests that belong together.
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
            // The fall of ``pressure`` counts the whole elapsed time, so that the pressure also falls while no request
            // arrives.
            pressure = max(0, pressure + (now - last) / .seconds(1) * Self.fall * min(0, excess))
        }
        lastChange = pressure > 0 || excessBegan != nil ? now : nil
    }
}
