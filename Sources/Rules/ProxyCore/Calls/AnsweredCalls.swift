import Bytes
import Collections
import Timekeeping

/// Calls that were answered and are kept for another run of the program: until the ACK of each answer has passed and for a
/// moment more, as that ACK may have been lost on its way; without one for as long as a phone says its answer again (RFC
/// 3261 section 13.3.1.4).
struct AnsweredCalls {
    /// The longest pause between two copies of an answer is four seconds (T2).
    private static let moment: Duration = .seconds(5)
    /// An ACK that comes as quickly as this leaves no copy of its answer without an ACK for longer than the moment.
    private static let quick: Duration = .seconds(1)

    private struct Answer {
        let call: Call
        let dialog: Int
        let answered: Instant
    }

    /// For how long an answer without an ACK is kept: 64 times T1.
    private static let patience: Duration = .seconds(32)
    /// How many of those are kept; the oldest give way.
    private let limit: Int
    private var recent = Queue<Answer>()
    private var unacknowledged = Queue<Answer>()
    /// When they were answered, of those that have no ACK.
    private var dialogs: [Int: Instant] = [:]
    /// For when the timer is armed that counts; it may have been armed for later before.
    private var due: Instant?

    init(limit: Int = 16_384) { self.limit = limit }

    var isEmpty: Bool { recent.isEmpty && unacknowledged.isEmpty }

    // MARK: The timer

    /// When a timer is to be armed; `nil` when one is armed that is early enough.
    mutating func timerWanted() -> Instant? {
        guard let end = nextEnd, due.map({ end < $0 }) ?? true else { return nil }
        due = end
        return end
    }

    /// - Returns: whether it is the timer that counts. Another was armed before it for later, and is of no use.
    mutating func timerFired(now: Instant) -> Bool {
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

    /// A phone has answered, or says again what it has answered before.
    ///
    /// - Parameters:
    ///   - call: one that is not written is not kept either.
    ///   - dialog: see ``dialog(_:_:_:)``.
    ///   - now: the monotonic clock.
    mutating func note(_ call: Call, in dialog: Int, now: Instant) {
        switch call.journalling {
        case .off: return
        case .answered where dialogs[dialog] != nil: return
        case .answered(let count):
            guard count < .max else { return }
            call.journalling = .answered(count + 1)
        case .open: call.journalling = .answered(1)
        }
        dialogs[dialog] = now
        recent.append(Answer(call: call, dialog: dialog, answered: now))
    }

    /// A call that an earlier run has seen answered.
    mutating func resume(_ call: Call, now: Instant) {
        guard call.journalling != .off else { return }
        call.journalling = .answered(1)
        unacknowledged.append(Answer(call: call, dialog: 0, answered: now))
    }

    /// An ACK has passed.
    mutating func acknowledged(_ dialog: Int, now: Instant) {
        guard let answered = dialogs[dialog], now <= answered + Self.quick else { return }
        dialogs[dialog] = nil
    }

    /// The next call that need not be kept any more.
    mutating func popDue(now: Instant) -> Call? {
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

    /// One of the call's answers need not be kept any more; true when it was the last.
    private func isOver(_ call: Call) -> Bool {
        guard case .answered(let count) = call.journalling else { return false }
        guard count > 1 else { return true }
        call.journalling = .answered(count - 1)
        return false
    }

    /// What an answer and its ACK have in common. Peers choose these texts, and cannot make them collide since the hash is
    /// seeded.
    static func dialog(_ callID: ByteString, _ toTag: ByteString?, _ cseq: UInt32) -> Int {
        var hasher = Hasher()
        hasher.combine(callID)
        hasher.combine(toTag)
        hasher.combine(cseq)
        return hasher.finalize()
    }
}
