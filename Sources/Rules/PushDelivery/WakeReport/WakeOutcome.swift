/// Whether the phone came after an accepted push about a call.
package enum WakeOutcome: Hashable, Sendable {
    /// The phone sent a REGISTER or another message, the given time after the push was requested.
    case came(milliseconds: Int64)
    /// The call waited for the phone in vain.
    case never
    /// The caller gave up within ``patience``, before the phone came. It is unknown whether the phone would have come.
    case callerGaveUp
    /// The wait ended within ``patience`` for another reason before the phone came; for example, another phone answered
    /// the call.
    case endedOtherwise

    /// A phone that sends no message for this number of milliseconds is recorded as a phone that never came, however
    /// the call ended.
    package static let patience: Int64 = 30_000

    /// The steps of a timeline record that decide the outcome, in milliseconds after the push was requested.
    package struct Steps: Hashable, Sendable {
        package var registered: Int64?
        package var invited: Int64?
        package var ended: Int64?
        /// Whether a message of the phone released the call, and not a REGISTER.
        package var showedLife: Bool

        package init(registered: Int64?, invited: Int64?, ended: Int64?, showedLife: Bool) {
            (self.registered, self.invited, self.ended) = (registered, invited, ended)
            self.showedLife = showedLife
        }
    }

    /// The result is `nil` if the phone got the INVITE without having sent a message. The phone seemed awake, or came
    /// before a restart.
    package init?(_ steps: Steps, end: () -> TimelineRecord.End?) {
        // A message of the phone releases the call immediately, so the INVITE and the message have the same time.
        let came = steps.registered ?? (steps.showedLife ? steps.invited ?? steps.ended : nil)
        if let came {
            self = .came(milliseconds: max(0, came))
            return
        }
        guard steps.invited == nil else { return nil }
        if let ended = steps.ended, ended >= Self.patience {
            self = .never
            return
        }
        self =
            switch end() {
            case .timeOver, .boundReached, .forwarded: .never
            case .callerGaveUp: .callerGaveUp
            default: .endedOtherwise
            }
    }
}
