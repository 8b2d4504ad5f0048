package import Bytes
import Collections
package import Timekeeping

/// The answered calls that stay in the call journal for some time, because their ACK could get lost at a restart of the
/// daemon.
///
/// An answered call stays in the call journal for five seconds. Without an ACK within one second, the call stays for 32
/// seconds, because a phone repeats its 2xx for that long (RFC 3261 section 13.3.1.4).
package struct AnsweredCalls: ~Copyable {
    /// How long the journal keeps a call whose ACK came in time. A phone repeats its 2xx at least every four seconds
    /// (T2).
    private static let moment: Duration = .seconds(5)
    /// The longest time between a 2xx and its ACK that is treated as in time.
    private static let quick: Duration = .seconds(1)

    private struct Answer {
        let call: ProxiedRequest
        let dialog: Int
        let answered: Instant
    }

    /// How long the journal keeps an answered call without ACK: 64 times T1.
    private static let patience: Duration = .seconds(32)
    /// The maximum number of answered calls without ACK; above the maximum, the oldest calls are dropped.
    private let limit: Int
    private var recent = Queue<Answer>()
    private var unacknowledged = Queue<Answer>()
    /// The time of the 2xx for each dialog without an ACK, by the dialog's ``dialogKey(_:_:_:)``.
    private var dialogs: [Int: Instant] = [:]
    /// When the earliest timer for the journal fires. If another timer for the journal fires, the engine ignores it.
    private var due: Instant?

    package init(limit: Int = 16_384) { self.limit = limit }

    package var isEmpty: Bool { recent.isEmpty && unacknowledged.isEmpty }

    // MARK: The timer

    /// The instant at which the engine must set a new timer; `nil` if the engine's present timer fires early enough.
    package mutating func timerWanted() -> Instant? {
        guard let end = nextEnd, due.map({ end < $0 }) ?? true else { return nil }
        due = end
        return end
    }

    /// Handles a timer for answered calls; returns false if the timer was not set for ``due``.
    package mutating func timerFired(now: Instant) -> Bool {
        guard let due, now >= due else { return false }
        self.due = nil
        return true
    }

    private var nextEnd: Instant? {
        let first = recent.first.map { $0.answered + Self.moment }
        guard let last = unacknowledged.first.map({ $0.answered + Self.patience }) else { return first }
        return min(first ?? last, last)
    }

    // MARK: What happens

    /// Notes a phone's first or repeated 2xx to a call in the journal. The parameter `dialog` is the key of the dialog
    /// of the 2xx: see ``dialogKey(_:_:_:)``.
    package mutating func note(_ call: ProxiedRequest, in dialog: Int, now: Instant) {
        switch call.journalling {
        case .off: return
        case .answered where dialogs[dialog] != nil: return
        case .answered(let count):
            guard count < .max else { return }
            call.journalKeeps(forAnswers: count + 1)
        case .open: call.journalKeeps(forAnswers: 1)
        }
        dialogs[dialog] = now
        recent.append(Answer(call: call, dialog: dialog, answered: now))
    }

    /// Adds a call that was answered before the daemon restarted.
    package mutating func resume(_ call: ProxiedRequest, now: Instant) {
        guard call.journalling != .off else { return }
        call.journalKeeps(forAnswers: 1)
        unacknowledged.append(Answer(call: call, dialog: 0, answered: now))
    }

    /// Notes that the ACK of a 2xx has passed through the proxy.
    package mutating func acknowledged(_ dialog: Int, now: Instant) {
        guard let answered = dialogs[dialog], now <= answered + Self.quick else { return }
        dialogs[dialog] = nil
    }

    /// Removes and returns a call that the journal need not keep any longer; `nil` if the journal needs all its calls.
    package mutating func popDue(now: Instant) -> ProxiedRequest? {
        while let answer = recent.first, now >= answer.answered + Self.moment {
            _ = recent.popFirst()
            if dialogs[answer.dialog] == nil {
                if isOver(answer.call) { return answer.call }
            } else {
                unacknowledged.append(answer)
            }
        }
        while let answer = unacknowledged.first,
            now >= answer.answered + Self.patience || unacknowledged.count > limit
        {
            _ = unacknowledged.popFirst()
            dialogs[answer.dialog] = nil
            if isOver(answer.call) { return answer.call }
        }
        return nil
    }

    /// Notes that one 2xx of the call no longer needs an ACK. The result is true if no other 2xx of the call needs an
    /// ACK.
    private func isOver(_ call: ProxiedRequest) -> Bool {
        guard case .answered(let count) = call.journalling else { return false }
        guard count > 1 else { return true }
        call.journalKeeps(forAnswers: count - 1)
        return false
    }

    /// The key of a dialog: a hash that is equal for a 2xx and its ACK. The hash of a dialog has a random seed, so that
    /// peers cannot make two dialogs collide.
    package static func dialogKey(_ callID: ByteString, _ toTag: ByteString?, _ cseq: UInt32) -> Int {
        var hasher = Hasher()
        hasher.combine(callID)
        hasher.combine(toTag)
        hasher.combine(cseq)
        return hasher.finalize()
    }
}
