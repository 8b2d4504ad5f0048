package import Timekeeping

/// How much of the new work is refused, so that the rest is served in time (F7).
///
/// What counts is how long work waits: from its arrival at the machine until it is looked at, and until what it changes is
/// on the disk. While that stays longer than ``limit`` the pressure rises, and falls again as soon as it is shorter. The kinds
/// of work give way one after the other: before anything of the next is refused, as much of the first is as ever may be
/// (``Kind/mostRefused``). Which requests are among the refused share is drawn by lot, so that a sender who tries again at once
/// has the same lot for some seconds: who was admitted with his question is admitted with his password as well.
///
/// Pure: measurements come in with their time.
package struct Admission: Sendable {
    /// What may be refused, in the order in which it is given up. Nothing else ever is: what belongs to a call, and the
    /// REGISTER of a phone that a call waits for.
    package enum Kind: Int, CaseIterable, Sendable {
        /// A REGISTER for a user without a contact.
        case newDevice
        /// A request over HTTP.
        case service
        /// Any other REGISTER.
        case refresh
        /// An INVITE outside a dialog.
        case newCall

        /// The largest share of it that is refused. To refuse costs time as well, a fifth or a tenth of what it takes to serve:
        /// where even refusing everything would not be enough, half of the time is left to serve some.
        var mostRefused: Double {
            switch self {
            case .newDevice, .service: 1
            case .refresh: 0.8
            case .newCall: 0.9
            }
        }
    }

    /// How long work may wait. Zero: whatever it waits, nothing is refused.
    package var limit: Duration
    /// The daemon is about to end: it begins no calls.
    var isDraining = false
    /// Since when work is refused, and how much had been refused before.
    var refusingSince: Instant?
    var refusedBefore: UInt64 = 0

    /// Between 0 and the number of kinds; the part beyond a kind's place among them is the share of it that is refused.
    private(set) package var pressure = 0.0
    private var queue = Measurement()
    private var loss = Measurement()
    private var commit = Measurement()
    private var lastChange: Instant?
    /// Since when work has waited too long.
    private var excessBegan: Instant?

    /// The last wait that was measured. Nothing is said of a time in which nothing came.
    private struct Measurement {
        var wait: Duration = .zero
        var end = Instant.distantPast

        func wait(at now: Instant) -> Duration { now < end ? wait : .zero }
    }

    private static let life: Duration = .milliseconds(100)
    /// One slow moment, such as a disk that took its time, is over before anybody who is refused could have been spared
    /// it.
    private static let patience: Duration = .milliseconds(100)
    private static let largest = Double(Kind.allCases.count)
    /// How much the pressure changes in a second at the most: it is there within half a second, and gone within two.
    private static let rise = 8.0
    private static let fall = 2.0
    /// More time does not count at once, so that a machine that stood still does not refuse what is just arriving.
    private static let longestStep: Duration = .milliseconds(50)
    /// How long everybody keeps his lot.
    package static let lotTime: Duration = .seconds(8)

    package init(limit: Duration) { self.limit = limit }

    /// Whether anything is refused; all else may be asked only then.
    package var isUnderPressure: Bool { pressure > 0 }

    // MARK: Measurements

    /// Something that came from the network was looked at so long after its arrival.
    package mutating func looked(after wait: Duration, now: Instant) {
        advance(to: now)
        queue = Measurement(wait: wait, end: now + Self.life)
        measured(at: now)
    }

    /// Something was on the disk so long after it was to be written.
    package mutating func stored(after wait: Duration, now: Instant) {
        advance(to: now)
        commit = Measurement(wait: wait, end: now + Self.life)
        measured(at: now)
    }

    /// Something was lost because nobody looked at it in time, which is as bad as twice the time that it may wait.
    package mutating func lost(now: Instant) {
        advance(to: now)
        loss = Measurement(wait: limit * 2, end: now + Self.life)
        measured(at: now)
    }

    package mutating func passed(now: Instant) { advance(to: now) }

    // MARK: Decisions

    /// - Parameters:
    ///   - kind: what the work is.
    ///   - lot: a number that is as likely as any other; the same for those that belong together.
    ///   - now: the time.
    /// - Returns: whether it is refused.
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
            // All of the time counts: who does not ask for a while finds it gone.
            pressure = max(0, pressure + (now - last) / .seconds(1) * Self.fall * min(0, excess))
        }
        lastChange = pressure > 0 || excessBegan != nil ? now : nil
    }
}
