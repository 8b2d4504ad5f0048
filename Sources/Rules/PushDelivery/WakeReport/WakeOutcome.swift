/// The outcome of a push about a call that the provider accepted: whether the phone came.
package enum WakeOutcome: Hashable, Sendable {
    /// The phone sent a REGISTER or another sign of life, this time after the push was requested.
    case came(milliseconds: Int64)
    /// The call waited for the phone in vain.
    case never
    /// The caller gave up within ``patience``, before the phone came. It is unknown whether the phone would have
    /// registered after the push.
    case callerGaveUp
    /// The wait ended within ``patience`` for another reason, before the phone came. For example, a different phone of
    /// the user answered the call.
    case endedOtherwise

    /// After this many milliseconds without a sign of the phone, the phone counts as a phone that never came, however
    /// the call ended.
    package static let patience: Int64 = 30_000

    /// The steps of a timeline record that decide about the outcome, in milliseconds after the push was requested.
    package struct Steps: Hashable, Sendable {
        package var registered: Int64?
        package var invited: Int64?
        package var ended: Int64?
        /// Whether a message of the phone other than a REGISTER released the call.
        package var showedLife: Bool

        package init(registered: Int64?, invited: Int64?, ended: Int64?, showedLife: Bool) {
            (self.registered, self.invited, self.ended) = (registered, invited, ended)
            self.showedLife = showedLife
        }
    }

    /// The result is `nil` for a push that woke nobody, because the phone got the INVITE without a sign of life: the
    /// phone seemed to be awake, or it came in an earlier run of the daemon.
    package init?(_ steps: Steps, end: () -> TimelineRecord.End?) {
        // A sign of life releases the call at once, so the time of the INVITE is the time of the sign.
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
