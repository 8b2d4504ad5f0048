package import Timekeeping

/// Decides which part of new requests an overloaded daemon refuses, so that the accepted requests are served in time
/// (F7).
///
/// Overload is measured by waiting times: how long a message waits until the daemon reads it, plus how long the store
/// takes to commit. The pressure rises while the waiting time exceeds ``limit``, and falls otherwise. The daemon
/// refuses the kinds of work in order. It refuses a kind only after the refusals of the previous kind have reached
/// their maximum (``Kind/mostRefused``).
///
/// A random number decides about a request. For some seconds, all requests of one sender have the same random number.
/// Therefore a sender whose first request was admitted without a password can also send the second request with a
/// password.
///
/// ``Admission`` reads no clock: the caller passes the time with each measurement.
package struct Admission: Sendable {
    /// The kinds of work that an overloaded daemon refuses, in the order of refusal.
    ///
    /// Requests inside dialogs are never refused, nor the REGISTER of a phone that a call waits for.
    package enum Kind: Int, CaseIterable, Sendable {
        /// The work is a REGISTER for a user without a contact.
        case newDevice
        /// The work is a request over HTTP.
        case service
        /// The work is a REGISTER for a user with a contact.
        case refresh
        /// The work is an INVITE outside a dialog.
        case newCall

        /// The maximum fraction of the requests of one ``Kind`` that the daemon refuses.
        ///
        /// A refusal takes a fifth (REGISTER) or a tenth (INVITE) of the time that serving the request takes. Even
        /// under extreme load, half of the time is left to serve requests.
        var mostRefused: Double {
            switch self {
            case .newDevice, .service: 1
            case .refresh: 0.8
            case .newCall: 0.9
            }
        }
    }

    /// The longest accepted waiting time of requests; zero switches refusals off.
    package var limit: Duration
    /// Whether the daemon is shutting down and begins no new calls.
    package private(set) var isDraining = false
    /// The time at which the overload began, and the number of refusals before the overload.
    private var refusing: (since: Instant, before: UInt64)?

    /// The strength of the overload, between 0 and the number of kinds.
    ///
    /// The refused fraction of a kind is the pressure minus the kind's index, limited to the range from 0 to 1.
    private(set) package var pressure = 0.0
    private var queue = Measurement()
    private var loss = Measurement()
    private var commit = Measurement()
    private var lastChange: Instant?
    /// The time at which waiting times began to exceed ``limit``; `nil` while waiting times are within the limit.
    private var excessBegan: Instant?

    // MARK: What operators are told

    package mutating func drainBegins() { isDraining = true }

    /// Notes a refusal, and returns whether an overload begins with it. The parameter `count` is the number of earlier
    /// refusals.
    package mutating func refused(after count: UInt64, now: Instant) -> Bool {
        guard refusing == nil else { return false }
        refusing = (now, count)
        return true
    }

    /// Checks whether the overload has ended; `count` is the number of refusals so far.
    package mutating func mayBeRelieved(at count: UInt64, now: Instant) -> Relief {
        guard let (since, before) = refusing else { return .notBegun }
        passed(now: now)
        guard !isUnderPressure else { return .notYet }
        refusing = nil
        return .relieved(after: now - since, refused: Int(clamping: count &- before))
    }

    package enum Relief: Equatable, Sendable {
        /// No overload has begun, because no work was refused.
        case notBegun
        /// The overload continues, because work is still refused.
        case notYet
        /// The overload has ended after the duration `after`, with `refused` refused requests.
        case relieved(after: Duration, refused: Int)
    }

    // MARK: Measurements

    /// The last measured waiting time. After `end`, the waiting time is treated as zero, because no later work has
    /// arrived.
    private struct Measurement {
        var wait: Duration = .zero
        var end = Instant.distantPast

        func wait(at now: Instant) -> Duration { now < end ? wait : .zero }
    }

    private static let life: Duration = .milliseconds(100)
    /// How long waiting times must exceed the limit before the pressure rises, so that a single slow disk write is
    /// ignored.
    private static let patience: Duration = .milliseconds(100)
    private static let largest = Double(Kind.allCases.count)
    /// How much ``pressure`` rises (`rise`) or falls (`fall`) in a second.
    ///
    /// The pressure reaches its maximum in half a second, and falls to zero in two seconds.
    private static let rise = 8.0
    private static let fall = 2.0
    /// The maximum time between two measurements that raises the pressure, so that a pause of the whole machine causes
    /// no refusals.
    private static let longestStep: Duration = .milliseconds(50)
    /// The time after which a sender gets a new random number.
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

    /// Notes how long the store took to commit changes.
    package mutating func stored(after wait: Duration, now: Instant) {
        advance(to: now)
        commit = Measurement(wait: wait, end: now + Self.life)
        measured(at: now)
    }

    /// Notes that a message was lost because it was not read in time; a lost message is treated as a waiting time of
    /// twice ``limit``.
    package mutating func lost(now: Instant) {
        advance(to: now)
        loss = Measurement(wait: limit * 2, end: now + Self.life)
        measured(at: now)
    }

    package mutating func passed(now: Instant) { advance(to: now) }

    // MARK: Decisions

    /// Returns whether work of the kind `kind` is refused now; `lot` is the sender's evenly distributed random number.
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
            // The fall of ``pressure`` uses the whole elapsed time, so that the pressure also falls while no request
            // arrives.
            pressure = max(0, pressure + (now - last) / .seconds(1) * Self.fall * min(0, excess))
        }
        lastChange = pressure > 0 || excessBegan != nil ? now : nil
    }
}
