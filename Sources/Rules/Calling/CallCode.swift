/// Four letters that say how a call waited, was pushed, woke a phone and ended; docs/Logging.md lists the letters.
package struct CallCode: Hashable, Sendable, CustomStringConvertible {
    /// Whether the INVITE waited for a phone.
    package enum Hold: String, Hashable, Sendable, CaseIterable {
        /// At least one phone was asleep, and the call waited for it.
        case held = "H"
        /// The connection to a phone that had the INVITE was lost, so the call waited for a phone again.
        case again = "M"
        /// All phones got the INVITE immediately.
        case atOnce = "N"
        /// A phone made the call through the upstream.
        case outgoing = "O"
        /// No phone got the INVITE or a push, because the call was refused immediately or the user has no contact.
        case none = "-"
    }

    /// The best result among the pushes to the call's phones.
    package enum Push: String, Hashable, Sendable, CaseIterable {
        /// A push provider accepted a push for the call.
        case accepted = "A"
        /// A push was sent, and the push provider had not answered when the call ended.
        case sent = "S"
        /// A push still waited in the daemon's queue when the call ended.
        case queued = "Q"
        /// All pushes failed.
        case failed = "F"
        /// No push was sent, because the push provider is paused.
        case paused = "P"
        /// No push was sent, because a rate limit was reached.
        case limited = "L"
        /// The call needed no push.
        case none = "-"
    }

    /// The event that ended the call's wait for a phone.
    package enum Wake: String, Hashable, Sendable, CaseIterable {
        /// A phone registered.
        case registered = "R"
        /// A phone sent a message on its registered flow.
        case showedLife = "K"
        /// No phone woke.
        case nobody = "N"
        /// The call waited for no phone.
        case none = "-"
    }

    package enum End: String, Hashable, Sendable, CaseIterable {
        case answered = "A"
        /// The Reason of the caller's CANCEL says that somebody outside this proxy answered the call.
        case answeredElsewhere = "E"
        /// The caller cancelled the call before anybody answered.
        case callerGaveUp = "C"
        /// A phone or the upstream refused the call.
        case refused = "R"
        /// A phone or the upstream had the INVITE, but gave no final response.
        case noAnswer = "N"
        /// The INVITE could not be sent to any phone.
        case unreachable = "U"
        /// No phone registered before the time limit for waiting.
        case timeOver = "T"
        /// The pushes failed, so the call stopped waiting for phones.
        case pushFailed = "P"
        /// The phones signed out, their tokens were dead, or the user has no contact.
        case phonesGone = "G"
        /// The call was forwarded, and the destination answered.
        case forwarded = "F"
        /// The caller was redirected with 302.
        case redirected = "X"
        /// An operator ended the call.
        case endedByOperator = "O"
        /// This daemon refused the call immediately.
        case denied = "D"
        /// No phone rang, because the user's rules ask for no disturbance.
        case notDisturbed = "S"
    }

    package var hold: Hold
    package var push: Push
    package var wake: Wake
    package var end: End

    package init(_ hold: Hold, _ push: Push, _ wake: Wake, _ end: End) {
        self.hold = hold
        self.push = push
        self.wake = wake
        self.end = end
    }

    /// The code of a refused call, for which no phone got the INVITE or a push.
    package static let denied = CallCode(.none, .none, .none, .denied)

    package var description: String { hold.rawValue + push.rawValue + wake.rawValue + end.rawValue }

    /// Whether the call failed because of the daemon, a push provider, the network or the upstream, and not because of
    /// a person.
    package var isFailure: Bool {
        switch end {
        case .timeOver, .pushFailed, .noAnswer, .unreachable: true
        // The call needs a log line, because no phone could get it, although the user's own rule is the cause.
        case .notDisturbed: true
        case .forwarded, .redirected: wake == .nobody || hold == .none
        case .phonesGone: hold == .none
        case .callerGaveUp:
            wake == .nobody
                && (push == .failed || push == .sent || push == .queued || push == .paused || push == .limited)
        case .answered, .answeredElsewhere, .refused, .endedByOperator, .denied: false
        }
    }
}

extension CallCode {
    /// How the call ended, in words for log lines.
    package var words: StaticString {
        switch (hold, end) {
        case (.none, .forwarded): "the user has no contact, so the call was forwarded"
        case (.none, .phonesGone): "the user has no contact, and the forward failed"
        default: end.words
        }
    }
}

extension CallCode.End {
    /// How the call ended, in words for log lines.
    package var words: StaticString {
        switch self {
        case .answered: "answered"
        case .answeredElsewhere: "answered elsewhere"
        case .callerGaveUp: "the caller gave up"
        case .refused: "refused"
        case .noAnswer: "no answer to the INVITE"
        case .unreachable: "the INVITE could not be sent"
        case .timeOver: "no phone came in time"
        case .pushFailed: "the push failed"
        case .phonesGone: "the phone signed out, or its token was dead"
        case .forwarded: "no phone came, so the call was forwarded"
        case .redirected: "no phone came, so the caller was redirected"
        case .endedByOperator: "an operator ended the call"
        case .denied: "refused at once"
        case .notDisturbed: "do not disturb, so no phone rang: see sippushd user rules"
        }
    }
}

/// Events of a call that its last log line contains, and that the ``Fork`` does not store.
package struct CallMarks: OptionSet, Sendable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// The call has waited for a phone.
    package static let held = CallMarks(rawValue: 1)
    package static let heldAgain = CallMarks(rawValue: 2)
    package static let pushAsked = CallMarks(rawValue: 4)
    package static let pushFailed = CallMarks(rawValue: 8)
    package static let pushLimited = CallMarks(rawValue: 16)
    package static let pushPaused = CallMarks(rawValue: 32)
    /// A phone has registered while the call waited for the phone.
    package static let registered = CallMarks(rawValue: 64)
    package static let showedLife = CallMarks(rawValue: 128)
    /// The call stopped waiting for phones because the time limit was reached.
    package static let timeOver = CallMarks(rawValue: 256)
    /// The caller got 180 because a push was accepted, although no phone rang.
    package static let rungForPush = CallMarks(rawValue: 512)
    /// The caller was redirected with 302.
    package static let redirected = CallMarks(rawValue: 1024)
    /// A phone signed out, or its token was dead, while the call waited for the phone.
    package static let phonesGone = CallMarks(rawValue: 4096)
    /// The log line about the end of the call was written.
    package static let told = CallMarks(rawValue: 2048)
    /// The user's rules let no phone ring.
    package static let notDisturbed = CallMarks(rawValue: 8192)
}
