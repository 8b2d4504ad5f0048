/// Four letters that say how a call was held, pushed, woken and ended. docs/Logging.md explains them.
package struct CallCode: Hashable, Sendable, CustomStringConvertible {
    /// Whether the INVITE waited for a phone.
    package enum Hold: String, Hashable, Sendable, CaseIterable {
        /// At least one phone was waited for.
        case held = "H"
        /// The same, and a phone that had the INVITE was lost and waited for again.
        case again = "M"
        /// All phones got the INVITE at once.
        case atOnce = "N"
        /// A phone made the call, through the upstream.
        case outgoing = "O"
        /// No phone was called: the call was refused at once, or the user has no contact.
        case none = "-"
    }

    /// The best that happened to the pushes of its phones.
    package enum Push: String, Hashable, Sendable, CaseIterable {
        /// A provider accepted one.
        case accepted = "A"
        /// One was sent, and its provider had not answered.
        case sent = "S"
        /// One waited for its turn, for a credential or for another try.
        case queued = "Q"
        /// All failed.
        case failed = "F"
        /// None was sent: the provider is paused.
        case paused = "P"
        /// None was sent: a limit was reached.
        case limited = "L"
        /// None was needed.
        case none = "-"
    }

    /// The event that ended the wait for a phone.
    package enum Wake: String, Hashable, Sendable, CaseIterable {
        /// A phone registered.
        case registered = "R"
        /// A phone showed life on the flow of its registration.
        case showedLife = "K"
        /// Nobody came.
        case nobody = "N"
        /// Nobody was waited for.
        case none = "-"
    }

    package enum End: String, Hashable, Sendable, CaseIterable {
        case answered = "A"
        /// Another phone than ours answered, as the caller's CANCEL says.
        case answeredElsewhere = "E"
        /// The caller gave up.
        case callerGaveUp = "C"
        /// A phone or the upstream refused it.
        case refused = "R"
        /// A phone or the upstream had the INVITE and gave no final response.
        case noAnswer = "N"
        /// The INVITE could not be sent.
        case unreachable = "U"
        /// No phone came in time.
        case timeOver = "T"
        /// The pushes failed, so that no phone was waited for any longer.
        case pushFailed = "P"
        /// The phones signed out, their tokens were dead, or the user has no contact.
        case phonesGone = "G"
        /// It was forwarded, and the destination answered.
        case forwarded = "F"
        /// The caller was redirected.
        case redirected = "X"
        /// An operator ended it.
        case endedByOperator = "O"
        /// This daemon refused it at once.
        case denied = "D"
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

    /// A call that was refused before any phone was called.
    package static let denied = CallCode(.none, .none, .none, .denied)

    package var description: String { hold.rawValue + push.rawValue + wake.rawValue + end.rawValue }

    /// Whether the cause is the daemon, a push provider, the network or the upstream, and no person.
    package var isFailure: Bool {
        switch end {
        case .timeOver, .pushFailed, .noAnswer, .unreachable: true
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
    /// How the call ended, as log lines say it.
    var words: StaticString {
        switch (hold, end) {
        case (.none, .forwarded): "the user has no contact, the call was forwarded"
        case (.none, .phonesGone): "the user has no contact, and the forward failed"
        default: end.words
        }
    }
}

extension CallCode.End {
    /// As log lines say it.
    var words: StaticString {
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
        case .forwarded: "no phone came, the call was forwarded"
        case .redirected: "no phone came, the caller was redirected"
        case .endedByOperator: "an operator ended it"
        case .denied: "refused at once"
        }
    }
}

/// The events of a call that its fork does not keep, for the call's line in the log.
struct CallMarks: OptionSet, Sendable {
    let rawValue: UInt16

    /// A phone was waited for, or was lost and waited for again.
    static let held = CallMarks(rawValue: 1)
    static let heldAgain = CallMarks(rawValue: 2)
    static let pushAsked = CallMarks(rawValue: 4)
    static let pushFailed = CallMarks(rawValue: 8)
    static let pushLimited = CallMarks(rawValue: 16)
    static let pushPaused = CallMarks(rawValue: 32)
    /// A phone that was waited for has registered, or has shown life.
    static let registered = CallMarks(rawValue: 64)
    static let showedLife = CallMarks(rawValue: 128)
    /// The time to wait for phones was over.
    static let timeOver = CallMarks(rawValue: 256)
    /// The caller got 180 although no phone rang.
    static let rungForPush = CallMarks(rawValue: 512)
    /// The caller was redirected.
    static let redirected = CallMarks(rawValue: 1024)
    /// A phone that was waited for has signed out, or its token was dead.
    static let phonesGone = CallMarks(rawValue: 4096)
    /// Its line was written.
    static let told = CallMarks(rawValue: 2048)
}
