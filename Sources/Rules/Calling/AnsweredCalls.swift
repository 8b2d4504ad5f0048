package import Bytes
import Collections
package import Timekeeping

/// Answered calls that the journal keeps for another run of the daemon.
///
/// A call is kept for five seconds after its answer, because the ACK may be lost. If no ACK passes within one second, the
/// call is kept for 32 seconds, as long as a phone repeats its answer (RFC 3261 section 13.3.1.4).
package struct AnsweredCalls {
    /// How long a call is kept after an answer with an ACK. A phone repeats its answer at most four seconds later (T2).
    private static let moment: Duration = .seconds(5)
    /// Only an ACK that passes within one second of the answer counts. After a slower ACK, the phone may repeat its
    /// answer later than ``moment``.
    private static let quick: Duration = .seconds(1)

    private struct Answer {
        let call: ProxiedRequest
        let dialog: Int
        let answered: Instant
    }

    /// How long an answer without an ACK is kept: 64 times T1.
    private static let patience: Duration = .seconds(32)
    /// How many answers without an ACK are kept. The oldest are dropped first.
    private let limit: Int
    private var recent = Queue<Answer>()
    private var unacknowledged = Queue<Answer>()
    /// For each dialog without an ACK, the time of its answer.
    private var dialogs: [Int: Instant] = [:]
    /// When the earliest armed timer fires. Timers that are armed for later times are ignored.
    private var due: Instant?

    package init(limit: Int = 16_384) { self.limit = limit }

    package var isEmpty: Bool { recent.isEmpty && unacknowledged.isEmpty }

    // MARK: The timer

    /// The time for which a timer has to be armed; `nil` if an armed timer is early enough.
    package mutating func timerWanted() -> Instant? {
        guard let end = nextEnd, due.map({ end < $0 }) ?? true else { return nil }
        due = end
        return end
    }

    /// - Returns: whether the timer for ``due`` has fired. A timer that was armed for another time is ignored.
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

    /// A phone has answered, or repeats its answer.
    ///
    /// - Parameters:
    ///   - call: the call, which is kept only if the journal has it.
    ///   - dialog: the hash of ``dialog(_:_:_:)``.
    ///   - now: the monotonic clock.
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

    /// Keeps a call that was answered in an earlier run.
    package mutating func resume(_ call: ProxiedRequest, now: Instant) {
        guard call.journalling != .off else { return }
        call.journalKeeps(forAnswers: 1)
        unacknowledged.append(Answer(call: call, dialog: 0, answered: now))
    }

    /// The ACK of an answer has passed.
    package mutating func acknowledged(_ dialog: Int, now: Instant) {
        guard let answered = dialogs[dialog], now <= answered + Self.quick else { return }
        dialogs[dialog] = nil
    }

    /// The next call that the journal need not keep any more.
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

    /// The journal need not keep the call for one of its answers any more. Returns true if this was the call's last
    /// answer.
    private func isOver(_ call: ProxiedRequest) -> Bool {
        guard case .answered(let count) = call.journalling else { return false }
        guard count > 1 else { return true }
        call.journalKeeps(forAnswers: count - 1)
        return false
    }

    /// A hash that an answer and its ACK share. Peers choose the texts, but cannot make them collide since the hash is
    /// seeded.
    package static func dialogKey(_ callID: ByteString, _ toTag: ByteString?, _ cseq: UInt32) -> Int {
        var hasher = Hasher()
        hasher.combine(callID)
        hasher.combine(toTag)
        hasher.combine(cseq)
        return hasher.finalize()
    }
}
