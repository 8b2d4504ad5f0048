package import Registration
package import Timekeeping

/// The users whom this node has announced in the store, because something waits here for their phones.
///
/// Another node that accepts a REGISTER of such a user notifies this node. The announcement of a user stays for some
/// seconds after the last request, so that a busy user is not announced and withdrawn for each call.
package struct WaitingUsers {
    private var announced: [AddressOfRecord: Instant] = [:]
    /// When the store has last not answered. It may have lost the announcements from before.
    private var failedAt = Instant.distantPast
    /// Whether the timer of the next question runs.
    private var isArmed = false
    /// The number of the question, which selects a part of very many users.
    private var turn = 0

    private static let stay: Duration = .seconds(5)
    /// The maximum number of users in one question to the store.
    private static let together = 500
    /// The number of questions in a minute.
    private static let turnsOfMinute = 240

    /// The notices that wait for the commit of a refreshed contact.
    private var notices: [CommitTicket: Notice] = [:]
    private var lastNotice: UInt64 = 0

    /// A notice that a phone of a user has registered here, and the nodes that get it.
    package struct Notice: Sendable {
        package let aor: AddressOfRecord
        package let nodes: [String]
    }

    package init() {}

    /// Keeps a notice until the commit with the returned ticket has ended.
    package mutating func waits(_ aor: AddressOfRecord, for nodes: [String]) -> CommitTicket {
        lastNotice += 1
        let ticket = CommitTicket(lastNotice, of: .nodes)
        notices[ticket] = Notice(aor: aor.compacted(), nodes: nodes)
        return ticket
    }

    package mutating func committed(_ ticket: CommitTicket) -> Notice? { notices.removeValue(forKey: ticket) }

    package var isEmpty: Bool { announced.isEmpty }
    package var count: Int { announced.count }

    package mutating func announced(_ aor: AddressOfRecord, now: Instant) { announced[aor] = now }

    /// Notes that the store has not answered, so that all announcements are repeated.
    package mutating func storeFailed(now: Instant) { failedAt = now }

    /// Whether the engine must set the timer of the next question.
    package mutating func armsTimer() -> Bool {
        guard !announced.isEmpty, !isArmed else { return false }
        isArmed = true
        return true
    }

    package mutating func timerFired() { isArmed = false }

    /// The users to ask about now, and the users whose announcement ends.
    ///
    /// - Parameters:
    ///   - waking: the users whose phones are being woken, and are asked about each time.
    ///   - now: the present time.
    ///   - keeps: whether a message is stored for a user. The user is asked about once a minute.
    /// - Returns: the users to ask about, the users to announce again, and the users whose announcement the store must
    ///   delete.
    package mutating func due(
        waking: Set<AddressOfRecord>, now: Instant, keeps: (AddressOfRecord) -> Bool
    ) -> (polled: [AddressOfRecord], again: [AddressOfRecord], over: [AddressOfRecord]) {
        turn &+= 1
        var over: [AddressOfRecord] = []
        var again: [AddressOfRecord] = []
        var polled: [AddressOfRecord] = []
        // With very many users, each question has another part of the users.
        let parts = waking.count / Self.together + 1
        for (aor, since) in announced {
            if waking.contains(aor) {
                guard hasTurn(aor, among: parts) else { continue }
                if since > failedAt { polled.append(aor) } else { again.append(aor) }
            } else if keeps(aor) {
                if hasTurn(aor, among: Self.turnsOfMinute) { polled.append(aor) }
            } else if since + Self.stay < now {
                over.append(aor)
            }
        }
        for aor in over { announced[aor] = nil }
        return (polled, again, over)
    }

    private func hasTurn(_ aor: AddressOfRecord, among parts: Int) -> Bool {
        UInt(bitPattern: aor.hashValue) % UInt(parts) == UInt(turn % parts)
    }
}
