package import Timekeeping

/// Notices that the process stood still, for example because its virtual machine was paused.
///
/// The shell reports each turn of its event loop, and at least one turn a second. After a standstill, the shell first
/// asks the store what other nodes have taken over. Until the answer, no timer fires, and no request is continued.
package struct Standstill {
    private var lastTurn: Instant
    /// The number of the last question to the store.
    private var question: UInt64 = 0
    /// Whether the answer to the last question has not come.
    package private(set) var isBehind = false

    /// The interval at which the shell reports a turn, even if nothing happens.
    package static let interval: Duration = .seconds(1)
    /// The time without a turn that counts as a standstill. Other nodes take over after five seconds without a sign of
    /// life, and the last sign can be more than a second older than the standstill.
    package static let limit: Duration = .seconds(3)

    package init(now: Instant) { lastTurn = now }

    /// Notes a turn of the loop.
    ///
    /// - Returns: the number of the question that the store must be asked, and the length of the standstill; `nil` if
    ///   the process did not stand still.
    package mutating func turned(now: Instant) -> (question: UInt64, length: Duration)? {
        let length = now - lastTurn
        lastTurn = max(lastTurn, now)
        guard length > Self.limit else { return nil }
        question += 1
        isBehind = true
        return (question, length)
    }

    /// Notes the answer to a question. After a second standstill, only the answer to the second question counts.
    ///
    /// - Returns: whether the node knows now what other nodes have taken over.
    package mutating func caughtUp(_ question: UInt64) -> Bool {
        guard isBehind, question == self.question else { return false }
        isBehind = false
        return true
    }
}
